"""Keywords of PostgreSQL, and whether one is part of a clause or a function name in its position.

Most keywords are not reserved: `system`, `columns` or `passing` are also names that users can
give to functions. Such a word is part of the grammar only inside its clause.
https://www.postgresql.org/docs/18/sql-keywords-appendix.html
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from toolgate.databases.sql_guard.dialects import words
from toolgate.databases.sql_guard.lexer import SqlToken

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
"""Reserved keywords, which are not function, type or column names unless quoted."""

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
"""Keywords that precede an operand or a relation."""

_BEFORE_EXPRESSION: Final = words(
    """
    asymmetric by columns content document escape filter first groups key next over passing path
    range ref recursive repeatable rows set sets symmetric value within zone
    """
)
"""Unreserved keywords that can precede an expression; they can also be column names."""

_ALWAYS: Final = words(
    """
    select distinct from where and or not in exists any all some as on using lateral values union
    except intersect when then else case having limit offset between interval array row table only
    with for fetch group operator xmlnamespaces
    """
)
"""Keywords that can precede a parenthesis; none can be a function name. What follows OPERATOR is
checked in `operators`."""

_NO_OPERANDS: Final = RESERVED | _OPERATORS | _BEFORE_EXPRESSION

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
"""Words that are part of the grammar after one of these."""

_JOINS: Final = words("left right full inner outer cross natural")
_INSIDE: Final = {
    "columns": words("json_table columns xmltable"),
    "passing": words("xmltable xmlexists json_table json_value json_query json_exists"),
    "value": words("json_object json_objectagg"),
}
"""Words that are part of the grammar directly inside the parentheses of one of these."""
_CLAUSES: Final = words("select from where group having window order limit offset fetch union")
_SAMPLES: Final = words("system bernoulli")


@dataclass
class _BracketLevel:
    """State of an open bracket."""

    opener: int
    clause: str = ""
    seen: set[str] = field(default_factory=set[str])


class Clauses:
    """Tells which words of a statement are part of the grammar in their position."""

    def __init__(self, pieces: Sequence[SqlToken]) -> None:
        """Scan the brackets of a statement once."""
        self._pieces = pieces
        self._openers: list[int] = []
        self._grouping: list[bool] = []
        self._repeated: list[bool] = []
        levels = [_BracketLevel(-1)]
        for at, piece in enumerate(pieces):
            level = levels[-1]
            self._openers.append(level.opener)
            self._grouping.append(level.clause == "group")
            self._repeated.append(piece.kind == "word" and piece.value in level.seen)
            if piece.text in {"(", "["}:
                levels.append(_BracketLevel(at))
            elif piece.text in {")", "]"} and len(levels) > 1:
                levels.pop()
            elif piece.is_sign(","):
                level.seen.discard("value")
            elif piece.is_word("passing", "value"):
                level.seen.add(piece.value)
            elif piece.is_word(*_CLAUSES):
                level.clause = piece.value

    def opener(self, at: int) -> int:
        """Return the position of the innermost open bracket at a token; -1 if there is none."""
        return self._openers[at]

    def ends_operand(self, at: int) -> bool:
        """Whether a token ends an operand or relation, so that no expression can follow."""
        if at < 0:
            return False
        piece = self._pieces[at]
        if piece.kind == "sign":
            if piece.text == "]":
                return True
            return piece.text == ")" and not self._closes_distinct_on(at)
        if piece.kind != "word" or (at and self._pieces[at - 1].is_sign(".")):
            return True
        if piece.value in _OPERANDS:
            return True
        return piece.value not in _NO_OPERANDS

    def begins_expression(self, at: int) -> bool:
        """Whether an expression follows a word that is part of the grammar in its position."""
        piece, before = self._pieces[at], self._pieces[at - 1] if at else None
        if piece.kind != "word" or (before is not None and before.is_sign(".")):
            return False
        word = piece.value
        if word in RESERVED - _OPERANDS or word in {"like", "ilike", "between", "values"}:
            return True
        if word in {"path", "escape", "value", "passing"}:
            return self.ends_operand(at - 1)
        if word in {"key", "uescape"}:
            return before is not None and (before.is_sign("(") or before.kind == "string")
        return before is not None and self._is_behind(at)

    def is_clause(self, at: int) -> bool:
        """Whether a word before an opening bracket is part of the grammar, not a function."""
        piece, before = self._pieces[at], self._pieces[at - 1] if at else None
        word = piece.value
        if piece.kind != "word" or (before is not None and before.is_sign(".")):
            return False  # with a schema in front, any word is a name
        if word in _ALWAYS:
            return True
        if before is None:
            return False
        if word in {"cube", "rollup"}:
            return self._is_grouping_item(at)
        if word in {"like", "ilike"}:
            return self.ends_operand(at - 1 - before.is_word("not"))
        if word == "join":
            return before.is_word(*_JOINS) or self.ends_operand(at - 1)
        if word in {"over", "filter"}:
            return before.is_sign(")") and self.ends_operand(at - 1)
        if word in _SAMPLES:
            return before.is_word("tablesample")
        if word == "repeatable":
            return self._is_behind_sample(at)
        if word in _INSIDE:
            return self.ends_operand(at - 1) and self._is_inside(at) and not self._repeated[at]
        return self._is_behind(at)

    def _closes_distinct_on(self, at: int) -> bool:
        start = self.opener(at)
        return (
            start >= 2
            and self._pieces[start - 1].is_word("on")
            and self._pieces[start - 2].is_word("distinct")
        )

    def _is_behind(self, at: int) -> bool:
        word, before = self._pieces[at].value, self._pieces[at - 1]
        if word in {"content", "document"}:
            return before.is_sign("(") and self._pieces[at - 2].is_word("xmlparse", "xmlserialize")
        return word in _BEHIND and before.is_word(*_BEHIND[word])

    def _is_inside(self, at: int) -> bool:
        """Whether the innermost open bracket belongs to a clause that allows this word."""
        start = self.opener(at)
        return (
            start > 0
            and self._pieces[start - 1].is_word(*_INSIDE[self._pieces[at].value])
            and not self._pieces[start - 2].is_sign(".")
        )

    def _is_behind_sample(self, at: int) -> bool:
        method = self.opener(at - 1) - 1
        return (
            self._pieces[at - 1].is_sign(")")
            and method > 0
            and self._pieces[method].is_word(*_SAMPLES)
            and self._pieces[method - 1].is_word("tablesample")
        )

    def _is_grouping_item(self, at: int) -> bool:
        """Whether a token begins an item of GROUP BY or GROUPING SETS."""
        before, start = self._pieces[at - 1], self.opener(at)
        begins = before.is_word("by", "distinct", "all") or before.text in {",", "("}
        is_in_sets = start > 0 and self._pieces[start - 1].is_word("sets")
        return begins and (self._grouping[at] or is_in_sets)
