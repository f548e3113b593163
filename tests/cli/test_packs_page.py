"""`docs/packs.md`, followed to the letter: its files are written, its commands run and compared."""

import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.cli.conftest import Command

PAGE = Path(__file__).parents[2] / "docs" / "packs.md"
_BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_PATH = re.compile(r"`(packs/[^`]+)`:\n\n\Z")


@dataclass(frozen=True, kw_only=True)
class Step:
    """A file to write, or a command to run with what it prints."""

    path: str = ""
    content: str = ""
    argv: tuple[str, ...] = ()
    printed: tuple[str, ...] = ()


def steps(text: str) -> Iterator[Step]:
    """What the page asks for, in its order."""
    for block in _BLOCK.finditer(text):
        language, content = block[1], block[2]
        if language == "console":
            for command in re.split(r"^\$ ", content, flags=re.MULTILINE)[1:]:
                first, *printed = command.rstrip("\n").split("\n")
                yield Step(argv=tuple(shlex.split(first)), printed=tuple(printed))
        elif path := _PATH.search(text[: block.start()]):
            yield Step(path=path[1], content=content)
        elif language != "json":  # an example of a file that this pack does not have
            raise AssertionError(f"what is to be done with this block? {content[:60]!r}")


def pattern_of(printed: tuple[str, ...]) -> str:
    """What a command prints, as the page shows it: `...` is anything, numbers are not compared."""
    lines = "\n".join(printed) + "\n"
    parts = re.split(r"^\.\.\.\n|\.\.\.", lines, flags=re.MULTILINE)
    escaped = [re.sub(r"0\\\.\d+", r"0\\.\\d+", re.escape(part)) for part in parts]
    return r"[\s\S]*?".join(escaped)


def test_following_the_page_makes_a_pack_that_works(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: Command
) -> None:
    monkeypatch.chdir(tmp_path)
    done: list[str] = []

    for step in steps(PAGE.read_text(encoding="utf-8")):
        if step.path:
            (tmp_path / step.path).write_text(step.content, encoding="utf-8")
            done.append(step.path)
            continue
        assert step.argv[0] == "toolgate"
        outcome = command(*step.argv[1:])
        assert outcome.status == 0, (step.argv, outcome.out, outcome.err)
        assert re.match(pattern_of(step.printed), outcome.out), (step.argv, outcome.out)
        done.append(" ".join(step.argv[1:3]))

    assert done.count("pack lint") == 1
    assert [path for path in done if "forms" in path] == [
        "packs/shop/intents/forms.txt",
        "packs/shop/intents/forms.toml",
        "packs/shop/tools/forms.py",
        "packs/shop/rules/forms.md",
    ]


def test_the_pack_of_the_page_has_no_fault(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: Command
) -> None:
    monkeypatch.chdir(tmp_path)
    assert command("pack", "new", "shop", "--intent", "refunds").status == 0
    for step in steps(PAGE.read_text(encoding="utf-8")):
        if step.path:
            (tmp_path / step.path).write_text(step.content, encoding="utf-8")

    answer = command("pack", "lint", "packs/shop", "--json")

    assert answer.status == 0, answer.out
    assert {each["rule"] for each in answer.json["findings"]} == {"few-prompts"}


def test_every_finding_has_its_line_on_the_page() -> None:
    source = PAGE.parents[1] / "src" / "toolgate" / "packs"
    named: set[str] = set()
    for file in ("lint.py", "lint_rules.py"):
        text = (source / file).read_text(encoding="utf-8")
        named |= set(re.findall(r'rule(?:: str)? ?= ?"([a-z-]+)"', text))
    listed = set(re.findall(r"`([a-z]+(?:-[a-z]+)*)`", PAGE.read_text(encoding="utf-8")))

    assert len(named) > 15
    assert named - listed == set()
