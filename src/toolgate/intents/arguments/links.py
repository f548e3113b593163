"""Read links from a message: the two linked things, and the columns that link them.

`from orders to customers`, `between orders.customer_id and customers.id`, `orders -> customers`,
`connect orders with customers on customer_id = id`, in seven languages.
"""

import re
from collections.abc import Mapping
from typing import Final

from toolgate.intents.arguments.message import ArgumentMessage, Offsets, ReadValue
from toolgate.intents.arguments.prepared_spec import PreparedSpec
from toolgate.intents.patterns import HAN, late_pattern

_QUOTED: Final = "\"'`\u201c\u201d\u201e\u00ab\u00bb"
_LETTER: Final = rf"(?:[^\W{HAN}]|\$)"
_NAME: Final = (
    rf"[{_QUOTED}]?(?P<{{}}>(?:(?:db:/)?{_LETTER}+(?:[./-]{_LETTER}+)*|[{HAN}]+?))[{_QUOTED}]?"
)
_ARTICLE: Final = (
    r"(?:(?:the|a|an|der|die|das|dem|den|la|le|les|el|los|las|de|het|lo|il|os|as)\s+|l')?"
    r"(?:(?:tables?|tabellen?|tablas?|tabel|tabelas?|tabelle|tabella)\s+)?"
)
_AFTER: Final = r"(?:\s+(?:tables?|tabelle|tabla|tabel|tabela|tabella))?"


def _pair(opening: str, middle: str) -> re.Pattern[str]:
    first, second = _NAME.format("first"), _NAME.format("second")
    return late_pattern(rf"{opening}{_ARTICLE}{first}{_AFTER}{middle}{_ARTICLE}{second}")


_LINKS: Final = (
    _pair("", r"\s*(?:->|=>|-->|\u2192)\s*"),
    _pair(
        r"(?<!\w)(?:between|zwischen|entre|tussen|tra|fra)\s+",
        r"\s+(?:and|und|et|y|e|en|ed|&)\s+",
    ),
    _pair(
        r"(?<!\w)(?:from|von|vom|de|du|desde|van|da|dal|dalla)\s+",
        r"\s+(?:to|into|nach|zu|zur|zum|auf|a|au|vers|naar|para|verso|al|hacia)\s+",
    ),
    _pair(r"从\s*", r"\s*(?:表)?\s*(?:到|指向)\s*"),
    _pair(r"(?:在|把|将|连接|关联)\s*", r"\s*(?:表)?\s*(?:和|与|跟|同|到)\s*"),
    _pair(
        r"(?<!\w)(?:connect|link|join|relate|tie|linking|connecting|joining|verbinde|verbinden"
        r"|verknupfe|verknupfen|relie|relier|lie|lier|conecta|conectar|vincula|vincular|relaciona"
        r"|relacionar|enlaza|koppel|koppelen|verbind|liga|ligar|conecte|collega|collegare)\s+",
        r"\s+(?:with|to|and|mit|und|a|avec|et|con|y|met|aan|en|com|e|ed)\s+",
    ),
)
"""Best first; the first that matches two names is used."""

_COLUMNS: Final = late_pattern(
    r"(?<!\w)(?:on|via|using|by|through|over|uber|mit|par|sur|por|op|met|usando|tramite|su|keys?"
    r"|columns?)\s+(?:(?:the|die|der|das|la|le|el|de|het)\s+)?"
    r"(?:(?:columns?|spalten?|colonnes?|columnas?|kolom(?:men)?|colunas?|keys?|fields?)\s+)?"
    + _NAME.format("first")
    + r"(?:\s*(?:=|==|->|=>|\u2192)\s*"
    + _NAME.format("second")
    + r"|\s+(?:and|to|with|equals|und|et|y|e|en|a)\s+"
    + _NAME.format("third")
    + r")?"
)

_COLUMN_PAIR: Final = late_pattern(
    r"[(,:]\s*" + _NAME.format("first") + r"\s*(?:=|==|->|=>|\u2192)\s*" + _NAME.format("second")
)


def read_link(ready: PreparedSpec, message: ArgumentMessage) -> ReadValue | None:
    """Return the end of a link, or its column, that a parameter is for."""
    link = _link(ready, message)
    read = link.get(ready.spec.part)
    if read is None:
        return None
    name, span = read
    return ready.value_of.get(name, message.text(span)), span


def _link(ready: PreparedSpec, message: ArgumentMessage) -> Mapping[str, tuple[str, Offsets]]:
    """Return the parts of a link by name: the folded text and where it is."""
    text = message.folded.text
    ends: dict[str, tuple[str, Offsets]] = {}
    linked_until = 0
    for pattern in _LINKS:
        match = next(
            (
                match
                for match in pattern.finditer(text)
                if not {match["first"], match["second"]} & ready.spec.stop
                and not match["first"].isdecimal()
            ),
            None,
        )
        if match is not None:
            linked_until = match.end()
            for group, part in (("first", "from"), ("second", "to")):
                _add_end(ends, part, match, group, message)
            break
    for pattern in (_COLUMN_PAIR, _COLUMNS):
        for match in pattern.finditer(text, linked_until):
            first = match["first"]
            if first in ready.spec.stop or "from-column" in ends:
                continue
            second = "second" if match["second"] else "third"
            _add_column(ends, "from-column", match, "first", message)
            if second in match.groupdict() and match[second]:
                _add_column(ends, "to-column", match, second, message)
            break
    return ends


def _add_end(
    ends: dict[str, tuple[str, Offsets]],
    part: str,
    match: re.Match[str],
    group: str,
    message: ArgumentMessage,
) -> None:
    """Add one end; `orders.customer_id` is split into the table and its column."""
    name, start = match[group], match.start(group)
    table, dot, column = name.rpartition(".")
    if not dot or "/" in column:
        table, column = name, ""
    ends[part] = table, message.span_of(start, start + len(table))
    if column:
        at = start + len(table) + 1
        ends[f"{part}-column"] = column, message.span_of(at, at + len(column))


def _add_column(
    ends: dict[str, tuple[str, Offsets]],
    part: str,
    match: re.Match[str],
    group: str,
    message: ArgumentMessage,
) -> None:
    column = match[group].rpartition(".")[2]
    start = match.end(group) - len(column)
    ends[part] = column, message.span_of(start, start + len(column))
