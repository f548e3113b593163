"""Routes for servers."""

from typing import Annotated, Any, Literal, Self

from pydantic import Field, model_validator

from toolgate.errors import ArgumentError
from toolgate.gateway.management import OverriddenTool
from toolgate.server.rest.models import Body, PageOf, TableFields
from toolgate.server.rest.routing import Call, Routes
from toolgate.settings import OVERRIDE_KEYS, ToolTable
from toolgate.types import Json, ServerStatus

routes = Routes()


class ServerList(PageOf):
    """Servers with their state."""

    servers: list[ServerStatus]


@routes.get("servers", pages="servers")
async def servers(call: Call) -> ServerList:
    """List the servers with their state."""
    return ServerList(servers=call.gateway.servers.statuses(call.caller))


class AddServer(Body):
    """A server and where it is written."""

    project: str = Field("", description="The project it belongs to; absent: all see it.")
    name: str
    config: dict[str, Any] = Field(description="The keys of a table `[server.NAME]`.")
    save: bool = Field(False, description="Whether it is written to the configuration file.")


@routes.post(
    "servers",
    status=201,
    example={"name": "time", "config": {"command": "uvx", "args": ["a-server"]}},
)
async def add_server(call: Call, body: AddServer) -> ServerStatus:
    """Add a server, or replace the one of this name."""
    return await call.gateway.manage.servers.add(call.caller, **dict(body))


@routes.delete("servers/{name}")
async def remove_server(call: Call, name: str) -> Json:
    """Remove a server."""
    await call.gateway.manage.servers.remove(call.caller, name)
    return {"name": name}


@routes.post("servers/{name}/enable")
async def enable_server(call: Call, name: str) -> ServerStatus:
    """Enable a server."""
    return await call.gateway.manage.servers.enable(call.caller, name, True)


@routes.post("servers/{name}/disable")
async def disable_server(call: Call, name: str) -> ServerStatus:
    """Disable a server."""
    return await call.gateway.manage.servers.enable(call.caller, name, False)


class Schedule(Body):
    """When a server runs; what is absent stays."""

    start: Literal["always", "on-demand"] | None = None
    idle_s: float | None = Field(None, ge=0.1, le=604_800)

    @model_validator(mode="after")
    def _check_members(self) -> Self:
        if self.start is None and self.idle_s is None:
            raise ArgumentError("Nothing is changed.", allowed="Allowed: start, idle_s, or both.")
        return self


@routes.post("servers/{name}/schedule", example={"start": "on-demand", "idle_s": 300})
async def schedule_server(call: Call, name: str, body: Schedule) -> ServerStatus:
    """Start a server on demand, or let it run always."""
    return await call.gateway.manage.servers.schedule(
        call.caller, name, start=body.start or "", idle_s=body.idle_s
    )


@routes.post("servers/{name}/restart")
async def restart_server(call: Call, name: str) -> ServerStatus:
    """Restart a server."""
    return await call.gateway.manage.servers.restart(call.caller, name)


Override = Annotated[Json, TableFields(ToolTable, only=OVERRIDE_KEYS)]
"""Overrides of a tool: keys of `[server.NAME.tools.TOOL]`."""

_EXAMPLE: Json = {"name": "report_bug", "parameters": {"repo": {"value": "acme/app"}}}


@routes.get("tools/{name}/override")
async def tool_override(call: Call, name: str) -> OverriddenTool:
    """Show how a tool, by its key, is offered, and what is overridden of it."""
    return await call.gateway.manage.overrides.show(call.caller, name)


@routes.put("tools/{name}/override", example=_EXAMPLE)
async def override_tool(call: Call, name: str, body: Override) -> OverriddenTool:
    """Offer a tool in another way, in place of what was set before."""
    return await call.gateway.manage.overrides.change(call.caller, name, body)


@routes.delete("tools/{name}/override")
async def remove_override(call: Call, name: str) -> OverriddenTool:
    """Offer a tool as its server does."""
    return await call.gateway.manage.overrides.remove(call.caller, name)


@routes.post("tools/{name}/override/preview", example=_EXAMPLE)
async def preview_override(call: Call, name: str, body: Override) -> OverriddenTool:
    """Show how a tool would be offered; nothing is changed."""
    return await call.gateway.manage.overrides.preview(call.caller, name, body)
