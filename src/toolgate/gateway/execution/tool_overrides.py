"""The arguments that are sent if a tool has an override."""

import re
from collections.abc import Mapping
from typing import cast

from toolgate.catalog import CatalogEntry
from toolgate.errors import ArgumentError
from toolgate.types import DEFAULT_PROJECT, Caller, Json

_OF_CALLER = re.compile(r"\$\{user\.([a-z]+)\}")


def sent_arguments(caller: Caller, entry: CatalogEntry, arguments: Json) -> Json:
    """Return the arguments for the server, with fixed values and missing defaults added.

    Raises:
        ArgumentError: The call has a parameter that the override fixes or hides, or a value
            needs an unknown fact about the caller.
    """
    if entry.override is None or not entry.override.parameters:
        return arguments
    sent = dict(arguments)
    for name, change in entry.override.parameters.items():
        if change.is_hidden and name in sent:
            # Dropping it silently would run the tool with something the caller did not mean.
            raise ArgumentError(
                f"{entry.shown_key} has no parameter {name!r}.",
                hint="Leave it out: the gateway decides what is sent for it.",
            )
        value = change.value if change.value is not None else change.default
        if value is not None and name not in sent:
            sent[name] = _filled(value, caller, entry)
    return sent


def _filled(value: object, caller: Caller, entry: CatalogEntry) -> object:
    if isinstance(value, str):
        if whole := _OF_CALLER.fullmatch(value):
            return _of_caller(whole[1], caller, entry)
        return _OF_CALLER.sub(lambda match: _as_text(_of_caller(match[1], caller, entry)), value)
    if isinstance(value, Mapping):
        items = cast("Mapping[str, object]", value).items()
        return {name: _filled(item, caller, entry) for name, item in items}
    if isinstance(value, list):
        return [_filled(item, caller, entry) for item in cast("list[object]", value)]
    return value


def _of_caller(name: str, caller: Caller, entry: CatalogEntry) -> str | list[str]:
    """A verified fact about the caller; never what a client says about itself."""
    identity = caller.identity
    project = "" if caller.project_id == DEFAULT_PROJECT else caller.project_id
    values: dict[str, str | list[str]] = {
        "id": identity.caller_id,
        "name": identity.user,
        "project": project,
        "roles": list(identity.roles),
        "groups": list(identity.groups),
    }
    value = values[name]
    if value == "":
        raise ArgumentError(
            f"{entry.shown_key} needs the {name} of its caller, and it is not known.",
            hint="Call it with a token that belongs to a user or project; "
            "see: toolgate tokens create --help",
        )
    return value


def _as_text(value: str | list[str]) -> str:
    return value if isinstance(value, str) else ",".join(value)
