"""The console in a real browser: the things a newcomer does first, and what every page must keep.

Browser: Debian's `chromium`. `tests/real/setup.py` installs it, playwright-core and axe-core.
"""

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import anyio
import anyio.to_thread
import pytest

import toolgate.testing
from tests.chat.chat_gateway import scripted
from tests.console.console_client import notes
from tests.limits import HANG_S
from tests.real.setup import Browser, ensure_browser
from tests.serving import serving
from toolgate.settings import AuditSettings, ChatSettings, GuardTable, ModelTable, Settings
from toolgate.testing import memory_app
from toolgate.types import Caller, Json

pytestmark = [pytest.mark.real, pytest.mark.xdist_group("browser")]

SCRIPT = Path(__file__).parent / "browser" / "drive.mjs"
ECHO = [sys.executable, str(Path(toolgate.testing.__file__).parent / "echo_server.py")]
SETTINGS = Settings(
    auth="required",
    audit=AuditSettings(keep_queries=True),
    chat=ChatSettings(engine="plain"),
    guard=(GuardTable(tools=("notes:find",), approver="user", reason="Somebody should look."),),
)


@pytest.fixture(scope="module")
def browser() -> Browser:
    return ensure_browser(print)


@pytest.fixture(scope="module")
def seen(browser: Browser) -> Json:
    """What the one session with the browser found."""
    return anyio.run(_browse, browser)


async def _browse(browser: Browser) -> Json:
    async with (
        scripted(fallback={"text": "One note is there."}) as model,
        memory_app({"notes": notes()}, _with_model(model.url)) as app,
        serving(app) as base,
    ):
        made = await app.gateway.admin.create_token(Caller.local(), "me", roles=["admin"])
        command = [browser.node, str(SCRIPT), str(browser.modules), browser.program, base]
        command += [made.secret, json.dumps(ECHO)]
        return await anyio.to_thread.run_sync(_run, command)
    raise AssertionError("the gateway did not end")


def _with_model(url: str) -> Settings:
    table = ModelTable(model="double", url=url, key="k", retries=0)
    return replace(SETTINGS, models={"main": table})


def _run(command: list[str]) -> Json:
    done = subprocess.run(command, capture_output=True, text=True, timeout=3 * HANG_S, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return json.loads(done.stdout)


def test_a_newcomer_does_the_first_things_without_documentation(seen: Json) -> None:
    assert seen["steps"] == [
        "logs in",
        "adds a server",
        "finds a tool",
        "tries it",
        "restricts a token",
        "sees why something is invisible",
        "sees what a rule matches while typing it",
        "approves a call",
        "approves a call with other arguments",
        "keeps what is being typed when something changes",
        "verifies the audit",
        "sets the optimization of a project",
        "marks what was found",
        "looks with other weights and downloads the marks",
        "turns a message into a prompt",
        "reads a thread and sets it",
        "hears of a change without loading the page",
        "searches by keyboard alone",
        "goes anywhere with the palette and single keys",
        "sorts tools on a phone",
        "selects servers on a phone",
        "is told that a server was removed meanwhile",
        "loses nothing when the session ends",
        "works without scripts",
    ]


def test_no_page_breaks_its_policy_or_reaches_outside(seen: Json) -> None:
    assert seen["errors"] == []
    assert seen["outside"] == []


def test_axe_finds_nothing_on_any_page_light_or_dark(seen: Json) -> None:
    assert seen["axe"] == []


def test_no_page_is_wider_than_a_phone(seen: Json) -> None:
    assert seen["overflow"] == []


def test_the_first_visit_is_small_and_waits_for_one_style_sheet(seen: Json) -> None:
    """At most 150 kB, in which a page, a style sheet, two scripts and an icon are transferred."""
    assert seen["bytes"] <= 150_000
    assert len(seen["requests"]) <= 6, seen["requests"]
    assert seen["blocking"] == ["console.css"]
    assert seen["focus"] == "solid"
