"""`toolgate init --rules`: the files that models are given say to ask for rules first."""

from pathlib import Path

import pytest

from tests.cli.conftest import Command
from toolgate.intents.rules import INSTRUCTIONS

NAMES = (
    ".github/copilot-instructions.md",
    "CLAUDE.md",
    "AGENTS.md",
    ".cursor/rules/toolgate.mdc",
)


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_four_kinds_of_clients_are_told_to_call_process_prompt_first(
    project: Path, command: Command
) -> None:
    done = command("init", "--rules", "--yes")

    assert done.status == 0
    texts = {name: (project / name).read_text("utf-8") for name in NAMES}
    assert all(INSTRUCTIONS.strip() in text for text in texts.values())
    assert all("processPrompt" in text for text in texts.values())
    assert texts[".cursor/rules/toolgate.mdc"].startswith("---\n")
    assert "alwaysApply: true" in texts[".cursor/rules/toolgate.mdc"]
    assert (project / "CLAUDE.md").stat().st_mode & 0o777 == 0o644


def test_undo_takes_away_what_was_made(project: Path, command: Command) -> None:
    command("init", "--rules", "--yes")
    done = command("init", "--undo", "--yes")

    assert done.status == 0
    assert list(project.iterdir()) == []


@pytest.mark.parametrize(
    "before", [b"", b"# Mine\n", b"# Mine\nno end", b"# Mine\r\nwindows", "\ufeffmärk\n".encode()]
)
def test_what_a_file_said_stays_and_undo_gives_it_back_to_the_byte(
    before: bytes, project: Path, command: Command
) -> None:
    path = project / "CLAUDE.md"
    path.write_bytes(before)

    command("init", "--rules", "--yes")
    assert path.read_bytes().startswith(before)
    assert b"processPrompt" in path.read_bytes()
    command("init", "--undo", "--yes")

    assert path.read_bytes() == before


def test_writing_it_again_changes_nothing(project: Path, command: Command) -> None:
    command("init", "--rules", "--yes")
    before = {name: (project / name).read_bytes() for name in NAMES}
    again = command("init", "--rules", "--yes")

    assert again.status == 0
    assert "Nothing to do" in again.err
    assert {name: (project / name).read_bytes() for name in NAMES} == before


def test_an_older_block_is_replaced_and_not_repeated(project: Path, command: Command) -> None:
    path = project / "AGENTS.md"
    path.write_text("# Mine\n", "utf-8")
    command("init", "--rules", "--yes")
    path.write_text(
        path.read_text("utf-8").replace("1. **Call", "1. **Ring") + "\nlater\n", "utf-8"
    )

    assert command("init", "--rules", "--yes").status == 0
    assert path.read_text("utf-8").count("toolgate: begin") == 1
    assert "Ring" not in path.read_text("utf-8")
    command("init", "--undo", "--yes")

    assert path.read_text("utf-8") == "# Mine\n\n\nlater\n"


def test_a_link_to_another_of_the_files_gets_one_block(project: Path, command: Command) -> None:
    (project / "CLAUDE.md").write_text("# Mine\n", "utf-8")
    (project / "AGENTS.md").symlink_to("CLAUDE.md")

    command("init", "--rules", "--yes")

    assert (project / "AGENTS.md").is_symlink()
    assert (project / "CLAUDE.md").read_text("utf-8").count("toolgate: begin") == 1


def test_a_block_that_somebody_removed_is_no_error_at_undo(project: Path, command: Command) -> None:
    command("init", "--rules", "--yes")
    (project / "AGENTS.md").write_text("mine\n", "utf-8")
    (project / "CLAUDE.md").unlink()

    done = command("init", "--undo", "--yes")

    assert done.status == 0
    assert (project / "AGENTS.md").read_text("utf-8") == "mine\n"
    assert "is gone already" in done.out


def test_a_dry_run_names_the_files_and_writes_none(project: Path, command: Command) -> None:
    done = command("init", "--rules", "--dry-run", "--json")

    assert [Path(path).name for path in done.json["would_write"]] == [
        Path(name).name for name in NAMES
    ]
    assert done.json["written"] == []
    assert list(project.iterdir()) == []


def test_without_yes_a_program_is_told_what_to_add(project: Path, command: Command) -> None:
    done = command("init", "--rules", "--json")

    assert done.status == 2
    assert "--yes" in done.err
    assert list(project.iterdir()) == []
