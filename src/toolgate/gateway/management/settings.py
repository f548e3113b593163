"""Changes of settings in `toolgate.toml`: previewed, checked, then saved."""

import asyncio
import hashlib
import os
import shutil
import tomllib
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from toolgate.errors import ArgumentError, SettingError
from toolgate.gateway.parts import GatewayContext
from toolgate.settings import (
    NEW_FILE,
    DescribedSetting,
    Settings,
    described_settings,
    load,
    read_text,
    switch_pack,
    with_setting,
    write_text,
)
from toolgate.types import Caller, Json


@dataclass(frozen=True, kw_only=True)
class SettingChange:
    """A change that was checked but not saved yet."""

    before: str
    """The current text of the file."""

    after: str
    """The text of the file after the change."""

    state: str
    """The state of the file, which differs once anyone has changed it."""


class SettingsManagement:
    """Lists settings, and changes them in the configuration file."""

    def __init__(self, context: GatewayContext) -> None:
        self._settings = context.settings
        self._plugin_problems = context.search.plugin_problems
        self._visible = context.visible
        self._receipts = context.receipts

    async def all(self, caller: Caller) -> list[DescribedSetting]:
        """Every setting that holds a single value, with where it is set.

        Raises:
            ForbiddenError: The caller lacks the right `manage`.
            SettingError: The configuration file is malformed.
        """
        self._visible.must_manage(caller)
        return await asyncio.to_thread(described_settings, self._settings.current)

    async def check(self, caller: Caller, name: str, text: str) -> SettingChange:
        """Check a change, and return how the file would change if it is still valid as a whole.

        Args:
            caller: The caller.
            name: The key, such as `discovery.budget_tokens`.
            text: The value as TOML; empty to remove the key.

        Raises:
            ForbiddenError: The caller lacks the right `manage`.
            ArgumentError: The setting does not exist, or the value is not TOML.
            ConfigError: A program made the settings, the value is not valid, names something that
                does not exist, or the file cannot be changed.
        """
        described = next((row for row in await self.all(caller) if row.name == name), None)
        if described is None:
            raise ArgumentError(f"There is no setting {name[:80]!r}.")
        value = None
        if text.strip():
            try:
                value = tomllib.loads(f"value = {text.strip()}")["value"]
            except ValueError as error:
                raise ArgumentError(
                    f"The value {text.strip()[:80]!r} is not valid TOML.",
                    hint='Put text in quotation marks: "like this".',
                ) from error
        path = self._path()
        before = await asyncio.to_thread(_text_of, path)
        after = with_setting(before or NEW_FILE, path, described.key, value)
        checked = await asyncio.to_thread(_checked, path, after)
        before_change = await asyncio.to_thread(self._plugin_problems, self._settings.current)
        after_change = await asyncio.to_thread(self._plugin_problems, checked)
        # What is wrong already is no reason to refuse.
        ignored = {str(problem) for problem in before_change}
        for problem in after_change:
            if str(problem) not in ignored:
                raise problem
        return SettingChange(before=before, after=after, state=_state(before))

    async def save(self, caller: Caller, name: str, text: str, *, state: str) -> None:
        """Save a change that `check` returned, with a backup of the previous file next to it.

        Args:
            caller: The caller.
            name: The key.
            text: The value as TOML; empty to remove the key.
            state: The state that `check` returned.

        Raises:
            ForbiddenError: The caller lacks the right `manage`.
            ArgumentError: The setting does not exist, or the file has changed since.
            ConfigError: As `check`, or the file cannot be written.
        """
        change = await self.check(caller, name, text)
        if change.state != state:
            raise ArgumentError(
                "The configuration file was changed in the meantime.",
                hint="Check the difference again and save once more.",
            )
        path = self._path()
        detail: Json = {"name": name, "file": str(path)}
        async with self._receipts.change(caller, "setting_save", detail):
            await asyncio.to_thread(_replace, path, change.after)

    async def switch_pack(self, caller: Caller, name: str, *, on: bool, by_default: bool) -> bool:
        """Enable or disable a pack in the file. Return whether anything had to be changed.

        Args:
            caller: The caller.
            name: The name of the pack.
            on: Whether it is used from now on.
            by_default: Whether it is used if the file does not name it.

        Raises:
            ForbiddenError: The caller lacks the right `manage`.
            SettingError: A program made the settings, or the file cannot be changed.
        """
        self._visible.must_manage(caller)
        path = self._path()
        async with self._receipts.change(caller, "pack_switch", {"name": name, "enabled": on}):
            return await asyncio.to_thread(
                lambda: switch_pack(path, name, on=on, by_default=by_default)
            )

    @property
    def file(self) -> Path | None:
        """The `toolgate.toml` that changes are written to; the first change may create it.

        None if a program made the settings of this gateway.
        """
        current = self._settings.current
        return current.config_file or current.new_config_file

    def _path(self) -> Path:
        if self.file is None:
            raise SettingError(
                "The settings of this gateway are not in a file.",
                hint="Change them in the program that started it.",
            )
        return self.file


def _text_of(path: Path) -> str:
    """Return the text of the file; empty if it does not exist yet."""
    return read_text(path) if path.exists() else ""


def _checked(path: Path, text: str) -> Settings:
    """Return the settings that a text would be as the file.

    Raises:
        SettingError: It is not valid.
    """
    draft = path.with_name(f".{path.name}.{os.getpid()}.check.toml")
    try:
        write_text(draft, text)
        return load(draft)
    except SettingError as error:
        raise SettingError(
            error.failed.replace(str(draft), str(path)), allowed=error.allowed, hint=error.hint
        ) from error
    finally:
        with suppress(OSError):
            draft.unlink()


def _replace(path: Path, text: str) -> None:
    try:
        if path.exists():
            shutil.copy2(path, path.with_name(f"{path.name}.toolgate-previous"))
    except OSError as error:
        raise SettingError(
            f"{path} cannot be copied: {error.strerror}.",
            hint="Make the folder writable for this user.",
        ) from error
    write_text(path, text)


def _state(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:16]
