"""Rules for resources hold for a URI in every spelling that a server may understand."""

import pytest

from toolgate.app.app import App
from toolgate.errors import UnknownResourceError
from toolgate.security.access import uri_readings
from toolgate.settings import PermissionTable, Settings
from toolgate.testing import FakeUpstream, memory_app
from toolgate.types import Caller, Identity

SECRET = [
    "file:///secret/a",
    "file:///pub/../secret/a",
    "file:///pub/%2e%2e/secret/a",
    "file:///pub/%252e%252e/secret/a",
    "file:///pub/..%2fsecret/a",
    "file:///pub/..\\secret/a",
    "file:///pub/x/../../secret/a",
    "file:///%73ecret/a",
    "file:////secret/a",
    "file:/secret/a",
    "FILE:///secret/a",
    "file://localhost/secret/a",
    "file:///./secret/a",
    "file:///secret//a",
    "file:///pub/../secret/a?x",
    "file:///pub/..%2fsecret/a%00.txt",
    "file:///pub/%" + "25" * 20 + "2e./secret/a",
    "file:///pub/../secret/" + "a" * 10_000,
]
OTHERS = [
    "file:///pub/a",
    "file:///pub/My%20file.txt",
    "file:///pub/secret/a",
    "file:///pub/x/../a",
    "file:///pub/..a",
    "file:///pub/100%25",
    "mem://One/Two?q=%41",
]


async def read(app: App, uri: str) -> bool:
    """Whether the owner of a token can read it, under its own name and under the explicit one."""
    anna = Caller(
        caller_id="token:1", identity=Identity(caller_id="token:1", kind="token", token="anna")
    )
    answers: set[bool] = set()
    for shown in (uri, f"toolgate://docs/{uri}"):
        try:
            await app.gateway.resources.read(anna, {"uri": shown}, None)
        except UnknownResourceError:
            answers.add(False)
        else:
            answers.add(True)
    [answer] = answers
    return answer


SCHEMES = ("file", "FILE", "mem")
RULES = {
    "denied": [
        PermissionTable(to=("everyone",), allow=("docs", "resource=docs:*")),
        PermissionTable(to=("everyone",), deny=("resource=docs:file:///secret/*",)),
    ],
    "not allowed": [
        PermissionTable(
            to=("everyone",), allow=("resource=docs:file:///pub/*", "resource=docs:mem:*")
        )
    ],
}


@pytest.mark.parametrize("rules", RULES.values(), ids=RULES)
async def test_no_spelling_of_a_uri_gets_around_a_rule(rules: list[PermissionTable]) -> None:
    templates = [{"uriTemplate": f"{scheme}:{{+path}}", "name": scheme} for scheme in SCHEMES]
    docs = FakeUpstream({}, templates=tuple(templates))
    settings = Settings(auth="required", permission=tuple(rules))
    async with memory_app({"docs": docs}, settings) as app:
        passed = [uri for uri in SECRET if await read(app, uri)]
        refused = [uri for uri in OTHERS if not await read(app, uri)]
    assert (passed, refused) == ([], [])


def test_a_plain_uri_has_one_reading() -> None:
    assert uri_readings("mem:one") == ("mem:one",)
    assert len(uri_readings("https://example.org/a/b?c=d")) == 1
