"""Check whether imported servers work, and suggest a command for those that do not."""

import shutil
from collections.abc import Sequence
from dataclasses import dataclass

import anyio

from toolgate.app.failure_causes import cause_of
from toolgate.cli.client._open_gateway import open_gateway
from toolgate.settings import expand_home
from toolgate.settings.clients.choices import Choice
from toolgate.types import Json

_SETTLE_S = 20.0
"""Seconds for servers once the gateway responds, which itself waits for them (chosen)."""

_READY = "ready"
_CAN_START = "can start"
_FINE = (_READY, _CAN_START)


@dataclass(frozen=True, kw_only=True)
class Readiness:
    """State of a server that was just imported."""

    name: str
    """Its name in Toolgate."""

    state: str
    """Words that can follow a number: `ready`, `needs a login`, `needs NOTION_TOKEN`."""

    found: str = ""
    """Why it cannot be used, as a sentence; empty if the state makes it clear."""

    next_step: str = ""
    """What to do, as a command where there is one; empty if nothing."""


def known_readiness(choice: Choice) -> Readiness:
    """Return what is known about a server without starting it."""
    name, config = choice.name, choice.server.config
    if choice.needs:
        step = f"Set it where Toolgate runs: export {choice.needs}=VALUE"
        return Readiness(name=name, state=f"needs {choice.needs}", next_step=step)
    if choice.off:
        step = f"Write the value in [server.{name}]. Then: toolgate servers enable {name}"
        return Readiness(
            name=name, state="disabled", found=f"disabled; {choice.off}.", next_step=step
        )
    if config.get("disabled") is True or config.get("enabled") is False:
        return Readiness(name=name, state="disabled")
    command = config.get("command")
    is_known = isinstance(command, str) and "$" not in command
    if is_known and shutil.which(expand_home(str(command))) is None:
        return Readiness(
            name=name,
            state=f"needs the program {command}",
            next_step=f"Install {command}. Then: toolgate servers test {name}",
        )
    return Readiness(name=name, state=_CAN_START)


async def check_servers(choices: Sequence[Choice]) -> list[Readiness]:
    """Start the servers and check them; after a minute, they count as still starting.

    Raises:
        ToolgateError: The gateway for it cannot be started.
    """
    known = {choice.name: known_readiness(choice) for choice in choices}
    waiting = [name for name, readiness in known.items() if readiness.state == _CAN_START]
    if waiting:
        async with open_gateway(connect=waiting) as gateway:
            rows = await gateway.servers()
            with anyio.move_on_after(_SETTLE_S):
                while not {str(row["name"]) for row in rows} >= {*waiting}:
                    await anyio.sleep(0.2)  # a running gateway still reads the changed file
                    rows = await gateway.servers()
                for name in waiting:
                    rows = await gateway.wait_for_servers(name)
        by_name = {str(row["name"]): row for row in rows}
        known |= {name: _readiness_of(by_name[name]) for name in waiting if name in by_name}
    return list(known.values())


def summary_of(servers: Sequence[Readiness]) -> str:
    """Say how many servers are ready, and what the others need, in one sentence."""
    counts: dict[str, int] = {}
    for server in servers:
        counts[server.state] = counts.get(server.state, 0) + 1
    order = sorted(counts, key=lambda state: state not in _FINE)
    parts = [f"{counts[state]} {_in_number(state, counts[state])}" for state in order]
    total = f"{len(servers)} server" if len(servers) == 1 else f"{len(servers)} servers"
    return f"{total}: {', '.join(parts)}."


def _readiness_of(row: Json) -> Readiness:
    name, state = str(row["name"]), str(row["state"])
    if state in {_READY, "degraded", "asleep"}:
        return Readiness(name=name, state=_READY)
    error = str(row.get("last_error") or "")
    if row.get("login_hint"):
        return Readiness(
            name=name, state="needs a login", next_step=f"toolgate servers login {name}"
        )
    if state == "connecting" and not error:
        return Readiness(
            name=name, state="still starting", next_step=f"toolgate servers test {name}"
        )
    cause = cause_of(row)
    return Readiness(name=name, state="failed", found=cause.found, next_step=cause.hint)


def _in_number(state: str, count: int) -> str:
    return state.replace("needs ", "need ", 1) if count > 1 else state
