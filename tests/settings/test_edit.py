"""Changes to `toolgate.toml` keep what they do not change, and changes by others are noticed."""

import os
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import cast

import anyio
import pytest

from tests.limits import HANG_S
from toolgate.errors import SettingError, UnknownServerError
from toolgate.settings import (
    Settings,
    add_server_to_file,
    change_server_in_file,
    load,
    migrate_text,
    remove_server_from_file,
    renamed_keys,
    set_import,
    switch_pack,
    watch,
    write_text,
)

KEPT = """\
# Ours, since spring.
mode = "all" # for now

# The first.
[server.a] # keep me
command = "x"
# inside a

# The second,
# which is long.
[server.b]
command = "y"
[server.b.tools."slow one"]
timeout_s = 5

# Where we listen.
[serve]
port = 1
"""


def test_a_server_is_added_at_the_end_and_nothing_else_changes(tmp_path: Path) -> None:
    path = tmp_path / "toolgate.toml"
    path.write_text(KEPT)
    config = {"command": "z", "args": ["a b", "\x7f"], "env": {"K k": "${env:K}"}, "enabled": False}
    add_server_to_file(path, "c d", config)
    assert path.read_text() == (
        f'{KEPT}\n[server."c d"]\ncommand = "z"\nargs = ["a b", "\\u007f"]\n'
        'env = { "K k" = "${env:K}" }\nenabled = false\n'
    )


def test_the_file_is_made_for_its_owner_alone(tmp_path: Path) -> None:
    path = tmp_path / "new" / "toolgate.toml"
    add_server_to_file(path, "a", {"url": "http://h/"})
    assert path.read_text() == 'version = 1\n\n[server.a]\nurl = "http://h/"\n'
    assert path.stat().st_mode & 0o777 == 0o600
    assert list(path.parent.iterdir()) == [path]


def test_a_file_keeps_its_mode_its_link_and_its_encoding(tmp_path: Path) -> None:
    real, path = tmp_path / "real.toml", tmp_path / "toolgate.toml"
    real.write_bytes("# naïve\r\n".encode("utf-8-sig"))
    real.chmod(0o640)
    path.symlink_to(real)
    add_server_to_file(path, "a", {"command": "x"})
    assert path.is_symlink()
    assert real.stat().st_mode & 0o777 == 0o640
    assert real.read_bytes().startswith("# naïve\r\n".encode("utf-8-sig"))


@pytest.mark.parametrize(
    ("name", "config", "message"),
    [
        ("a", {"command": "x"}, "The server name 'a' is already used in"),
        ("c", {"comand": "x"}, "the key 'comand' does not exist"),
        ("c", {"command": 5}, "command is a whole number"),
    ],
)
def test_a_server_that_cannot_be_is_not_written(
    name: str, config: dict[str, object], message: str, tmp_path: Path
) -> None:
    path = tmp_path / "toolgate.toml"
    path.write_text(KEPT)
    with pytest.raises(SettingError, match=message):
        add_server_to_file(path, name, config)
    assert path.read_text() == KEPT


def test_a_server_is_removed_with_the_comments_above_it(tmp_path: Path) -> None:
    path = tmp_path / "toolgate.toml"
    path.write_text(KEPT)
    remove_server_from_file(path, "b")
    assert path.read_text() == (
        '# Ours, since spring.\nmode = "all" # for now\n\n# The first.\n[server.a] # keep me\n'
        'command = "x"\n# inside a\n\n# Where we listen.\n[serve]\nport = 1\n'
    )
    with pytest.raises(UnknownServerError, match=r"has no server 'b'\. There: a"):
        remove_server_from_file(path, "b")


def test_a_server_is_removed_by_the_name_that_it_was_given(tmp_path: Path) -> None:
    path = tmp_path / "toolgate.toml"
    path.write_text('[server."My GitHub"]\ncommand = "x"\n')
    with pytest.raises(SettingError, match="is already used in"):
        add_server_to_file(path, "My-GitHub-4fcf40", {"command": "y"})
    remove_server_from_file(path, "My-GitHub-4fcf40")
    assert path.read_text() == ""


@pytest.mark.parametrize(
    "text",
    [
        'server = { a = { command = "x" }, b = { command = "y" } }\n',
        'server.a.command = "x"\n[server.b]\ncommand = "y"\n',
        '[server]\na = { command = "x" }\nb.command = "y"\n',
    ],
    ids=["inline", "dotted", "inside"],
)
def test_a_server_that_cannot_be_taken_apart_is_left_to_its_owner(
    text: str, tmp_path: Path
) -> None:
    path = tmp_path / "toolgate.toml"
    path.write_text(text)
    with pytest.raises(SettingError, match="cannot be changed without touching the rest"):
        remove_server_from_file(path, "a")
    assert path.read_text() == text


def test_the_only_server_can_be_removed(tmp_path: Path) -> None:
    path = tmp_path / "toolgate.toml"
    path.write_text('mode = "all"\n\n[server.a]\ncommand = """\n[server.b]\n"""\n')
    with pytest.raises(SettingError):
        remove_server_from_file(path, "a")  # a text that looks like a table: not touched
    path.write_text('mode = "all"\n\n[server.a]\ncommand = "x"\n')
    remove_server_from_file(path, "a")
    assert path.read_text() == 'mode = "all"\n'


def test_a_folder_that_cannot_be_written_is_an_error_and_leaves_nothing(tmp_path: Path) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("x")
    with pytest.raises(SettingError, match="cannot be written"):
        write_text(blocked / "toolgate.toml", "x")
    assert list(tmp_path.iterdir()) == [blocked]


IMPORTS = {
    "none yet": ("# top\n\n# a\n[a]\nx = 1\n", "# top\n\n{}\n# a\n[a]\nx = 1\n"),
    "no table": ('mode = "all"', 'mode = "all"\n{}'),
    "nothing": ("", "{}"),
    "on one line": ('import = "a"\n[a]\n', "{}[a]\n"),
    "on several lines": ('x = 1\nimport = [\n  "a",\n  # why\n]\ny = 2\n', "x = 1\n{}y = 2\n"),
}


@pytest.mark.parametrize(("before", "after"), IMPORTS.values(), ids=IMPORTS)
def test_imports_are_set_where_they_stand(before: str, after: str) -> None:
    new = 'import = [\n  "b",\n  { file = "c", skip = ["d"] },\n]\n'
    values = ["b", {"file": "c", "skip": ["d"]}]
    assert set_import(before, Path("toolgate.toml"), values) == after.format(new)


def test_migrating_replaces_old_names_only(monkeypatch: pytest.MonkeyPatch) -> None:
    old = renamed_keys.RenamedKey(old=("server", "*", "patience"), new="timeout_s", until="0.3.0")
    monkeypatch.setattr(renamed_keys, "RENAMED", (old,))
    text = '# patience\n[server.patience]\ncommand = "patience"\npatience = 7 # patience\n'
    migrated, changes = migrate_text(text, Path("toolgate.toml"))
    assert migrated == text.replace("patience = 7", "timeout_s = 7")
    assert changes == ["line 4: server.patience.patience is now timeout_s"]
    assert migrate_text(migrated, Path("toolgate.toml")) == (migrated, [])


class Watching:
    """A watch that is looked at step by step."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "toolgate.toml"
        self.stop = anyio.Event()
        self._environ = {"HOME": str(folder)}
        self._folder = folder

    def begin(self) -> None:
        settings = load(cwd=self._folder, environ=self._environ)
        self._changes = cast(
            "AsyncGenerator[Settings | SettingError, None]",
            watch(
                settings,
                stop=self.stop,
                interval_s=0.001,
                environ=self._environ,
                cwd=self._folder,
            ),
        )

    async def next(self) -> Settings | SettingError:
        with anyio.fail_after(HANG_S):
            return await anext(self._changes)

    async def end(self) -> None:
        self.stop.set()
        with anyio.fail_after(HANG_S):
            assert [one async for one in self._changes] == []


async def test_a_change_an_error_and_its_repair_are_told(tmp_path: Path) -> None:
    watching = Watching(tmp_path)
    watching.path.write_text('mode = "all"')
    watching.begin()
    watching.path.write_text('mode = "meta"  ')
    changed = await watching.next()
    assert isinstance(changed, Settings)
    assert changed.mode == "meta"
    watching.path.write_text("mode = ")
    broken = await watching.next()
    assert isinstance(broken, SettingError)
    watching.path.write_text('mode = "meta"  ')
    assert await watching.next() == changed
    await watching.end()


async def test_a_file_that_an_editor_replaces_is_still_watched(tmp_path: Path) -> None:
    watching = Watching(tmp_path)
    watching.path.write_text('mode = "all"')
    watching.begin()
    for mode in ("meta", "auto"):
        draft = tmp_path / "draft"
        draft.write_text(f'mode = "{mode}"')
        draft.replace(watching.path)
        changed = await watching.next()
        assert isinstance(changed, Settings)
        assert changed.mode == mode
    await watching.end()


async def test_imported_files_and_a_new_configuration_are_watched(tmp_path: Path) -> None:
    watching = Watching(tmp_path)
    watching.begin()
    (tmp_path / "x.json").write_text("{}")
    watching.path.write_text('import = ["x.json"]')
    assert isinstance(await watching.next(), Settings)
    (tmp_path / "x.json").write_text('{"mcpServers": {"a": {"command": "x"}}}')
    changed = await watching.next()
    assert isinstance(changed, Settings)
    assert [server.name for server in changed.servers] == ["a"]
    watching.path.unlink()
    gone = await watching.next()
    assert isinstance(gone, SettingError)
    await watching.end()


async def test_a_touch_that_changes_nothing_is_not_told(tmp_path: Path) -> None:
    watching = Watching(tmp_path)
    watching.path.write_text('mode = "all"')
    watching.begin()
    os.utime(watching.path, ns=(1, 1))
    (tmp_path / ".config" / "toolgate").mkdir(parents=True)
    watching.path.write_text('mode = "all" # the same')
    watching.path.write_text('mode = "meta"')
    changed = await watching.next()
    assert isinstance(changed, Settings)
    assert changed.mode == "meta"
    await watching.end()


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        (
            'mode = "auto"\n\n# the search\n[search]\n# why\nstrategy = "a"  # b\nembedder = "x"\n',
            'mode = "auto"\noptimization = "a"  # b\n\n# the search\n[search]\n# why\n'
            'embedder = "x"\n',
        ),
        ('[search]\nstrategy="off"', 'optimization ="off"\n\n[search]\n'),
        ('search.strategy = "off"\n', 'optimization = "off"\n\n'),
    ],
    ids=["with comments", "alone", "dotted"],
)
def test_a_key_that_moved_to_the_top_is_moved_there(text: str, wanted: str) -> None:
    """Regression guard for `[search] strategy`, which is `optimization` now."""
    migrated, changes = migrate_text(text, Path("toolgate.toml"))

    assert migrated == wanted
    assert len(changes) == 1
    assert changes[0].endswith("search.strategy is now optimization, at the top")


def test_a_moved_key_in_an_inline_table_is_left_to_its_owner() -> None:
    with pytest.raises(SettingError, match="an outdated key cannot be renamed automatically"):
        migrate_text('search = { strategy = "off" }', Path("toolgate.toml"))


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("", '[packs]\nenable = ["servoy"]\n'),
        ("a = 1", 'a = 1\n\n[packs]\nenable = ["servoy"]\n'),
        ("[packs] # ours\n", '[packs] # ours\nenable = ["servoy"]\n'),
        (
            '[packs]\n# why\nenable = [\n  "x", # x\n]\npaths = []\n[serve]\nport = 0\n',
            '[packs]\n# why\nenable = ["x", "servoy"]\npaths = []\n[serve]\nport = 0\n',
        ),
        (
            "[packs.options.a]\nb = 1\n",
            '[packs.options.a]\nb = 1\n\n[packs]\nenable = ["servoy"]\n',
        ),
    ],
    ids=range(5),
)
def test_a_pack_is_switched_without_touching_the_rest(
    tmp_path: Path, before: str, after: str
) -> None:
    path = tmp_path / "toolgate.toml"
    path.write_text(before, "utf-8")

    assert switch_pack(path, "servoy", on=True, by_default=False)
    assert not switch_pack(path, "servoy", on=True, by_default=False)

    assert path.read_text("utf-8") == after


def test_packs_that_are_written_in_one_line_are_left_to_their_owner(tmp_path: Path) -> None:
    path = tmp_path / "toolgate.toml"
    path.write_text('packs = { enable = ["x"] }\n', "utf-8")

    with pytest.raises(SettingError, match="cannot be changed without touching the rest"):
        switch_pack(path, "servoy", on=True, by_default=False)

    assert path.read_text("utf-8") == 'packs = { enable = ["x"] }\n'


def test_a_server_is_changed_and_the_comments_around_it_stay(tmp_path: Path) -> None:
    path = tmp_path / "toolgate.toml"
    path.write_text(KEPT)
    change_server_in_file(path, "a", {"enabled": False, "tool_permissions": {"x y": False}})
    changed = KEPT.replace(
        "[server.a] # keep me\n",
        '[server.a] # keep me\ntool_permissions = { "x y" = false }\nenabled = false\n',
    )
    assert path.read_text() == changed
    change_server_in_file(path, "a", {"enabled": None, "tool_permissions": None})
    assert path.read_text() == KEPT


def test_permissions_in_a_table_of_their_own_are_changed_there(tmp_path: Path) -> None:
    path = tmp_path / "toolgate.toml"
    path.write_text(
        '[server."odd name"]\ncommand = "x"\n\n[server."odd name".tool_permissions]\n'
        "# Too slow.\nslow = false\n# Nobody needs it.\nold = false\n"
    )
    change_server_in_file(path, "odd name", {"tool_permissions": {"slow": False, "new": False}})
    assert path.read_text() == (
        '[server."odd name"]\ncommand = "x"\n\n[server."odd name".tool_permissions]\n'
        "new = false\n# Too slow.\nslow = false\n# Nobody needs it.\n"
    )


def test_a_server_on_one_line_is_left_to_its_owner(tmp_path: Path) -> None:
    path = tmp_path / "toolgate.toml"
    text = 'server = { a = { command = "x" } }\n'
    path.write_text(text)
    with pytest.raises(SettingError, match="cannot be changed without touching the rest"):
        change_server_in_file(path, "a", {"enabled": False})
    with pytest.raises(UnknownServerError):
        change_server_in_file(path, "b", {"enabled": False})
    assert path.read_text() == text
