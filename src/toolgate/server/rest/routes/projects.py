"""Routes for projects."""

from dataclasses import asdict
from typing import Annotated

from pydantic import Field

from toolgate.errors import ArgumentError
from toolgate.security.access import ProjectView
from toolgate.server.rest.models import Answer, PageOf, TableFields
from toolgate.server.rest.routing import Call, Routes, long_transactions
from toolgate.settings import ProjectTable
from toolgate.types import Json

routes = Routes()

Settings = Annotated[Json, TableFields(ProjectTable)]
NamedSettings = Annotated[Json, TableFields(ProjectTable, ("name",))]


class Project(Answer):
    """A project with what it sets; what it leaves as for all is absent."""

    name: str
    servers: list[str]
    settings: Json
    source: str = Field(description="The file that declares it, or `store`.")


class ProjectList(PageOf):
    """Projects."""

    projects: list[Project]


@routes.get("projects", pages="projects")
async def projects(call: Call) -> ProjectList:
    """List the projects."""
    views = await call.gateway.admin.projects(call.caller)
    return ProjectList(projects=[_project(view) for view in views])


@routes.post("projects", status=201, example={"name": "team-web", "servers": ["github"]})
async def create_project(call: Call, body: NamedSettings) -> Project:
    """Make a project, with `name` and what it sets."""
    settings = _settings(body)
    name = settings.pop("name", None)
    if not isinstance(name, str):
        raise ArgumentError("Member 'name' is missing.", allowed="It is a string.")
    admin = call.gateway.admin
    return _project(await admin.save_project(call.caller, name, settings=settings, new=True))


@routes.post("projects/{name}", example={"read_only": True})
async def change_project(call: Call, name: str, body: Settings) -> Project:
    """Change what a project sets.

    Null goes back to what holds for all, but for `optimization`, where it is no search and an empty
    text goes back.
    """
    admin = call.gateway.admin
    return _project(await admin.save_project(call.caller, name, settings=_settings(body)))


@routes.delete("projects/{name}")
async def delete_project(call: Call, name: str) -> Json:
    """Delete a project."""
    with long_transactions():
        await call.gateway.admin.delete_project(call.caller, name)
    return {"name": name}


def _settings(body: Json) -> Json:
    """Return the settings of a project; "no search" is null in JSON."""
    if "optimization" in body and body["optimization"] is None:
        return {**body, "optimization": "off"}
    return dict(body)


def _project(view: ProjectView) -> Project:
    settings = asdict(view.settings)
    del settings["servers"]
    return Project(
        name=view.name,
        servers=list(view.servers),
        settings={
            key: None if key == "optimization" and value == "off" else value
            for key, value in settings.items()
            if (not value if key == "shared_servers" else value)
        },
        source=view.source,
    )
