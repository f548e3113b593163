"""`keys`: the key that credentials are encrypted with; exchanging it is in `test_credentials`."""

import pytest

from tests.cli.conftest import Command
from toolgate import settings
from toolgate.cli.terminal._exit import SUCCESS


def test_a_key_that_there_is_not_yet_is_not_made_by_looking(command: Command) -> None:
    shown = command("keys", "show")
    assert (shown.status, "There is no key yet" in shown.out) == (SUCCESS, True)
    assert not settings.credential_key_file().exists()


def test_a_key_of_a_variable_is_named_and_not_shown(
    command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TOOLGATE_CREDENTIALS_KEY", "ab" * 32)
    shown = command("keys", "show", "--json")
    assert shown.json["source"] == "the variable TOOLGATE_CREDENTIALS_KEY"
    assert "abab" not in shown.out
    monkeypatch.setenv("TOOLGATE_CREDENTIALS_KEY", "not-hexadecimal")
    wrong = command("keys", "rotate")
    assert "64 hex digits" in wrong.err
    assert "not-hexadecimal" not in wrong.err
