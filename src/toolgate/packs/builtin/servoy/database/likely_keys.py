"""Guesses which columns are foreign keys, from names and types alone.

A column points to a table if it is named like the table's key (`orders.customerid` and
`customers.customerid`), or like the table and its key (`customer_id`, `billing_customer_id`,
`idCustomer`, and `customers.id`), and their types are comparable. Generic key names alone, such
as two columns `id`, never make a pair: nearly every table has one.
"""

import re
from collections.abc import Iterator, Sequence
from typing import Final

from toolgate.packs.builtin.servoy.database.table import (
    DbColumn,
    DbTable,
    ReferringColumn,
    group_of,
)

_GENERIC: Final = frozenset(
    {"id", "uuid", "guid", "key", "pk", "code", "no", "nr", "number", "oid", "rowid", "name"}
)
"""Names of keys that do not identify their table."""

_KEY_WORDS: Final = frozenset({"id", "uuid", "guid", "key", "pk", "fk", "code", "no", "nr", "ref"})
"""Words that a column adds to the name of the table that it points to."""

_ENDINGS: Final = (("ies", "y"), ("sses", "ss"), ("ches", "ch"), ("shes", "sh"), ("xes", "x"))
"""Endings of English plurals, with those of their singulars."""

_PEOPLE: Final = frozenset({"user", "users", "staff", "employee", "employees", "person", "people"})
_BY: Final = re.compile(r"(?:\w+_by|owner|author|creator)(?:_?id)?|(?:created|modified)by(?:id)?")
_SELF: Final = frozenset(
    {"parent", "reports_to", "parent_id", "parentid", "reportsto", "replaced_by"}
)
_WORD: Final = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+")


def potential_keys(tables: Sequence[DbTable]) -> list[ReferringColumn]:
    """Return the likely foreign keys that are not declared, most likely first."""
    owners = _Owners(tables)
    ranked: list[tuple[int, ReferringColumn]] = []
    for table in tables:
        for column in table.columns:
            if column.references:
                continue
            guess = next(owners.guesses(table, column), None)
            if guess is not None:
                rank, target, key = guess
                ranked.append(
                    (
                        rank,
                        ReferringColumn(
                            table=table.name,
                            column=column.name,
                            target=target.name,
                            target_column=key.name,
                        ),
                    )
                )
    ranked.sort(key=lambda entry: entry[0])
    return [key for _, key in ranked]


class _Owners:
    """Tables with a single-column key, by the key's name and by their own."""

    def __init__(self, tables: Sequence[DbTable]) -> None:
        self._by_key: dict[str, list[DbTable]] = {}
        self._by_name: dict[str, DbTable] = {}
        self._by_ending: dict[str, list[tuple[int, DbTable]]] = {}
        self._people = [table for table in tables if _last_word(table.name) in _PEOPLE]
        for table in tables:
            if len(table.keys) != 1:
                continue
            self._by_key.setdefault(table.keys[0].name.casefold(), []).append(table)
            words = [word.lower() for word in _WORD.findall(table.name)]
            for at in range(len(words)):
                joined = "".join(words[at:])
                for name in {joined, _singular(joined)}:
                    if at == 0:
                        self._by_name.setdefault(name, table)
                    else:
                        self._by_ending.setdefault(name, []).append((at, table))

    def guesses(self, table: DbTable, column: DbColumn) -> Iterator[tuple[int, DbTable, DbColumn]]:
        """Yield what a column may point to, most likely first, with a rank."""
        name = column.name.casefold()
        is_own_key = any(key.name == column.name for key in table.keys)
        is_lone_key = is_own_key and len(table.keys) == 1
        if name not in _GENERIC:
            yield from self._called_like_a_key(table, column, is_lone_key=is_lone_key)
            yield from self._called_like_a_table(table, column, is_lone_key=is_lone_key)
        if len(table.keys) == 1 and not is_own_key and name in _SELF:
            yield from _comparable(3, table, column)
        if _BY.fullmatch(name) and len(self._people) == 1 and len(self._people[0].keys) == 1:
            yield from _comparable(3, self._people[0], column)

    def _called_like_a_key(
        self, table: DbTable, column: DbColumn, *, is_lone_key: bool
    ) -> Iterator[tuple[int, DbTable, DbColumn]]:
        candidates = [
            other
            for other in self._by_key.get(column.name.casefold(), ())
            if other.name != table.name
        ]
        if not candidates:
            return
        named = self._table_named(column.name, table)
        if named is not None and named in candidates:
            yield from _comparable(0, named, column)
        elif is_lone_key or named is not None:
            # Of tables with the same key, only the one with a matching name can be the target.
            return
        elif len(candidates) == 1:
            yield from _comparable(1, candidates[0], column)

    def _called_like_a_table(
        self, table: DbTable, column: DbColumn, *, is_lone_key: bool
    ) -> Iterator[tuple[int, DbTable, DbColumn]]:
        if is_lone_key:
            return
        words = [word.lower() for word in _WORD.findall(column.name)]
        with_key = any(word in _KEY_WORDS for word in words) or column.name.lower().endswith("id")
        target = self._table_named(column.name, table)
        if target is None or (target.name == table.name and not with_key):
            return
        rank = 2 if with_key else 4
        # A column `status` may be a text despite a table `status`: require the key's exact type.
        if with_key or column.type == target.keys[0].type:
            yield from _comparable(rank, target, column)

    def _table_named(self, column: str, beside: DbTable) -> DbTable | None:
        """Return the table that a column is named after, ignoring key words and roles before it."""
        words = [word.lower() for word in _WORD.findall(column)]
        has_key_word = any(word in _KEY_WORDS for word in words)
        while words and words[-1] in _KEY_WORDS and len(words) > 1:
            words.pop()
        while words and words[0] in _KEY_WORDS and len(words) > 1:
            words.pop(0)
        if len(words) == 1 and words[0].endswith("id") and len(words[0]) > 3:
            bare = words[0].removesuffix("id")
            if (table := self._find(bare, beside)) is not None:
                return table
        for at in range(len(words)):
            if (table := self._find("".join(words[at:]), beside)) is not None:
                # `units_on_order` is a count: the words before are a role only if there is a key
                # word.
                return table if at == 0 or has_key_word else None
        return None

    def _find(self, name: str, beside: DbTable) -> DbTable | None:
        """Return the table with a name, or one that ends in it: `auth_group` for `group`."""
        exact = self._by_name.get(name) or self._by_name.get(_singular(name))
        if exact is not None:
            return exact
        ending = self._by_ending.get(name) or self._by_ending.get(_singular(name)) or []
        if not ending:
            return None
        fewest = min(at for at, _ in ending)
        nearest = {table.name: table for at, table in ending if at == fewest}
        if len(nearest) > 1:  # tables of an application share a prefix
            start = beside.name.partition("_")[0]
            nearest = {
                key: table for key, table in nearest.items() if key.partition("_")[0] == start
            }
        return next(iter(nearest.values())) if len(nearest) == 1 else None


def _comparable(
    rank: int, target: DbTable, column: DbColumn
) -> Iterator[tuple[int, DbTable, DbColumn]]:
    key = target.keys[0]
    same_group = group_of(key) == group_of(column)
    # Texts of different lengths are different codes; numbers of different widths can be equal.
    same_length = group_of(key) != "text" or key.length == column.length
    if same_group and key.subtype == column.subtype and same_length:
        yield rank, target, key


def _singular(word: str) -> str:
    for ending, instead in _ENDINGS:
        if word.endswith(ending) and len(word) > len(ending) + 1:
            return word[: -len(ending)] + instead
    if word.endswith("s") and not word.endswith(("ss", "us", "is")) and len(word) > 3:
        return word[:-1]
    return word


def _last_word(name: str) -> str:
    return _singular(_WORD.findall(name)[-1].lower()) if _WORD.search(name) else ""
