"""Identifiers sort by time and never repeat; times are one kind of text."""

import re
import subprocess
import sys
import threading
import time
from datetime import UTC, datetime, timedelta, timezone

import pytest

from toolgate.base import ids
from toolgate.base.ids import new_id, utc_now, utc_text


def test_ids_sort_in_the_order_they_were_made_and_never_repeat() -> None:
    made = [new_id() for _ in range(20_000)]

    assert made == sorted(set(made))
    assert all(re.fullmatch("[0-9a-f]{32}", made_id) for made_id in made[:100])


def test_ids_made_by_threads_at_once_never_repeat() -> None:
    made: list[list[str]] = []
    threads = [
        threading.Thread(target=lambda: made.append([new_id() for _ in range(2000)]))
        for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert len({each for some in made for each in some}) == 8000
    assert all(some == sorted(some) for some in made)


@pytest.mark.skipif(sys.platform == "win32", reason="there is no fork")
def test_a_forked_process_has_randomness_of_its_own() -> None:
    work = (
        "import os\nfrom toolgate.base import ids\nids.new_id()\n"
        "ids.time.time_ns = lambda: 10**18\n"
        "ids._last = 0\nchild = os.fork()\nos.write(1, ids.new_id().encode() + b'\\n')\n"
        "os.waitpid(child, 0) if child else os._exit(0)"
    )
    done = subprocess.run([sys.executable, "-c", work], capture_output=True, text=True, check=True)

    made = done.stdout.split()
    assert len(made) == len(set(made)) == 2


def test_ids_go_on_when_the_clock_goes_back(monkeypatch: pytest.MonkeyPatch) -> None:
    before = new_id()
    monkeypatch.setattr(ids.time, "time_ns", lambda: 0)

    assert before < new_id() < new_id()


def test_an_id_begins_with_its_millisecond(monkeypatch: pytest.MonkeyPatch) -> None:
    later_ms = time.time_ns() // 1_000_000 + 60_000
    with monkeypatch.context() as patch:
        patch.setattr(ids.time, "time_ns", lambda: later_ms * 1_000_000)
        patch.setattr(ids, "_last", 0)

        assert int(new_id()[:12], 16) == later_ms


def test_now_is_utc_in_milliseconds() -> None:
    before = datetime.now(UTC)
    text = utc_now()

    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", text)
    assert abs(datetime.fromisoformat(text) - before) < timedelta(seconds=5)
    assert text < utc_now(plus_s=3600) < utc_now(plus_s=3601)


@pytest.mark.parametrize(
    ("moment", "text"),
    [
        (datetime(2026, 7, 28, 9, 30, tzinfo=UTC), "2026-07-28T09:30:00.000Z"),
        (
            datetime(2026, 7, 28, 1, 30, 0, 999_999, tzinfo=timezone(timedelta(hours=2))),
            "2026-07-27T23:30:00.999Z",
        ),
    ],
)
def test_a_moment_of_any_zone_becomes_utc_text(moment: datetime, text: str) -> None:
    assert utc_text(moment) == text
