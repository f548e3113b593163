"""The Projects pages: servers and settings of a project."""

import hashlib
import json
from dataclasses import asdict
from typing import Any

from starlette.responses import Response

from toolgate.console.request import Visit
from toolgate.console.route import Route
from toolgate.errors import ArgumentError
from toolgate.security.access import LIMITS, ProjectView, project_searches
from toolgate.settings import ProjectTable
from toolgate.types import DEFAULT_PROJECT, Json

__all__ = ["ROUTES"]

_SEARCH_LABELS = {
    "off": "Off: list all tools",
    "bm25": "Keyword search (bm25)",
    "hybrid": "Keyword and semantic search (hybrid)",
    "cloud": "Search service (cloud)",
}
"""Labels of built-in strategies, in display order; plugins are shown by name."""

_MODES = (
    ("", "Default"),
    ("auto", "Automatic"),
    ("all", "All tools"),
    ("meta", "Meta-tools"),
)


async def _list(visit: Visit) -> Response:
    admin = visit.gateway.admin
    projects = await admin.projects(visit.caller)
    default = await admin.project(visit.caller, DEFAULT_PROJECT)
    return visit.page(
        "projects.html",
        default=default,
        projects=projects,
        is_changed=default.settings != ProjectTable(),
        general=visit.app.settings,
        name=visit.typed("name"),
    )


async def _create(visit: Visit) -> Response:
    name = visit.typed("name").strip()
    await visit.gateway.admin.save_project(visit.caller, name, settings={}, new=True)
    return visit.go("project", message=f"Project {name} created.", name=name)


async def _view(visit: Visit, name: str) -> ProjectView:
    return await visit.gateway.admin.project(visit.caller, name)


async def _show(visit: Visit) -> Response:
    project = await _view(visit, visit.typed("name"))
    settings = asdict(project.settings)
    return visit.page(
        "project.html",
        project=project,
        is_default=project.name == DEFAULT_PROJECT,
        settings=settings,
        state=_state_of(project),
        is_stored=project.source == "store",
        searches=_searches(project.settings.optimization),
        modes=_MODES,
        limits=LIMITS,
        servers=visit.gateway.servers.names(visit.caller),
        general=visit.app.settings,
    )


async def _act(visit: Visit) -> Response:
    name = visit.typed("name")
    if visit.typed("do") == "remove":
        await visit.gateway.admin.delete_project(visit.caller, name)
        return visit.go("projects", message=f"Project {name} removed.")
    project = await _view(visit, name)
    if visit.typed("state") != _state_of(project):
        raise ArgumentError(
            f"The project {name!r} was changed by someone else since you opened it.",
            hint="The saved value is shown next to each field, and your input is kept. Save again"
            " to overwrite the saved values.",
        )
    await visit.gateway.admin.save_project(visit.caller, name, settings=_settings(visit, project))
    return visit.go("project", message=f"Project {name} saved.", name=name)


def _settings(visit: Visit, project: ProjectView) -> Json:
    """Return the submitted settings, with None for those that use the global value."""
    changes: dict[str, Any] = {
        "optimization": visit.typed("optimization") or None,
        "mode": visit.typed("mode") or None,
        "budget_tokens": _number("The budget", visit.typed("budget_tokens")),
        "pinned": [line.strip() for line in visit.typed("pinned").splitlines() if line.strip()],
    }
    if project.name == DEFAULT_PROJECT:
        return changes
    limits = {name: visit.typed(f"limit_{name}").strip() for name in LIMITS}
    changes |= {
        "read_only": visit.typed("read_only") == "true",
        "shared_servers": visit.typed("shared_servers") == "true",
        "limits": {name: _number(name, text) for name, text in limits.items() if text},
    }
    if project.source == "store":
        changes["servers"] = visit.all_typed("servers")
    return changes


def _searches(current: str) -> list[tuple[str, str]]:
    """Return values and labels of the list; `current` is kept even if it is unavailable."""
    names = dict.fromkeys([*_SEARCH_LABELS, *project_searches(), *filter(None, [current])])
    return [("", "Default"), *((name, _SEARCH_LABELS.get(name, name)) for name in names)]


def _number(label: str, text: str) -> int | None:
    if not text.strip():
        return None
    if not text.strip().isdecimal() or len(text) > 15:
        raise ArgumentError(f"{label} is {text[:40]!r}.", allowed="Must be an integer.")
    return int(text)


def _state_of(project: ProjectView) -> str:
    """Return a hash that changes whenever someone changes the project."""
    text = json.dumps([asdict(project.settings), project.servers], sort_keys=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


ROUTES = (
    Route(path="projects", show=_list, act=_create),
    Route(path="project", show=_show, act=_act),
)
