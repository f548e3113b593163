"""Sources of the master key: a variable, a file, or the system's keyring."""

import contextlib
import hashlib
import os
import secrets
import stat
import sys
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any, Protocol

from toolgate.base.installation import install_hint
from toolgate.base.private_folder import create_private_folder
from toolgate.errors import MissingExtraError, SettingError
from toolgate.settings import (
    Settings,
    credential_key,
    credential_key_file,
    default_store_url,
)

if sys.platform == "win32":
    import msvcrt
else:
    import fcntl

# Bytes of a key for AES-256.
_BYTES = 32


@dataclass(frozen=True, kw_only=True)
class MasterKey:
    """A master key of the installation."""

    key_id: str
    """Identifies the key without revealing it: the beginning of a hash."""

    key: bytes
    """The key itself. WARNING: it opens all credentials."""


class KeySource(Protocol):
    """Holds the keys of the installation, the current one first."""

    name: str
    """Where the keys are, for people."""

    can_write: bool
    """Whether Toolgate can replace the key there."""

    def read(self) -> list[MasterKey]:
        """Return the keys, the current one first; empty if there is none yet.

        Raises:
            SettingError: The source cannot be read, or contains something else.
        """
        ...

    def read_or_create(self) -> list[MasterKey]:
        """Return the keys; create the first one if there is none."""
        ...

    def write(self, keys: list[MasterKey]) -> None:
        """Replace the keys, atomically even if the machine stops."""
        ...

    def exclusive(self) -> contextlib.AbstractContextManager[None]:
        """Lock the source while keys are rotated: a second process waits."""
        ...


def key_source(kind: str, *, variables: tuple[str, str], file: Path, store_url: str) -> KeySource:
    """Return the source of the installation's key.

    Args:
        kind: `file` or `keyring`, as configured.
        variables: The variables for the current and the previous key; they take precedence.
        file: The key file, which is also the lock of the keyring.
        store_url: The store; if it is in memory, it ends with the process, and so does its key.
    """
    if variables[0]:
        return VariableKeys(*variables)
    # A key in a file would outlive the data that it protects.
    if store_url == "sqlite://":
        return MemoryKeys()
    of_file = KeyFile(file)
    account = hashlib.sha256(store_url.encode()).hexdigest()[:12]
    return Keyring(of_file, place=account) if kind == "keyring" else of_file


def source_of(settings: Settings) -> KeySource:
    """Return the source of the installation's key from settings and environment."""
    return key_source(
        settings.credentials.key,
        variables=credential_key(),
        file=credential_key_file(),
        store_url=settings.store.url or default_store_url(),
    )


def new_key() -> MasterKey:
    """Create a key."""
    return _master(secrets.token_bytes(_BYTES))


def _master(key: bytes) -> MasterKey:
    # Distinguishes keys without revealing anything about them.
    digest = hashlib.sha256(b"toolgate credentials " + key).hexdigest()
    return MasterKey(key_id=digest[:12], key=key)


def _keys_of(text: str, where: str) -> list[MasterKey]:
    keys: list[MasterKey] = []
    for line in text.split():
        try:
            key = bytes.fromhex(line)
        except ValueError:
            key = b""
        if len(key) != _BYTES:
            raise SettingError(
                f"{where} contains no key for credentials.",
                allowed="A key has 64 hex digits.",
                hint="Create one: openssl rand -hex 32. What is already stored needs the"
                " previous key.",
            )
        keys.append(_master(key))
    return keys


def _text_of(keys: list[MasterKey]) -> str:
    return "".join(f"{key.key.hex()}\n" for key in keys)


class VariableKeys:
    """The variable `TOOLGATE_CREDENTIALS_KEY`; `TOOLGATE_CREDENTIALS_KEY_OLD` during rotation."""

    name = "the variable TOOLGATE_CREDENTIALS_KEY"
    can_write = False

    def __init__(self, present: str, old: str) -> None:
        self._present, self._old = present, old

    def read(self) -> list[MasterKey]:
        """Return the keys."""
        return [
            *_keys_of(self._present, "TOOLGATE_CREDENTIALS_KEY"),
            *_keys_of(self._old, "TOOLGATE_CREDENTIALS_KEY_OLD"),
        ]

    def read_or_create(self) -> list[MasterKey]:
        """Return the keys."""
        return self.read()

    def write(self, keys: list[MasterKey]) -> None:
        """Refuse: whoever set the variable has to change it."""
        raise NotImplementedError

    @contextmanager
    def exclusive(self) -> Generator[None]:
        """Do nothing, since nothing is changed here."""
        yield


class MemoryKeys:
    """Keys that end with the process."""

    name = "memory"
    can_write = True

    def __init__(self) -> None:
        self._keys: list[MasterKey] = []

    def read(self) -> list[MasterKey]:
        """Return the keys."""
        return list(self._keys)

    def read_or_create(self) -> list[MasterKey]:
        """Return the keys; create the first one if there is none."""
        if not self._keys:
            self._keys = [new_key()]
        return self.read()

    def write(self, keys: list[MasterKey]) -> None:
        """Replace the keys."""
        self._keys = list(keys)

    @contextmanager
    def exclusive(self) -> Generator[None]:
        """Do nothing, since no other process has these keys."""
        yield


class KeyFile:
    """A file that only this user can read: a key on each line, the current one first."""

    can_write = True

    def __init__(self, path: Path) -> None:
        self._path = path
        self.name = str(path)

    def read(self) -> list[MasterKey]:
        """Return the keys in the file."""
        try:
            mode = self._path.stat().st_mode
            text = self._path.read_text(encoding="ascii")
        except FileNotFoundError:
            return []
        except (OSError, ValueError) as error:
            raise self._unusable(error) from error
        if sys.platform != "win32" and stat.S_IMODE(mode) & 0o077:
            raise SettingError(
                f"{self._path} can be read by other users of this machine"
                f" (mode {stat.S_IMODE(mode):04o}).",
                allowed="Allowed: 0600.",
                hint=f"Run: chmod 600 {self._path}; and then: toolgate keys rotate",
            )
        keys = _keys_of(text, str(self._path))
        if not keys:
            raise SettingError(
                f"{self._path} is empty.",
                hint="Restore the key from a backup, or remove the file and log in again.",
            )
        return keys

    def read_or_create(self) -> list[MasterKey]:
        """Return the keys; create the file if it does not exist."""
        keys = self.read()
        if keys:
            return keys
        # Read again under the lock: another process may have created one meanwhile.
        with self.exclusive():
            keys = self.read()
            if not keys:
                self.write([new_key()])
        return self.read()

    def write(self, keys: list[MasterKey]) -> None:
        """Replace the file with a new one."""
        # Written to a second file and renamed: a crash leaves the old key or the new one, never
        # half.
        temporary = self._path.with_name(f"{self._path.name}.{secrets.token_hex(4)}")
        try:
            file = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            with os.fdopen(file, "w", encoding="ascii") as opened:
                opened.write(_text_of(keys))
                opened.flush()
                os.fsync(opened.fileno())
            temporary.replace(self._path)
            _sync_folder(self._path.parent)
        except OSError as error:
            temporary.unlink(missing_ok=True)
            raise self._unusable(error) from error

    @contextmanager
    def exclusive(self) -> Generator[None]:
        """Lock a file next to it; the lock ends with the process."""
        try:
            create_private_folder(self._path.parent)
            lock = os.open(
                self._path.with_name(f"{self._path.name}.lock"), os.O_RDWR | os.O_CREAT, 0o600
            )
        except OSError as error:
            raise self._unusable(error) from error
        try:
            if sys.platform == "win32":
                msvcrt.locking(lock, msvcrt.LK_LOCK, 1)
            else:
                fcntl.flock(lock, fcntl.LOCK_EX)
            yield
        finally:
            os.close(lock)

    def _unusable(self, error: Exception) -> SettingError:
        return SettingError(
            f"The key for credentials, {self._path}, cannot be used:"
            f" {getattr(error, 'strerror', None) or type(error).__name__}.",
            hint="Make it readable and writable, or set TOOLGATE_CREDENTIALS_KEY to 64 hex digits.",
        )


class Keyring:
    """The system's keyring, through the library `keyring`."""

    name = "the keyring of the system"
    can_write = True

    def __init__(self, lock: KeyFile, *, place: str) -> None:
        self._lock = lock
        self._service = place

    def read(self) -> list[MasterKey]:
        """Return the keys in the keyring."""
        text = self._call("get_password", "toolgate", self._service)
        return _keys_of(str(text), self.name) if text else []

    def read_or_create(self) -> list[MasterKey]:
        """Return the keys; create the first one if there is none."""
        with self.exclusive():
            if not self.read():
                self.write([new_key()])
        return self.read()

    def write(self, keys: list[MasterKey]) -> None:
        """Save the keys, replacing those in the keyring."""
        self._call("set_password", "toolgate", self._service, _text_of(keys))

    def exclusive(self) -> contextlib.AbstractContextManager[None]:
        """Return the lock of the file that would otherwise contain the key."""
        return self._lock.exclusive()

    def _call(self, name: str, *arguments: str) -> Any:
        try:
            library = import_module("keyring")
        except ModuleNotFoundError as error:
            raise MissingExtraError(
                "credentials.key is \"keyring\", and the library 'keyring' is not installed.",
                hint=install_hint("keyring") + ', or set credentials.key = "file".',
            ) from error
        try:
            return getattr(library, name)(*arguments)
        except Exception as error:  # each backend raises its own
            raise SettingError(
                f"The keyring of the system cannot be used: {type(error).__name__}.",
                hint='Unlock it, or set credentials.key = "file".',
            ) from error


def _sync_folder(folder: Path) -> None:
    """Make the name of a new file survive a power failure."""
    if sys.platform == "win32":
        return
    opened = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(opened)
    finally:
        os.close(opened)
