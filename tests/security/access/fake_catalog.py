"""A catalog of servers and tools without connections, for access decisions."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from toolgate.types import DEFAULT_PROJECT, Caller, Identity, ServerSpec


@dataclass(frozen=True, kw_only=True)
class Tool:
    key: str
    read_only: bool = False
    destructive: bool = True
    internal: bool = False

    @property
    def server(self) -> str:
        return self.key.partition(":")[0]


@dataclass
class Snapshot:
    version: int
    tools: tuple[Tool, ...]

    def tool(self, key: str) -> Tool | None:
        return next((tool for tool in self.tools if tool.key == key), None)


@dataclass
class FakeCatalog:
    """Servers and tools that `reload` replaces."""

    specs: list[ServerSpec] = field(default_factory=list)
    snapshot: Snapshot = field(default_factory=lambda: Snapshot(0, ()))
    generation: int = 0

    def reload(self, specs: Iterable[ServerSpec], tools: Iterable[Tool]) -> None:
        self.specs = list(specs)
        self.generation += 1
        self.snapshot = Snapshot(self.generation, tuple(tools))


def server(
    name: str,
    *,
    project: str = DEFAULT_PROJECT,
    trust: bool = True,
    permissions: Mapping[str, bool] | None = None,
) -> ServerSpec:
    return ServerSpec(
        name=name,
        kind="stdio",
        project_id=project,
        trust=trust,
        tool_permissions=dict(permissions or {}),
    )


def caller(
    *,
    token: str = "",
    user: str = "",
    roles: tuple[str, ...] = (),
    groups: tuple[str, ...] = (),
    project: str = DEFAULT_PROJECT,
    read_only: bool = False,
    kind: str = "token",
) -> Caller:
    identity = Identity(
        caller_id=f"token:{token or 'x'}",
        kind=kind,
        token=token,
        user=user,
        roles=roles,
        groups=groups,
        read_only=read_only,
        projects=("*",),
    )
    return Caller(caller_id=identity.caller_id, project_id=project, identity=identity)
