"""`toolgate uninstall`: what it shows, and what it removes only when it is told to."""

from pathlib import Path

from tests.cli.conftest import Command, Serve
from toolgate import settings
from toolgate.base.installation import current_installation
from toolgate.cli.setup.importing._undo import change_file
from toolgate.cli.terminal._exit import FAILED, SUCCESS


def test_a_dry_run_shows_everything_and_removes_nothing(command: Command, folder: Path) -> None:
    command("tools")
    settings.config_dir().mkdir(parents=True)
    (settings.config_dir() / "toolgate.toml").write_text("", encoding="utf-8")
    done = command("uninstall", "--dry-run")
    assert done.status == SUCCESS
    assert str(settings.data_dir()) in done.out
    assert str(settings.config_dir()) in done.out
    assert "(not removed" in done.out  # the file in the working folder belongs to its project
    assert settings.data_dir().exists()
    listed = command("uninstall", "--json").json
    assert listed["dry_run"] is True
    assert {item["removed"] for item in listed["items"]} == {False}


def test_yes_removes_what_is_ours_and_leaves_the_project(command: Command, folder: Path) -> None:
    command("tools")
    done = command("uninstall", "--yes")
    assert done.status == SUCCESS, done.err
    assert not settings.data_dir().exists()
    assert (folder / "toolgate.toml").exists()
    assert current_installation().uninstall_command() in done.err


def test_a_store_elsewhere_is_found(command: Command, folder: Path, tmp_path: Path) -> None:
    store = tmp_path / "elsewhere" / "kept.db"
    path = folder / "toolgate.toml"
    path.write_text(f"[store]\nurl = 'sqlite:///{store}'\n" + path.read_text("utf-8"), "utf-8")
    command("tools")
    assert store.exists()
    assert str(store) in command("uninstall").out
    assert command("uninstall", "--yes").status == SUCCESS
    assert not store.exists()


def test_nothing_is_removed_while_a_gateway_runs(
    command: Command, serve: Serve, folder: Path
) -> None:
    gateway = serve()
    done = command("uninstall", "--yes")
    assert done.status == FAILED
    assert f"kill {gateway.process.pid}" in done.err
    assert settings.data_dir().exists()


def test_a_machine_without_toolgate_has_nothing_to_remove(command: Command, folder: Path) -> None:
    (folder / "toolgate.toml").unlink()
    assert command("uninstall").err.startswith("There is nothing to remove.")


def test_files_of_clients_are_shown_and_restored(command: Command, folder: Path) -> None:
    client = folder / "client.json"
    client.write_text('{"mcpServers": {"mine": {}}}', encoding="utf-8")
    change_file(client, '{"mcpServers": {"toolgate": {}}}')
    assert f"client         {client}  would be restored" in command("uninstall").out
    done = command("uninstall", "--yes")
    assert done.status == SUCCESS
    assert f"Restored {client}." in done.err
    assert client.read_text("utf-8") == '{"mcpServers": {"mine": {}}}'
