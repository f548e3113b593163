"""The Projects pages: servers and settings of a project."""

import hashlib
import json
from dataclasses import asdict
from typing import Any

from starlette.responses import Response

from toolgate.console.request import PageRequest
from toolgate.console.route import Route
from toolgate.errors import ArgumentError
from toolgate.security.access import LIMITS, ProjectView, project_searches
from toolgate.settings import ProjectTable
from toolgate.types import DEFAULT_PROJECT, Json

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


async def _list(request: PageRequest) -> Response:
    admin = request.gateway.admin
    projects = await admin.projects(request.caller)
    default = await admin.project(request.caller, DEFAULT_PROJECT)
    return request.page(
        "projects.html",
        default=default,
        projects=projects,
        is_changed=default.settings != ProjectTable(),
        general=request.app.settings,
        name=request.value("name"),
    )


async def _create(request: PageRequest) -> Response:
    name = request.value("name").strip()
    await request.gateway.admin.save_project(request.caller, name, settings={}, new=True)
    return request.go("project", message=f"Project {name} created.", name=name)


async def _view(request: PageRequest, name: str) -> ProjectView:
    return await request.gateway.admin.project(request.caller, name)


async def _show(request: PageRequest) -> Response:
    project = await _view(request, request.value("name"))
    settings = asdict(project.settings)
    return request.page(
        "project.html",
        project=project,
        is_default=project.name == DEFAULT_PROJECT,
        settings=settings,
        state=_state_of(project),
        is_stored=project.source == "store",
        searches=_searches(project.settings.optimization),
        modes=_MODES,
        limits=LIMITS,
        servers=sorted(
            request.gateway.servers.names(request.caller),
            key=lambda server: (server not in project.servers, server.casefold()),
        ),
        general=request.app.settings,
    )


async def _act(request: PageRequest) -> Response:
    name = request.value("name")
    if request.value("do") == "remove":
        await request.gateway.admin.delete_project(request.caller, name)
        return request.go("projects", message=f"Project {name} removed.")
    project = await _view(request, name)
    if request.value("state") != _state_of(project):
        raise ArgumentError(
            f"The project {name!r} was changed by someone else since you opened it.",
            hint="The saved value is shown next to each field, and your input is kept. Save again"
            " to overwrite the saved values.",
        )
    await request.gateway.admin.save_project(
        request.caller, name, settings=_settings(request, project)
    )
    saved = "Default project" if name == DEFAULT_PROJECT else f"Project {name}"
    return request.go("project", message=f"{saved} saved.", name=name)


def _settings(request: PageRequest, project: ProjectView) -> Json:
    """Return the submitted settings, with None for those that use the global value."""
    changes: dict[str, Any] = {
        "optimization": request.value("optimization") or None,
        "mode": request.value("mode") or None,
        "budget_tokens": _number("The token budget", request.value("budget_tokens")),
        "pinned": _pinned(request),
    }
    if project.name == DEFAULT_PROJECT:
        return changes
    limits = {name: request.value(f"limit_{name}").strip() for name in LIMITS}
    changes |= {
        "read_only": request.value("read_only") == "true",
        "shared_servers": request.value("shared_servers") == "true",
        "limits": {name: _number(name, text) for name, text in limits.items() if text},
    }
    if project.source == "store":
        changes["servers"] = request.form_values("servers")
    return changes


def _pinned(request: PageRequest) -> list[str]:
    """Return the keys of the submitted tools, including the picked one."""
    lines = [*request.value("pinned").splitlines(), request.value("pick")]
    return list(dict.fromkeys(line.strip() for line in lines if line.strip()))


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
