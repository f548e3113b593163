"""`toolgate pack`: create, check, list and enable packs."""

from dataclasses import asdict
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Annotated

import anyio
import typer

from toolgate.base.pack_files import append_lines, is_pack
from toolgate.cli.client._list_packs import pack_rows
from toolgate.cli.client._load_settings import load_settings
from toolgate.cli.terminal._command_app import AsJson, CommandApp
from toolgate.cli.terminal._context import shared_options
from toolgate.cli.terminal._exit import FAILED, NO_RESULT, SUCCESS
from toolgate.cli.terminal._output import (
    note,
    plural,
    print_json,
    print_table,
    print_text,
    spinner,
)
from toolgate.errors import OptionError
from toolgate.intents import NONE
from toolgate.packs import (
    WRITABLE_ORIGINS,
    Pack,
    Packs,
    PackState,
    builtin,
    is_on_by_default,
    load_pack,
)
from toolgate.packs.lint import LintFinding, LintReport
from toolgate.packs.scaffold import new_pack
from toolgate.settings import CONFIG_NAME, config_dir, find_config, learned_dir, switch_pack
from toolgate.types import Json

app = CommandApp()

Folder = Annotated[
    str | None,
    typer.Argument(
        metavar="[DIR]", help="Folder or name of a pack. Default: all of your own packs."
    ),
]


for _path in sorted(Path(str(builtin.__file__)).parent.glob("*/commands.py")):
    # Built-in packs can have their own commands, in this file as `app`.
    _module = import_module(f"toolgate.packs.builtin.{_path.parent.name}.commands")
    app.add_typer(_module.app, name=_path.parent.name)

Name = Annotated[str, typer.Argument(metavar="NAME", help="Name of the pack.")]


@app.command()
def new(
    name: Name,
    folder: Annotated[
        Path, typer.Option("--in", metavar="DIR", help="Parent folder of the new pack.")
    ] = Path("packs"),
    intent: Annotated[
        str, typer.Option(metavar="NAME", help="First intent. Default: the name of the pack.")
    ] = "",
    as_json: AsJson = False,
) -> None:
    """Create a pack with a sample intent, rules and a tool; comments explain all options.

    JSON: {"name", "folder", "files"}
    """
    files = new_pack(name, folder, intent=intent)
    home = files[0].parent
    if as_json:
        names = [path.relative_to(home).as_posix() for path in files]
        print_json({"name": name, "folder": str(home), "files": names})
        return
    for path in files:
        print_text(str(path))
    note(f"Add some example prompts to {files[1]}, then run: toolgate pack lint {home}")
    if folder.resolve() != Path("packs").resolve():
        note(f"To use it, add it to toolgate.toml: [packs] paths = [{str(folder)!r}]")


@app.command()
async def lint(
    folder: Folder = None,
    as_json: AsJson = False,
) -> int:
    """Check packs and suggest fixes.

    Errors: something does not work. Warnings: results will be wrong. Advice: optional. Exit status
    1 if there are errors or warnings, 3 if there is no pack.

    JSON: {"findings": [{"pack", "rule", "level", "intent", "file", "line", "text", "hint"}],
    "packs": [{"name", "folder", "errors", "warnings", "advice", "intents": [{"name", "prompts",
    "keywords", "accuracy", "tools", "rules_bytes"}]}]}
    """
    packs = await _select_packs(folder)
    if not packs:
        note("There is no pack of your own here. Create one: toolgate pack new NAME")
        return NO_RESULT
    with spinner("Training example prompts"):
        results: list[LintReport] = await import_module("toolgate.cli.intents._lint").lint_packs(
            packs
        )
    if as_json:
        print_json(
            {
                "findings": [
                    {"pack": result.pack, **asdict(finding)}
                    for result in results
                    for finding in result.findings
                ],
                "packs": [_summary(result) for result in results],
            }
        )
    else:
        for result in results:
            _show(result)
    bad = sum(result.count("error") + result.count("warning") for result in results)
    return FAILED if bad else SUCCESS


@app.command("list")
async def list_packs(as_json: AsJson = False) -> int:
    """List all packs and their problems.

    JSON: [{"name", "version", "description", "origin", "folder", "on", "is_kept", "intents",
    "prompts", "rules", "problems", "skipped"}]
    """
    rows = await pack_rows(load_settings())
    if as_json:
        print_json(rows)
    else:
        print_table(
            ("Pack", "Version", "Enabled", "Origin", "Intents", "Prompts", "Rules", "Folder"),
            [_row(row) for row in rows if not _is_skipped(row)],
            spare=("Version", "Origin"),
        )
        for problem in (problem for row in rows for problem in row["problems"]):
            note(problem)
        for reason in (reason for row in rows for reason in row.get("skipped", ())):
            note(f"Skipped: {reason}")
    return SUCCESS if rows else NO_RESULT


def _is_skipped(pack: Json) -> bool:
    """Whether it is not a pack, which is not an error."""
    return bool(pack.get("skipped")) and not pack["on"] and not pack["problems"]


def _row(pack: Json) -> list[str]:
    used = "no" if not pack["on"] else "previous version" if pack["is_kept"] else "yes"
    counts = (len(pack["intents"]), pack["prompts"], pack["rules"])
    is_read = pack["on"] and any((*counts, not pack["problems"]))
    return [
        pack["name"],
        pack["version"],
        used if is_read or not pack["on"] else "invalid",
        pack["origin"],
        *(map(str, counts) if is_read else ("", "", "")),
        pack["folder"],
    ]


def _summary(result: LintReport) -> dict[str, object]:
    return {
        "name": result.pack,
        "folder": result.folder,
        "errors": result.count("error"),
        "warnings": result.count("warning"),
        "advice": result.count("advice"),
        "intents": [asdict(intent) for intent in result.intents],
    }


def _show(result: LintReport) -> None:
    for finding in result.findings:
        print_text(f"{_location(result, finding)}{finding.level} {finding.rule}: {finding.text}")
        print_text(f"    {finding.hint}")
    for intent in result.intents:
        parts = [plural(intent.prompts, "prompt"), plural(intent.keywords, "keyword")]
        if intent.accuracy is not None:
            parts.append(f"{intent.accuracy:.0%} classified correctly in cross-validation")
        parts.append(f"{intent.rules_bytes:,} bytes of rules" if intent.rules_bytes else "no rules")
        note(f"{result.pack} {intent.name}: {', '.join(parts)}.")
    counts = (
        (result.count("error"), "error"),
        (result.count("warning"), "warning"),
        (result.count("advice"), "suggestion"),
    )
    listed = ", ".join(plural(count, name) for count, name in counts if count)
    note(f"{result.pack}: {listed or 'no problems'}.")


def _location(result: LintReport, finding: LintFinding) -> str:
    if not finding.file:
        return ""
    path, here = Path(result.folder) / finding.file, Path.cwd()
    path_text = path.relative_to(here) if path.is_relative_to(here) else path
    return f"{path_text}{f':{finding.line}' if finding.line else ''}: "


async def _select_packs(folder: str | None) -> list[Pack]:
    """Return the packs to check: the named one, the one in this folder, or all of the user's."""
    dev = load_settings().packs.dev
    if folder is not None:
        path = await anyio.Path(folder).expanduser()
        is_name = path.name == folder and not await path.is_dir()
        return [load_pack((await _pack_state(folder)).folder if is_name else Path(path), dev=dev)]
    here = Path.cwd()
    if (here / "pack.toml").is_file() and is_pack(here):
        return [load_pack(here, dev=dev)]
    packs = Packs(load_settings().packs, cwd=here)
    await packs.refresh()
    user_states = [state for state in packs.current.states if state.origin in WRITABLE_ORIGINS]
    return [load_pack(state.folder, dev=dev) for state in user_states if state.folder.is_dir()]


@app.command("test")
def run_tests(
    folder: Folder = None,
    as_json: AsJson = False,
) -> int:
    """Run the tests in each pack's tests.jsonl: messages with their expected results.

    Exit status 1 if a test fails, 3 if there are no tests.

    JSON: {"tests", "failed": [{"pack", "file", "line", "message", "mistakes"}]}
    """
    packs = anyio.run(_select_packs, folder)
    tests = import_module("toolgate.cli.intents._pack_tests")
    expected = import_module("toolgate.evaluation.pack_expectations")
    count, failed = 0, list[Json]()
    for pack in packs:
        expectations = expected.read_expectations(pack.folder)
        count += len(expectations)
        for test, mistakes in tests.failures_of([pack], expectations):
            failed.append(
                {
                    "pack": pack.name,
                    "file": str(pack.folder / expected.TESTS),
                    "line": test.line,
                    "message": test.message,
                    "mistakes": mistakes,
                }
            )
    if as_json:
        print_json({"tests": count, "failed": failed})
    else:
        for failure in failed:
            print_text(f"{failure['file']}:{failure['line']}: {failure['message']}")
            for mistake in failure["mistakes"]:
                print_text(f"    {mistake}")
        note(f"{plural(count, 'expectation')}, {len(failed)} not met.")
    if not count:
        return NO_RESULT
    return FAILED if failed else SUCCESS


@app.command()
def learn(
    messages: Annotated[list[str], typer.Argument(metavar="MESSAGE...", help="Messages to add.")],
    intent: Annotated[
        str,
        typer.Option(
            metavar="NAME",
            help="Intent of the messages; `none` if they match no intent in the pack.",
        ),
    ],
    pack: Annotated[
        str, typer.Option(metavar="NAME", help="The pack, if the intent is `none`.")
    ] = "",
    yes: Annotated[
        bool,
        typer.Option(
            "--yes", help="Write the prompts even if known messages would be misclassified."
        ),
    ] = False,
    as_json: AsJson = False,
) -> int:
    """Add messages to an intent as example prompts, after checking what that would change.

    Classifies all known messages (the prompts of all packs and the messages in their tests.jsonl)
    with and without the new prompts. If none of them is newly misclassified, the prompts are
    written. Otherwise those messages are listed, nothing is written without --yes, and the exit
    status is 1.

    JSON: {"intent", "file", "written", "known", "changed": [{"message", "before", "after",
    "expected", "regression"}]}
    """
    learning = import_module("toolgate.evaluation.example_prompts")
    lines = learning.as_prompts(messages)
    packs = anyio.run(_own_packs)
    owner, name = _owner(packs, intent, pack)
    embedder = import_module("toolgate.cli.intents._classifier").configured_embedder()
    with spinner("Training example prompts"):
        seen = anyio.run(
            partial(
                learning.preview, packs, owner, name, lines, embedder=embedder, cache=learned_dir()
            )
        )
    path = learning.prompt_file(owner, name)
    refused = bool(seen.regressions) and not yes
    written = 0 if refused else append_lines(path, lines)
    if as_json:
        print_json(
            {
                "intent": name,
                "file": str(path),
                "written": written,
                "known": seen.known,
                "changed": [
                    {**asdict(change), "regression": change.is_regression}
                    for change in seen.changed
                ],
            }
        )
        return FAILED if refused else SUCCESS
    for change in seen.changed:
        label = "WRONG  " if change.is_regression else ""
        print_text(f"{label}{change.message}: {change.before} -> {change.after}")
    note(f"{plural(seen.known, 'known message')}, {len(seen.regressions)} would be wrong.")
    done = f"{path}: {written} added."
    note("Nothing was written. Add --yes to write them." if refused else done)
    return FAILED if refused else SUCCESS


async def _own_packs() -> tuple[Pack, ...]:
    packs = Packs(load_settings().packs, cwd=Path.cwd())
    await packs.refresh()
    return packs.current.packs


def _owner(packs: tuple[Pack, ...], intent: str, name: str) -> tuple[Pack, str]:
    """Find the pack that has an intent; return it and the intent as the pack spells it.

    Raises:
        OptionError: There is none, or it is not clear which pack is meant.
    """
    if intent.casefold() == NONE:
        owner = next((pack for pack in packs if pack.name == name), None)
        if owner is not None:
            return owner, NONE
        raise OptionError(
            "Messages without an intent belong to a pack.",
            allowed=f"Packs: {', '.join(pack.name for pack in packs)}.",
            hint="Name it with --pack.",
        )
    for pack in packs:
        for known in pack.intents:
            if known.name.casefold() == intent.casefold():
                return pack, known.name
    names = ", ".join(known.name for pack in packs for known in pack.intents) or "none"
    raise OptionError(f"There is no intent {intent!r}.", allowed=f"Available: {names}.")


@app.command()
async def enable(name: Name) -> int:
    """Enable a pack; a running gateway loads it within a second."""
    return await _switch(name, True)


@app.command()
async def disable(name: Name) -> int:
    """Disable a pack; its files are not changed."""
    return await _switch(name, False)


async def _switch(name: str, on: bool) -> int:
    state = await _pack_state(name)
    path = find_config(shared_options().config) or config_dir() / CONFIG_NAME
    by_default = is_on_by_default(state.name, state.origin)
    done = "Enabled" if on else "Disabled"
    if switch_pack(path, state.name, on=on, by_default=by_default):
        print_text(f"{done} {state.name}: [packs] in {path}.")
    else:
        note(f"{state.name} is already {'enabled' if on else 'disabled'}.")
    for problem in state.problems:
        note(problem)
    return SUCCESS


async def _pack_state(name: str) -> PackState:
    """Return the state of a pack, enabled or not.

    Raises:
        OptionError: The pack does not exist.
    """
    packs = Packs(load_settings().packs, cwd=Path.cwd())
    await packs.refresh()
    states = [state for state in packs.current.states if state.folder.is_dir()]
    state = next((candidate for candidate in states if candidate.name == name), None)
    if state is None:
        raise OptionError(
            f"There is no pack {name!r}.",
            allowed=f"Found: {', '.join(candidate.name for candidate in states) or 'none'}.",
            hint="Add its folder to packs.paths, or create one: toolgate pack new NAME",
        )
    return state
