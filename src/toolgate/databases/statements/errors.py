"""Distinguishes errors of a statement from errors of its database."""

import sqlite3
from typing import Any, Final

SQLITE_VALUE_MB: Final = 1
"""Largest value or row in MB that a statement may read or create in SQLite (chosen)."""

_CLASSES: Final = frozenset({"0A", "21", "22", "23", "25", "2F", "42", "44", "54"})
"""Classes of SQLSTATE that are about a statement: https://www.postgresql.org/docs/current/errcodes-appendix.html"""

_SQLITE: Final = frozenset(
    {
        sqlite3.SQLITE_ERROR,
        sqlite3.SQLITE_AUTH,
        sqlite3.SQLITE_MISMATCH,
        sqlite3.SQLITE_RANGE,
        sqlite3.SQLITE_READONLY,
        sqlite3.SQLITE_TOOBIG,
    }
)
_ORACLE: Final = (range(900, 1000), range(1400, 1500), range(1700, 1900), range(6502, 6600))


def fault_of_statement(error: BaseException) -> str:
    """The error of a statement in the words of its database; empty for other errors."""
    reason = _first_line(error)
    if isinstance(error, sqlite3.Error | sqlite3.Warning):
        code: int | None = getattr(error, "sqlite_errorcode", None)
        if code is None:  # Python itself refuses it: more than one statement, a NUL byte
            return reason if isinstance(error, sqlite3.ProgrammingError | sqlite3.Warning) else ""
        return reason if code & 0xFF in _SQLITE else ""
    state: object = getattr(error, "sqlstate", None)
    if isinstance(state, str):
        return reason if state[:2] in _CLASSES else ""
    number: object = getattr(error.args[0], "code", None) if error.args else None
    if isinstance(number, int):
        return reason if any(number in item for item in _ORACLE) else ""
    names = {kind.__name__ for kind in type(error).__mro__}
    return reason if names & {"ProgrammingError", "DataError", "NotSupportedError"} else ""


def hint_of(error: BaseException) -> str:
    """The hint of the database as a sentence; empty if there is none."""
    if getattr(error, "sqlite_errorcode", None) == sqlite3.SQLITE_TOOBIG:
        return (
            f"A value or a row may have {SQLITE_VALUE_MB} MB: make shorter values, or leave out "
            "the columns with longer ones."
        )
    diagnosis: Any = getattr(error, "diag", None)
    hint: object = getattr(diagnosis, "message_hint", None)
    return f"{hint.rstrip('.')}." if isinstance(hint, str) and hint else ""


def _first_line(error: BaseException) -> str:
    return next(iter(str(error).strip().splitlines()), "") or type(error).__name__
