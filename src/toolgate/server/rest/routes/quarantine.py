"""Routes for quarantined definitions and previous versions of tools."""

from dataclasses import asdict

from pydantic import Field

from toolgate.catalog.scanner import QuarantinedEntry
from toolgate.server.rest.models import Body, PageOf, Query
from toolgate.server.rest.routing import Call, Routes
from toolgate.types import EntryKind, Json

routes = Routes()


class QuarantineList(PageOf):
    """Quarantined definitions."""

    held: list[Json]


@routes.get("held", pages="held", answer=QuarantineList)
async def quarantined(call: Call) -> Json:
    """List the definitions that await approval, with the lines of each difference."""
    entries = await call.gateway.manage.quarantine.entries(call.caller)
    return {"held": [_view(entry) for entry in entries]}


class Decision(Body):
    """Which definition, and whether callers may see and use it."""

    name: str = Field(description="As the server calls it; for resources the URI.")
    kind: EntryKind = "tool"
    approve: bool = True


@routes.post("servers/{name}/approve", example={"name": "list_issues"})
async def decide(call: Call, name: str, body: Decision) -> Json:
    """Approve a quarantined definition, or reject it."""
    decided = await call.gateway.manage.quarantine.decide(
        call.caller, name, body.name, kind=body.kind, accept=body.approve
    )
    return {"key": decided.key, "kind": decided.kind, "approved": body.approve}


class VersionQuery(Query):
    """Which tool."""

    key: str = Field("", description="The tool, `server:tool`.")


@routes.get("tools/versions")
async def tool_versions(call: Call, query: VersionQuery) -> Json:
    """Show what a tool was before, the last first."""
    versions = await call.gateway.manage.quarantine.versions(call.caller, query.key)
    return {"toolKey": query.key, "versions": [asdict(version) for version in versions]}


def _view(entry: QuarantinedEntry) -> Json:
    return {
        "key": entry.key,
        "kind": entry.kind,
        "serverName": entry.server,
        "name": entry.name,
        "state": entry.state,
        "reason": entry.reason,
        "seenAt": entry.seen_at,
        "findings": [asdict(finding) for finding in entry.findings],
        "differences": [
            {"where": difference.where, "kind": difference.kind, "lines": difference.lines()}
            for difference in entry.differences
        ],
        "definition": entry.definition,
    }
