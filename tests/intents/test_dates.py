"""Dates in messages: the project's rows, other phrasings, and what is never a date."""

import json
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from zoneinfo import ZoneInfoNotFoundError

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolgate.intents import DateMatch, find_dates

ROWS = [
    json.loads(line)
    for line in (Path(__file__).parent / "data" / "dates.jsonl")
    .read_text(encoding="utf-8")
    .splitlines()
]
TODAY = date(2025, 10, 21)  # a Tuesday


def said(moment: date | None) -> str | None:
    if isinstance(moment, datetime):
        return moment.strftime("%Y-%m-%dT%H:%M:%SZ")
    return None if moment is None else moment.isoformat()


def ranges(text: str, today: date = TODAY, zone: str = "UTC") -> list[str]:
    """All that is found, as `since..until`."""
    return [
        f"{said(each.since) or ''}..{said(each.until) or ''}"
        for each in find_dates(text, today=today, zone=zone)
    ]


@pytest.mark.parametrize("row", ROWS, ids=[row["id"] for row in ROWS])
def test_a_row_is_read_exactly(row: dict[str, str]) -> None:
    found = find_dates(row["text"], today=date.fromisoformat(row["today"]))

    wanted = [] if row["kind"] == "none" else [(row["since"], row["until"])]
    assert [(said(each.since), said(each.until)) for each in found] == wanted


def test_all_rows_are_there() -> None:
    assert len(ROWS) == 98
    assert sum(row["kind"] == "none" for row in ROWS) == 10


READINGS = {
    "fin de semana pasado": "2025-10-18..2025-10-20",
    # Portuguese
    "o que mudou ontem": "2025-10-20..2025-10-21",
    "anteontem": "2025-10-19..2025-10-20",
    "vendas de hoje": "2025-10-21..2025-10-22",
    "depois de amanh\u00e3": "2025-10-23..2025-10-24",
    "desde segunda-feira": "2025-10-20..",
    "na sexta-feira passada": "2025-10-17..2025-10-18",
    "na semana passada": "2025-10-13..2025-10-20",
    "semana que vem": "2025-10-27..2025-11-03",
    "fim de semana passado": "2025-10-18..2025-10-20",
    "este m\u00eas": "2025-10-01..2025-11-01",
    "nos \u00faltimos 7 dias": "2025-10-14..2025-10-22",
    "os \u00faltimos dois meses": "2025-08-21..2025-10-22",
    "h\u00e1 3 dias": "2025-10-18..2025-10-19",
    "3 dias atr\u00e1s": "2025-10-18..2025-10-19",
    "de 3 a 7 de outubro": "2025-10-03..2025-10-08",
    "5 de mar\u00e7o de 2025": "2025-03-05..2025-03-06",
    "entre janeiro e mar\u00e7o": "2025-01-01..2025-04-01",
    "at\u00e9 ontem": "..2025-10-21",
    "antes de 10 de setembro": "..2025-09-10",
    "depois de 10 de setembro": "2025-09-11..",
    "a partir de 1 de outubro": "2025-10-01..",
    "desde o in\u00edcio do ano": "2025-01-01..",
    "desde meados de setembro": "2025-09-15..",
    "vendas da semana passada": "2025-10-13..2025-10-20",
    # Italian
    "cosa \u00e8 cambiato ieri": "2025-10-20..2025-10-21",
    "l'altro ieri": "2025-10-19..2025-10-20",
    "le vendite di oggi": "2025-10-21..2025-10-22",
    "dopodomani": "2025-10-23..2025-10-24",
    "da luned\u00ec": "2025-10-20..",
    "da ieri": "2025-10-20..",
    "da luned\u00ec a venerd\u00ec": "2025-10-20..2025-10-25",
    "venerd\u00ec scorso": "2025-10-17..2025-10-18",
    "la settimana scorsa": "2025-10-13..2025-10-20",
    "la scorsa settimana": "2025-10-13..2025-10-20",
    "la settimana prossima": "2025-10-27..2025-11-03",
    "questo mese": "2025-10-01..2025-11-01",
    "quest'anno": "2025-01-01..2026-01-01",
    "negli ultimi 7 giorni": "2025-10-14..2025-10-22",
    "gli ultimi due mesi": "2025-08-21..2025-10-22",
    "3 giorni fa": "2025-10-18..2025-10-19",
    "dal 3 al 7 ottobre": "2025-10-03..2025-10-08",
    "5 marzo 2025": "2025-03-05..2025-03-06",
    "tra gennaio e marzo": "2025-01-01..2025-04-01",
    "fino a ieri": "..2025-10-21",
    "prima del 10 settembre": "..2025-09-10",
    "dopo il 10 settembre": "2025-09-11..",
    "dall'inizio dell'anno": "2025-01-01..",
    "da met\u00e0 settembre": "2025-09-15..",
    "il fine settimana scorso": "2025-10-18..2025-10-20",
    # Chinese
    "\u4ece\u5468\u4e00\u5230\u73b0\u5728": "2025-10-20..2025-10-22",
    "\u8fd9\u5468\u4e00\u76f4": "2025-10-20..2025-10-27",
    "10\u67083\u65e5\u548c10\u67087\u65e5\u4e4b\u95f4": "2025-10-03..2025-10-08",
    "\u6628\u5929\u6709\u4ec0\u4e48\u53d8\u5316": "2025-10-20..2025-10-21",
    "\u524d\u5929": "2025-10-19..2025-10-20",
    "\u4eca\u5929\u7684\u8ba2\u5355": "2025-10-21..2025-10-22",
    "\u4e0a\u5468\u7684\u6539\u52a8": "2025-10-13..2025-10-20",
    "\u4e0a\u4e2a\u6708": "2025-09-01..2025-10-01",
    "\u4e0b\u5468": "2025-10-27..2025-11-03",
    "\u4e0a\u5468\u4e94": "2025-10-17..2025-10-18",
    "\u6700\u8fd17\u5929": "2025-10-14..2025-10-22",
    "\u8fc7\u53bb\u4e09\u4e2a\u6708": "2025-07-21..2025-10-22",
    "3\u5929\u524d": "2025-10-18..2025-10-19",
    "10\u67085\u65e5": "2025-10-05..2025-10-06",
    "2025\u5e743\u67085\u53f7": "2025-03-05..2025-03-06",
    "2025\u5e743\u6708": "2025-03-01..2025-04-01",
    "\u4ece10\u67083\u65e5\u523010\u67087\u65e5": "2025-10-03..2025-10-08",
    "\u81ea\u6628\u5929\u4ee5\u6765": "2025-10-20..",
    "\u4ece\u4e0a\u5468\u5f00\u59cb": "2025-10-14..",
    "10\u67085\u65e5\u4e4b\u524d": "..2025-10-05",
    "10\u67085\u65e5\u4ee5\u540e": "2025-10-06..",
    # calendar
    "2024-02-29": "2024-02-29..2024-03-01",
    "2020-W53": "2020-12-28..2021-01-04",
    "25/12/2025": "2025-12-25..2025-12-26",
    "2025/10/15": "2025-10-15..2025-10-16",
    "15.10.2025": "2025-10-15..2025-10-16",
    "15-Oct-2025": "2025-10-15..2025-10-16",
    "winter 2024": "2024-12-01..2025-03-01",
    "the first quarter of 2025": "2025-01-01..2025-04-01",
    "second half of 2024": "2024-07-01..2025-01-01",
    "week 42 of 2025": "2025-10-13..2025-10-20",
    "last quarter of 2024": "2024-10-01..2025-01-01",
    # written
    "Monday, 20 October 2025": "2025-10-20..2025-10-21",
    "the 15th of October": "2025-10-15..2025-10-16",
    "Dec. 25, 2024": "2024-12-25..2024-12-26",
    "October 5-10, 2025": "2025-10-05..2025-10-11",
    "5-10 October": "2025-10-05..2025-10-11",
    "January to March 2024": "2024-01-01..2024-04-01",
    "Jan-Mar 2024": "2024-01-01..2024-04-01",
    # a month that only the second day names
    "between 3 and 7 October": "2025-10-03..2025-10-08",
    "from the 3rd to the 7th of October": "2025-10-03..2025-10-08",
    "between 28 and 3 October": "2025-09-28..2025-10-04",
    "zwischen dem 3. und 7. Oktober": "2025-10-03..2025-10-08",
    "vom 3. bis zum 7. Oktober 2024": "2024-10-03..2024-10-08",
    "entre le 3 et le 7 octobre": "2025-10-03..2025-10-08",
    "entre el 3 y el 7 de octubre": "2025-10-03..2025-10-08",
    "van 3 tot en met 7 oktober": "2025-10-03..2025-10-08",
    "the 3rd through the 7th of October": "2025-10-03..2025-10-08",
    "vom 3. bis 7.10.": "2025-10-03..2025-10-08",
    # up to now
    "from last Monday until now": "2025-10-20..2025-10-22",
    "from 2025-09-01 to date": "2025-09-01..2025-10-22",
    "desde el 3 de octubre hasta hoy": "2025-10-03..2025-10-22",
    "Monday through Wednesday of last week": "2025-10-13..2025-10-16",
    "from Monday through Wednesday of last week": "2025-10-13..2025-10-16",
    "March through May 2025": "2025-03-01..2025-06-01",
    # times of day
    "since 9 am": "2025-10-21T09:00:00Z..",
    "since 14:30 today": "2025-10-21T14:30:00Z..",
    "since noon": "2025-10-21T12:00:00Z..",
    "since midnight": "2025-10-21T00:00:00Z..",
    "until midnight": "..2025-10-22T00:00:01Z",
    "between 9am and 5pm yesterday": "2025-10-20T09:00:00Z..2025-10-20T17:00:01Z",
    "yesterday between 9:00 and 17:00": "2025-10-20T09:00:00Z..2025-10-20T17:00:01Z",
    "seit gestern 15 Uhr": "2025-10-20T15:00:00Z..",
    "since 9 this morning": "2025-10-21T09:00:00Z..",
    "since three in the afternoon": "2025-10-21T15:00:00Z..",
    "since two o'clock": "2025-10-21T02:00:00Z..",
    "since yesterday at 9": "2025-10-20T09:00:00Z..",
    "desde ayer a las 14": "2025-10-20T14:00:00Z..",
    "sinds gisteren 14 uur": "2025-10-20T14:00:00Z..",
    # parts of a day mean the day
    "seit heute früh": "2025-10-21..",
    "depuis ce matin": "2025-10-21..",
    "depuis hier après-midi": "2025-10-20..",
    "desde esta mañana": "2025-10-21..",
    "desde ayer por la tarde": "2025-10-20..",
    "sinds vanochtend": "2025-10-21..",
    "sinds gistermiddag": "2025-10-20..",
    # holidays: the last one before today, or the one of the year that follows
    "since Christmas": "2024-12-25..",
    "since New Year's Day": "2025-01-01..",
    "since Easter": "2025-04-20..",
    "seit Ostern": "2025-04-20..",
    "depuis Noël": "2024-12-25..",
    "depuis le jour de l'an": "2025-01-01..",
    "Easter 2024": "2024-03-31..2024-04-01",
    "since Labor Day": "2025-09-01..",
    "before Christmas": "..2025-12-25",
    "since last Christmas": "2024-12-25..",
    "seit letztem Weihnachten": "2024-12-25..",
    "depuis Noël dernier": "2024-12-25..",
    "since last Easter": "2025-04-20..",
    "until next Easter": "..2026-04-06",
    "sinds Koningsdag": "2025-04-26..",
    # number words
    "twenty-five days ago": "2025-09-26..2025-09-27",
    "in the last ninety days": "2025-07-23..2025-10-22",
    "der letzten einundzwanzig Tage": "2025-09-30..2025-10-22",
    "in den letzten dreißig Tagen": "2025-09-21..2025-10-22",
    "les trente derniers jours": "2025-09-21..2025-10-22",
    "los últimos treinta y un días": "2025-09-20..2025-10-22",
    "de laatste vijfendertig dagen": "2025-09-16..2025-10-22",
    # parts of a month
    "since mid-September": "2025-09-15..",
    "seit Mitte September": "2025-09-15..",
    "after the 15th": "2025-10-16..",
    "since the 25th": "2025-09-25..",
    "seit dem 3.10.": "2025-10-03..",
    "the first week of September": "2025-09-01..2025-09-08",
    "the last week of September": "2025-09-24..2025-10-01",
    # around today
    "last Monday": "2025-10-20..2025-10-21",
    "this Friday": "2025-10-24..2025-10-25",
    "last March": "2025-03-01..2025-04-01",
    "last October": "2024-10-01..2024-11-01",
    "next October": "2026-10-01..2026-11-01",
    "last summer": "2025-06-01..2025-09-01",
    "the week before last": "2025-10-06..2025-10-13",
    "next week": "2025-10-27..2025-11-03",
    "half a year ago": "2025-04-21..2025-04-22",
    "past couple of weeks": "2025-10-07..2025-10-22",
    "past week": "2025-10-14..2025-10-22",
    "next 7 days": "2025-10-21..2025-10-29",
    "last 24 hours": "2025-10-20..2025-10-22",
    "YTD": "2025-01-01..2025-10-22",
    "quarter to date": "2025-10-01..2025-10-22",
    "3 weeks from now": "2025-11-11..2025-11-12",
    "yesterday's changes": "2025-10-20..2025-10-21",
    # open ones
    "since 2024": "2024-01-01..",
    "since March": "2025-03-01..",
    "since December": "2024-12-01..",
    "from yesterday on": "2025-10-20..",
    "from the start of the year": "2025-01-01..",
    "starting 2 weeks from now": "2025-11-04..",
    "since the beginning of the year": "2025-01-01..",
    "after last week": "2025-10-20..",
    "older than 30 days": "..2025-09-21",
    "newer than 2 weeks": "2025-10-07..",
    "up to yesterday": "..2025-10-21",
    "until Friday": "..2025-10-25",
    "by the end of the week": "..2025-10-27",
    "before the beginning of last month": "..2025-09-01",
    # pairs
    "between October 5 and 10": "2025-10-05..2025-10-11",
    "from January 5 to February 10, 2024": "2024-01-05..2024-02-11",
    "from November 5 to February 10": "2025-11-05..2026-02-11",
    "between 2025-02-01 and 2025-01-01": "2025-01-01..2025-02-02",
    "2025-10-15/2025-10-20": "2025-10-15..2025-10-21",
    "2025-10-15 \u2013 2025-10-20": "2025-10-15..2025-10-21",
    "since 2025-10-01 until yesterday": "2025-10-01..2025-10-21",
    "after 2025-10-01 and before 2025-10-10": "2025-10-02..2025-10-10",
    "from Monday to Friday": "2025-10-20..2025-10-25",
    # times of day
    "yesterday at 14:30": "2025-10-20T14:30:00Z..2025-10-20T14:30:01Z",
    "2025-10-15 3 pm": "2025-10-15T15:00:00Z..2025-10-15T15:00:01Z",
    "since 2025-10-15T14:30+02:00": "2025-10-15T12:30:00Z..",
    "from 2025-10-15T14:30Z until yesterday": "2025-10-15T14:30:00Z..2025-10-21T00:00:00Z",
    # German
    "vor 3 Tagen": "2025-10-18..2025-10-19",
    "vor dem 1. Juni 2025": "..2025-06-01",
    "seit zwei Wochen": "2025-10-07..",
    "in den letzten 7 Tagen": "2025-10-14..2025-10-22",
    "bis Ende letzten Monats": "..2025-10-01",
    "zwischen 1. Januar und 3. Februar 2025": "2025-01-01..2025-02-04",
    "vorgestern": "2025-10-19..2025-10-20",
    "\u00fcbermorgen": "2025-10-23..2025-10-24",
    "M\u00e4rz 2024": "2024-03-01..2024-04-01",
    "1. Quartal 2025": "2025-01-01..2025-04-01",
    "KW 42/2025": "2025-10-13..2025-10-20",
    "heute um 14 Uhr": "2025-10-21T14:00:00Z..2025-10-21T14:00:01Z",
    # French
    "il y a 3 jours": "2025-10-18..2025-10-19",
    "les 7 derniers jours": "2025-10-14..2025-10-22",
    "depuis le d\u00e9but de l\u2019ann\u00e9e": "2025-01-01..",
    "jusqu'\u00e0 la fin du mois dernier": "..2025-10-01",
    "du 5 janvier au 10 f\u00e9vrier": "2025-01-05..2025-02-11",
    "les changements d'hier": "2025-10-20..2025-10-21",
    "avant-hier": "2025-10-19..2025-10-20",
    "aujourd\u2019hui": "2025-10-21..2025-10-22",
    "cette ann\u00e9e": "2025-01-01..2026-01-01",
    # Spanish
    "hace 3 d\u00edas": "2025-10-18..2025-10-19",
    "desde hace dos semanas": "2025-10-07..",
    "los \u00faltimos 7 d\u00edas": "2025-10-14..2025-10-22",
    "desde el 1 de enero hasta ayer": "2025-01-01..2025-10-21",
    "desde el 1 de enero": "2025-01-01..",
    "antes de ayer": "2025-10-19..2025-10-20",
    "pasado ma\u00f1ana": "2025-10-23..2025-10-24",
    "el mes que viene": "2025-11-01..2025-12-01",
    # Dutch
    "3 dagen geleden": "2025-10-18..2025-10-19",
    "laatste 7 dagen": "2025-10-14..2025-10-22",
    "van maandag tot vrijdag": "2025-10-20..2025-10-25",
    "tot en met gisteren": "..2025-10-21",
    "eergisteren": "2025-10-19..2025-10-20",
    # writing
    "SINCE  LAST\n\tWEEK": "2025-10-14..",
    "since 2025\u201110\u201115": "2025-10-15..",
    "depuis la semaine dernie\u0300re": "2025-10-14..",
    "(since yesterday)": "2025-10-20..",
}


@pytest.mark.parametrize(("text", "wanted"), READINGS.items(), ids=list(READINGS))
def test_other_phrasings_are_read_too(text: str, wanted: str) -> None:
    assert ranges(text) == [wanted]
    assert ranges(f"\u00a1Hola! {text}.") == [wanted]


@pytest.mark.parametrize(
    "text",
    [
        "2025",
        "20251015",
        "10/15",
        "2025-10",
        "2025-13-45",
        "2025-02-29",
        "13/25/2025",
        "31.02.2025",
        "2025-W54",
        "2025-10-15T25:00:00Z",
        "version 1.2.2025",
        "v2025-10-15",
        "order-2024-10-15-x",
        "backup 2025-10-15.csv",
        "logs/2025-10-15/app",
        "table_2025-10-15",
        "4 weeks of leave",
        "30 seconds",
        "last 5 rows",
        "the last version",
        "in 3 steps",
        "since then",
        "since version 2",
        "after 5 retries",
        "between 1 and 10",
        "from 5 to 10",
        "this may be wrong",
        "May 5 users log in at once?",
        "you may march on",
        "log in may fail",
        "the cat sat in the sun",
        "sat 5",
        "wed a friend",
        "second",
        "a second opinion",
        "go to an actual bank",
        "what is the current apr",
        "a last minute update",
        "a table for 7 next to the door",
        "play me hier encore",
        "starting 11 weeks of work",
        "created by June",
        "mail from April",
        "in 2024 rows",
        "fits in 2048.",
        "Q1",
        "H1",
        "summer",
        "spring framework",
        "group by month",
        "last weeks",
        "today() fails",
        "#today",
        "www.today.com",
        "Guten Morgen",
        "Zeige hier die Tabellen",
        "por la ma\u00f1ana",
        "half of the rows",
        "a quarter of the rows",
        "port 8080 on 10.0.0.1",
        "ISBN 978-3-16-148410-0",
        "+49 30 1234-5678",
        "vor 1866",
        "Marco ate lunch",
        "two invoices are due",
        "bitte sei so nett",
        "va tutto fine",
        "\u6211\u8981\u4e09\u4e2a\u7ec4\u548c10\u4e2a\u8ba2\u5355",
        "\u7b2c3\u9875",
    ],
)
def test_what_only_looks_like_a_date_is_none(text: str) -> None:
    assert ranges(text) == []


def test_a_german_month_after_im_may_be_followed_by_anything() -> None:
    assert ranges("Wurden im September Tabellen angelegt?") == ["2025-09-01..2025-10-01"]


def test_several_dates_come_in_their_order_with_their_words() -> None:
    text = "Compare last month with Q1 2025, and the rest since yesterday."

    found = find_dates(text, today=TODAY)

    assert [each.text for each in found] == ["last month", "Q1 2025", "since yesterday"]
    assert all(text[each.start : each.end] == each.text for each in found)


def test_words_of_another_language_are_no_part_of_a_date() -> None:
    found = find_dates("a party of 7 next year, meet at 9 am tomorrow", today=TODAY)

    assert [each.text for each in found] == ["next year", "tomorrow"]


def test_spans_are_right_where_folding_changes_the_length() -> None:
    """Decomposed accents and the dotted capital I are more than one character elsewhere."""
    text = "\u0130\u0130 e\u0301te\u0301: depuis la semaine dernie\u0300re !"

    (found,) = find_dates(text, today=TODAY)

    assert found.text == "depuis la semaine dernie\u0300re"
    assert text[found.start : found.end] == found.text


def test_days_belong_to_the_zone_and_times_of_day_come_in_utc() -> None:
    (found,) = find_dates("yesterday at 14:30", today=TODAY, zone="Europe/Berlin")

    assert found.since == datetime(2025, 10, 20, 12, 30, tzinfo=UTC)
    assert ranges("yesterday", zone="Europe/Berlin") == ["2025-10-20..2025-10-21"]


def test_a_moment_instead_of_a_day_fixes_the_hour_and_the_day_of_the_zone() -> None:
    late = datetime(2025, 10, 21, 23, 30, tzinfo=UTC)

    assert ranges("today", late, "Europe/Berlin") == ["2025-10-22..2025-10-23"]
    assert ranges("2 hours ago", late) == ["2025-10-21T21:30:00Z..2025-10-21T21:30:01Z"]
    assert ranges("last 24 hours", late) == ["2025-10-20T23:30:00Z..2025-10-21T23:30:01Z"]
    assert ranges("2 hours ago") == []


def test_an_unknown_zone_is_an_error() -> None:
    with pytest.raises(ZoneInfoNotFoundError):
        find_dates("today", today=TODAY, zone="Europe/Atlantis")


@pytest.mark.parametrize(
    ("text", "today", "wanted"),
    [
        ("1 month ago", date(2025, 3, 31), "2025-02-28..2025-03-01"),
        ("1 year ago", date(2024, 2, 29), "2023-02-28..2023-03-01"),
        ("last month", date(2025, 1, 1), "2024-12-01..2025-01-01"),
        ("last weekend", date(2025, 10, 19), "2025-10-11..2025-10-13"),
        ("this weekend", date(2025, 10, 19), "2025-10-18..2025-10-20"),
        ("last quarter", date(2025, 2, 3), "2024-10-01..2025-01-01"),
        ("since Monday", date(2025, 10, 20), "2025-10-13.."),
        ("next Friday", date(2025, 10, 24), "2025-10-31..2025-11-01"),
    ],
)
def test_calendar_arithmetic_keeps_to_the_calendar(text: str, today: date, wanted: str) -> None:
    assert ranges(text, today) == [wanted]


PIECES = st.sampled_from(
    [
        *(row["text"] for row in ROWS),
        *READINGS,
        *[
            "since",
            "until",
            "between",
            "from",
            "and",
            "to",
            "of",
            "the",
            "last",
            "next",
            "3",
            "2025",
            "May",
            "Monday",
            "-",
            "/",
            ".",
            ",",
        ],
    ]
)
TEXTS = st.one_of(st.text(), st.lists(st.one_of(PIECES, st.text(max_size=5))).map(" ".join))


def check(text: str, found: list[DateMatch]) -> None:
    at = 0
    for each in found:
        assert at <= each.start < each.end <= len(text)
        assert text[each.start : each.end] == each.text
        at = each.end
        assert each.since is not None or each.until is not None
        if each.since is not None and each.until is not None:
            assert type(each.since) is type(each.until)
            assert each.since < each.until
        for moment in (each.since, each.until):
            assert not isinstance(moment, datetime) or moment.utcoffset() == timedelta()


@given(TEXTS, st.dates(), st.sampled_from(["UTC", "Asia/Kolkata", "America/St_Johns"]))
def test_any_text_on_any_day_gives_ordered_ranges_inside_it(
    text: str, today: date, zone: str
) -> None:
    check(text, find_dates(text, today=today, zone=zone))


@given(st.text(st.sampled_from("0123456789.:/- \u0661\u0969\uff15")).filter(lambda t: "-" not in t))
def test_bare_numbers_are_never_relative_to_anything(text: str) -> None:
    """A number alone never depends on today."""
    assert find_dates(text, today=TODAY) == find_dates(text, today=date(1999, 1, 1))


@given(st.dates(date(1950, 1, 1), date(2150, 1, 1)), st.sampled_from(["yesterday", "last 7 days"]))
def test_what_is_relative_moves_with_today(today: date, text: str) -> None:
    (one,) = find_dates(text, today=today)
    (two,) = find_dates(text, today=today + timedelta(days=1))

    assert one.since is not None
    assert two.since == one.since + timedelta(days=1)


@given(st.dates(date(1900, 1, 1)), st.dates(date(1900, 1, 1)))
def test_an_iso_day_is_the_same_day_whatever_today_is(day: date, today: date) -> None:
    found = find_dates(f"on {day.isoformat()}", today=today)

    assert day == date.max or (found[0].since, found[0].until) == (day, day + timedelta(days=1))


@pytest.mark.parametrize(
    "piece",
    [
        "since last week ",
        "between January and ",
        "a-",
        "2025-",
        "l'",
        "1",
        " ",
        "jan ",
        "\u00e9",
        "-",
    ],
)
def test_a_message_of_100_kb_is_read_to_its_end(piece: str) -> None:
    find_dates(piece * (100_000 // len(piece)), today=TODAY)
