"""The Tools pages: the list, one tool with a form to run it, and how it is offered."""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from time import perf_counter
from typing import Any

from starlette.responses import Response

from toolgate.base import json_text
from toolgate.base.ids import utc_now
from toolgate.base.names import natural_order
from toolgate.base.token_estimate import estimate_tokens
from toolgate.base.tool_results import failed_result
from toolgate.catalog import CatalogEntry
from toolgate.catalog.scanner import ReplacedDefinition
from toolgate.console.activity import RANGES, activity_of
from toolgate.console.request import PageRequest
from toolgate.console.route import Route
from toolgate.console.rule_preview import is_destructive
from toolgate.console.schema_form import FormField, arguments_of, fields_of
from toolgate.console.sorting import order_of
from toolgate.errors import (
    ArgumentError,
    ForbiddenError,
    RpcError,
    StoreError,
    UnknownToolError,
)
from toolgate.gateway.management import HIDDEN_VALUE, OverriddenTool
from toolgate.gateway.meta_tools import DiscoverRequest
from toolgate.search import signature
from toolgate.security.access import PresentedCredentials
from toolgate.security.authn import identity_of
from toolgate.store import ToolUsage
from toolgate.types import CALLER_VARIABLES, Json, json_array, json_object

_PER_PAGE = 100
"""Tools per page (chosen: the page is sent and rendered as a whole)."""

_RANKED = 20
"""Tools in search results (chosen: one screen)."""
_MOST_TOKENS = 500
"""Access tokens whose permissions are listed (chosen: bounds time)."""


_BEFORE_NAME = re.compile(r"(?<=[.?]) (?=')")
"""Where the next argument begins in an error about several."""


@dataclass(frozen=True, kw_only=True)
class ToolRow:
    """A tool in a list."""

    key: str
    """`server:tool`."""

    description: str
    """First lines of its description."""

    read_only: bool
    """Whether it is marked as read-only."""

    destructive: bool
    """Whether it is marked as destructive."""

    tokens: int
    """Tokens of its definition."""

    relevance: float | None = None
    """How well it matches the search."""

    use: ToolUsage | None = None
    """Usage in the last week; None if it was not used or this is unknown."""


@dataclass(frozen=True, kw_only=True)
class Right:
    """Whether a token may use a tool."""

    token: str
    """Name of the token."""

    allowed: bool
    """Whether it may use it."""

    reason: str
    """Why it may or may not."""


@dataclass(frozen=True, kw_only=True)
class _StoredVersions:
    rights: Sequence[Right] = ()
    uses: Sequence[ToolUsage] = ()
    versions: Sequence[ReplacedDefinition] = ()


async def _list(request: PageRequest) -> Response:
    query, server = request.query_value("q").strip(), request.query_value("server")
    entries = request.gateway.visible.tools(request.caller)
    if server:
        entries = [tool for tool in entries if tool.server == server]
    total, found = len(entries), dict[str, tuple[CatalogEntry, float]]()
    uses = await _uses(request)
    if query:
        found = await _ranked(request, query, server)
        word = query.lower()
        entries = [tool for tool in entries if word in tool.key.lower() and tool.key not in found]
    order, orders = order_of(request), _orders(uses)
    entries = order.sort(entries, orders)
    hits = order.sort((entry for entry, _ in found.values()), orders)
    pages = max(1, -(-len(entries) // _PER_PAGE))
    page = min(request.page_number(), pages)
    rows = [_row(entry, uses) for entry in entries[(page - 1) * _PER_PAGE : page * _PER_PAGE]]
    return request.page(
        "tools.html",
        groups=_grouped(rows) if not order.name else [("", rows)],
        rows=rows,
        ranked=[_row(entry, uses, relevance=found[entry.key][1]) for entry in hits],
        total=total,
        named=len(entries),
        page=page,
        pages=pages,
        word=query,
        server=server,
        servers=request.gateway.servers.names(request.caller),
        states={row.name: row.state for row in request.gateway.servers.statuses(request.caller)},
        order=order,
        query={"q": query, "server": server},
        has_uses=request.manages,
    )


async def _uses(request: PageRequest) -> Mapping[str, ToolUsage]:
    """Return the usage of tools in the last week, by key; empty while it is being counted."""
    if not request.manages:
        return {}
    activity = await activity_of(request, RANGES["week"])
    return {use.tool: use for use in activity.tools} if activity is not None else {}


def _orders(uses: Mapping[str, ToolUsage]) -> Mapping[str, Callable[[CatalogEntry], Any]]:
    """Return the sort key of each column; unused tools have neither errors nor latency."""

    def share(entry: CatalogEntry) -> float | None:
        use = uses.get(entry.key)
        return use.failed / use.calls if use is not None else None

    def mean(entry: CatalogEntry) -> float | None:
        use = uses.get(entry.key)
        return use.mean_ms if use is not None else None

    def calls(entry: CatalogEntry) -> int:
        use = uses.get(entry.key)
        return use.calls if use is not None else 0

    return {
        "name": lambda entry: natural_order(entry.key),
        "calls": calls,
        "errors": share,
        "latency": mean,
        "tokens": lambda entry: estimate_tokens(entry.raw),
    }


def _grouped(rows: Sequence[ToolRow]) -> list[tuple[str, list[ToolRow]]]:
    """Group rows by server, in their order."""
    return [
        (server, list(group)) for server, group in groupby(rows, lambda row: row.key.split(":")[0])
    ]


async def _ranked(
    request: PageRequest, query: str, server: str
) -> dict[str, tuple[CatalogEntry, float]]:
    """Return the tools that a model would be shown, best first: by key, with their relevance."""
    search_request = DiscoverRequest(
        queries=(query[:1000],),
        max_results=_RANKED,
        servers=(server,) if server else (),
        include_core=False,
    )
    discovery = await request.gateway.discovery.discover(request.caller, search_request)
    found: dict[str, tuple[CatalogEntry, float]] = {}
    for hit in discovery.results:
        entry = request.gateway.visible.tool_or_none(request.caller, hit.tool_key)
        if entry is not None and not hit.weak:
            found[entry.key] = (entry, hit.relevance)
    return found


def _row(
    entry: CatalogEntry, uses: Mapping[str, ToolUsage], *, relevance: float | None = None
) -> ToolRow:
    definition = entry.definition
    return ToolRow(
        key=entry.key,
        description=" ".join(str(definition.get("description") or "")[:600].split()),
        read_only=entry.read_only,
        destructive=is_destructive(entry),
        tokens=estimate_tokens(entry.raw),
        relevance=relevance,
        use=uses.get(entry.key),
    )


async def _show(request: PageRequest) -> Response:
    return await _tool_page(request)


async def _tool_page(
    request: PageRequest,
    *,
    result: "_Result | None" = None,
    took_ms: float | None = None,
    arguments: Json | None = None,
) -> Response:
    try:
        entry = request.gateway.visible.tool(request.caller, request.value("key"))
    except UnknownToolError as error:  # its hint is for models
        hint = "It may have been removed, or hidden from you. See the list of tools."
        raise UnknownToolError(error.failed, allowed=error.allowed, hint=hint) from error
    try:
        stored = await _stored_versions(request, entry.key)
    except StoreError:
        if result is None:
            raise
        stored = _StoredVersions()  # the tool has run, so show its result even if the store fails
    definition = entry.definition
    schema = json_object(definition.get("inputSchema"))
    call = signature(entry.name, schema)
    return request.page(
        "tool.html",
        entry=entry,
        definition=definition,
        description=str(definition.get("description") or ""),
        hints=_hints(definition),
        fields=fields_of(schema),
        wrong_arguments=_wrong_arguments(request),
        output=definition.get("outputSchema"),
        signature=call,
        signature_tokens=estimate_tokens(call),
        definition_tokens=estimate_tokens(entry.raw),
        server=request.gateway.servers.status(request.caller, entry.server),
        rights=stored.rights,
        uses=stored.uses,
        required=request.gateway.admission.required,
        versions=stored.versions,
        indexed=request.gateway.manage.vectors.texts(request.caller, [entry.key])[entry.key],
        result=result,
        took_ms=took_ms,
        arguments=arguments,
    )


async def _stored_versions(request: PageRequest, key: str) -> "_StoredVersions":
    """Return the stored versions of a tool, for administrators."""
    if not request.manages:
        return _StoredVersions()
    return _StoredVersions(
        rights=await _rights(request, key),
        uses=await request.app.store.audit.tool_usage(utc_now(plus_s=-7 * 86_400), tool=key),
        versions=await request.gateway.manage.quarantine.versions(request.caller, key),
    )


def _hints(definition: Json) -> list[str]:
    """Return the hints in a tool's definition, in words."""
    hints = json_object(definition.get("annotations"))
    words = {
        "readOnlyHint": ("read-only", "read-write"),
        "destructiveHint": ("destructive", "non-destructive"),
        "idempotentHint": ("idempotent", ""),
        "openWorldHint": ("open-world", "closed-world"),
    }
    marks = [
        words[name][0 if hints[name] else 1] for name in words if isinstance(hints.get(name), bool)
    ]
    return [word for word in marks if word]


async def _rights(request: PageRequest, key: str) -> list[Right]:
    """Return which tokens may use a tool."""
    rights: list[Right] = []
    current_time = utc_now()
    for token in (await request.gateway.admin.tokens(request.caller))[:_MOST_TOKENS]:
        if token.revoked_at is not None or (token.expires_at or "~") <= current_time:
            continue
        try:
            caller = request.gateway.admission.caller_of(identity_of(token), PresentedCredentials())
        except ForbiddenError as error:
            rights.append(Right(token=token.name, allowed=False, reason=error.failed))
            continue
        verdict = request.gateway.manage.visibility.decision(caller, key)
        rights.append(Right(token=token.name, allowed=verdict.allowed, reason=verdict.rule))
    return rights


def _wrong_arguments(request: PageRequest) -> dict[str, str]:
    """Return what is wrong with arguments, by their name, from the sentences of the error."""
    failed = request.problem.failed if request.problem else ""
    sentences = _BEFORE_NAME.split(failed)[1:]
    return {sentence[1:].partition("'")[0]: sentence for sentence in reversed(sentences)}


async def _try(request: PageRequest) -> Response:
    entry = request.gateway.visible.tool(request.caller, request.value("key"))
    fields = fields_of(json_object(entry.definition.get("inputSchema")))
    arguments = arguments_of(fields, request.value)
    began = perf_counter()
    try:
        result = await request.gateway.calls.execute(request.caller, entry.key, arguments)
    except RpcError as error:
        result = failed_result(error.message)
    took_ms = (perf_counter() - began) * 1000
    return await _tool_page(request, result=_Result(result), took_ms=took_ms, arguments=arguments)


async def _show_override(request: PageRequest) -> Response:
    shown = await request.gateway.manage.overrides.show(request.caller, request.value("key"))
    return _override_page(request, shown)


async def _change_override(request: PageRequest) -> Response:
    overrides, caller, key = request.gateway.manage.overrides, request.caller, request.value("key")
    match request.value("do"):
        case "preview":
            shown = await overrides.show(caller, key)
            preview = await overrides.preview(caller, key, _typed_override(request, shown))
            return _override_page(request, shown, preview=preview)
        case "save":
            shown = await overrides.show(caller, key)
            saved = await overrides.change(caller, key, _typed_override(request, shown))
            message = f"Override of {saved.toolKey} saved."
        case "remove":
            saved = await overrides.remove(caller, key)
            message = f"Override of {saved.toolKey} removed."
        case word:
            raise ArgumentError(f"Unknown action {word[:40]!r}.")
    return request.go("override", message=f"{message} {saved.notice}".strip(), key=saved.toolKey)


def _override_page(
    request: PageRequest, shown: OverriddenTool, *, preview: OverriddenTool | None = None
) -> Response:
    fields = _fields_of_override(shown)
    parameters = json_object(shown.override.get("parameters"))
    return request.page(
        "tool_override.html",
        shown=shown,
        preview=preview,
        fields=fields,
        changes={
            field.field: _Change(field, json_object(parameters.get(field.name))) for field in fields
        },
        variables=CALLER_VARIABLES,
    )


class _Change:
    """An override's change of a parameter, as in the form."""

    def __init__(self, field: FormField, change: Json) -> None:
        self.description = str(change.get("description", ""))
        value = change.get("value", change.get("default"))
        self.mode = "hide" if change.get("hide") else ""
        if "value" in change or (self.mode and value is not None):
            self.mode = "value"  # a hidden parameter is always sent with its default
        elif value is not None:
            self.mode = "default"
        self.value = "" if value is None else _as_text(field, value)


def _as_text(field: FormField, value: object) -> str:
    """A value as `_typed_value` reads it."""
    is_plain = field.kind != "json" or value == HIDDEN_VALUE or "${" in str(value)
    return value if isinstance(value, str) and is_plain else json_text.dumps(value).decode()


def _fields_of_override(shown: OverriddenTool) -> Sequence[FormField]:
    """Fields for the server's parameters, after those that the override changes.

    A change that has no field would be lost when the form is saved.
    """
    schema = json_object((shown.listed or {}).get("inputSchema"))
    listed = json_object(schema.get("properties"))
    changed: Json = {name: {} for name in json_object(shown.override.get("parameters"))}
    return fields_of({**schema, "properties": {**changed, **listed}})


def _typed_override(request: PageRequest, shown: OverriddenTool) -> Json:
    """Return the submitted override, without empty fields."""
    parameters: Json = {}
    for field in _fields_of_override(shown):
        mode = request.value(f"{field.field}-mode")
        change: Json = {"description": request.value(f"{field.field}-description").strip()}
        if mode == "hide":
            change["hide"] = True
        elif mode:
            change[mode] = _typed_value(request, field)
        if change := {name: value for name, value in change.items() if value not in ("", None)}:
            parameters[field.name] = change
    table: Json = {
        "name": request.value("name").strip(),
        "description": request.value("description").strip(),
        "tags": request.value("tags").split(),
        "hide": request.value("hide") == "true",
        "parameters": parameters,
    }
    return {key: value for key, value in table.items() if value}


def _typed_value(request: PageRequest, field: FormField) -> object:
    text = request.value(field.field)
    if "${" in text or text == HIDDEN_VALUE:
        return text
    value = arguments_of([field], request.value).get(field.name)
    if value is None:
        raise ArgumentError(
            f"The parameter {field.name[:60]!r} has no value.",
            hint="Enter the value to send, or choose another option.",
        )
    return value


class _Result:
    """Result of a tool call, for display."""

    def __init__(self, whole: Json) -> None:
        self.whole = whole
        self.is_error = whole.get("isError") is True
        self.asks = whole.get("resultType") == "input_required"
        self.structured: object = whole.get("structuredContent")
        self.size = len(str(whole))

    @property
    def blocks(self) -> list[tuple[str, str]]:
        """Kind and text of each content block."""
        blocks: list[tuple[str, str]] = []
        for block in json_array(self.whole.get("content")):
            content: dict[str, Any] = json_object(block)
            kind = str(content.get("type", ""))
            text = (
                content.get("text")
                if kind == "text"
                else content.get("uri") or content.get("mimeType")
            )
            blocks.append((kind, str(text or "")))
        return blocks


ROUTES = (
    Route(path="tools", show=_list),
    Route(path="tool", show=_show, act=_try, acts_outside=True),
    Route(path="override", show=_show_override, act=_change_override),
)
