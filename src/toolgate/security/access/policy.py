"""Decides access: rules compiled to masks over all tools, or applied to a single one.

```
project ▶ tool_permissions ▶ read-only ▶ internal ▶ deny ▶ allow ▶ otherwise
```

Callers with the same permissions share a *permission set*; its masks are computed once and stay
valid until rules, servers or tools change. Each pattern has a row of bits over the tools: the
rows are computed in the background when the catalog changes, and a mask combines a few of them
with a bitwise or.
"""

import asyncio
import logging
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, Protocol

import numpy as np

from toolgate.security.access.decision import (
    AccessDecision,
    DecisionStep,
    Mask,
    Resource,
    ResourceSnapshot,
)
from toolgate.security.access.rules import BUILT_IN, AccessRule, is_switched_on
from toolgate.security.access.tool_matrix import (
    BitRow,
    ToolMatrix,
    compile_rules,
    matches_pattern,
    trusted_hints,
)
from toolgate.types import DEFAULT_PROJECT, Caller, ServerSpec

log = logging.getLogger(__name__)

# Maximum number of cached permission sets. Chosen: gateways have fewer kinds of callers.
_KEPT = 4_096


class Resources(Protocol):
    """The resources that decisions are about."""

    @property
    def generation(self) -> int:
        """Increases with each change of servers or of what they offer."""
        ...

    @property
    def snapshot(self) -> ResourceSnapshot:
        """The current tools."""
        ...

    @property
    def specs(self) -> Sequence[ServerSpec]:
        """The servers."""
        ...


@dataclass(frozen=True, kw_only=True)
class ProjectRules:
    """Access settings of a project."""

    servers: tuple[str, ...] = ()
    """Names of its servers."""

    read_only: bool = False
    """Whether only tools that are marked read-only can run."""

    read_only_allow: tuple[str, ...] = ()
    """Patterns of tools that count as read-only, however they are marked."""

    shared_servers: bool = True
    """Whether servers without a project are visible."""


@dataclass(frozen=True, kw_only=True)
class PolicyInputs:
    """All inputs of decisions besides the catalog; replaced as a whole."""

    required: bool = False
    """Whether everything that no rule allows is denied, except to the local user."""

    rules: tuple[AccessRule, ...] = ()
    """Rules of the configuration and of the store."""

    projects: Mapping[str, ProjectRules] = field(default_factory=dict[str, ProjectRules])
    """Projects by name."""


@dataclass(frozen=True, kw_only=True)
class _PermissionKey:
    """What determines permissions; callers with equal keys have the same permissions."""

    is_local: bool
    project: str
    subjects: frozenset[str]
    """Subjects of rules that mean the caller; only those that occur in a rule."""
    read_only: bool


class _PermissionSet:
    """What the callers with one permission key may do, for one state of all inputs."""

    def __init__(self, policy: "Policy", who: _PermissionKey) -> None:
        self._policy = policy
        self._who = who
        relevant = [rule for subject in who.subjects for rule in policy.by_subject.get(subject, ())]
        self.deny = [rule for rule in relevant if rule.effect == "deny"]
        self.allow = [rule for rule in relevant if rule.effect == "allow"]
        self.may_internal = _may_internal(policy.by_subject, relevant, is_local=who.is_local)
        self.verdicts: dict[tuple[str, str], AccessDecision] = {}
        self._masks: dict[int, Mask | None] = {}

    @property
    def is_bound(self) -> bool:
        """Whether rules apply at all."""
        return self._policy.inputs.required and not self._who.is_local

    def mask(self, tools: ToolMatrix) -> Mask:
        """Return the mask over all tools."""
        mask = self._masks.get(tools.version)
        if mask is None:
            bits = self._bits(tools)
            mask = np.unpackbits(bits, count=tools.count).astype(np.bool_)
            # All requests of the caller share it.
            mask.setflags(write=False)
            self._masks = {tools.version: mask}
        return mask

    def _bits(self, tools: ToolMatrix) -> BitRow:
        policy, who = self._policy, self._who
        bits = policy.tools_in_project(who.project, tools)
        if who.read_only:
            # A new array, since the row is shared by all callers of the project.
            bits = bits & policy.read_only_tools(who.project, tools)
        if not self.may_internal:
            bits = bits & ~tools.internal
        if not self.is_bound:
            return bits
        allowed, denied = (
            [
                row
                for word in who.subjects
                if (row := tools.of_subject(policy.by_subject, word, effect)) is not None
            ]
            for effect in ("allow", "deny")
        )
        # Without a rule nothing is allowed: rights are granted, never assumed.
        if not allowed:
            return np.zeros_like(bits)
        bits = bits & np.bitwise_or.reduce(allowed, axis=0)
        # A deny rule overrides any number of allow rules.
        if denied:
            bits &= ~np.bitwise_or.reduce(denied, axis=0)
        return bits

    def steps(self, kind: str, key: str, thing: Resource | None) -> list[DecisionStep]:
        """Return every stage of the decision about one item, in order."""
        policy, who = self._policy, self._who
        server = key.partition(":")[0]
        steps = [policy.project_step(who.project, server)]
        if kind == "tool":
            gone = policy.is_taken_away(key)
            steps.append(
                DecisionStep(
                    stage="tool_permissions",
                    passed=not gone,
                    reason=f"tool_permissions of server {server!r} "
                    + ("disables it." if gone else "does not disable it."),
                )
            )
            is_marked = trusted_hints(thing, policy.distrusted)[0]
            is_listed = who.read_only and policy.counts_as_read_only(who.project, key)
            blocked = who.read_only and not (is_marked or is_listed)
            reason = "Neither the token nor the project is read-only."
            if who.read_only:
                marked = "is marked read-only" if is_marked else "is not marked read-only"
                if is_listed:
                    marked = "is in read_only_allow of the project"
                reason = f"The project or token is read-only; the tool {marked}."
            steps.append(DecisionStep(stage="read_only", passed=not blocked, reason=reason))
            if thing is not None and thing.internal:
                may = self.may_internal
                reason = (
                    f"The tool is internal; the right 'internal' is {'' if may else 'not '}granted."
                )
                steps.append(DecisionStep(stage="internal", passed=may, reason=reason))
        steps.append(self.rules_step(kind, key, thing))
        return steps

    def rules_step(self, kind: str, key: str, thing: Resource | None) -> DecisionStep:
        """Apply the rules, and name the one that decided."""
        if self._who.is_local:
            return DecisionStep(
                stage="rules", passed=True, reason="The local user may do everything."
            )
        if not self._policy.inputs.required:
            reason = 'auth = "local" allows everything. With auth = "required", it would'
            would = self._by_rules(kind, key, thing)
            reason += f"{'' if would.passed else ' not'} pass: {would.reason}"
            return DecisionStep(stage="rules", passed=True, reason=reason)
        return self._by_rules(kind, key, thing)

    def _by_rules(self, kind: str, key: str, thing: Resource | None) -> DecisionStep:
        hints = trusted_hints(thing, self._policy.distrusted)
        for rule in self.deny:
            if _is_about(rule, kind, key, hints):
                return DecisionStep(stage="rules", passed=False, reason=f"{rule}")
        for rule in self.allow:
            if _is_about(rule, kind, key, hints):
                return DecisionStep(stage="rules", passed=True, reason=f"{rule}")
        return DecisionStep(
            stage="rules", passed=False, reason="No rule allows it (default: deny)."
        )


class Policy:
    """Decides for all callers; the `Access` of a real gateway."""

    def __init__(self, resources: Resources, grounds: PolicyInputs | None = None) -> None:
        self._resources = resources
        self._generation = -1
        self._specs: Sequence[ServerSpec] = ()
        self._tools: ToolMatrix | None = None
        self._compiling: asyncio.Task[None] | None = None
        self._sets: dict[_PermissionKey, _PermissionSet] = {}
        self._of_callers: dict[tuple[object, str], _PermissionSet] = {}
        self._within: dict[str, BitRow] = {}
        self._within_of: ToolMatrix | None = None
        self._projects_of: dict[str, frozenset[str]] = {}
        self._has_projects = False
        self._internal_in = -1, False
        self._switches: Mapping[str, Mapping[str, bool]] = {}
        """`tool_permissions` by server, for servers that disable tools."""
        self.distrusted: frozenset[str] = frozenset()
        """Servers whose annotations are not trusted."""
        self.by_subject: dict[str, list[AccessRule]] = {}
        """Rules by subject."""
        self.inputs = grounds or PolicyInputs()
        self.reload(self.inputs)

    def reload(self, grounds: PolicyInputs) -> None:
        """Replace the inputs; effective from the next decision."""
        self.inputs = grounds
        self.by_subject = {}
        for rule in (*BUILT_IN, *grounds.rules):
            self.by_subject.setdefault(rule.who, []).append(rule)
        self._claim()
        self._forget()

    async def aclose(self) -> None:
        """Cancel the compilation in the background."""
        if self._compiling is not None:
            self._compiling.cancel()
            await asyncio.gather(self._compiling, return_exceptions=True)

    # Decisions

    def decide(self, caller: Caller, action: str, key: str) -> AccessDecision:
        """Decide whether a caller may do something."""
        permissions = self._set_of(caller)
        kind = _KIND_OF.get(action, "tool")
        verdict = permissions.verdicts.get((kind, key))
        if verdict is None:
            verdict = self._verdict(permissions, caller, kind, key)
            if len(permissions.verdicts) >= 16 * _KEPT:
                permissions.verdicts.clear()
            permissions.verdicts[kind, key] = verdict
        return verdict

    def reads_only(self, caller: Caller, thing: Resource) -> bool:
        """Whether a tool counts as read-only for a caller."""
        self._refresh()
        is_marked = trusted_hints(thing, self.distrusted)[0]
        return is_marked or self.counts_as_read_only(caller.project_id, thing.key)

    def mask(self, caller: Caller, things: ResourceSnapshot) -> Mask | None:
        """Return for each tool whether the caller may see and run it; None for all."""
        permissions = self._set_of(caller)
        limits_all = self._switches or self._has_projects or self.inputs.projects
        limits_all = limits_all or self._any_internal(things)
        if not limits_all and caller.identity.kind == "local":
            return None
        return permissions.mask(self._tools_of(things))

    def _any_internal(self, things: ResourceSnapshot) -> bool:
        if self._internal_in[0] != things.version:
            self._internal_in = things.version, any(tool.internal for tool in things.tools)
        return self._internal_in[1]

    def steps(self, caller: Caller, key: str) -> list[DecisionStep]:
        """Return every stage of the decision about a tool."""
        return self._set_of(caller).steps("tool", key, self._resources.snapshot.tool(key))

    def without_effect(self) -> list[AccessRule]:
        """Return rules about tools and servers that match nothing, to report them."""
        servers = {spec.name for spec in self._resources.specs}
        tools = self._tools_of(self._resources.snapshot)
        return [
            rule
            for rule in self.inputs.rules
            if (
                rule.kind == "server"
                and not any(matches_pattern(rule.pattern, name) for name in servers)
            )
            or (rule.kind == "tool" and rule.pattern != "*" and not tools.row(rule).any())
        ]

    def contradictions(self) -> list[tuple[AccessRule, AccessRule]]:
        """Return allow rules without effect and the equal deny rules that override them."""
        denied = {
            (rule.who, rule.kind, rule.pattern, rule.hint): rule
            for rule in self.inputs.rules
            if rule.effect == "deny"
        }
        return [
            (rule, denied[words])
            for rule in self.inputs.rules
            if rule.effect == "allow"
            if (words := (rule.who, rule.kind, rule.pattern, rule.hint)) in denied
        ]

    def compile_soon(self) -> None:
        """Match all patterns against the tools in the background, so that masks are fast."""
        if not self.inputs.required or self._compiling is not None:
            return
        self._compiling = asyncio.ensure_future(self._compile())

    def compile_now(self) -> None:
        """Match all patterns now, when no other work is waiting."""
        self._refresh()
        self._tools = compile_rules(self._resources.snapshot, self.by_subject, self.distrusted)

    async def _compile(self) -> None:
        try:
            while self._tools is None or self._tools.version != self._resources.snapshot.version:
                things, rules = self._resources.snapshot, self.by_subject
                tools = await asyncio.to_thread(compile_rules, things, rules, self.distrusted)
                self._tools = tools
        finally:
            self._compiling = None

    # Information about callers, servers and tools

    def tools_in_project(self, project: str, tools: ToolMatrix) -> BitRow:
        """Return the tools that a project can reach, as packed bits that must not be changed."""
        if self._within_of is not tools:
            self._within_of, self._within = tools, {}
        row = self._within.get(project)
        if row is None:
            shares = self.inputs.projects.get(project, _PLAIN).shared_servers
            row = tools.of_servers(
                name
                for name, projects in self._projects_of.items()
                if (project in projects if projects else shares)
            )
            row &= ~tools.of_keys(self._taken_away(tools))
            self._within[project] = row
        return row

    def read_only_tools(self, project: str, tools: ToolMatrix) -> BitRow:
        """Return the tools that count as read-only in a project."""
        row = tools.read_only
        for pattern in self.inputs.projects.get(project, _PLAIN).read_only_allow:
            row = row | tools.row(_pattern_rule(pattern))
        return row

    def counts_as_read_only(self, project: str, key: str) -> bool:
        """Whether a project declares a tool as read-only."""
        patterns = self.inputs.projects.get(project, _PLAIN).read_only_allow
        return any(
            _is_about(_pattern_rule(pattern), "tool", key, (False, True)) for pattern in patterns
        )

    def projects_of(self, server: str) -> tuple[str, ...]:
        """Return the projects of a server; empty if it is shared."""
        self._refresh()
        return tuple(sorted(self._projects_of.get(server, ())))

    def project_step(self, project: str, server: str) -> DecisionStep:
        """Decide whether a project can reach a server."""
        projects = self._projects_of.get(server, frozenset())
        asked = "no project" if project == DEFAULT_PROJECT else f"project {project!r}"
        if project in projects:
            return DecisionStep(
                stage="project", passed=True, reason=f"Server {server!r} belongs to {asked}."
            )
        if projects:
            names = ", ".join(map(repr, sorted(projects)))
            return DecisionStep(
                stage="project",
                passed=False,
                reason=f"Server {server!r} belongs to project {names}, but the request to {asked}.",
            )
        shares = self.inputs.projects.get(project, _PLAIN).shared_servers
        shared = "is shared by all projects" if shares else f"is not shared with {asked}"
        return DecisionStep(stage="project", passed=shares, reason=f"Server {server!r} {shared}.")

    def _verdict(
        self, permissions: _PermissionSet, caller: Caller, kind: str, key: str
    ) -> AccessDecision:
        if kind in {"server", "reach"}:
            manages = self.decide(caller, "right", "manage")
            if kind == "server" and manages.allowed:
                return manages
            return self._server_verdict(permissions, caller, key)
        if kind == "right":
            step = permissions.rules_step("right", key, None)
            return AccessDecision(allowed=step.passed, rule=step.reason)
        thing = self._resources.snapshot.tool(key) if kind == "tool" else None
        steps = permissions.steps(kind, key, thing)
        stopped = next((step for step in steps if not step.passed), steps[-1])
        return AccessDecision(allowed=stopped.passed, rule=stopped.reason)

    def _server_verdict(
        self, permissions: _PermissionSet, caller: Caller, name: str
    ) -> AccessDecision:
        """Show a server to those who may use anything of it."""
        step = self.project_step(caller.project_id, name)
        if not step.passed:
            return AccessDecision(allowed=False, rule=step.reason)
        if not permissions.is_bound:
            return AccessDecision(allowed=True, rule=step.reason)
        mask = self.mask(caller, self._resources.snapshot)
        tools = self._tools_of(self._resources.snapshot)
        if mask is None or mask[tools.by_server.get(name, [])].any():
            return AccessDecision(allowed=True, rule="At least one of its tools is allowed.")
        for rule in permissions.allow:
            of_it = rule.pattern.partition(":")[0] if rule.kind != "any" else "*"
            if rule.hint:
                continue  # allows tools only, and none of them is among those allowed
            if rule.kind in {"any", "server", "resource", "prompt"} and matches_pattern(
                of_it, name
            ):
                denied = any(
                    other.kind == "any"
                    or (other.kind == "server" and matches_pattern(other.pattern, name))
                    # A star in the allowed pattern is plain text here, which only a star can match.
                    or (other.kind == rule.kind and matches_pattern(other.pattern, rule.pattern))
                    for other in permissions.deny
                    if not other.hint
                )
                if not denied and (rule.kind != "any" or not tools.by_server.get(name)):
                    return AccessDecision(allowed=True, rule=f"{rule}")
        return AccessDecision(allowed=False, rule="Nothing on this server is allowed.")

    def _set_of(self, caller: Caller) -> _PermissionSet:
        self._refresh()
        mark = (caller.identity, caller.project_id)
        permissions = self._of_callers.get(mark)
        if permissions is None:
            who = self._who(caller)
            permissions = self._sets.get(who)
            if permissions is None:
                if len(self._sets) >= _KEPT:
                    self._sets.clear()
                    self._of_callers.clear()
                permissions = self._sets[who] = _PermissionSet(self, who)
            if len(self._of_callers) >= 16 * _KEPT:
                self._of_callers.clear()
            self._of_callers[mark] = permissions
        return permissions

    def _who(self, caller: Caller) -> _PermissionKey:
        identity = caller.identity
        is_local = identity.kind == "local"
        words: list[str] = []
        if not is_local:
            words = ["everyone"]
            words += [f"role:{name}" for name in identity.roles]
            words += [f"group:{name}" for name in identity.groups]
            words += [f"token:{identity.token}"] if identity.token else []
            words += [identity.user_subject] if identity.user else []
            if caller.project_id != DEFAULT_PROJECT:
                words.append(f"project:{caller.project_id}")
        project = self.inputs.projects.get(caller.project_id, _PLAIN)
        return _PermissionKey(
            is_local=is_local,
            project=caller.project_id,
            subjects=frozenset(word for word in words if word in self.by_subject),
            read_only=identity.read_only or project.read_only,
        )

    def _refresh(self) -> None:
        """Clear cached decisions if the servers or their tools have changed."""
        if self._generation != self._resources.generation:
            self._generation = self._resources.generation
            specs = self._resources.specs
            self._specs = specs
            self._claim()
            self._switches = {
                spec.name: spec.tool_permissions
                for spec in specs
                if not all(spec.tool_permissions.values())
            }
            self.distrusted = frozenset(spec.name for spec in specs if not spec.trust)
            self._forget()
            self.compile_soon_if_running()

    def is_taken_away(self, key: str) -> bool:
        """Whether `tool_permissions` of its server disable a tool for all callers."""
        server, _, tool = key.partition(":")
        switches = self._switches.get(server)
        return switches is not None and not is_switched_on(switches, tool)

    def _taken_away(self, tools: ToolMatrix) -> Iterator[str]:
        for server in self._switches:
            for at in tools.by_server.get(server, ()):
                if self.is_taken_away(tools.keys[at]):
                    yield tools.keys[at]

    def _claim(self) -> None:
        """Determine the projects of each server."""
        projects_of: dict[str, set[str]] = {spec.name: set() for spec in self._specs}
        for spec in self._specs:
            if spec.project_id != DEFAULT_PROJECT:
                projects_of[spec.name].add(spec.project_id)
        for name, project in self.inputs.projects.items():
            for server in project.servers:
                projects_of.setdefault(server, set()).add(name)
        self._projects_of = {name: frozenset(projects) for name, projects in projects_of.items()}
        self._has_projects = any(projects_of.values())

    def compile_soon_if_running(self) -> None:
        """Call `compile_soon` if there is a running event loop."""
        try:
            asyncio.get_running_loop()
        except RuntimeError:
            return
        self.compile_soon()

    def _forget(self) -> None:
        self._within_of = None
        self._sets = {}
        self._of_callers = {}

    def _tools_of(self, things: ResourceSnapshot) -> ToolMatrix:
        matrix = self._tools
        if matrix is not None and matrix.version == things.version:
            if matrix.distrusted == self.distrusted:
                return matrix
        elif matrix is not None and matrix.version > things.version:
            return ToolMatrix(things, self.distrusted)
        self._tools = ToolMatrix(things, self.distrusted)
        return self._tools


_PLAIN = ProjectRules()

_KIND_OF = {
    "list": "tool",
    "call": "tool",
    "read": "resource",
    "prompt": "prompt",
    "server": "server",
    "reach": "reach",
    "right": "right",
}


def _pattern_rule(pattern: str) -> AccessRule:
    """Create a rule from a pattern of tools."""
    kind: Literal["tool", "server"] = "tool" if ":" in pattern else "server"
    return AccessRule(effect="allow", who="", kind=kind, pattern=pattern)


def _is_about(rule: AccessRule, kind: str, key: str, hints: tuple[bool, bool]) -> bool:
    read_only, destructive = hints
    if rule.hint:
        if kind != "tool":
            return False
        if not (read_only if rule.hint == "read_only" else destructive):
            return False
    if rule.kind == "any":
        return kind != "right"
    if rule.kind == "server":
        return kind != "right" and matches_pattern(rule.pattern, key.partition(":")[0])
    return rule.kind == kind and matches_pattern(rule.pattern, key)


def _may_internal(
    by_subject: Mapping[str, Sequence[AccessRule]],
    relevant: Sequence[AccessRule],
    *,
    is_local: bool,
) -> bool:
    """Whether internal tools are allowed; needs an explicit rule, even for the local user."""
    rules = by_subject.get("everyone", ()) if is_local else relevant
    effects = {
        rule.effect
        for rule in rules
        if rule.kind == "right" and matches_pattern(rule.pattern, "internal")
    }
    return effects == {"allow"}
