"""Routes for the vectors that tool search uses."""

from toolgate.server.rest.models import Body
from toolgate.server.rest.routing import Call, Routes
from toolgate.types import Json

routes = Routes()


@routes.get("index")
async def index(call: Call) -> Json:
    """Show how the vectors of the tools stand, and what the search has counted."""
    call.must_manage()
    return await call.gateway.manage.vectors.status(call.caller)


class RefreshIndex(Body):
    """Whose vectors; absent: those of all servers."""

    server: str | None = None


@routes.post("index/refresh", status=202, example={"server": "github"})
async def refresh_index(call: Call, body: RefreshIndex) -> Json:
    """Compute vectors again, of one `server` or of all."""
    tools = await call.gateway.manage.vectors.refresh(call.caller, body.server)
    return {"server": body.server, "tools": tools}


@routes.delete("index/{name}")
async def remove_index(call: Call, name: str) -> Json:
    """Remove the stored vectors of a server."""
    tools = await call.gateway.manage.vectors.remove(call.caller, name)
    return {"server": name, "tools": tools}
