"""Who comes in, for which project, and what guessing costs."""

from typing import Any

import pytest

from toolgate.errors import CredentialError, ForbiddenError
from toolgate.security.access import Admission, PresentedCredentials
from toolgate.security.authn import Authenticator
from toolgate.types import DEFAULT_PROJECT, Identity

pytestmark = pytest.mark.anyio

PEOPLE = {
    "good": Identity(caller_id="token:1", kind="token", token="anna", projects=("web", "data")),
    "any": Identity(caller_id="token:2", kind="token", token="root", projects=("*",)),
    "none": Identity(caller_id="token:3", kind="token", token="ben", projects=()),
}


class Words:
    """Knows a few words; those that begin with `bad` are its own and worth nothing."""

    issuers = ()

    def __init__(self) -> None:
        self.asked: list[str] = []

    async def identify(self, credential: str) -> Identity | None:
        self.asked.append(credential)
        if credential.startswith("bad"):
            raise CredentialError("The word is bad.")
        return PEOPLE.get(credential)

    async def aclose(self) -> None: ...


def admission(*ways: Authenticator, required: bool = True) -> Admission:
    return Admission(ways or (Words(),), required=required, projects=lambda: {"web", "data", "ops"})


def bearer(word: str, **shown: Any) -> PresentedCredentials:
    return PresentedCredentials(authorization=f"Bearer {word}", **shown)


async def test_locally_nobody_is_asked_and_the_project_is_still_chosen() -> None:
    place = admission(required=False)

    caller = await place.admit(
        PresentedCredentials(authorization="Bearer bad", meta_project="web", client="c")
    )

    assert (caller.caller_id, caller.project_id, caller.conversation) == ("local", "web", "c")
    with pytest.raises(ForbiddenError):
        await place.admit(PresentedCredentials(meta_project="nowhere"))


@pytest.mark.parametrize(
    ("shown", "was_presented"),
    [
        (PresentedCredentials(), False),
        (PresentedCredentials(meta_token=""), False),
        (PresentedCredentials(meta_token=7), False),
        (PresentedCredentials(meta_token={"x": 1}), False),
        (PresentedCredentials(authorization=""), True),
        (PresentedCredentials(authorization="Basic Z29vZA=="), True),
        (PresentedCredentials(authorization="good"), True),
        (PresentedCredentials(authorization="Bearer"), True),
        (bearer("bad"), True),
        (bearer("unknown"), True),
        (bearer("good good"), True),
    ],
)
async def test_without_a_token_that_is_right_nobody_comes_in(
    shown: PresentedCredentials, was_presented: bool
) -> None:
    with pytest.raises(CredentialError) as caught:
        await admission().admit(shown)

    assert caught.value.was_presented is was_presented
    assert caught.value.hint or caught.value.failed == "The word is bad."


@pytest.mark.parametrize(
    "shown",
    [
        bearer("good"),
        PresentedCredentials(authorization="bearer  good "),
        PresentedCredentials(meta_token="good"),
        PresentedCredentials(authorization="Basic x", meta_token="good"),
        bearer("good", meta_token="bad"),
    ],
)
async def test_the_header_goes_before_meta(shown: PresentedCredentials) -> None:
    assert (await admission().admit(shown)).caller_id == "token:1"


async def test_ways_are_asked_in_order_until_one_knows_or_refuses() -> None:
    first, second = Words(), Words()
    place = admission(first, second)
    await place.admit(bearer("good"))
    with pytest.raises(CredentialError):
        await place.admit(bearer("bad"))
    with pytest.raises(CredentialError):
        await place.admit(bearer("unknown"))

    assert first.asked == ["good", "bad", "unknown"]
    assert second.asked == ["unknown"]


@pytest.mark.parametrize(
    ("word", "shown", "project"),
    [
        ("good", {}, "web"),
        ("good", {"meta_project": "data"}, "data"),
        ("good", {"header_project": "data", "meta_project": "nowhere"}, "data"),
        ("good", {"path_project": "data", "header_project": "web"}, "data"),
        ("good", {"meta_project": "UNASSIGNED"}, "web"),
        ("good", {"meta_project": "", "header_project": " "}, "web"),
        ("good", {"meta_project": None, "path_project": ""}, "web"),
        ("good", {"meta_project": 7}, "web"),
        ("good", {"meta_project": "ops"}, None),
        ("good", {"path_project": "nowhere"}, None),
        ("any", {}, DEFAULT_PROJECT),
        ("any", {"header_project": "ops"}, "ops"),
        ("any", {"header_project": "nowhere"}, None),
        ("none", {}, DEFAULT_PROJECT),
        ("none", {"header_project": "default"}, DEFAULT_PROJECT),
        ("none", {"header_project": "web"}, None),
    ],
)
async def test_the_project_is_the_first_that_says_something(
    word: str, shown: dict[str, Any], project: str | None
) -> None:
    """`docs/permissions.md`, Choosing the project."""
    if project is None:
        with pytest.raises(ForbiddenError, match="for you"):
            await admission().admit(bearer(word, **shown))
    else:
        assert (await admission().admit(bearer(word, **shown))).project_id == project


async def test_a_foreign_and_a_missing_project_are_refused_alike() -> None:
    texts: list[str] = []
    for project in ("ops", "nix"):
        with pytest.raises(ForbiddenError) as caught:
            await admission().admit(bearer("good", meta_project=project))
        texts.append(str(caught.value).replace(project, "P"))

    assert texts[0] == texts[1]


async def test_guesses_are_slowed_by_address_and_others_go_on() -> None:
    words = Words()
    place = admission(words)
    for _ in range(10):
        with pytest.raises(CredentialError) as caught:
            await place.admit(bearer("bad", address="10.0.0.1"))
        assert caught.value.wait_s == 0
    words.asked.clear()

    with pytest.raises(CredentialError) as caught:
        await place.admit(bearer("good", address="10.0.0.1"))

    assert 0 < caught.value.wait_s <= 60
    assert words.asked == []  # even a right one is not looked at
    assert (await place.admit(bearer("good", address="10.0.0.2"))).caller_id == "token:1"


async def test_who_came_in_before_is_not_locked_out_by_guesses_of_others() -> None:
    """Behind a proxy all callers have one address."""
    place = admission()
    with pytest.raises(CredentialError):
        await place.admit(bearer("bad", address="10.0.0.1"))
    await place.admit(bearer("good", address="10.0.0.1"))
    for _ in range(20):
        with pytest.raises(CredentialError):
            await place.admit(bearer("bad", address="10.0.0.1"))

    assert (await place.admit(bearer("good", address="10.0.0.1"))).caller_id == "token:1"
    with pytest.raises(CredentialError, match="Too many tokens"):
        await place.admit(bearer("any", address="10.0.0.1"))


async def test_a_missing_token_is_no_guess() -> None:
    """Clients ask without one first, to learn how to log in."""
    place = admission()
    for _ in range(30):
        with pytest.raises(CredentialError):
            await place.admit(PresentedCredentials(address="10.0.0.1"))

    assert (await place.admit(bearer("good", address="10.0.0.1"))).caller_id == "token:1"


@pytest.mark.parametrize(
    ("shown", "folder"),
    [
        (PresentedCredentials(folder="/work/a%20b", is_relay=True), "/work/a b"),
        (PresentedCredentials(folder="/work/a", local_key="key"), "/work/a"),
        (PresentedCredentials(folder="/work/a", local_key="other"), ""),
        (PresentedCredentials(folder="/work/a"), ""),
        (PresentedCredentials(folder="work/a", is_relay=True), ""),
        (PresentedCredentials(folder="/work/%00", is_relay=True), ""),
    ],
)
async def test_where_a_client_works_is_believed_of_programs_of_the_same_user(
    shown: PresentedCredentials, folder: str
) -> None:
    place = admission(required=False)
    place.local_key = "key"

    assert (await place.admit(shown)).folder == folder


async def test_without_a_run_file_no_key_shows_who_is_the_same_user() -> None:
    shown = PresentedCredentials(folder="/work/a", local_key="")

    assert (await admission(required=False).admit(shown)).folder == ""
