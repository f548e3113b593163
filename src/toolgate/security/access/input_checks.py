"""Validates names, limits, expiry times and project settings."""

from collections.abc import Mapping
from datetime import UTC, datetime

from toolgate.base.ids import utc_text
from toolgate.base.plugins import available, check_options
from toolgate.errors import ArgumentError, ConfigError
from toolgate.security.access.limits import LIMITS
from toolgate.settings import Settings
from toolgate.types import Json, PluginSpec, json_array

# Maximum length of a name. Chosen: it has to fit into a table.
_MOST_NAME = 64


# Ten years in seconds.
_LONGEST_S = 3650 * 86_400.0


def check_name(name: str, kind: str) -> None:
    """Refuse an invalid name."""
    is_plain = name.isprintable() and name == name.strip() and "/" not in name
    if not name or len(name) > _MOST_NAME or not is_plain:
        raise ArgumentError(
            f"A {kind} cannot be called {name[:80]!r}.",
            allowed="Allowed: 1 to 64 characters that can be printed, without /.",
        )
    if name.startswith("tg_"):
        raise ArgumentError(
            f"A {kind} cannot be called {name[:11]!r}: tokens themselves begin like that.",
            hint="Name it after who uses it.",
        )


def checked_limits(limits: Mapping[str, int]) -> dict[str, int]:
    """Return the limits if all of them are valid."""
    for name, value in limits.items():
        if name not in LIMITS or type(value) is not int or not 0 <= value < 2**53:
            raise ArgumentError(
                f"The limit {name[:40]!r} is {value!r:.40}.",
                allowed=f"Allowed: {', '.join(LIMITS)}, each a whole number; 0 is no limit.",
            )
    return dict(limits)


def expiry_of(in_s: float | None) -> str | None:
    """Return the time at which a token expires; None for never."""
    if in_s is None:
        return None
    if not 0 < in_s <= _LONGEST_S:
        raise ArgumentError(
            f"A token cannot expire in {in_s:g} seconds.", allowed="Allowed: up to ten years."
        )
    return utc_text(datetime.fromtimestamp(datetime.now(UTC).timestamp() + in_s, UTC))


_PROJECT_KINDS: Mapping[str, tuple[type, str]] = {
    "servers": (list, "a list of names of servers"),
    "optimization": (str, "hybrid, bm25, off or another search that is configured"),
    "mode": (str, "auto, meta or all"),
    "pinned": (list, "a list of tool keys"),
    "budget_tokens": (int, "a whole number from 200 to 100,000, or 0: not set"),
    "read_only": (bool, "true or false"),
    "read_only_allow": (list, "a list of patterns of tools"),
    "audit": (str, "open or closed"),
    "shared_servers": (bool, "true or false"),
    "limits": (dict, "an object"),
}


_NO_SEARCHES = frozenset({"llm"})
"""Modules in `search/` that select from the results of another search."""


def project_searches() -> list[str]:
    """Return the names of the search strategies that a project may use, including plugins."""
    return [name for name in available("search") if name not in _NO_SEARCHES]


_OF_DEFAULT = ("optimization", "mode", "budget_tokens", "pinned")
"""Settings that can be changed for requests without a project."""


def check_project_settings(settings: Json) -> None:
    """Refuse invalid settings of a project."""
    for name, value in settings.items():
        kind, words = _PROJECT_KINDS.get(name, (None, ""))
        if kind is None:
            raise ArgumentError(
                f"A project has no setting {name[:40]!r}.",
                allowed=f"Allowed: {', '.join(_PROJECT_KINDS)}.",
            )
        fits = isinstance(value, kind) and (kind is bool or not isinstance(value, bool))
        if name == "optimization":
            searches = project_searches()
            fits, words = value in searches, f"one of {', '.join(searches)}"
        if name == "mode":
            fits = value in {"auto", "meta", "all"}
        if name == "budget_tokens":
            fits = fits and (value == 0 or 200 <= value <= 100_000)
        if name == "servers":
            fits = fits and all(isinstance(name, str) and name for name in json_array(value))
        if name == "audit":
            fits = value in {"open", "closed"}
        if name == "read_only_allow":
            fits = fits and all(isinstance(name, str) and name for name in json_array(value))
        if name == "pinned":
            keys = json_array(value)
            fits = fits and all(isinstance(key, str) and ":" in key for key in keys)
        if not fits:
            raise ArgumentError(
                f"{name} of a project is {value!r:.60}.", allowed=f"It must be {words}."
            )
    checked_limits(settings.get("limits", {}))


def check_default_settings(settings: Mapping[str, object]) -> None:
    """Refuse settings that apply to the whole gateway, not only to requests without a project."""
    for name, value in settings.items():
        if name not in _OF_DEFAULT and value not in (None, "", [], {}):
            raise ArgumentError(
                f"The default project has no setting {name[:40]!r}.",
                allowed=f"Allowed: {', '.join(_OF_DEFAULT)}.",
                hint="Set it for the whole gateway in toolgate.toml, or make a project.",
            )


def check_project_search(project: Json, settings: Settings) -> None:
    """Refuse a search that a project cannot use, or without which it could not reach any tool.

    Raises:
        ArgumentError: The search is refused; the message says what to change.
    """
    search = project.get("optimization") or settings.optimization
    mode = project.get("mode") or settings.mode
    if search == "off" and mode == "meta":
        raise ArgumentError(
            'mode of the project is "meta", and its search is off: its clients could reach no'
            " tool.",
            allowed='Allowed with the search off: mode = "auto" or "all".',
        )
    if name := project.get("optimization"):
        options = settings.search.options.get(name, {})
        spec = PluginSpec(
            name=name,
            setting="optimization of a project",
            options=options,
            options_at=f"search.options.{name}",
        )
        try:
            check_options("search", spec)
        except ConfigError as error:
            raise ArgumentError(
                f"optimization of a project is {name!r}, which cannot be used: {error.failed}",
                allowed=error.allowed,
                hint=error.hint,
            ) from error
