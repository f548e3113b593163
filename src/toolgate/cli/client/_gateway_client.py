"""A client of the REST API of a gateway, running or in this process."""

import http.client
import json
from collections.abc import Collection, Sequence
from datetime import datetime
from typing import cast
from urllib.parse import quote, urlencode

import anyio

from toolgate.base.processes.run_file import RunFile
from toolgate.cli.client._http_exchange import Exchange
from toolgate.errors import ServerDownError, ToolgateError
from toolgate.types import Json, json_object

STARTUP_TIMEOUT_S = 30.0
"""Seconds to wait for servers that were never listed (chosen: `npx` may download a package)."""

_POLL_S = 0.05
"""Seconds between two checks of the state of the servers (chosen)."""

_HINTS_FOR_PEOPLE = {"Find tools with tool_discovery.": "Find tools with: toolgate search"}
"""Hints written for models, and their replacements for people."""

_ITS_LOG = "the log of the gateway says"
_VERBOSE = "the same command with --verbose says"
"""Replaces a reference to the log when the gateway stops with the command and leaves no log."""


class GatewayResponseError(ToolgateError):
    """The gateway responded with an error; `kind` is its code."""

    def __init__(self, message: str, *, kind: str, hint: str = "") -> None:
        super().__init__(message, hint=hint)
        self.kind = kind


def path_of(*segments: str, **query: object) -> str:
    """Return a path below `/api/v1/`, with names quoted and non-empty values as its query.

    >>> path_of("tokens", "a/b", "rotate"), path_of("tools", server="github", group="")
    ('tokens/a%2Fb/rotate', 'tools?server=github')
    """
    path = "/".join(quote(segment, safe="") for segment in segments)
    parameters = {name: value for name, value in query.items() if value}
    return f"{path}?{urlencode(parameters)}" if parameters else path


class GatewayClient:
    """Requests of commands to a gateway.

    Args:
        exchange: Sends a request.
        run: The run file of the gateway; None if it was started for this command.
        started_at: When it was started for this command, in ISO 8601.
    """

    def __init__(self, exchange: Exchange, run: RunFile | None, *, started_at: str = "") -> None:
        self._exchange = exchange
        self._started_at = started_at
        self.running = run
        """The run file of the gateway; None if it was started for this command."""

    async def request(self, method: str, path: str, body: Json | None = None) -> Json:
        """Send a request below `/api/v1/` and return the response.

        Raises:
            GatewayResponseError: The response is an error.
        """
        status, content = await self._exchange(method, f"/api/v1/{path}", body)
        try:
            answer: object = json.loads(content) if content else {}
        except ValueError:
            answer = None
        if status < http.client.BAD_REQUEST and isinstance(answer, dict):
            return cast("Json", answer)
        error = json_object(json_object(answer).get("error"))
        message = str(error.get("message") or f"The gateway responded with status {status}.")
        if self.running is None:
            message = message.replace(_ITS_LOG, _VERBOSE)
        hint = str(error.get("hint") or "")
        raise GatewayResponseError(
            message,
            kind=str(error.get("code") or ""),
            hint=_HINTS_FOR_PEOPLE.get(hint, hint),
        )

    async def rows(self, name: str, **query: object) -> list[Json]:
        """Return the list from `/api/v1/NAME`, which the response has under the same name."""
        return cast("list[Json]", (await self.request("GET", path_of(name, **query)))[name])

    async def servers(self) -> list[Json]:
        """Return all servers with their state."""
        return await self.rows("servers")

    async def wait_for_servers(self, name: str | None = None) -> list[Json]:
        """Return all servers, once each (or the named one) has been listed or has failed.

        Waits 30 s at most. With a running gateway, it waits only for a named server.
        """
        servers = await self.servers()
        if self.running is None or name is not None:
            with anyio.move_on_after(STARTUP_TIMEOUT_S):
                while not all(
                    _is_settled(server, self._started_at)
                    for server in servers
                    if name in {None, server["name"]}
                ):
                    await anyio.sleep(_POLL_S)
                    servers = await self.servers()
        return servers

    async def discover(self, search: Json) -> Json:
        """Return tools for a search: `query`, `limit`, `servers`, `threshold` and so on.

        If nothing matches while servers of a running gateway start for the first time, waits for
        them, 30 s at most.
        """
        answer = await self._discover(search)
        if self.running is None or has_matches(answer) or not await self._is_starting():
            return answer
        await self._wait_while_starting()
        return await self._discover(search)

    async def _wait_while_starting(self, names: Collection[str] = ()) -> None:
        """Wait until these servers, or all, have been listed or have failed, 30 s at most."""
        with anyio.move_on_after(STARTUP_TIMEOUT_S):
            is_starting = True
            while is_starting:
                await anyio.sleep(_POLL_S)
                is_starting = await self._is_starting(names)

    async def _discover(self, search: Json) -> Json:
        answer = await self.request("POST", "discover", search)
        if self.running is None:
            texts = {name: answer[name] for name in ("notice", "text") if name in answer}
            answer |= {name: str(text).replace(_ITS_LOG, _VERBOSE) for name, text in texts.items()}
        return answer

    async def _is_starting(self, names: Collection[str] = ()) -> bool:
        """Whether one of these servers, or any, connects for the first time."""
        return any(
            server["state"] == "connecting" and server["listed_at"] is None
            for server in await self.servers()
            if not names or server["name"] in names
        )

    async def describe(self, keys: Sequence[str], *, indexed: bool = False) -> Json:
        """Return full definitions by tool key, optionally with the texts that are embedded.

        Waits for servers that start just now as `execute` does.
        """
        body: Json = {"toolKeys": list(keys)}
        if indexed:
            body["indexed"] = True
        return await self._once_listed("describe", body, keys)

    async def execute(self, key: str, arguments: Json, shape: Json | None = None) -> Json:
        """Run a tool and return its unchanged result.

        If its server starts for the first time, as right after `toolgate start`, waits for it,
        30 s at most.
        """
        body = {"toolKey": key, "arguments": arguments, **(shape or {})}
        return await self._once_listed("execute", body, [key])

    async def _once_listed(self, path: str, body: Json, keys: Sequence[str]) -> Json:
        """Send a request; again once the servers of its tools are listed, if they were not."""
        # An exposed name does not say which server it belongs to: then all of them count.
        servers = {key.partition(":")[0] for key in keys if ":" in key}
        try:
            return await self.request("POST", path, body)
        except GatewayResponseError as error:
            # Nothing was sent to a server that is not there, so the call can be repeated.
            if self.running is None or error.kind != ServerDownError.code:
                raise
            if not await self._is_starting(servers):
                raise
        await self._wait_while_starting(servers)
        return await self.request("POST", path, body)

    async def enrich(self, body: Json) -> Json:
        """Return the rules and tools for a `prompt`, or for `queries`."""
        return await self.request("POST", "enrich", body)

    async def remove_credentials(
        self, server: str, *, user: str = "", project: str = "", kind: str = ""
    ) -> bool:
        """Delete the stored credentials for a server; return whether there were any."""
        path = path_of("servers", server, "credentials", user=user, project=project, kind=kind)
        return bool((await self.request("DELETE", path))["removed"])

    async def complete_approval_id(self, prefix: str) -> str:
        """Return the id of the only approval that begins with `prefix`, or else `prefix`."""
        approvals = await self.rows("approvals", state="all", limit=1_000)
        ids = {
            str(approval["id"]) for approval in approvals if str(approval["id"]).startswith(prefix)
        }
        return ids.pop() if len(ids) == 1 else prefix


def has_matches(answer: Json) -> bool:
    """Whether a search has a match; pinned tools and weak matches do not count."""
    hits = cast("list[Json]", answer.get("results") or [])
    return any(hit.get("source") != "core" and not hit.get("weak") for hit in hits)


def _is_settled(server: Json, since: str) -> bool:
    """Whether a server is ready or failed, and listed after `since` (ISO 8601) if that is given."""
    if server["state"] in {"degraded", "down", "disabled", "asleep"}:
        return True
    listed_at = server["listed_at"]
    if listed_at is None or server["state"] == "connecting":
        return False
    return not since or datetime.fromisoformat(listed_at) >= datetime.fromisoformat(since)
