"""Explains why a caller sees a tool, or does not."""

from collections.abc import Mapping
from typing import Final

from toolgate.base.processes.error_line import failure_text
from toolgate.catalog import CatalogEntry, cache_problem
from toolgate.catalog.scanner import Quarantine, QuarantinedEntry
from toolgate.errors import ForbiddenError
from toolgate.gateway.execution import nearest
from toolgate.gateway.listing import ListingPolicy, searching_clients
from toolgate.gateway.parts import AccessControl, GatewayContext
from toolgate.search import SearchRequest
from toolgate.security.access import AccessDecision, PresentedCredentials
from toolgate.types import (
    DEFAULT_PROJECT,
    LOCAL,
    Caller,
    CallerScope,
    Identity,
    Json,
    relevance_text,
)

_SCOPES: Final[Mapping[CallerScope, str]] = {
    "caller": "the same caller",
    "project": "callers of the same project",
    "all": "everybody",
}

_MAX_RANK = 50
"""Search hits among which an explanation looks for the tool (chosen)."""


class VisibilityExplanation:
    """Explains the visibility of tools to administrators."""

    def __init__(
        self,
        context: GatewayContext,
        *,
        quarantine: Quarantine,
        access: AccessControl,
        listing: ListingPolicy,
    ) -> None:
        self._settings = context.settings
        self._catalog = context.catalog
        self._quarantine = quarantine
        self._access = access.policy
        self._admission = access.admission
        self._project = access.project
        self._index = context.search.index
        self._visible = context.visible
        self._listing = listing
        self._guards = context.guards.guards

    async def explain(
        self,
        caller: Caller,
        tool: str,
        *,
        identity: Identity = LOCAL,
        project: str = "",
        query: str = "",
        problem: str = "",
    ) -> Json:
        """Explain whether a caller sees a tool: `visible`, and `stages` with their reasons.

        Args:
            caller: The caller.
            tool: The tool's key or exposed name.
            identity: The caller that the explanation is about.
            project: The project in which that caller acts; empty for its own.
            query: A search; the explanation then says at which rank it finds the tool.
            problem: What is wrong with the credential of `identity`; empty if nothing is.

        Raises:
            ForbiddenError: The caller lacks the right `manage`.
        """
        self._visible.must_manage(caller)
        stages = [_stage("token", not problem, problem or _describe(identity))]
        subject, request_stage = self._request_stage(caller, identity, project)
        stages.append(request_stage)
        entry = self._entry(tool)
        key = entry.key if entry is not None else tool
        if request_stage["passed"]:
            stages += [
                _stage(step.stage, step.passed, step.reason)
                for step in self._access.steps(subject, key)
            ]
        quarantined = next(
            (
                item
                for item in await self._quarantine.list_quarantined()
                if item.kind == "tool" and item.key == key
            ),
            None,
        )
        is_offered = entry is not None or quarantined is not None
        stages.append(self._server_stage(key, is_offered=is_offered))
        stages.append(_quarantine_stage(quarantined))
        visible = all(stage["passed"] for stage in stages)
        if visible and entry is not None:
            guard = self._guards.for_tool(subject.project_id, entry)
            reason = "No guard applies." if guard is None else str(guard)
            stages.append(_stage("guards", True, reason))
            if entry.override is not None:
                stages.append(_stage("override", True, _override_text(entry)))
            spec = self._catalog.spec(entry.server)
            if spec is not None and (rule := spec.tool_caches.get(entry.own_name)):
                problem = cache_problem(entry, spec)
                kept = f"Results are cached for {rule.ttl_s:g} s, for {_SCOPES[rule.scope]}."
                stages.append(_stage("cache", True, problem or kept))
            if spec is not None and spec.forward_headers:
                names = ", ".join(spec.forward_headers)
                reason = f"These client headers are forwarded to the server: {names}."
                stages.append(_stage("headers", True, reason))
            stages.append(self._listed_stage(subject, entry))
            if query:
                stages.append(await self._rank_stage(subject, entry, query))
        return {
            "tool": key,
            "caller": identity.caller_id,
            "token": identity.token or None,
            "project": None if subject.project_id == DEFAULT_PROJECT else subject.project_id,
            "visible": visible,
            "stages": stages,
        }

    def entry(self, caller: Caller, key: str) -> CatalogEntry | None:
        """A tool by key or exposed name, whoever may use it; None if it does not exist.

        Raises:
            ForbiddenError: The caller lacks the right `manage`.
        """
        self._visible.must_manage(caller)
        return self._entry(key)

    def decision(self, subject: Caller, key: str) -> AccessDecision:
        """Whether a caller may use a tool, and by which rule."""
        return self._access.decide(subject, "call", key)

    def _entry(self, key: str) -> CatalogEntry | None:
        snapshot = self._catalog.snapshot
        return snapshot.tool(key) or snapshot.by_exposed.get(key)

    def _request_stage(
        self, caller: Caller, identity: Identity, project: str
    ) -> tuple[Caller, Json]:
        """Who the explanation is about, and whether that caller may act in the project."""
        try:
            subject = self._admission.caller_of(
                identity, PresentedCredentials(header_project=project)
            )
        except ForbiddenError as error:
            return caller, _stage("request", False, str(error))
        if subject.project_id == DEFAULT_PROJECT:
            return subject, _stage("request", True, "No project is selected.")
        return subject, _stage("request", True, f"The project is {subject.project_id}.")

    def _server_stage(self, key: str, *, is_offered: bool) -> Json:
        """Whether the server answers and offers the tool."""
        server = key.partition(":")[0]
        status = self._catalog.status(server)
        tools = self._catalog.snapshot.tools
        if status is None:
            suggestions = _suggestions(key, [tool.key for tool in tools])
            return _stage("server", False, f"There is no server {server!r}.{suggestions}")
        if status.state == "disabled":
            return _stage("server", False, f"Server {server!r} is disabled.")
        spec = self._catalog.spec(server)
        override = spec.tool_overrides.get(key.partition(":")[2]) if spec is not None else None
        if not is_offered and override is not None and override.hide:
            reason = f"[server.{server}.tools] disables it for everyone (hide = true)."
            return _stage("server", False, reason)
        if not is_offered:
            suggestions = _suggestions(key, [tool.key for tool in tools if tool.server == server])
            return _stage("server", False, f"Server {server!r} has no such tool.{suggestions}")
        if status.state == "down":
            failure = failure_text(status.last_error or "", status.stderr_tail)
            error = f" Last error: {failure}" if failure else ""
            is_listed = self._settings.current.discovery.show_down
            return _stage("server", is_listed, f"Server {server!r} is down.{error}")
        return _stage("server", True, f"Server {server!r} is {status.state} and has the tool.")

    def _listed_stage(self, caller: Caller, entry: CatalogEntry) -> Json:
        is_listed = self._listing.lists_all(caller) or entry.key in self._listing.pinned(
            self._project(caller.project_id)
        )
        how = f"is listed as {entry.exposed!r}" if is_listed else "is found with tool_discovery"
        reason = f"The tool {how}."
        if not is_listed and self._listing.shape_for_names(caller) == "short":
            titles = ", ".join(c.title for c in searching_clients() if c.shows == "names")
            reason += (
                f" Clients that search tools themselves ({titles}) list it as {entry.exposed!r}, "
                "with a short description."
            )
        return _stage("listed", True, reason)

    async def _rank_stage(self, caller: Caller, entry: CatalogEntry, query: str) -> Json:
        """At which rank a search finds the tool."""
        snapshot = self._catalog.snapshot
        await self._index.update_to(snapshot.version, snapshot.tools)
        strategy = self._listing.arm(caller).strategy
        hidden = () if self._settings.current.discovery.show_down else self._catalog.down()
        allowed = self._access.mask(caller, snapshot)
        mask = self._visible.mask(caller, strategy.keys, snapshot, allowed, (), hidden, [])
        request = SearchRequest(
            queries=(query,), limit=_MAX_RANK, mask=mask, project_id=caller.project_id
        )
        answer = await strategy.search(request)
        keys = [hit.key for hit in answer.hits]
        if entry.key not in keys:
            reason = f"It is not among the first {_MAX_RANK} hits for {query!r:.80}."
            return _stage("search", False, reason)
        index = keys.index(entry.key)
        return _stage(
            "search",
            True,
            f"It is hit {index + 1} of {len(keys)} for {query!r:.80}, with relevance"
            f" {relevance_text(answer.hits[index].relevance)}.",
        )


def _quarantine_stage(quarantined: QuarantinedEntry | None) -> Json:
    if quarantined is None:
        return _stage("quarantine", True, "It is not quarantined.")
    reason = f"It is quarantined: {quarantined.reason}"
    command = f"toolgate servers approve {quarantined.server}"
    return _stage("quarantine", False, f"{reason} See: {command}")


def _override_text(entry: CatalogEntry) -> str:
    """What an override changes in a tool, without the values, which may be secret."""
    assert entry.override is not None, "asked for tools with an override"
    parts = [f"Its own name is {entry.own_name!r}."] if entry.override.name else []
    if entry.override.description:
        parts.append("Its description is replaced.")
    for name, change in entry.override.parameters.items():
        is_sent = change.value is not None or change.default is not None
        if change.is_hidden:
            effect = "is set by the gateway" if is_sent else "is hidden and not sent"
        elif is_sent:
            effect = "has a default"
        else:
            effect = "has another description"
        parts.append(f"Parameter {name!r} {effect}.")
    if entry.override.tags:
        parts.append("It has additional search tags.")
    return " ".join(parts)


def _suggestions(key: str, keys: list[str]) -> str:
    suggestions = nearest(key, keys)
    return f" Nearest: {', '.join(suggestions[:3])}." if suggestions else ""


def _stage(stage: str, passed: bool, reason: str) -> Json:  # noqa: FBT001 - a row
    return {"stage": stage, "passed": passed, "reason": reason}


def _describe(identity: Identity) -> str:
    if identity.kind == "local":
        return "The local user, without a token."
    roles = ", ".join(identity.roles) or "none"
    return f"The token {identity.token!r} is valid. Roles: {roles}."
