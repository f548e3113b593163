"""Logins at servers: found, made, shown, renewed, ended."""

import sys
from dataclasses import replace
from types import FrameType
from typing import Any

import anyio
import pytest

from tests.limits import HANG_S
from tests.security.credentials.login_gateway import (
    HERE,
    browse,
    caller,
    gateway,
    log_in,
    logged_in,
    result_text,
    spec_of,
    until_listed,
    whoami,
)
from toolgate.errors import (
    ArgumentError,
    ForbiddenError,
    HandleError,
    InvalidAnswerError,
    LoginNeededError,
    ToolgateError,
    UnknownServerError,
    UnreachableError,
)
from toolgate.security.credentials import vault
from toolgate.settings import CredentialSettings, Settings
from toolgate.testing.authorization import AuthorizationServer, ProtectedServer

SHARED = Settings(auth="required")


async def test_a_server_that_wants_a_login_says_how_and_works_after_it(
    authorization: AuthorizationServer, notes: ProtectedServer
) -> None:
    async with gateway(spec_of(notes)) as app:
        with pytest.raises(ToolgateError, match="toolgate servers login notes"):
            await whoami(app)
        view = await log_in(app, caller())
        assert (view.state, view.form, view.renews) == ("good", "oauth", True)
        await until_listed(app)
        assert await whoami(app) == "anna"
    assert authorization.asked[0]["resource"] == notes.url, "tokens are for this server (RFC 8707)"


async def test_a_token_is_renewed_before_it_ends_and_once_for_all_who_wait(
    authorization: AuthorizationServer, notes: ProtectedServer
) -> None:
    authorization.lifetime_s = 0  # due at once, each time
    async with logged_in(notes) as app:
        authorization.lifetime_s = 3600
        authorization.asked.clear()
        async with anyio.create_task_group() as tasks:
            for _ in range(20):
                tasks.start_soon(whoami, app)
    renewals = [form for form in authorization.asked if form["grant_type"] == "refresh_token"]
    assert len(renewals) == 1, "a refresh token that is shown twice would end the login"


async def test_a_token_that_is_refused_early_is_renewed_and_the_call_runs(
    authorization: AuthorizationServer, notes: ProtectedServer
) -> None:
    async with logged_in(notes) as app:
        authorization.expire_tokens()
        assert await whoami(app) == "anna"


async def test_a_caller_who_goes_away_does_not_lose_the_renewed_token(
    authorization: AuthorizationServer, notes: ProtectedServer
) -> None:
    asked, go_on = anyio.Event(), anyio.Event()

    async def wait(grant_type: str) -> None:
        if grant_type == "refresh_token":
            asked.set()
            await go_on.wait()

    async with logged_in(notes) as app:
        authorization.expire_tokens()
        authorization.before_token = wait
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(whoami, app)
            with anyio.fail_after(HANG_S):
                await asked.wait()
            tasks.cancel_scope.cancel()
        go_on.set()
        assert await whoami(app) == "anna"
        [view] = await app.logins.list(caller())
        assert view.state == "good"


async def test_a_login_that_is_not_renewed_any_more_asks_for_a_new_one_and_tries_no_more(
    authorization: AuthorizationServer, notes: ProtectedServer
) -> None:
    async with logged_in(notes) as app:
        authorization.expire_tokens()
        authorization.refuses_refresh = "invalid_grant"
        with pytest.raises(LoginNeededError, match=r"has ended.*invalid_grant.*servers login"):
            await whoami(app)
        tried = len(authorization.asked)
        with pytest.raises(LoginNeededError):
            await whoami(app)
        assert len(authorization.asked) == tried
        [view] = await app.logins.list(caller())
        assert (view.state, view.reason) == ("ended", "invalid_grant")
        authorization.refuses_refresh = ""
        await log_in(app, caller())
        assert await whoami(app) == "anna"


async def test_an_authorization_server_that_is_away_for_a_moment_ends_no_login(
    authorization: AuthorizationServer, notes: ProtectedServer
) -> None:
    async with logged_in(notes) as app:
        authorization.expire_tokens()
        authorization.fails = [503]
        with pytest.raises(UnreachableError, match="503"):
            await whoami(app)
        assert await whoami(app) == "anna"


async def test_more_rights_are_asked_for_when_a_server_misses_them(
    authorization: AuthorizationServer, notes: ProtectedServer
) -> None:
    notes.needs_scope = "write"
    async with logged_in(notes) as app:
        with pytest.raises(LoginNeededError, match="it lacks 'write'"):
            await whoami(app)
        view = await log_in(app, caller())
        assert set(view.scopes) == {"read", "write"}
        assert await whoami(app) == "anna"


# Each user with a login of their own


async def test_each_user_calls_by_a_login_and_a_connection_of_their_own(
    authorization: AuthorizationServer, notes: ProtectedServer
) -> None:
    async with gateway(spec_of(notes, type="oauth", per="user"), settings=SHARED) as app:
        anna, ben = caller("anna", roles=("member",)), caller("ben", roles=("member",))
        await log_in(app, anna)
        await until_listed(app, anna)
        authorization.user = "ben"
        with pytest.raises(LoginNeededError, match="login of user 'ben', and there is none"):
            await whoami(app, ben)
        await log_in(app, ben)
        for who, name in ((anna, "anna"), (ben, "ben"), (anna, "anna")):
            assert await whoami(app, who) == name
        assert notes.callers == ["anna", "ben", "anna"]
        assert [view.subject for view in await app.logins.list(ben)] == ["user:ben"]


async def test_a_user_who_logs_out_is_not_let_in_by_anybody_elses_login(
    authorization: AuthorizationServer, notes: ProtectedServer
) -> None:
    async with gateway(spec_of(notes, type="oauth", per="user"), settings=SHARED) as app:
        anna, ben = caller("anna", roles=("member",)), caller("ben", roles=("member",))
        await log_in(app, anna)
        authorization.user = "ben"
        await log_in(app, ben)
        await until_listed(app, anna)
        await whoami(app, ben)
        assert await app.logins.remove(ben, "notes")
        assert authorization.revoked, "the authorization server was told (RFC 7009)"
        with pytest.raises(LoginNeededError):
            await whoami(app, ben)
        assert await whoami(app, anna) == "anna"


async def test_each_project_calls_by_its_own_login(
    authorization: AuthorizationServer, notes: ProtectedServer
) -> None:
    async with gateway(spec_of(notes, type="oauth", per="project")) as app:
        web, data = caller(project_id="web"), caller(project_id="data")
        await log_in(app, web)
        await until_listed(app)
        authorization.user = "robot"
        await log_in(app, web, project="data")
        assert await whoami(app, web) == "anna"
        assert await whoami(app, data) == "robot"


async def test_nobody_logs_in_for_somebody_else_or_for_all_without_the_right(
    notes: ProtectedServer,
) -> None:
    async with gateway(spec_of(notes, per="user"), settings=SHARED) as app:
        anna = caller("anna", roles=("member",))
        with pytest.raises(ForbiddenError, match="not yours"):
            await app.logins.begin(anna, "notes", user="ben", redirect=HERE)
        with pytest.raises(UnknownServerError):
            await app.logins.begin(caller("eve"), "notes", redirect=HERE)
        with pytest.raises(ForbiddenError):
            await app.logins.give(anna, "notes", headers={"X-Key": "k"}, env={})
    async with gateway(spec_of(notes), settings=SHARED) as app:
        with pytest.raises(ForbiddenError):
            await app.logins.begin(anna, "notes", redirect=HERE)


async def test_a_user_gives_a_header_of_their_own_where_the_settings_ask_for_one(
    notes: ProtectedServer,
) -> None:
    spec = spec_of(notes, per="user", headers=("Authorization",))
    async with gateway(spec, settings=SHARED) as app:
        anna, ben = caller("anna", roles=("member",)), caller("ben", roles=("member",))
        notes.accepts = {"key-of-anna", "key-of-ben"}
        for who, key in ((anna, "key-of-anna"), (ben, "key-of-ben")):
            await app.logins.give(who, "notes", headers={"Authorization": key}, env={})
        await until_listed(app, anna)
        assert await whoami(app, ben) == "key-of-ben"
        assert await whoami(app, anna) == "key-of-anna"
        notes.accepts = {"key-of-ben"}
        with pytest.raises(LoginNeededError, match="credentials set notes"):
            await whoami(app, anna)


# Without a person


@pytest.mark.parametrize("value", ["a\r\nx-evil: 1", "a\x01", "a\x7f", "x" * 20_000])
async def test_a_header_that_cannot_be_sent_is_not_kept(notes: ProtectedServer, value: str) -> None:
    """With a control character, each connection failed with a traceback."""
    async with gateway(spec_of(notes, headers=("X-Key",))) as app:
        with pytest.raises(ArgumentError, match="cannot be sent"):
            await app.logins.give(caller(), "notes", headers={"X-Key": value}, env={})
        assert await app.logins.list(caller()) == []


async def test_the_gateway_itself_gets_a_token_and_another_when_it_is_refused(
    authorization: AuthorizationServer, notes: ProtectedServer
) -> None:
    authorization.add_client("robot", "a secret: of/robot")
    spec = spec_of(
        notes,
        type="client_credentials",
        client_id="robot",
        client_secret="a secret: of/robot",
        scopes=("read",),
    )
    async with gateway(spec) as app:
        await until_listed(app)
        assert await whoami(app) == "client:robot"
        assert len(authorization.asked) == 1
        authorization.expire_tokens()
        assert await whoami(app) == "client:robot"
        assert len(authorization.asked) == 2


async def test_the_token_of_a_caller_is_exchanged_and_never_sent_to_the_server(
    authorization: AuthorizationServer, notes: ProtectedServer
) -> None:
    """RFC 8693: what the caller shows here goes to the authorization server alone."""
    authorization.add_client("gateway", "s3cret")
    authorization.subject_tokens = {"jwt-of-anna": "anna", "jwt-of-ben": "ben"}
    spec = spec_of(
        notes,
        type="token_exchange",
        per="user",
        client_id="gateway",
        client_secret="s3cret",
        token_url=f"{authorization.url}/token",
    )
    async with gateway(spec) as app:
        anna, ben = (
            replace(caller(name), credential=f"jwt-of-{name}", identity=caller().identity)
            for name in ("anna", "ben")
        )
        anna, ben = replace(anna, caller_id="id-anna"), replace(ben, caller_id="id-ben")
        for who, name in ((anna, "anna"), (ben, "ben"), (anna, "anna")):
            result = await app.gateway._catalog.server("notes").request(
                "tools/call", {"name": "whoami", "arguments": {}}, caller=who, peer=None
            )
            assert result_text(result) == name
        with pytest.raises(LoginNeededError, match="identity provider"):
            await app.gateway._catalog.server("notes").request(
                "tools/call", {"name": "whoami"}, caller=caller("carl"), peer=None
            )
    assert not [h for h, _ in notes.requests if "jwt-of" in str(h)]
    assert len(authorization.asked) == 2, "one exchange each, kept while it holds"


# Authorization servers that are not as they should be


async def begun(app: Any, **of: Any) -> Any:
    return await app.logins.begin(caller(), "notes", redirect=HERE, **of)


async def test_an_answer_is_taken_once_and_only_with_its_own_state(
    notes: ProtectedServer,
) -> None:
    async with gateway(spec_of(notes)) as app:
        answer = await browse((await begun(app)).url)
        with pytest.raises(HandleError):
            await app.logins.finish(caller=caller(), **{**answer, "state": "another"})
        with pytest.raises(HandleError, match="somebody else"):
            await app.logins.finish(caller=caller("eve"), **answer)
        with pytest.raises(HandleError):  # it is over now
            await app.logins.finish(caller=caller(), **answer)


async def test_an_answer_costs_the_same_however_many_logins_are_open(
    notes: ProtectedServer,
) -> None:
    """Anybody may send one without a token; it read all open logins from the store."""

    async def steps(app: Any) -> int:
        """Count the calls in the module that reads credentials."""
        calls = 0

        def profile(frame: FrameType, event: str, _argument: object) -> None:
            nonlocal calls
            calls += event == "call" and frame.f_code.co_filename == vault.__file__

        sys.setprofile(profile)
        try:
            with pytest.raises(HandleError):
                await app.logins.finish(state="made up", code="x")
        finally:
            sys.setprofile(None)
        return calls

    async with gateway(spec_of(notes)) as app:
        await begun(app)
        few = await steps(app)
        for _ in range(20):
            await begun(app)
        assert 0 < await steps(app) < few + 20


async def test_long_metadata_is_not_kept_with_each_open_login(
    authorization: AuthorizationServer, notes: ProtectedServer
) -> None:
    authorization.metadata_extra = {"scopes_supported": ["x" * 1_000] * 500}
    async with gateway(spec_of(notes, scopes=("read",))) as app:
        await begun(app)
        [row] = await app.store.credentials.select(kind="pending")
        assert len(row.sealed) < 4_000
        await log_in(app, caller())


async def test_an_answer_of_another_authorization_server_is_not_taken(
    authorization: AuthorizationServer, notes: ProtectedServer
) -> None:
    """RFC 9207: the code would be shown to the wrong one."""
    authorization.says_iss = "https://evil.example"
    async with gateway(spec_of(notes)) as app:
        answer = await browse((await begun(app)).url)
        with pytest.raises(InvalidAnswerError, match="a different authorization server"):
            await app.logins.finish(caller=caller(), **answer)
    assert not authorization.asked, "no code was shown to anybody"


async def test_a_person_who_says_no_is_heard(
    authorization: AuthorizationServer, notes: ProtectedServer
) -> None:
    authorization.denies = True
    async with gateway(spec_of(notes)) as app:
        with pytest.raises(ForbiddenError, match="declined"):
            await log_in(app, caller())


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"code_challenge_methods_supported": ["plain"]}, "PKCE"),
        ({"code_challenge_methods_supported": None}, "PKCE"),
        ({"issuer": "https://other.example"}, "issuer"),
        ({"token_endpoint": "http://login.example/token"}, "not https"),
        ({"registration_endpoint": "http://login.example/register"}, "not https"),
        ({"revocation_endpoint": "http://login.example/revoke"}, "not https"),
        ({"registration_endpoint": None}, "does not register clients"),
    ],
)
async def test_metadata_that_cannot_be_believed_ends_the_login_with_the_reason(
    authorization: AuthorizationServer, notes: ProtectedServer, change: dict[str, Any], says: str
) -> None:
    authorization.metadata_extra = change
    async with gateway(spec_of(notes)) as app:
        with pytest.raises(InvalidAnswerError, match=says):
            await begun(app)


@pytest.mark.parametrize("token", ["", "a\r\nx-evil: 1", "a\0", "\u00e4"])
async def test_a_token_that_cannot_be_sent_ends_the_login_with_the_reason(
    authorization: AuthorizationServer, notes: ProtectedServer, token: str
) -> None:
    """RFC 6749 appendix A.12; it was kept, and each connection failed with a traceback."""
    authorization.token_extra = {"access_token": token}
    async with gateway(spec_of(notes)) as app:
        with pytest.raises(InvalidAnswerError, match="not a token"):
            await log_in(app, caller())
        assert await app.logins.list(caller()) == []


async def test_a_token_that_never_ends_is_used_and_renewed(
    authorization: AuthorizationServer, notes: ProtectedServer
) -> None:
    """Its end was beyond what a date can say, so the login failed."""
    authorization.token_extra = {"expires_in": 10**30}
    async with logged_in(notes) as app:
        authorization.expire_tokens()
        assert await whoami(app) == "anna"
        [view] = await app.logins.list(caller())
        assert view.state == "good"


async def test_a_server_that_calls_itself_by_another_name_gets_no_login(
    notes: ProtectedServer,
) -> None:
    notes.names_resource = "https://bank.example/mcp"
    async with gateway(spec_of(notes)) as app:
        with pytest.raises(InvalidAnswerError, match=r"calls itself https://bank\.example"):
            await begun(app)


async def test_a_client_that_was_registered_by_hand_shows_its_secret_only_to_its_own_server(
    authorization: AuthorizationServer, notes: ProtectedServer
) -> None:
    authorization.add_client("mine", "my-secret", redirect_uris=[HERE])
    authorization.offers_registration = False
    spec = spec_of(notes, client_id="mine", client_secret="my-secret")
    async with gateway(spec) as app:
        await log_in(app, caller())
        await until_listed(app)
    assert "my-secret" not in str(notes.requests)


async def test_a_registration_is_kept_for_the_next_login(
    authorization: AuthorizationServer, notes: ProtectedServer
) -> None:
    async with gateway(spec_of(notes)) as app:
        await log_in(app, caller())
        await log_in(app, caller())
    assert len(authorization.clients) == 1


async def test_a_registration_is_for_the_issuer_that_gave_it(
    authorization: AuthorizationServer, notes: ProtectedServer
) -> None:
    """A server that names another one later does not get the secret of the first there."""
    authorization.auth_methods = ["client_secret_post"]
    async with AuthorizationServer().running() as other, gateway(spec_of(notes)) as app:
        await log_in(app, caller())
        [client] = authorization.clients.values()
        notes.names_issuer = other.url
        await browse((await begun(app)).url)
    [(_, asked)] = other.codes.values()
    assert asked["client_id"] in other.clients
    assert client["client_id"] not in other.clients


async def test_a_client_may_name_itself_by_a_document(
    authorization: AuthorizationServer, notes: ProtectedServer
) -> None:
    """Client id metadata documents: nothing is registered."""
    document = "https://gateway.example/oauth/client.json"
    authorization.offers_documents = True
    authorization.documents = {document}
    settings = Settings(credentials=CredentialSettings(client_metadata_url=document))
    async with gateway(spec_of(notes), settings=settings) as app:
        await log_in(app, caller())
        await until_listed(app)
        assert await whoami(app) == "anna"
        app.logins.links.base = "https://gateway.example"
        assert (app.logins.document() or {})["client_id"] == document
    assert not authorization.clients


@pytest.mark.parametrize(
    "address",
    [
        "https://evil.example/callback",
        "http://192.0.2.1:80/x",
        "http://127.0.0.1/x",
        "javascript:",
        "http://evil.example\\@127.0.0.1:80/x",  # browsers: the path of evil.example
        "http://evil.example@127.0.0.1:80/x",
    ],
)
async def test_answers_come_back_to_the_callers_own_machine_only(
    notes: ProtectedServer, address: str
) -> None:
    async with gateway(spec_of(notes)) as app:
        with pytest.raises(ArgumentError, match="own machine"):
            await app.logins.begin(caller(), "notes", redirect=address)


async def test_a_login_is_not_shown_to_the_address_that_a_server_gets_later(
    authorization: AuthorizationServer, notes: ProtectedServer
) -> None:
    async with ProtectedServer(authorization).running() as other, logged_in(notes) as app:
        await app._catalog.replace(spec_of(other))
        with pytest.raises(ToolgateError):
            await whoami(app)
        assert not [h for h, _ in other.requests if "authorization" in h]


async def test_user_and_password_in_an_address_are_not_told_to_the_authorization_server(
    authorization: AuthorizationServer, notes: ProtectedServer
) -> None:
    spec = spec_of(notes)
    url = notes.url.replace("://", "://someone:pass-word@")
    async with gateway(replace(spec, options={**spec.options, "url": url})) as app:
        found = await begun(app)
        assert "pass-word" not in found.url
        answer = await browse(found.url)
        await app.logins.finish(caller=caller(), **answer)
    assert "pass-word" not in str(authorization.asked)
