"""Built-in functions of programs: search, describe, select, store, load."""

import hashlib
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

__all__ = ["HELPER_FUNCTIONS", "VALUES", "ProgramHelpers", "is_helper", "name_of_value"]

VALUES: Final = "value-"
"""Prefix of the ids of stored values."""

_SHOWN_NAME_CHARS: Final = 80
"""Characters of a value's name that people see (chosen)."""

_MAX_VALUE_BYTES: Final = 2**20
"""Bytes, as JSON, of a value that programs store for each other (chosen)."""

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

_PARAMETERS: Final = {
    "search": ("query", "limit"),
    "describe": ("function",),
    "select": ("value", "filter"),
    "store": ("name", "value"),
    "load": ("name",),
}


def is_helper(function: str) -> bool:
    """Whether a function without a module is one of these."""
    return function in _PARAMETERS


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
        arguments = dict(zip(_PARAMETERS[call.function], call.args, strict=False)) | call.kwargs
        match call.function:
            case "search":
                limit = int(arguments.get("limit", 5))
                return await self._search(caller, str(arguments["query"]), limit, names)
            case "describe":
                return self._described(caller, str(arguments.get("function")), names)
            case "select":
                jq_filter = str(arguments.get("filter"))
                await self._jq.check(jq_filter)
                return await self._jq.apply(jq_filter, arguments.get("value"))
            case "load":
                return await self._load(caller, str(arguments.get("name")))
            case _:
                name, value = str(arguments.get("name")), arguments.get("value")
                return await self._keep(caller, name, value, keep_s)

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
            raise ValueError(f"a stored value may have {_MAX_VALUE_BYTES:,} bytes as JSON")
        await self._store.results.save(
            StoredResult(
                handle=_value_id(caller, name),
                project_id=caller.project_id,
                caller_id=caller.caller_id,
                body=body,
                expires_at=utc_now(plus_s=keep_s),
            )
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


def _value_id(caller: Caller, name: str) -> str:
    """The id of a stored value, which belongs to one conversation of one caller.

    It ends with the name, for people; the hash makes it unique.
    """
    text = json_text.dumps([*caller.thread, name])
    return f"{VALUES}{hashlib.sha256(text).hexdigest()[:32]}-{name[:_SHOWN_NAME_CHARS]}"


def name_of_value(value_id: str) -> str:
    """The name under which a program stored a value."""
    return value_id.removeprefix(VALUES).partition("-")[2]
