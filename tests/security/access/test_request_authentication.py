"""Who comes in, for which project, and what guessing costs."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolgate.errors import CredentialError, ForbiddenError
from toolgate.security.access import Admission, PresentedCredentials
from toolgate.security.authn import Authenticator
from toolgate.types import DEFAULT_PROJECT, Identity

PEOPLE = {
    "good": Identity(caller_id="token:1", kind="token", token="anna", projects=("web", "data")),
    "any": Identity(caller_id="token:2", kind="token", token="root", projects=("*",)),
    "tg_0000000a_good": Identity(caller_id="token:10", kind="token", token="zoe", projects=("*",)),
    "none": Identity(caller_id="token:3", kind="token", token="ben", projects=()),
}


class Words:
    """Knows a few words; those that begin with `bad` are its own and worth nothing."""

    issuers = ()

    def __init__(self) -> None:
        self.asked: list[str] = []

    async def identify(self, credential: str) -> Identity | None:
        self.asked.append(credential)
        if credential == "expired":
            raise CredentialError("The word has expired.", was_issued=True)
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
        ("good", {"meta_project": "__unassigned__"}, "web"),
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


async def refusal(place: Admission, word: str, address: str = "10.0.0.1") -> CredentialError:
    with pytest.raises(CredentialError) as caught:
        await place.admit(bearer(word, address=address))
    return caught.value


async def test_guesses_are_slowed_by_address_and_valid_tokens_never() -> None:
    """Behind a proxy, or in an office, all callers have the same address."""
    place = admission()
    for _ in range(10):
        assert (await refusal(place, "bad")).wait_s == 0

    assert 0 < (await refusal(place, "bad")).wait_s <= 60
    assert (await place.admit(bearer("good", address="10.0.0.1"))).caller_id == "token:1"
    assert (await refusal(place, "bad", "10.0.0.2")).wait_s == 0


async def test_addresses_of_one_ipv6_network_count_as_one() -> None:
    place = admission()
    for number in range(10):
        await refusal(place, "bad", f"2001:db8::{number:x}")

    assert (await refusal(place, "bad", "2001:db8::ffff:1")).wait_s > 0
    assert (await refusal(place, "bad", "2001:db8:0:1::1")).wait_s == 0
    assert (await refusal(place, "bad", "::ffff:10.0.0.1")).wait_s == 0


async def test_guesses_at_one_token_are_slowed_from_all_addresses_together() -> None:
    place = admission()
    for number in range(10):
        await refusal(place, f"tg_00000001_{number}", f"10.0.1.{number}")

    assert (await refusal(place, "tg_00000001_x", "10.0.2.1")).wait_s > 0
    assert (await refusal(place, "tg_00000002_x", "10.0.2.1")).wait_s == 0


async def test_a_success_forgets_the_failures_with_the_same_token_prefix() -> None:
    place = admission()
    for number in range(10):
        await refusal(place, f"tg_0000000a_{number}", f"10.0.1.{number}")
    await place.admit(bearer("tg_0000000a_good"))

    assert (await refusal(place, "tg_0000000a_x", "10.0.2.1")).wait_s == 0


async def test_an_expired_token_is_no_guess() -> None:
    """An office of clients with expired tokens must be told to renew them, not to wait."""
    place = admission()
    for _ in range(30):
        assert (await refusal(place, "expired")).wait_s == 0


@given(
    attempts=st.lists(
        st.tuples(st.sampled_from(["bad", "unknown", "good", "any"]), st.integers(0, 2)),
        max_size=60,
    )
)
async def test_whatever_was_tried_before_a_valid_token_is_accepted(
    attempts: list[tuple[str, int]],
) -> None:
    place = admission()
    for word, host in attempts:
        shown = bearer(word, address=f"10.0.0.{host}")
        if word in PEOPLE:
            assert (await place.admit(shown)).identity == PEOPLE[word]
        else:
            with pytest.raises(CredentialError):
                await place.admit(shown)


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
