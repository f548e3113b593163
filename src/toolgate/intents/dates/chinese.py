"""Chinese expressions of time as the English words for them, which the date grammar reads.

Chinese has no blanks between words, and says "before", "after" and "since" behind a date: these
come first here. Everything else in a stretch of Chinese becomes a sign that ends an expression.
"""

import re
from collections.abc import Sequence
from typing import Final, NamedTuple

CHINESE_SIGN: Final = "\u3400-\u9fff"
"""Chinese signs, as a range of a regular expression."""

_MONTHS: Final = (
    *("january", "february", "march", "april", "may", "june", "july", "august", "september"),
    *("october", "november", "december"),
)
_DIGITS: Final = {sign: number for number, sign in enumerate("一二三四五六七八九", 1)} | {"两": 2}
_WEEKDAYS: Final = {
    "一": "monday",
    "二": "tuesday",
    "三": "wednesday",
    "四": "thursday",
    "五": "friday",
    "六": "saturday",
    "日": "sunday",
    "天": "sunday",
}
_SIDES: Final = {"上": "last", "这": "this", "本": "this", "下": "next"}
_UNITS: Final = {
    **dict.fromkeys(("天", "日"), "days"),
    **dict.fromkeys(("周", "星期", "礼拜"), "weeks"),
    **dict.fromkeys(("小时", "钟头"), "hours"),
    "月": "months",
    "季度": "quarters",
    "年": "years",
    "分钟": "minutes",
}
_WORDS: Final = {
    **dict.fromkeys(("今天", "今日", "今早", "今晚"), "today"),
    **dict.fromkeys(("昨天", "昨日", "昨晚"), "yesterday"),
    **dict.fromkeys(("明天", "明日"), "tomorrow"),
    **dict.fromkeys(("从", "自从", "自"), "since"),
    **dict.fromkeys(("截至", "截止", "直到"), "until"),
    **dict.fromkeys(("到", "至", "和", "与"), "to"),
    **dict.fromkeys(("现在", "目前"), "now"),
    "前天": "vorgestern",
    "后天": "ubermorgen",
    "去年": "last year",
    "今年": "this year",
    "明年": "next year",
}
_BEHIND: Final = {
    **dict.fromkeys(("之前", "以前", "前"), "before"),
    **dict.fromkeys(("之后", "以后", "后"), "after"),
    **dict.fromkeys(("以来", "开始", "起"), "since"),
    "之间": "between",
}
"""What is said behind a date, and the English word for it, which comes before one."""


def _any_of(words: Sequence[str] | dict[str, str]) -> str:
    return "|".join(sorted(words, key=len, reverse=True))


_COUNT: Final = r"\d{1,4}|[一二两三四五六七八九]?十[一二三四五六七八九]?|[一二两三四五六七八九]"
_WEEKDAY: Final = "[一二三四五六日天](?![直起下些个样共般])"
"""The number of a weekday, and not the begin of another word: 这周一直."""
_EXPRESSION: Final = re.compile(
    rf"""
      (?:(?P<year>\d{{4}})\s?年\s?)?(?P<month>\d{{1,2}})\s?月份?(?:\s?(?P<day>\d{{1,2}})\s?[日号])?
    | (?P<whole_year>\d{{4}})\s?年
    | (?P<rolling>最近|过去|近|未来|接下来)?(?:的|这)?\s?(?P<count>{_COUNT})\s?个?
        (?P<unit>{_any_of(_UNITS)})(?:之?(?P<ago>前)|以前)?
    | (?P<side>[上这本下])个?(?P<part>周末|周|星期|礼拜|月|季度)
        (?P<weekday>(?<=[周期拜]){_WEEKDAY})?
    | (?:周|星期|礼拜)(?P<bare_weekday>{_WEEKDAY})
    | (?P<word>{_any_of(_WORDS)})
    | (?P<behind>{_any_of(_BEHIND)})
    """,
    re.VERBOSE,
)
_PARTS: Final = {"周末": "weekend", "月": "month", "季度": "quarter"}


class ChineseToken(NamedTuple):
    """A word for the date grammar."""

    kind: str
    """As of other tokens: `word`, `number` or `sign`."""
    word: str
    """English, or digits."""
    start: int
    """Where it begins in the text."""
    end: int
    """Where it ends."""


def with_chinese(before: Sequence[ChineseToken], text: str, at: int) -> list[ChineseToken]:
    """Return the tokens of an expression, and after them those of a stretch of Chinese.

    Args:
        before: The tokens of a date directly before it, if it may belong to that.
        text: The stretch.
        at: Where it begins in the whole text.
    """
    tokens, first, last = list(before), 0, 0
    for match in _EXPRESSION.finditer(text):
        if text[last : match.start()].strip():
            tokens.append(ChineseToken("sign", ";", at + last, at + match.start()))
            first = len(tokens)
        last = match.end()
        span = at + match.start(), at + last
        if match["behind"]:
            first = _put_first(tokens, first, _BEHIND[match["behind"]], span)
            continue
        tokens += [
            ChineseToken("number" if word.isdecimal() else "word", word, *span)
            for word in _english(match)
        ]
        if match["word"] in {"从", "自从", "自"}:
            first = len(tokens) - 1
    if text[last:].strip():
        tokens.append(ChineseToken("sign", ";", at + last, at + len(text)))
    return tokens


def _put_first(tokens: list[ChineseToken], first: int, word: str, span: tuple[int, int]) -> int:
    """Put a word before the expression that begins at an index; return where the next begins."""
    if first == len(tokens):
        tokens.append(ChineseToken("sign", ";", *span))
    elif tokens[first].word == "since" and word == "since":
        pass
    elif word == "between":
        joined = [
            token._replace(word="and") if token.word == "to" else token for token in tokens[first:]
        ]
        tokens[first:] = [ChineseToken("word", word, *[joined[0].start] * 2), *joined]
    else:
        tokens.insert(first, ChineseToken("word", word, *[tokens[first].start] * 2))
    return len(tokens)


def _english(match: re.Match[str]) -> list[str]:
    if match["month"]:
        number = int(match["month"])
        if not 1 <= number <= len(_MONTHS):
            return [";"]
        parts = [_MONTHS[number - 1], match["day"], match["year"]]
        return [part for part in parts if part]
    if match["whole_year"]:
        return ["year", match["whole_year"]]
    if match["count"]:
        rolling = match["rolling"]
        begin = [] if not rolling else ["next" if rolling in {"未来", "接下来"} else "last"]
        ago = [] if rolling or match[0][-1] != "前" else ["ago"]
        return [*begin, str(_number(match["count"])), _UNITS[match["unit"]], *ago]
    if match["side"]:
        part = _PARTS.get(match["part"], "week")
        return [_SIDES[match["side"]], _WEEKDAYS.get(match["weekday"] or "", part)]
    if match["bare_weekday"]:
        return [_WEEKDAYS[match["bare_weekday"]]]
    return _WORDS[match["word"]].split()


def _number(digits: str) -> int:
    """Return a number in digits or, up to 99, in Chinese: 三, 十二, 三十."""
    if digits.isdecimal():
        return int(digits)
    tens, ten, ones = digits.rpartition("十")
    return (10 * _DIGITS.get(tens, 1) if ten else 0) + _DIGITS.get(ones, 0)
