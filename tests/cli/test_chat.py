"""`toolgate chat`: its help, and what it shows beside an answer."""

from pathlib import Path

from tests.cli.conftest import Command, Run

TOML = """
packs.enable = ["documents"]

[serve]
port = 0

[chat]
grade = false
engine = "plain"

[models.main]
provider = "scripted"

[[models.main.options.steps]]
after = "documents__retriever"
say = "From IT [1], not from HR [4]."

[[models.main.options.steps]]
call = { name = "documents__retriever", arguments = { question = "token" } }
"""


def test_sources_stand_behind_an_answer(command: Command, toolgate: Run, folder: Path) -> None:
    (folder / "toolgate.toml").write_text(TOML, "utf-8")
    (folder / "vpn.md").write_text("# VPN\n\nThe token comes from IT.\n", "utf-8")
    assert command("docs", "add", "vpn.md", "-c", "docs", "--description", "Help").status == 0

    said = toolgate("chat", "Who gives me a token for the VPN?")

    assert said.stdout == "From IT [1], not from HR [4].\n"
    assert '[1] vpn.md, "VPN"' in said.stderr
    assert "The answer cites [4], but there is no such source." in said.stderr
    nothing = command("chat", " ")  # costs no request
    assert (nothing.status, "The message is empty." in nothing.err) == (2, True)


def test_its_help_names_where_models_are_set(toolgate: Run) -> None:
    """Square brackets were taken for markup, and swallowed."""
    assert "models.NAME" in toolgate("chat", "--help").stdout
