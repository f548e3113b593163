"""Routes for credentials of servers; no response contains a secret."""

from dataclasses import asdict
from typing import Literal

from pydantic import Field

from toolgate.security.credentials import LoginView
from toolgate.server.rest.models import Answer, Body, Query
from toolgate.server.rest.routing import Call, Routes
from toolgate.types import Json

routes = Routes()


class CredentialList(Answer):
    """Stored credentials, without what is secret."""

    credentials: list[LoginView]


class CredentialQuery(Query):
    """Which credentials."""

    server: str | None = None


@routes.get("credentials")
async def credentials(call: Call, query: CredentialQuery) -> CredentialList:
    """List the caller's own credentials, or all for who manages them."""
    return CredentialList(credentials=await call.app.logins.list(call.caller, query.server))


class BeginLogin(Body):
    """Whom a login is for; absent: the caller."""

    user: str = ""
    project: str = ""
    redirect_uri: str = ""


@routes.post("servers/{name}/login")
async def begin_login(call: Call, name: str, body: BeginLogin) -> Json:
    """Begin a login at a server."""
    begun = await call.app.logins.begin(
        call.caller, name, user=body.user, project=body.project, redirect=body.redirect_uri
    )
    return asdict(begun)


class FinishLogin(Body):
    """What came back from the authorization server."""

    state: str
    code: str = ""
    iss: str | None = None
    error: str = ""


@routes.post("servers/{name}/login/finish")
async def finish_login(call: Call, body: FinishLogin) -> LoginView:
    """Finish a login with what came back; its state tells which."""
    return await call.app.logins.finish(**dict(body), caller=call.caller)


class StoreCredentials(Body):
    """Headers or environment variables, and what `${secret:NAME}` stands for, by name."""

    headers: dict[str, str] = Field({})
    env: dict[str, str] = Field({})
    secrets: dict[str, str] = Field({})
    user: str = ""
    project: str = ""


@routes.post("servers/{name}/credentials")
async def store_credentials(call: Call, name: str, body: StoreCredentials) -> LoginView:
    """Store headers, variables or secrets for a server."""
    return await call.app.logins.give(call.caller, name, **dict(body))


class CredentialOwner(Query):
    """Whose credentials, and which; all, if `kind` is absent."""

    user: str = ""
    project: str = ""
    kind: Literal["", "login", "secrets"] = ""


@routes.delete("servers/{name}/credentials")
async def remove_credentials(call: Call, name: str, query: CredentialOwner) -> Json:
    """Delete the stored credentials for a server."""
    return {
        "server": name,
        "removed": await call.app.logins.remove(call.caller, name, **dict(query)),
    }
