"""The options of the pack: `[packs.options.sql]`."""

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, Final, cast

from toolgate.databases.connections import QueryLimits
from toolgate.errors import SettingError

MOST_ROWS: Final = 10_000
"""Largest number of rows in a result, regardless of the options (chosen)."""


@dataclass(frozen=True, kw_only=True)
class SqlOptions:
    """The validated options."""

    connection: str = ""
    """The connection for calls that name none."""

    rows: int = 200
    """Rows in a result if the call gives no number."""

    max_rows: int = MOST_ROWS
    """Largest number of rows that a call may request."""

    max_bytes: int = 200_000
    """Bytes of the rows in a result, as JSON."""

    timeout_s: float = 0.0
    """Timeout of a statement in seconds; 0: only `timeout_s` of the connection, which always
    applies."""

    functions: tuple[str, ...] = ()
    """User-defined database functions that are known to be read-only: `shop.total_of`."""

    mask_literals: bool = False
    """Whether texts and numbers in statements are masked in the activity log."""

    sqlcl: bool = False
    """Whether a server with Oracle SQLcl is added for each Oracle connection."""

    sqlcl_command: str = "sql"
    """The command that starts SQLcl."""

    def limits(self, rows: int | None) -> QueryLimits:
        """Return the limits of a result."""
        row_limit = min(rows or self.rows, self.max_rows)
        return QueryLimits(
            rows=row_limit, size_bytes=self.max_bytes, timeout_s=self.timeout_s or None
        )


_LEAST: Final[Mapping[str, float]] = {"rows": 1, "max_rows": 1, "max_bytes": 1000, "timeout_s": 0}
_MOST: Final[Mapping[str, float]] = {
    "rows": MOST_ROWS,
    "max_rows": MOST_ROWS,
    "max_bytes": 50_000_000,
    "timeout_s": 3600,
}


def read_options(settings: Mapping[str, Any]) -> SqlOptions:
    """Read the options from the table.

    Raises:
        SettingError: A key is unknown, or a value is invalid.
    """
    options = {option.name: option for option in fields(SqlOptions)}
    values: dict[str, Any] = {}
    for key, value in settings.items():
        if key not in options:
            raise SettingError(
                f"packs.options.sql.{key} does not exist.",
                allowed=f"Allowed: {', '.join(options)}.",
                hint="Correct or remove it.",
            )
        values[key] = _checked(key, value, options[key].default)
    return SqlOptions(**values)


def _checked(key: str, value: Any, usual: Any) -> Any:
    if isinstance(usual, bool):
        if isinstance(value, bool):
            return value
        allowed = "true or false"
    elif isinstance(usual, int | float):
        lower, upper = _LEAST[key], _MOST[key]
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        if (
            is_number
            and lower <= value <= upper
            and (isinstance(usual, float) or value == int(value))
        ):
            return type(usual)(value)
        allowed = f"a number from {lower:g} to {upper:g}"
    elif isinstance(usual, tuple):
        texts = cast("list[object]", value) if isinstance(value, list | tuple) else [None]
        if all(isinstance(text, str) for text in texts):
            return tuple(texts)
        allowed = "a list of texts"
    else:
        if isinstance(value, str):
            return value
        allowed = "a text"
    raise SettingError(
        f"packs.options.sql.{key} is {value!r}.", allowed=f"Allowed: {allowed}.", hint="Correct it."
    )
