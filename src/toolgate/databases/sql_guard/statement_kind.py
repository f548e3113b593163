"""The kind of a statement from its first words: query, plan, or database information."""

import re
from collections.abc import Sequence
from typing import Final

from toolgate.databases.sql_guard.dialects import Dialect, words
from toolgate.databases.sql_guard.lexer import SqlToken
from toolgate.databases.sql_guard.refused import StatementRefusedError

READ_PRAGMAS: Final = frozenset(
    {"table_info", "table_xinfo", "index_list", "index_info", "index_xinfo", "foreign_key_list"}
)
"""SQLite pragmas that only return schema information."""

_PLAN_OPTIONS: Final = frozenset(
    {"verbose", "costs", "settings", "generic_plan", "buffers", "timing", "summary", "memory"}
)
_SHOWN_BY_MYSQL: Final = words(
    """
    tables databases schemas columns fields index indexes keys create table view variables
    status warnings errors collation character charset engines plugins events triggers full
    global session extended grants count set procedure function
    """
)
_NOT_SHOWN: Final = frozenset({"binary", "master", "replica", "slave", "binlog", "relaylog"})
_NO_SQL: Final = {
    "host": "It is a command of a client, not SQL",
    "call": "A procedure may do anything",
    "begin": "A block of code may do anything",
    "declare": "A block of code may do anything",
    "do": "A block of code may do anything",
    "exec": "It runs a procedure or a text",
    "execute": "It runs a procedure or a text",
}


_FILE: Final = re.compile(
    r"[/\\:*?~]|\.(?:csv|tsv|txt|parquet|json|jsonl|ndjson|geojson|xlsx?|arrow|feather|avro|orc|"
    r"gz|zst|bz2|zip|db|sqlite|duckdb|ddb|log|shp|gpkg|fgb)$",
    re.IGNORECASE,
)


def looks_like_file(name: str) -> bool:
    """Whether DuckDB would read a file for a table of this name."""
    return _FILE.search(name) is not None


def is_question(pieces: Sequence[SqlToken], dialect: Dialect) -> bool:
    """Whether a statement asks for database information: SHOW, PRAGMA, DESCRIBE.

    Raises:
        StatementRefusedError: The statement begins like that, but may do something else.
    """
    first = pieces[0]
    if first.is_word("pragma"):
        return _is_pragma(pieces, dialect)
    if first.is_word("show"):
        return _is_show(pieces, dialect)
    if first.is_word("describe", "desc"):
        return _is_describe(pieces, dialect)
    return False


def _is_pragma(pieces: Sequence[SqlToken], dialect: Dialect) -> bool:
    rest = list(pieces[1:])
    if dialect.name != "sqlite":
        raise StatementRefusedError("setting", "PRAGMA changes settings")
    if len(rest) > 2 and rest[1].is_sign("."):
        rest = rest[2:]
    name = rest[0].value.lower() if rest and rest[0].is_named else ""
    if name not in READ_PRAGMAS:
        allowed = ", ".join(sorted(READ_PRAGMAS))
        raise StatementRefusedError(
            "setting", f"PRAGMA {name} may change something; allowed: {allowed}"
        )
    shape = [piece.text if piece.kind == "sign" else piece.kind for piece in rest[1:]]
    if shape not in (["(", "word", ")"], ["(", "name", ")"], ["(", "string", ")"]):
        raise StatementRefusedError("setting", f"PRAGMA {name} needs exactly one name in brackets")
    return True


def _is_show(pieces: Sequence[SqlToken], dialect: Dialect) -> bool:
    rest = pieces[1:]
    if dialect.name in {"postgres", "duckdb"}:
        if rest and all(piece.is_named or piece.is_sign(".") for piece in rest) and len(rest) < 8:
            _refuse_file(rest, dialect)
            return True
        raise StatementRefusedError("unknown", "SHOW is allowed with the name of one setting")
    if dialect.name != "mysql":
        raise StatementRefusedError("unknown", f"SHOW is not a statement of {dialect.name}")
    words = [piece for piece in rest if piece.kind == "word"]
    if not words or words[0].value not in _SHOWN_BY_MYSQL:
        raise StatementRefusedError("unknown", "This kind of SHOW is not known to be harmless")
    if any(piece.value in _NOT_SHOWN for piece in words):
        raise StatementRefusedError("unknown", "This kind of SHOW is not known to be harmless")
    if any(piece.kind == "sign" and piece.text not in ".@" for piece in rest):
        raise StatementRefusedError("unknown", "SHOW is allowed with names and LIKE")
    return True


def _is_describe(pieces: Sequence[SqlToken], dialect: Dialect) -> bool:
    rest = pieces[1:]
    if dialect.name in {"mysql", "duckdb"} and _is_dotted_name(rest):
        _refuse_file(rest, dialect)
        return True
    if dialect.name == "mysql" and rest:
        return False  # another word for EXPLAIN
    raise StatementRefusedError("unknown", "DESCRIBE is not allowed here; use table_info")


def _is_dotted_name(pieces: Sequence[SqlToken]) -> bool:
    """Whether the tokens are a name, qualified or not."""
    return (
        len(pieces) in {1, 3, 5}
        and all(piece.is_named for piece in pieces[::2])
        and all(piece.is_sign(".") for piece in pieces[1::2])
    )


def _refuse_file(pieces: Sequence[SqlToken], dialect: Dialect) -> None:
    name = "".join(piece.value for piece in pieces)
    if dialect.name == "duckdb" and looks_like_file(name):
        raise StatementRefusedError("file", f"The name {name[:80]} may be that of a file")


def without_explain(pieces: Sequence[SqlToken], dialect: Dialect) -> Sequence[SqlToken]:
    """Return the statement after EXPLAIN; the same tokens if there is no EXPLAIN.

    Raises:
        StatementRefusedError: The statement would be run, or the plan be written somewhere.
    """
    is_lead = pieces[0].is_word("explain") or (
        dialect.name == "mysql" and pieces[0].is_word("describe", "desc")
    )
    if not is_lead:
        return pieces
    at = 1
    if dialect.name == "oracle":
        raise StatementRefusedError(
            "writes", "EXPLAIN PLAN writes into a table; use the tool explain"
        )
    if dialect.name == "sqlite":
        if [piece.value for piece in pieces[1:3]] == ["query", "plan"]:
            at = 3
    elif at < len(pieces) and pieces[at].is_sign("("):
        at = _behind_options(pieces)
    else:
        while at < len(pieces) and pieces[at].is_word("verbose", "format", "extended"):
            at += 1
            if pieces[at - 1].value == "format":
                at += 1 + (at < len(pieces) and pieces[at].is_sign("="))
    if any(piece.is_word("analyze", "analyse") for piece in pieces[1 : at + 1]):
        raise StatementRefusedError("runs", "EXPLAIN ANALYZE runs the statement")
    if at >= len(pieces):
        raise StatementRefusedError("empty", "EXPLAIN of nothing")
    return pieces[at:]


def _behind_options(pieces: Sequence[SqlToken]) -> int:
    """Return where the statement begins after `EXPLAIN ( … )`."""
    at, is_name = 2, True
    while at < len(pieces) and not pieces[at].is_sign(")"):
        piece = pieces[at]
        if piece.is_word("analyze", "analyse", "wal", "serialize"):
            raise StatementRefusedError("runs", "EXPLAIN ANALYZE runs the statement")
        if piece.is_word("select", "with", "values"):
            return 1  # brackets of the query itself
        if is_name and not piece.is_word("format", *_PLAN_OPTIONS):
            raise StatementRefusedError("unknown", f"EXPLAIN with {piece.text[:40]!r} is not known")
        is_name = piece.is_sign(",")
        at += 1
    return at + 1


def refuse_beginning(pieces: Sequence[SqlToken], dialect: Dialect) -> None:
    """Refuse a statement that does not begin like a query.

    Raises:
        StatementRefusedError: The statement does not begin like a query.
    """
    at = 0
    while at < len(pieces) and pieces[at].is_sign("("):
        at += 1
    first = pieces[at] if at < len(pieces) else pieces[0]
    queries = ["select", "with", "values", "table"]
    if dialect.name == "duckdb":
        queries.append("from")
    if first.is_word(*queries):
        return
    word = first.text[:40].upper() if first.kind == "word" else repr(first.text[:40])
    why = _NO_SQL.get(first.value) if first.kind == "word" else None
    raise StatementRefusedError(
        "no query", why or f"The statement begins with {word}; allowed are queries"
    )


def as_query(plain: str, pieces: Sequence[SqlToken]) -> str:
    """Return the query with `TABLE name` as SELECT, because the parser does not know it."""
    if not pieces[0].is_word("table"):
        return plain
    if not _is_dotted_name(pieces[1:]):
        raise StatementRefusedError("unknown", "TABLE is allowed with the name of one table")
    return f"SELECT * FROM {plain[len(pieces[0].text) :]}"  # noqa: S608 -- parsed, never run
