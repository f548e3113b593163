"""Opaque tokens keep the duties of their seam."""

from dataclasses import replace

import pytest

from toolgate.base.ids import utc_now
from toolgate.errors import CredentialError
from toolgate.security.authn import new_prefix, new_token
from toolgate.security.authn.token import Options, TokenAuthenticator, build, digest_of
from toolgate.store import StoredToken
from toolgate.testing.contracts.authn import AuthenticatorContract

PREFIX = "tg_0a1b2c3d"
SECRET = new_token(PREFIX)
OLD = new_token(PREFIX)
ROW = StoredToken(
    token_id="01",
    name="anna",
    prefix=PREFIX,
    digest=digest_of(SECRET),
    user="anna@example.org",
    projects=("web",),
    roles=("member",),
    limits={"calls_per_day": 5},
)


def over(*rows: StoredToken, used: list[str] | None = None) -> TokenAuthenticator:
    found = {row.prefix: row for row in rows}
    return build(Options(), find_token=found.get, note_use=(used or []).append)


class TestToken(AuthenticatorContract):
    @pytest.fixture
    def authenticator(self) -> TokenAuthenticator:
        revoked = replace(ROW, prefix="tg_11111111", revoked_at=utc_now(plus_s=-1))
        expired = replace(ROW, prefix="tg_22222222", expires_at=utc_now(plus_s=-1))
        return over(
            ROW,
            replace(revoked, digest=digest_of("tg_11111111" + SECRET[11:])),
            replace(expired, digest=digest_of("tg_22222222" + SECRET[11:])),
        )

    @pytest.fixture
    def valid(self) -> str:
        return SECRET

    @pytest.fixture
    def bad(self) -> tuple[str, ...]:
        return (
            SECRET[:-1],
            SECRET + "A",
            SECRET[:-1] + ("A" if SECRET[-1] != "A" else "B"),
            new_token(new_prefix()),
            "tg_",
            "tg_11111111" + SECRET[11:],
            "tg_22222222" + SECRET[11:],
        )


async def test_a_token_says_who_it_was_made_for() -> None:
    used: list[str] = []
    authenticator = build(Options(), find_token={PREFIX: ROW}.get, note_use=used.append)
    found = await authenticator.identify(SECRET)

    assert found is not None
    assert (found.token, found.user, found.projects) == ("anna", "anna@example.org", ("web",))
    assert (found.roles, dict(found.limits)) == (("member",), {"calls_per_day": 5})
    assert used == ["01"]


@pytest.mark.parametrize(("until", "works"), [(60.0, True), (-1.0, False), (None, False)])
async def test_the_secret_before_works_as_long_as_was_said(
    until: float | None, works: bool
) -> None:
    row = replace(
        ROW,
        old_digest=digest_of(OLD),
        old_until=None if until is None else utc_now(plus_s=until),
    )
    if works:
        assert await over(row).identify(OLD) is not None
    else:
        with pytest.raises(CredentialError):
            await over(row).identify(OLD)
    assert await over(row).identify(SECRET) is not None


async def test_an_error_says_what_to_do() -> None:
    row = replace(ROW, expires_at="2020-01-01T00:00:00.000Z")
    with pytest.raises(CredentialError) as caught:
        await over(row).identify(SECRET)

    assert str(caught.value) == (
        f"The token {PREFIX}… has expired, at 2020-01-01T00:00:00.000Z."
        " Rotate it: toolgate tokens rotate anna"
    )
