"""Built-in functions of programs: search, describe, select, store, load."""

import hashlib
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Mapping
from typing import Any, Final

from toolgate.base import json_text
from toolgate.base.ids import utc_now
from toolgate.gateway.discovery import DiscoveryService
from toolgate.gateway.meta_tools import DiscoverRequest
from toolgate.gateway.parts import GatewayContext
from toolgate.gateway.programs.type_stubs import host_function
from toolgate.gateway.results.jq_filter import JqFilter
from toolgate.models.sandboxes import HostCall, HostFunction
from toolgate.store import Store, StoredResult
from toolgate.types import Caller, Json

VALUES: Final = "value-"
"""Prefix of the ids of stored values."""

_SHOWN_NAME_CHARS: Final = 80
"""Characters of a value's name that people see (chosen)."""

_MAX_VALUE_BYTES: Final = 2**20
"""Bytes, as JSON, of a value that programs store for each other (chosen)."""

_MAX_VALUES: Final = 1_000
"""Values that the programs of a caller may keep at the same time (chosen)."""

_MAX_KEPT_BYTES: Final = 64 * 2**20
"""Bytes of all these values together (chosen)."""

HELPER_FUNCTIONS: Final = (
    HostFunction(
        name="search", parameters="query: str, limit: int = 5", returns="list[dict[str, Any]]"
    ),
    HostFunction(name="describe", parameters="function: str", returns="str"),
    HostFunction(name="select", parameters="value: Any, filter: str", returns="Any"),
    HostFunction(name="store", parameters="name: str, value: Any", returns="None"),
    HostFunction(name="load", parameters="name: str", returns="Any"),
)
"""Declarations of these functions."""

_ARGUMENTS: Final[Mapping[str, Mapping[str, type]]] = {
    "search": {"query": str, "limit": int},
    "describe": {"function": str},
    "select": {"value": object, "filter": str},
    "store": {"name": str, "value": object},
    "load": {"name": str},
}
"""Parameters of each function, in their order, with the types that the code relies on."""

_OPTIONAL: Final = frozenset({"limit"})

_TYPE_NAMES: Final[Mapping[type, str]] = {str: "a text", int: "a whole number"}


def is_helper(function: str) -> bool:
    """Whether a function without a module is one of these."""
    return function in _ARGUMENTS


class ProgramHelpers:
    """Answers the calls of these functions."""

    def __init__(
        self, context: GatewayContext, *, discovery: DiscoveryService, jq: JqFilter, store: Store
    ) -> None:
        self._visible = context.visible
        self._discovery = discovery
        self._jq = jq
        self._store = store

    async def answer(
        self, caller: Caller, call: HostCall, names: Mapping[str, str], *, keep_s: float
    ) -> Any:
        """Run a function and return its result.

        Args:
            caller: The caller that owns the program.
            call: The call.
            names: Keys of tools by the names of their functions.
            keep_s: Seconds until stored values expire.

        Raises:
            ValueError: The function or value does not exist, or the filter does not match.
            ToolgateError: The search or the filter failed.
        """
        arguments = _named(call)
        match call.function:
            case "search":
                limit = arguments.get("limit", 5)
                return await self._search(caller, arguments["query"], limit, names)
            case "describe":
                return self._described(caller, arguments["function"], names)
            case "select":
                await self._jq.check(arguments["filter"])
                return await self._jq.apply(arguments["filter"], arguments["value"])
            case "load":
                return await self._load(caller, arguments["name"])
            case _:
                return await self._keep(caller, arguments["name"], arguments["value"], keep_s)

    async def _load(self, caller: Caller, name: str) -> Any:
        stored = await self._store.results.get(_value_id(caller, name))
        if stored is None or stored.expires_at <= utc_now():
            raise ValueError(
                f"nothing is stored as {name!r}; values expire, and belong to one conversation"
            )
        return json_text.loads(stored.body)

    async def _keep(self, caller: Caller, name: str, value: Any, keep_s: float) -> None:
        body = json_text.dumps(value)
        if len(body) > _MAX_VALUE_BYTES:
            raise ValueError(
                f"the value {name[:_SHOWN_NAME_CHARS]!r} has {len(body):,} bytes as JSON, and"
                f" {_MAX_VALUE_BYTES:,} bytes are allowed: store less of it, or in parts"
            )
        value_id = _value_id(caller, name)
        await self._check_room(caller, value_id, len(body))
        await self._store.results.save(
            StoredResult(
                handle=value_id,
                project_id=caller.project_id,
                caller_id=caller.caller_id,
                body=body,
                expires_at=utc_now(plus_s=keep_s),
            )
        )

    async def _check_room(self, caller: Caller, value_id: str, size_bytes: int) -> None:
        """Refuse a value that would exceed what a caller may keep in all conversations.

        Programs that run at the same time may exceed it by what each is storing.
        """
        kept = await self._store.results.select(
            prefix=VALUES, caller_id=caller.caller_id, now=utc_now(), limit=_MAX_VALUES
        )
        others = [row for row in kept if row.handle != value_id]
        total = sum(row.size_bytes for row in others) + size_bytes
        if len(others) >= _MAX_VALUES or total > _MAX_KEPT_BYTES:
            raise ValueError(
                f"with this value, {len(others) + 1:,} stored values would have {total:,} bytes;"
                f" {_MAX_VALUES:,} values and {_MAX_KEPT_BYTES:,} bytes are allowed: store less,"
                " or store it under a name that is in use, which replaces that value"
            )

    async def _search(
        self, caller: Caller, query: str, limit: int, names: Mapping[str, str]
    ) -> list[Json]:
        request = DiscoverRequest(
            queries=(query,), max_results=max(1, min(limit, 50)), as_text=False
        )
        discovery = await self._discovery.discover(caller, request)
        functions = {key: name for name, key in names.items()}
        found: list[Json] = []
        for hit in discovery.results:
            function = functions.get(hit.tool_key, hit.tool_key)
            returns = f" -> {hit.returns}" if hit.returns else ""
            found.append(
                {
                    "function": function,
                    "signature": f"{function}({hit.signature.partition('(')[2]}{returns}",
                    "description": hit.description,
                    "relevance": round(hit.relevance, 3),
                }
            )
        return found

    def _described(self, caller: Caller, function: str, names: Mapping[str, str]) -> str:
        entry = self._visible.tool_or_none(caller, names.get(function, function))
        entry = entry or self._visible.by_exposed_name(caller, function)
        if entry is None:
            raise ValueError(f"there is no function {function!r}; find them with search")
        key = entry.shown_key
        name = next((name for name, known in names.items() if known == key), function)
        host = host_function(name, entry.definition, entry.digest)
        text = str(entry.definition.get("description") or "")
        line = f"async def {name}({host.parameters}) -> {host.returns}"
        return f"{host.types}\n{line}\n{text}".strip()


def _named(call: HostCall) -> Json:
    """The arguments of a call by name.

    Raises:
        ValueError: One is missing, unknown, given twice or of another type.
    """
    types = _ARGUMENTS[call.function]
    expected = f"it takes: {', '.join(types)}"
    if len(call.args) > len(types):
        raise ValueError(f"{call.function} got {len(call.args)} arguments; {expected}")
    arguments: Json = dict(zip(types, call.args, strict=False))
    for name, value in call.kwargs.items():
        if name not in types or name in arguments:
            problem = "no argument" if name not in types else "two values for"
            raise ValueError(f"{call.function} has {problem} {name!r}; {expected}")
        arguments[name] = value
    for name, kind in types.items():
        if name not in arguments and name not in _OPTIONAL:
            raise ValueError(f"{call.function} needs the argument {name!r}; {expected}")
        value = arguments.get(name)
        fits = isinstance(value, kind) and not (kind is int and isinstance(value, bool))
        if name in arguments and not fits:
            raise ValueError(
                f"{name!r} of {call.function} must be {_TYPE_NAMES[kind]}, not of the type"
                f" {type(value).__name__}"
            )
    return arguments


def _value_id(caller: Caller, name: str) -> str:
    """The id of a stored value, which belongs to one conversation of one caller.

    The hash makes it unique. It ends with the name in a form that may stand in a URL, since ids
    are part of paths.
    """
    text = json_text.dumps([*caller.thread, name])
    shown = urlsafe_b64encode(name[:_SHOWN_NAME_CHARS].encode("utf-8", "replace")).decode()
    return f"{VALUES}{hashlib.sha256(text).hexdigest()[:32]}-{shown.rstrip('=')}"


def name_of_value(value_id: str) -> str:
    """The name under which a program stored a value; cut if it is long."""
    shown = value_id.removeprefix(VALUES).partition("-")[2]
    return urlsafe_b64decode(shown + "=" * (-len(shown) % 4)).decode()
