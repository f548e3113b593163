"""The command `toolgate` itself: what it loads, how it answers wrong use, how it ends."""

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from rich.text import Text

import toolgate as toolgate_package
from tests.cli.conftest import LoadedBy, Run
from toolgate import __version__
from toolgate.cli import run
from toolgate.cli.root import COMMANDS, load
from toolgate.cli.terminal._exit import NO_RESULT, USAGE_ERROR
from toolgate.cli.terminal._plain_command import UsageError, split_globals

HEAVY = {
    "mcp",
    "sqlalchemy",
    "numpy",
    "aiohttp",
    "alembic",
    "starlette",
    "toolgate.gateway.gateway",
}


@pytest.mark.parametrize("argv", [["--help"], ["--version"]], ids=["help", "version"])
def test_help_and_version_load_none_of_the_heavy_libraries(
    argv: list[str], loaded_by: LoadedBy
) -> None:
    """Our decision: help and completion are fast."""
    modules = loaded_by(f"from toolgate.cli import run; run({argv!r})")
    assert not HEAVY & modules


def test_help_loads_nothing_of_markdown(loaded_by: LoadedBy) -> None:
    """Typer imports it for a help that nobody here writes; it takes a quarter of the time."""
    modules = loaded_by("from toolgate.cli import run; run(['--help'])")
    assert not {"markdown_it", "rich.markdown", "rich.traceback", "pygments"} & modules


@pytest.mark.parametrize("name", ["search", "call"])
def test_commands_of_agents_load_no_models_of_requests_and_no_tables(
    name: str, loaded_by: LoadedBy
) -> None:
    """They ask the running gateway and print into a pipe."""
    modules = loaded_by(f"import toolgate.cli.tools.{name}")
    assert not {"pydantic", "typer", "rich", *HEAVY} & modules


@pytest.mark.parametrize(
    "argv",
    [
        ["search", "list", "files", "-n", "7", "--server", "a", "--server=b", "--json"],
        ["search", "--threshold", "0.25", "--no-pinned", "--kind", "prompt", "--", "--odd"],
        ["search", "x", "--explain", "--group", "g", "--mark", "right"],
        ["call", "a:b", "--arg", "x=1", "--arg", "y= 2", "--format", "csv", "--select", ".x"],
        ["call", "--args", "{}", "a:b", "--json"],
    ],
    ids=" ".join,
)
def test_frequent_commands_read_their_words_as_typer_does(
    argv: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both parsers are built from the same options; only one is fast."""
    name, *words = argv
    module = import_module(f"toolgate.cli.tools.{name}")
    calls: list[dict[str, Any]] = []

    def note(**values: Any) -> int:
        calls.append({key: value for key, value in values.items() if value})
        return 0

    command = replace(module.command, call=note)
    monkeypatch.setattr(module, "command", command)
    command.call(**command.parse(words))
    load(name).main(words, standalone_mode=False)
    quick, by_typer = calls
    assert by_typer | quick == by_typer
    defaults = {option.name: option.default for option in command.options}
    assert {key: defaults[key] for key in by_typer.keys() - quick.keys()} == {
        key: by_typer[key] for key in by_typer.keys() - quick.keys()
    }


@pytest.mark.parametrize(
    "argv",
    [
        ["search"],
        ["search", "x", "--limit", "0"],
        ["search", "x", "--limit", "many"],
        ["search", "x", "--threshold", "1.5"],
        ["call", "a:b", "--format", "xml"],
        ["call", "a:b", "c:d"],
        ["call", "a:b", "--arg"],
    ],
    ids=" ".join,
)
def test_what_a_frequent_command_cannot_read_is_said_as_for_all_commands(
    argv: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(argv) == USAGE_ERROR
    said = capsys.readouterr().err
    assert said.startswith("toolgate: ")
    assert said.count("\n") == 1


def test_completion_loads_none_of_the_heavy_libraries_and_knows_every_command(
    program: Run, loaded_by: LoadedBy
) -> None:
    done = program(_TOOLGATE_COMPLETE="complete_bash", COMP_WORDS="toolgate ", COMP_CWORD="1")
    assert set(COMMANDS) <= set(done.stdout.split())
    code = (
        "import contextlib\n"
        "from toolgate.cli import run\n"
        "with contextlib.suppress(SystemExit): run([])"
    )
    modules = loaded_by(
        code, _TOOLGATE_COMPLETE="complete_bash", COMP_WORDS="toolgate ser", COMP_CWORD="1"
    )
    assert not HEAVY & modules


def test_importing_toolgate_loads_nothing_and_its_front_door_opens_on_use(
    loaded_by: LoadedBy,
) -> None:
    modules = loaded_by("import toolgate")
    assert {name for name in modules if name.startswith("toolgate")} == {"toolgate"}
    assert "toolgate.types" in loaded_by("from toolgate import Caller")


def test_every_name_of_the_front_door_is_there() -> None:
    assert [name for name in toolgate_package.__all__ if not hasattr(toolgate_package, name)] == []
    assert set(toolgate_package.__all__) <= set(dir(toolgate_package))


def test_a_name_that_the_front_door_lacks_is_an_attribute_error() -> None:
    with pytest.raises(ImportError, match="Gatewy"):
        exec("from toolgate import Gatewy")


def test_the_help_of_the_program_is_the_one_in_the_repository(program: Run) -> None:
    shown = program("--help").stdout
    kept = Path(__file__).with_name("help.txt")
    assert [line.rstrip() for line in shown.splitlines()] == kept.read_text("utf-8").splitlines()
    assert len(re.findall(r"^│ [a-z]+ +[A-Z]", shown, re.MULTILINE)) <= 20, "too many to take in"


@pytest.mark.parametrize("encoding", ["ascii", "latin-1", "cp437", "utf-8"])
def test_help_is_readable_on_terminals_that_lack_characters_or_width(
    encoding: str, program: Run
) -> None:
    done = program("--help", PYTHONIOENCODING=encoding, COLUMNS="40", PYTHONUTF8="0")
    assert done.returncode == 0
    assert "serve" in done.stdout
    assert "Traceback" not in done.stderr


def test_help_breaks_lines_where_the_terminal_does(program: Run) -> None:
    wide = [line.strip() for line in program("init", "--help", COLUMNS="600").stdout.splitlines()]
    (searched,) = [line for line in wide if line.startswith("Looks in your home folder")]
    assert searched.endswith("Junie, Copilot in JetBrains.")
    assert "--limit      -n      N [1<=x<=50]" in program("search", "--help").stdout


def test_no_help_has_brackets_that_are_taken_for_markup() -> None:
    def texts(command: Any) -> Iterator[str]:
        yield command.help or ""
        yield from (getattr(parameter, "help", None) or "" for parameter in command.params)
        for child in getattr(command, "commands", {}).values():
            yield from texts(child)

    written = [text for name in COMMANDS for text in texts(load(name))]
    assert [text for text in written if Text.from_markup(text).plain != text] == []


def test_help_in_a_pipe_has_no_colours(program: Run) -> None:
    assert "\x1b" not in program("--help").stdout


def test_version_says_the_version_and_nothing_else(program: Run) -> None:
    assert program("--version").stdout == f"toolgate {__version__}\n"


@pytest.mark.parametrize(
    ("argv", "sentence"),
    [
        (["serch"], "Unknown command 'serch'. Did you mean 'search'? See: toolgate --help"),
        (["remove"], "Unknown command 'remove'. See: toolgate --help"),
        (["--cofnig", "x"], "No such option: --cofnig"),
        (["--config"], "Option --config needs a file name after it."),
        (["serve", "--prot", "1"], "'toolgate serve' has no option --prot. Did you mean --port?"),
        (["serve", "--port"], "Option --port needs a value."),
        (
            ["serve", "--port", "x"],
            "got 'x'. Allowed: an integer from 0 to 65,535.",
        ),
        (["serve", "--port", "99999"], "Option --port got '99999'. Allowed: an integer from 0"),
        (["serve", "--port=-1"], "Option --port got '-1'. Allowed: an integer from 0"),
        (["serve", "now"], "'toolgate serve' takes no argument 'now'."),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_wrong_use_is_one_sentence_and_status_2(
    argv: list[str], sentence: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(argv) == USAGE_ERROR
    said = capsys.readouterr().err
    assert sentence in said
    assert said.count("\n") == 1


def test_shared_options_may_stand_before_and_after_the_command() -> None:
    before, rest = split_globals(["--config", "a.toml", "-v", "search", "x"])
    after, same = split_globals(["search", "--config=a.toml", "x", "-v"])
    assert before == after
    assert rest == same == ["search", "x"]
    assert before.config == Path("a.toml")
    assert before.verbose == 1


def test_shared_options_after_two_dashes_belong_to_the_command_of_a_server() -> None:
    shared, rest = split_globals(["servers", "add", "x", "--", "npx", "--config", "y", "-v"])
    assert shared.config is None
    assert rest == ["servers", "add", "x", "--", "npx", "--config", "y", "-v"]


def test_import_may_be_given_more_than_once_and_needs_its_file() -> None:
    shared, _ = split_globals(["--import", "a.json", "serve", "--import=b.json"])
    assert shared.imports == ("a.json", "b.json")
    with pytest.raises(UsageError):
        split_globals(["serve", "--import"])


@pytest.mark.parametrize("name", list(COMMANDS))
def test_every_command_loads_and_says_of_itself_what_the_overview_says(name: str) -> None:
    command = load(name)
    text = (command.help or "").split("\n\n")[0]
    assert " ".join(text.split()) == COMMANDS[name].summary
    # Completion is installed for the program, and is no option of each command.
    assert not {one.name for one in command.params} & {"install_completion", "show_completion"}


@pytest.mark.parametrize("argv", [[], ["servers"]], ids=["toolgate", "servers"])
def test_no_words_at_all_show_the_help(argv: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert run(argv) == USAGE_ERROR
    said = capsys.readouterr()
    assert "Usage: toolgate" in said.out
    assert said.err == ""


def test_nothing_found_has_a_status_of_its_own() -> None:
    assert NO_RESULT == 3


def test_products_of_a_search_run_on_one_thread() -> None:
    """Unless somebody says otherwise: threads that wait for the next product burn the processor."""
    code = (
        "import os, toolgate.cli as cli\n"
        "try: cli.main(['--version'])\n"
        "except SystemExit:\n"
        " print(os.environ['OPENBLAS_NUM_THREADS'], os.environ['MKL_NUM_THREADS'])"
    )
    env = {"MKL_NUM_THREADS": "4", "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run(
        [sys.executable, "-c", code], env=env, capture_output=True, text=True, check=True
    )
    assert done.stdout.split()[-2:] == ["1", "4"]
