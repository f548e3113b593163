"""Keywords of PostgreSQL, and whether one is a clause or the name of a function where it stands.

Most keywords are not reserved: `system`, `columns` or `passing` are also names that users can give
to functions. Such a word is part of the grammar inside its clause only.
https://www.postgresql.org/docs/18/sql-keywords-appendix.html
"""

from collections.abc import Sequence
from typing import Final

from toolgate.databases.sql_guard.dialects import words
from toolgate.databases.sql_guard.lexer import SqlToken

__all__ = ["RESERVED", "TYPE_KEYWORDS", "begins_expression", "ends_operand", "is_clause", "opener"]

RESERVED: Final = words(
    """
    all analyse analyze and any array as asc asymmetric both case cast check collate column
    constraint create current_catalog current_date current_role current_time current_timestamp
    current_user default deferrable desc distinct do else end except false fetch for foreign from
    grant group having in initially intersect into lateral leading limit localtime localtimestamp
    not null offset on only or order placing primary references returning select session_user some
    symmetric system_user table then to trailing true union unique user using variadic when where
    window with
    """
)
"""No function, type or column can have such a name without quotes."""

TYPE_KEYWORDS: Final = words(
    """
    bigint bit boolean char character dec decimal float int integer interval json national nchar
    numeric real smallint time timestamp varchar
    """
)
"""Keywords that are always types of `pg_catalog`."""

_OPERANDS: Final = words(
    """
    current_catalog current_date current_role current_time current_timestamp current_user end false
    localtime localtimestamp null session_user system_user true user isnull notnull
    """
)
_OPERATORS: Final = words(
    """
    authorization binary collation concurrently cross freeze full ilike inner is join left like
    natural outer overlaps right similar tablesample verbose between exists values setof row out
    inout none
    """
)
"""Keywords behind which an operand or a relation follows."""

_BEFORE_EXPRESSION: Final = words(
    """
    asymmetric by columns content document escape filter first groups key next over passing path
    range ref recursive repeatable rows set sets symmetric value within zone
    """
)
"""Keywords that are not reserved and can stand before an expression; also names of columns."""

_ALWAYS: Final = words(
    """
    select distinct from where and or not in exists any all some as on using lateral values union
    except intersect when then else case having limit offset between interval array row table only
    with for fetch group operator xmlnamespaces
    """
)
"""Words behind which a bracket opens; none can be the name of a function. What stands behind
OPERATOR is looked at elsewhere."""

_BEHIND: Final = {
    "by": words("group order partition"),
    "sets": words("grouping"),
    "materialized": words("as not"),
    "first": words("fetch"),
    "next": words("fetch"),
    "zone": words("time"),
    "to": words("similar"),
    "varying": words("character char bit nchar"),
    "content": words("("),
    "document": words("("),
}
"""Words that belong to the grammar where they stand behind one of these."""

_JOINS: Final = words("left right full inner outer cross natural")
_PASSING: Final = words("xmltable xmlexists json_table json_value json_query json_exists")
_SAMPLES: Final = words("system bernoulli")


def opener(pieces: Sequence[SqlToken], at: int) -> int:
    """Where the innermost bracket opens that is still open before a token; -1: there is none."""
    depth = 0
    for before in range(at - 1, -1, -1):
        piece = pieces[before]
        if piece.kind != "sign":
            continue
        if piece.text in ")]":
            depth += 1
        elif piece.text in "([":
            if not depth:
                return before
            depth -= 1
    return -1


def ends_operand(pieces: Sequence[SqlToken], at: int) -> bool:
    """Whether an operand or a relation ends at a token, so that no expression begins behind it."""
    if at < 0:
        return False
    piece = pieces[at]
    if piece.kind == "sign":
        if piece.text == "]":
            return True
        return piece.text == ")" and not _closes_distinct_on(pieces, at)
    if piece.kind != "word":
        return True
    if at and pieces[at - 1].is_sign("."):
        return True
    if piece.value in _OPERANDS:
        return True
    return piece.value not in RESERVED | _OPERATORS | _BEFORE_EXPRESSION


def _closes_distinct_on(pieces: Sequence[SqlToken], at: int) -> bool:
    start = opener(pieces, at)
    return start >= 2 and pieces[start - 1].is_word("on") and pieces[start - 2].is_word("distinct")


def begins_expression(pieces: Sequence[SqlToken], at: int) -> bool:
    """Whether an expression follows a word that is part of the grammar where it stands."""
    piece, before = pieces[at], pieces[at - 1] if at else None
    if piece.kind != "word" or (before is not None and before.is_sign(".")):
        return False
    word = piece.value
    if word in RESERVED - _OPERANDS or word in {"like", "ilike", "between", "values"}:
        return True
    if word in {"path", "escape", "value", "passing"}:
        return ends_operand(pieces, at - 1)
    if word in {"key", "uescape"}:
        return before is not None and (before.is_sign("(") or before.kind == "string")
    return word in _BEHIND and before is not None and _is_behind(word, pieces, at)


def is_clause(pieces: Sequence[SqlToken], at: int) -> bool:
    """Whether a word right before an opening bracket is part of the grammar, not a function."""
    word, before = pieces[at].value, pieces[at - 1] if at else None
    if pieces[at].kind != "word":
        return False
    if word in _ALWAYS or word in {"cube", "rollup"}:
        return word in _ALWAYS or _is_grouping_item(pieces, at)
    if before is None:
        return False
    if word in {"like", "ilike"}:
        return ends_operand(pieces, at - 1 - before.is_word("not"))
    if word == "join":
        return before.is_word(*_JOINS) or ends_operand(pieces, at - 1)
    if word in {"over", "filter"}:
        return before.is_sign(")") and ends_operand(pieces, at - 1)
    if word in _SAMPLES:
        return before.is_word("tablesample")
    if word == "repeatable":
        return _is_behind_sample(pieces, at)
    if word == "columns":
        return ends_operand(pieces, at - 1) and _is_inside(
            pieces, at, words("json_table columns xmltable")
        )
    if word in {"passing", "value"}:
        inside = _PASSING if word == "passing" else words("json_object json_objectagg")
        return (
            ends_operand(pieces, at - 1)
            and _is_inside(pieces, at, inside)
            and not _is_repeated(pieces, at)
        )
    return word in _BEHIND and _is_behind(word, pieces, at)


def _is_behind(word: str, pieces: Sequence[SqlToken], at: int) -> bool:
    before = pieces[at - 1]
    if word in {"content", "document"}:
        return before.is_sign("(") and pieces[at - 2].is_word("xmlparse", "xmlserialize")
    return before.is_word(*_BEHIND[word])


def _is_inside(pieces: Sequence[SqlToken], at: int, clauses: frozenset[str]) -> bool:
    """Whether the innermost open bracket is that of one of these clauses."""
    start = opener(pieces, at)
    return start > 0 and pieces[start - 1].is_word(*clauses) and not pieces[start - 2].is_sign(".")


def _is_repeated(pieces: Sequence[SqlToken], at: int) -> bool:
    """Whether the same word stands before it since its bracket opened or its item began."""
    word, depth = pieces[at].value, 0
    for before in range(at - 1, -1, -1):
        piece = pieces[before]
        if piece.is_sign(")") or piece.is_sign("]"):
            depth += 1
        elif piece.is_sign("(") or piece.is_sign("["):
            if not depth:
                return False
            depth -= 1
        elif not depth and word == "value" and piece.is_sign(","):
            return False
        elif not depth and piece.is_word(word):
            return True
    return False


def _is_behind_sample(pieces: Sequence[SqlToken], at: int) -> bool:
    if not pieces[at - 1].is_sign(")"):
        return False
    method = opener(pieces, at - 1) - 1
    return (
        method > 0
        and pieces[method].is_word(*_SAMPLES)
        and pieces[method - 1].is_word("tablesample")
    )


def _is_grouping_item(pieces: Sequence[SqlToken], at: int) -> bool:
    """Whether an item of GROUP BY or of GROUPING SETS begins at a token."""
    before = pieces[at - 1] if at else None
    if before is None or not (
        before.is_word("by", "distinct", "all") or before.is_sign(",") or before.is_sign("(")
    ):
        return False
    depth = 0
    for position in range(at - 1, -1, -1):
        piece = pieces[position]
        if piece.is_sign(")") or piece.is_sign("]"):
            depth += 1
        elif piece.is_sign("(") or piece.is_sign("["):
            if not depth:
                return position > 0 and pieces[position - 1].is_word("sets")
            depth -= 1
        elif not depth and piece.is_word("by") and position:
            return pieces[position - 1].is_word("group")
        elif not depth and piece.is_word("select", "where", "from", "having"):
            return False
    return False
