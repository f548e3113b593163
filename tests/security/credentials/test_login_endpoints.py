"""Logins through real doors: REST, the pages of a browser, MCP clients; and no secret anywhere."""

import html
import io
import json
import logging
import re
from collections import Counter
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import aiohttp
import anyio
import pytest
from yarl import URL

from tests.security.credentials.login_gateway import (
    browse,
    caller,
    gateway,
    log_in,
    result_text,
    spec_of,
    until_listed,
)
from tests.server.http_gateway import headers_for, modern, post
from tests.serving import serving
from toolgate.app.app import App
from toolgate.base.logs import JsonLines
from toolgate.errors import RpcError, ToolgateError
from toolgate.settings import Settings
from toolgate.store import AuditFilter
from toolgate.testing import FakePeer
from toolgate.testing.authorization import AuthorizationServer, ProtectedServer
from toolgate.types import Caller, Json, ServerSpec

SHARED = Settings(auth="required")


@dataclass
class Place:
    """A gateway that listens."""

    app: App
    url: str

    async def ask(
        self, method: str, path: str, body: Json | None = None, *, token: str = ""
    ) -> tuple[int, Json]:
        headers = {"authorization": f"Bearer {token}"} if token else {}
        async with (
            aiohttp.ClientSession() as http,
            http.request(
                method, f"{self.url}/api/v1/{path}", json=body, headers=headers
            ) as response,
        ):
            return response.status, await response.json()

    async def token(self, name: str, **wanted: Any) -> str:
        made = await self.app.gateway.admin.create_token(
            Caller.local(), name, user=name, roles=("member",), **wanted
        )
        return made.secret


@asynccontextmanager
async def listening(*specs: ServerSpec, settings: Settings | None = None) -> AsyncGenerator[Place]:
    async with gateway(*specs, settings=settings) as app, serving(app) as url:
        yield Place(app=app, url=url)


def browser_session() -> aiohttp.ClientSession:
    """A browser; this one keeps cookies of addresses in digits, too."""
    return aiohttp.ClientSession(cookie_jar=aiohttp.CookieJar(unsafe=True))


async def test_a_login_over_rest_begins_ends_and_is_listed_without_a_secret(
    notes: ProtectedServer,
) -> None:
    async with listening(spec_of(notes)) as place, browser_session() as browser:
        status, begun = await place.ask(
            "POST", "servers/notes/login", {"redirect_uri": "http://127.0.0.1:9/callback"}
        )
        assert status == 200
        async with browser.get(begun["url"], allow_redirects=False) as response:
            answer = dict(URL(response.headers["location"]).query)
        status, view = await place.ask("POST", "servers/notes/login/finish", answer)
        assert (status, view["state"]) == (200, "good")
        assert await place.ask("GET", "credentials") == (200, {"credentials": [view]})
        assert (await place.ask("DELETE", "servers/notes/credentials"))[1]["removed"]
        assert await place.ask("GET", "credentials") == (200, {"credentials": []})


async def test_the_page_of_a_login_leads_through_the_browser_and_back(
    notes: ProtectedServer,
) -> None:
    async with listening(spec_of(notes)) as place, browser_session() as browser:
        _, begun = await place.ask("POST", "servers/notes/login", {})
        assert begun["url"].startswith(f"{place.url}/oauth/login/")
        async with browser.get(begun["url"]) as response:
            text = await response.text()
        assert (response.status, response.url.path) == (200, "/oauth/callback")
        assert "Logged in at notes" in text
        await until_listed(place.app)


async def test_a_page_asks_who_sits_there_and_lets_nobody_log_in_for_another(
    authorization: AuthorizationServer, notes: ProtectedServer
) -> None:
    """Who gets such an address from somebody would give them a login of their own otherwise."""
    spec = spec_of(notes, type="oauth", per="user")
    async with listening(spec, settings=SHARED) as place:
        anna, eve = await place.token("anna"), await place.token("eve")
        _, begun = await place.ask("POST", "servers/notes/login", {}, token=anna)
        async with browser_session() as browser:
            async with browser.get(begun["url"]) as page:
                assert "<form method=post>" in await page.text()
            async with browser.post(begun["url"], data={"token": "wrong"}) as page:
                assert page.status == 401
            async with browser.post(begun["url"], data={"token": eve}) as page:
                assert (page.status, "somebody else" in await page.text()) == (400, True)
            async with browser.post(begun["url"], data={"token": anna}) as page:
                assert "Logged in at notes" in await page.text()
        [view] = await place.app.logins.list(Caller.local())
        assert view.subject == "user:anna"


async def test_who_is_logged_in_to_the_console_shows_no_token_again(
    notes: ProtectedServer,
) -> None:
    """The session says who it is; a person says yes, so that no address begins anything itself."""
    spec = spec_of(notes, type="oauth", per="user")

    def hidden(text: str) -> str:
        return text.partition('name="csrf" value="')[2].partition('"')[0]

    async with listening(spec, settings=SHARED) as place, browser_session() as browser:
        anna, eve = await place.token("anna"), await place.token("eve")
        _, begun = await place.ask("POST", "servers/notes/login", {}, token=anna)
        _, foreign = await place.ask("POST", "servers/notes/login", {}, token=eve)
        async with browser.get(begun["url"]) as page:
            [way] = re.findall(r"href='(/console/logins/begin[^']*)'", await page.text())
        async with browser.get(f"{place.url}{way}") as page:  # asks for a token, once
            assert page.url.path == "/console/login"
            fields = {"csrf": hidden(await page.text()), "next": page.url.query["next"]}
        async with browser.post(page.url, data=fields | {"token": anna}) as page:
            text = await page.text()
            assert page.url.path == "/console/logins/begin"
            assert "user:anna" in text or "anna" in text
        assert await place.app.logins.list(Caller.local()) == []
        async with browser.post(page.url, data={"csrf": "made up"}) as refused:
            assert refused.status == 403
        other = str(page.url).replace(
            begun["url"].rpartition("/")[2], foreign["url"].rpartition("/")[2]
        )
        async with browser.post(other, data={"csrf": hidden(text)}) as refused:
            assert "somebody else" in await refused.text()
        async with browser.post(page.url, data={"csrf": hidden(text)}) as answer:
            [onward] = re.findall(r'class="button" href="(http[^"]+)"', await answer.text())
        async with browser.get(html.unescape(onward)) as page:
            assert "Logged in at notes" in await page.text()
        [view] = await place.app.logins.list(Caller.local())
        assert view.subject == "user:anna"


async def test_a_caller_leaves_few_logins_unfinished(notes: ProtectedServer) -> None:
    """The oldest are dropped, none of another caller, and neither are registrations kept."""
    spec = spec_of(notes, type="oauth", per="user")
    async with listening(spec, settings=SHARED) as place:
        anna, eve = await place.token("anna"), await place.token("eve")
        answers: list[dict[str, str]] = []
        for number, token in enumerate([anna, *[eve] * 40]):
            redirect = f"http://127.0.0.1:9/callback/{number}"
            _, begun = await place.ask(
                "POST", "servers/notes/login", {"redirect_uri": redirect}, token=token
            )
            answers.append(await browse(begun["url"]))
        rows = await place.app.store.credentials.select()
        outcomes = [
            (await place.ask("POST", "servers/notes/login/finish", answers[at], token=token))[0]
            for at, token in [(0, anna), (1, eve), (-1, eve)]
        ]

    assert outcomes == [200, 400, 200]
    kinds = Counter(row.key.kind for row in rows)
    assert kinds == {"pending": 17, "client": 16}


async def test_an_answer_that_another_browser_brings_is_not_taken(
    notes: ProtectedServer,
) -> None:
    """Login CSRF: the victim says yes to a login that somebody else has begun."""
    async with listening(spec_of(notes)) as place:
        _, begun = await place.ask("POST", "servers/notes/login", {})
        async with (
            browser_session() as attacker,
            attacker.get(begun["url"], allow_redirects=False) as response,
        ):
            authorize = response.headers["location"]
        async with browser_session() as victim, victim.get(authorize) as response:
            assert response.status == 400
            assert "stay in the same browser" in await response.text()
        assert await place.app.logins.list(Caller.local()) == []


async def test_over_https_no_other_host_can_make_a_browser_the_one_that_began(
    notes: ProtectedServer,
) -> None:
    """A cookie that another host of the same domain has set is not taken."""
    async with listening(spec_of(notes)) as place, browser_session() as browser:
        place.app.logins.links.base = "https://gateway.example"
        views: list[int] = []
        for prefix in ("", "__Host-"):
            _, begun = await place.ask("POST", "servers/notes/login", {})
            page = begun["url"].replace("https://gateway.example", place.url)
            async with browser.get(page, allow_redirects=False) as response:
                name, _, rest = response.headers["set-cookie"].partition("=")
                assert name == "__Host-toolgate_login"
                assert {"Path=/", "Secure"} <= set(rest.split("; "))
                answer = await browse(response.headers["location"])
            cookie = {"cookie": f"{prefix}toolgate_login={rest.partition(';')[0]}"}
            callback = f"{place.url}/oauth/callback"
            async with browser.get(callback, params=answer, headers=cookie) as response:
                views.append(response.status)
    assert views == [400, 200]


@pytest.mark.parametrize(
    "path", ["login/tg1.x.y", "login/", "callback", "callback?state=x&code=y", "client.json", "no"]
)
async def test_pages_that_lead_nowhere_say_so(notes: ProtectedServer, path: str) -> None:
    async with (
        listening(spec_of(notes)) as place,
        browser_session() as browser,
        browser.get(f"{place.url}/oauth/{path}") as response,
    ):
        assert response.status in {400, 404}
        assert "frame-ancestors 'none'" in response.headers["content-security-policy"]


@pytest.mark.parametrize("body", [{"redirect_uri": 5}, {"what": "x"}, {"user": "ben"}])
async def test_bodies_that_say_nothing_useful_are_refused(
    notes: ProtectedServer, body: Json
) -> None:
    async with listening(spec_of(notes)) as place:
        status, answer = await place.ask("POST", "servers/notes/login", body)
        assert status == 400, answer


# Clients of MCP


async def test_a_client_that_opens_addresses_is_asked_and_its_call_runs_after_the_login(
    notes: ProtectedServer,
) -> None:
    async with listening(spec_of(notes, type="oauth", per="user")) as place:
        await log_in(place.app, caller("other"))
        await until_listed(place.app)
        ask = {"name": "notes__whoami", "arguments": {}}
        able = {"clientCapabilities": {"elicitation": {"url": {}}}}
        answer = await post(place.url, modern("tools/call", ask, **able))
        assert answer.result["resultType"] == "input_required"
        [(name, question)] = answer.result["inputRequests"].items()
        assert question["params"]["mode"] == "url"

        async def say_yes() -> None:
            async with (
                browser_session() as browser,
                browser.get(question["params"]["url"]) as page,
            ):
                assert page.status == 200

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(say_yes)
            again = {**ask, "inputResponses": {name: {"action": "accept"}}}
            answer = await post(place.url, modern("tools/call", again, **able))
        assert answer.result["content"] == [{"type": "text", "text": "anna"}]


async def test_a_client_that_cannot_gets_an_error_with_the_address(
    notes: ProtectedServer,
) -> None:
    async with listening(spec_of(notes, type="oauth", per="user")) as place:
        await log_in(place.app, caller("other"))
        await until_listed(place.app)
        message = modern("tools/call", {"name": "notes__whoami", "arguments": {}})
        answer = await post(place.url, message, headers_for(message))
        assert answer.result["isError"] is True
        assert f"{place.url}/oauth/login/" in result_text(answer.result)


async def test_a_client_of_the_handshake_era_gets_the_error_that_its_era_has(
    notes: ProtectedServer,
) -> None:
    """https://modelcontextprotocol.io/specification/2025-11-25/client/elicitation"""
    async with listening(spec_of(notes, type="oauth", per="user")) as place:
        peer = FakePeer(era="handshake", capabilities={"elicitation": {"url": {}}})
        with pytest.raises(RpcError) as refused:
            await place.app.gateway._catalog.server("notes").request(
                "tools/call", {"name": "whoami"}, caller=caller("anna"), peer=peer
            )
        assert refused.value.rpc_code == -32042
        [asked] = refused.value.data["elicitations"]
        assert asked["mode"] == "url"


# No secret in any output


async def test_no_secret_is_in_log_audit_errors_answers_or_store(
    authorization: AuthorizationServer, notes: ProtectedServer, tmp_path: Any
) -> None:
    """A whole session at the lowest level of the log, with failures, and then everything is read.

    What is looked for: every token, code, verifier, secret that any server gave or got.
    """
    written = io.StringIO()
    handler = logging.StreamHandler(written)
    handler.setFormatter(JsonLines())
    root = logging.getLogger()
    level = root.level
    root.addHandler(handler)
    root.setLevel(logging.DEBUG)
    answers: list[str] = []
    url = f"sqlite:///{tmp_path / 'toolgate.db'}"
    authorization.auth_methods = ["client_secret_post"]
    try:
        async with gateway(spec_of(notes), url=url) as app:
            await log_in(app, caller())
            await until_listed(app)
            call = (caller(), "notes:whoami", {})
            answers.append(str(await app.gateway.calls.execute(*call)))
            authorization.expire_tokens()
            authorization.fails = [500]
            for break_it in (lambda: None, lambda: setattr(authorization, "denies", True)):
                break_it()
                try:
                    answers.append(str(await app.gateway.calls.execute(*call)))
                    await log_in(app, caller())
                except ToolgateError as error:
                    answers.append(f"{error!r} {error.__cause__!r}")
            authorization.expire_tokens()
            authorization.refuses_refresh = "invalid_grant"
            try:
                await app.gateway.calls.execute(*call)
            except ToolgateError as error:
                answers.append(f"{error!r} {error.__cause__!r}")
            await app.logins.give(
                caller(), "notes", headers={"Authorization": "Bearer given-secret"}, env={}
            )
            try:
                await app.gateway.calls.execute(*call)
            except ToolgateError as error:
                answers.append(repr(error))
            config = {"url": "http://127.0.0.1:9/x?key=url-secret", "headers": {"A": "hd-secret"}}
            await app.gateway.manage.servers.add(caller(), "late", config, save=False, project="")
            answers += [
                str(app.gateway.servers.statuses(caller())),
                str(await app.logins.list(caller())),
            ]
            await app.recorder.flush()
            audit = await app.store.audit.select(AuditFilter())
            answers.append(str(audit))
    finally:
        root.removeHandler(handler)
        root.setLevel(level)
    secrets = {"given-secret", "url-secret", "hd-secret"}
    for form in authorization.asked:
        names = ("code", "code_verifier", "refresh_token", "client_secret")
        secrets |= {form[name] for name in names if name in form}
    secrets |= {*authorization.tokens, *authorization.refresh, *authorization.used_refresh}
    assert len(secrets) > 6
    assert {"login", "credentials"} <= {record.action for record in audit}
    stored = b"".join(path.read_bytes() for path in tmp_path.glob("toolgate.db*"))
    for secret in secrets:
        assert secret not in written.getvalue(), "in the log"
        assert secret not in "\n".join(answers), "in an answer, an error or the audit"
        assert secret.encode() not in stored, "in the store"
    assert json.loads(written.getvalue().splitlines()[0])


async def test_commands_and_addresses_of_servers_come_only_from_who_manages(
    notes: ProtectedServer,
) -> None:
    """Stdio commands come only from administrators; addresses neither."""
    async with listening(spec_of(notes), settings=SHARED) as place:
        anna = await place.token("anna")
        for config in ({"command": "sh"}, {"url": "http://169.254.169.254/mcp"}):
            status, _ = await place.ask(
                "POST", "servers", {"name": "own", "config": config}, token=anna
            )
            assert status == 403
        assert (await place.ask("GET", "credentials", token=anna))[1] == {"credentials": []}
