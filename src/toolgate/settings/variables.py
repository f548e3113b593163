"""Variables in values: `${NAME}`, `${env:NAME}`, `${NAME:-default}`, and other clients' notations.

`$${` stands for a literal `${`. `${secret:NAME}` stays as it is until a server is connected.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import cast

_VARIABLE = re.compile(
    r"\$\$\{"
    r"|\$\{(?P<kind>env:|input:|command:|config:)?(?P<name>[A-Za-z_][A-Za-z0-9_.-]*)"
    r"(?P<fallback>:-[^}]*)?\}"
    r"|\$\{(?P<separator>/|pathSeparator)\}"
)

_SECRET = re.compile(r"\$\{secret:([A-Za-z_][A-Za-z0-9_.-]*)\}")

_REFERENCES = re.compile(r"(?:(?:Bearer|Basic|token|Token) )?(?:\$\{[^}]*\})+")


class Missing(Exception):  # noqa: N818 - a signal between two functions of this folder
    """A value names a variable that is not set."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.name = name
        """The variable's name in the environment; unchanged if it can have no value."""


@dataclass(frozen=True, kw_only=True)
class Scope:
    """Values of variables for one place in one file."""

    environ: Mapping[str, str]
    """Environment variables by name."""

    values: Mapping[str, str]
    """Variables that editors define: `workspaceFolder`, `userHome` and so on."""


def replace(text: str, scope: Scope) -> str:
    """Replace the variables in a text.

    Raises:
        Missing: A variable is not set and has no default.
    """
    if "${" not in text:
        return text

    def value(match: re.Match[str]) -> str:
        return _value(match, scope)

    return _VARIABLE.sub(value, text)


def find_inputs(text: str) -> list[str]:
    """Return the ids of `${input:ID}` in a text."""
    return [match["name"] for match in _VARIABLE.finditer(text) if match["kind"] == "input:"]


def to_input_variable(input_id: str) -> str:
    """Return the environment variable for an input of VS Code: GITHUB_TOKEN for `github-token`."""
    return re.sub(r"[^A-Z0-9_]", "_", input_id.upper())


def is_reference(text: str) -> bool:
    """Whether a value consists only of variables, so that it may be shown."""
    return _REFERENCES.fullmatch(text) is not None


def fill_known(value: object, values: Mapping[str, str]) -> object:
    """Replace only the variables in `values` in a value and in all strings inside it."""
    if isinstance(value, str):
        return _VARIABLE.sub(
            lambda match: match[0] if match["kind"] else values.get(match["name"] or "", match[0]),
            value,
        )
    if isinstance(value, list):
        return [fill_known(item, values) for item in cast("list[object]", value)]
    if isinstance(value, dict):
        pairs = cast("Mapping[str, object]", value).items()
        return {name: fill_known(item, values) for name, item in pairs}
    return value


def find_secrets(value: object) -> list[str]:
    """Return the names of `${secret:NAME}` in a value and in all strings inside it."""
    if isinstance(value, str):
        return _SECRET.findall(value)
    if isinstance(value, Mapping):
        value = list(cast("Mapping[str, object]", value).values())
    if isinstance(value, list | tuple):
        items = cast("Sequence[object]", value)
        return [name for item in items for name in find_secrets(item)]
    return []


def fill_secrets(value: object, secrets: Mapping[str, str]) -> object:
    """Replace `${secret:NAME}` in a value and in all strings inside it; unknown names stay."""
    if isinstance(value, str):
        return _SECRET.sub(lambda match: secrets.get(match[1], match[0]), value)
    if isinstance(value, Mapping):
        pairs = cast("Mapping[str, object]", value).items()
        return {name: fill_secrets(item, secrets) for name, item in pairs}
    if isinstance(value, list | tuple):
        return [fill_secrets(item, secrets) for item in cast("Sequence[object]", value)]
    return value


def _value(match: re.Match[str], scope: Scope) -> str:
    if match[0] == "$${":
        return "${"
    if match["separator"]:
        return scope.values.get("pathSeparator", "/")
    kind, name, fallback = match["kind"], match["name"], match["fallback"]
    if kind in {"command:", "config:"}:
        raise Missing(match[0])
    if kind is None and name in scope.values:
        return scope.values[name]
    variable = to_input_variable(name) if kind == "input:" else name
    value = scope.environ.get(variable, "")
    if value or (fallback is None and variable in scope.environ):
        return value
    if fallback is None:
        raise Missing(variable)
    return fallback[2:]
