"""Routes for permission rules, and for the reasons why a caller sees a tool."""

from collections.abc import Sequence
from typing import Literal

from pydantic import Field

from toolgate.security.authn import identity_of
from toolgate.server.rest.models import Answer, Body, PageOf, TextOrNull
from toolgate.server.rest.routing import Call, Routes
from toolgate.types import LOCAL, Json

routes = Routes()


class Permission(Answer):
    """A permission rule."""

    id: TextOrNull = Field(validation_alias="permission_id", description="Null outside the store.")
    effect: Literal["allow", "deny"]
    to: str = Field(validation_alias="who")
    kind: str
    pattern: str
    hint: TextOrNull
    source: str


class PermissionList(PageOf):
    """Permission rules."""

    permissions: list[Permission]


@routes.get("permissions", pages="permissions")
async def permissions(call: Call) -> PermissionList:
    """List all rules, those of the file too."""
    rules = await call.gateway.admin.permissions(call.caller)
    return PermissionList.model_validate({"permissions": rules})


class AddPermissions(Body):
    """Rules: each pattern for each of `to`."""

    effect: str = Field("", description="allow or deny.")
    patterns: Sequence[str] = ()
    to: Sequence[str] = Field((), description="everyone, role:NAME, token:NAME and so on.")
    hint: str = ""


@routes.post(
    "permissions",
    status=201,
    example={"effect": "allow", "patterns": ["github:get_*"], "to": ["everyone"]},
)
async def add_permissions(call: Call, body: AddPermissions) -> PermissionList:
    """Add rules."""
    rules = await call.gateway.admin.add_permissions(call.caller, **dict(body))
    return PermissionList.model_validate({"permissions": rules})


@routes.delete("permissions/{name}")
async def remove_permission(call: Call, name: str) -> Json:
    """Remove a rule by its id."""
    await call.gateway.admin.remove_permissions(call.caller, [name])
    return {"id": name}


class Explain(Body):
    """Whose view of which tool is explained."""

    tool: str = Field(min_length=1, description="The key of the tool.")
    token: str = Field("", description="A token by name, or itself; absent: the local user.")
    project: str = ""
    query: str = Field("", description="Explains too how a search for it ranks the tool.")


class ToolExplanation(Answer):
    """Why somebody sees a tool, stage by stage."""

    visible: bool
    stages: list[Json]


@routes.post(
    "explain", answer=ToolExplanation, example={"tool": "github:list_issues", "token": "anna"}
)
async def explain(call: Call, body: Explain) -> Json:
    """Explain why somebody sees a tool or does not."""
    identity, problem = LOCAL, ""
    if body.token:
        token = await call.gateway.admin.token_named(call.caller, body.token)
        identity, problem = identity_of(token), call.gateway.admin.problem_of(token)
    return await call.gateway.manage.visibility.explain(
        call.caller,
        body.tool,
        identity=identity,
        project=body.project,
        query=body.query,
        problem=problem,
    )
