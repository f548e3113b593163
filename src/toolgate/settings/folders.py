"""Locations of Toolgate's files on each platform, and the environment of child processes."""

import contextlib
import os
import secrets
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from toolgate.base.private_folder import create_private_folder
from toolgate.errors import SettingError

CONFIG_NAME = "toolgate.toml"
"""File name of the configuration."""

_KEY_BYTES: Final = 32
"""Bytes: 256 bits, the key size of AES-256 and HMAC-SHA-256."""

_INHERITED = frozenset({
    "PATH", "HOME", "USER", "LOGNAME", "SHELL", "TERM", "COLORTERM", "TZ", "LANG", "LANGUAGE",
    "TMPDIR", "TEMP", "TMP",
    "XDG_CACHE_HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_RUNTIME_DIR", "XDG_STATE_HOME",
    "DISPLAY", "WAYLAND_DISPLAY", "XAUTHORITY",
    "SSL_CERT_FILE", "SSL_CERT_DIR", "NODE_EXTRA_CA_CERTS", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE",
    "ALLUSERSPROFILE", "APPDATA", "COMMONPROGRAMFILES", "COMMONPROGRAMFILES(X86)", "COMPUTERNAME",
    "COMSPEC", "HOMEDRIVE", "HOMEPATH", "LOCALAPPDATA", "NUMBER_OF_PROCESSORS", "OS", "PATHEXT",
    "PROCESSOR_ARCHITECTURE", "PROGRAMDATA", "PROGRAMFILES", "PROGRAMFILES(X86)", "PUBLIC",
    "SYSTEMDRIVE", "SYSTEMROOT", "USERDOMAIN", "USERNAME", "USERPROFILE", "WINDIR",
})  # fmt: skip
"""Variables without which programs do not start or use wrong folders; none holds a secret."""

_PROXIES = frozenset({"HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY"})
"""Inherited only if they contain no user name and password."""


def current_environment() -> Mapping[str, str]:
    """Return the environment of this process; only this function reads it."""
    return os.environ


def own_credentials(environ: Mapping[str, str] | None = None) -> tuple[str, str]:
    """Return the token and project of `toolgate stdio` for clients that name none, or empty."""
    environment = _of(environ)
    return environment.get("TOOLGATE_TOKEN", ""), environment.get("TOOLGATE_PROJECT", "")


def base_environment(environ: Mapping[str, str] | None = None) -> dict[str, str]:
    """Return the safe variables for every child process: paths, language, folders, no secrets."""
    return {name: value for name, value in _of(environ).items() if _is_inherited(name, value)}


def child_environment(
    variables: Mapping[str, str], environ: Mapping[str, str] | None = None
) -> dict[str, str]:
    """Return the whole environment of a server's process: the safe variables and its own."""
    return {**base_environment(environ), **variables}


def home_dir(environ: Mapping[str, str] | None = None) -> Path:
    """Return the user's home folder."""
    environment = _of(environ)
    home = environment.get("USERPROFILE") if sys.platform == "win32" else environment.get("HOME")
    return Path(home) if home else Path.home()


def expand_home(path: str, environ: Mapping[str, str] | None = None) -> str:
    """Replace a leading `~` with the home folder; other users' `~name` is not replaced."""
    if path == "~":
        return str(home_dir(environ))
    if path.startswith(("~/", "~\\")):
        return str(home_dir(environ) / path[2:])
    return path


def config_dir(environ: Mapping[str, str] | None = None) -> Path:
    """Return the folder of the user's `toolgate.toml`: `~/.config/toolgate` on Linux."""
    return _folder("XDG_CONFIG_HOME", ".config", "APPDATA", environ)


def is_file(path: Path) -> bool:
    """Whether the file exists; False if this cannot be determined."""
    try:
        return path.is_file()
    except (OSError, ValueError):
        return False


def find_config(
    config: Path | None = None,
    *,
    environ: Mapping[str, str] | None = None,
    cwd: Path | None = None,
) -> Path | None:
    """Return the `toolgate.toml` that `load` would read; None if there is none.

    Raises:
        SettingError: The named file does not exist.
    """
    environ = current_environment() if environ is None else environ
    cwd = Path.cwd() if cwd is None else cwd
    named = str(config) if config else environ.get("TOOLGATE_CONFIG", "")
    if named:
        path = cwd / expand_home(named, environ)
        if is_file(path):
            return path
        source = "" if config else " (from TOOLGATE_CONFIG)"
        raise SettingError(
            f"The configuration file {str(path)!r}{source} does not exist.",
            hint="Correct the path, or create the file with: toolgate init",
        )
    places = (cwd / CONFIG_NAME, config_dir(environ) / CONFIG_NAME)
    return next((path for path in places if is_file(path)), None)


def data_dir(environ: Mapping[str, str] | None = None) -> Path:
    """Return the folder of the store and backups: `~/.local/share/toolgate` on Linux."""
    return _folder("XDG_DATA_HOME", ".local/share", "LOCALAPPDATA", environ)


def learned_dir() -> Path:
    """Return the folder for models trained on example prompts, in the data folder."""
    return data_dir() / "learned"


def run_dir(environ: Mapping[str, str] | None = None) -> Path:
    """Return the folder for the run files of running gateways, in the data folder."""
    return data_dir(environ) / "run"


def read_audit_key(environ: Mapping[str, str] | None = None) -> bytes | None:
    """Return the signing key of the audit log: `TOOLGATE_AUDIT_KEY` in hex, or else from its file.

    Raises:
        SettingError: The variable or the file holds no key, or the file cannot be read.
    """
    text = _of(environ).get("TOOLGATE_AUDIT_KEY")
    if text:
        return _key_of(text, "TOOLGATE_AUDIT_KEY")
    path = audit_files(environ)[0]
    try:
        return _key_of(path.read_text(encoding="utf-8").strip(), str(path))
    except FileNotFoundError:
        return None
    except OSError as error:
        raise _unusable_key(path, error) from error


def audit_key() -> bytes:
    """Return the signing key as `read_audit_key`; if there is none, create the file.

    Raises:
        SettingError: The variable or the file holds no key, or the file cannot be read or
            created.
    """
    key = read_audit_key()
    if key is not None:
        return key
    path = audit_files()[0]
    try:
        create_private_folder(path.parent)
        with contextlib.suppress(FileExistsError):
            temporary = path.with_name(f"{path.name}.{os.getpid()}")
            file = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            with os.fdopen(file, "w", encoding="utf-8") as opened:
                opened.write(secrets.token_hex(32))
            try:
                os.link(temporary, path)
            finally:
                temporary.unlink()
        return _key_of(path.read_text(encoding="utf-8").strip(), str(path))
    except OSError as error:
        raise _unusable_key(path, error) from error


def _unusable_key(path: Path, error: OSError) -> SettingError:
    return SettingError(
        f"The key of the audit log, {path}, cannot be used: {error.strerror or error}.",
        hint="Make it readable and writable, or set TOOLGATE_AUDIT_KEY to 64 hex digits.",
    )


def credential_key() -> tuple[str, str]:
    """Return `TOOLGATE_CREDENTIALS_KEY` and `TOOLGATE_CREDENTIALS_KEY_OLD`, or empty."""
    environment = current_environment()
    return (
        environment.get("TOOLGATE_CREDENTIALS_KEY", ""),
        environment.get("TOOLGATE_CREDENTIALS_KEY_OLD", ""),
    )


def credential_key_file() -> Path:
    """Return the file of the key that encrypts credentials of servers."""
    return data_dir() / "credentials.key"


def proxies(environ: Mapping[str, str] | None = None) -> tuple[str, str, tuple[str, ...]]:
    """Return the proxies for `https` and `http`, and the hosts without proxy, from variables."""
    environment = _of(environ)

    def value(name: str) -> str:
        # In a CGI program, HTTP_PROXY comes from the request (CVE-2016-5385).
        upper = "" if name == "http_proxy" and "REQUEST_METHOD" in environment else name.upper()
        return environment.get(name) or environment.get(upper, "")

    common = value("all_proxy")
    without = tuple(part.strip() for part in value("no_proxy").split(",") if part.strip())
    return value("https_proxy") or common, value("http_proxy") or common, without


def audit_files(environ: Mapping[str, str] | None = None) -> tuple[Path, Path]:
    """Return the files of the audit log's signing key and of its signed positions."""
    folder = data_dir(environ)
    return folder / "audit.key", folder / "audit.signed"


def _key_of(text: str, where: str) -> bytes:
    try:
        key = bytes.fromhex(text)
    except ValueError:
        key = b""
    if len(key) < _KEY_BYTES:
        raise SettingError(
            f"{where} is not a key of the audit log.",
            allowed="A key has 64 hex digits or more.",
            hint="Create one: openssl rand -hex 32",
        )
    return key


def default_store_url(environ: Mapping[str, str] | None = None) -> str:
    """Return the store if the settings name none: `toolgate.db` in the data folder."""
    return f"sqlite:///{(data_dir(environ) / 'toolgate.db').as_posix()}"


def _of(environ: Mapping[str, str] | None) -> Mapping[str, str]:
    return current_environment() if environ is None else environ


def _is_inherited(name: str, value: str) -> bool:
    upper = name.upper()
    if upper in _PROXIES:
        return "@" not in value
    # Exported functions of a shell start with "()"; the shells of some servers would run them.
    return (upper in _INHERITED or upper.startswith("LC_")) and not value.startswith("()")


def _folder(
    xdg_name: str, linux: str, windows_name: str, environ: Mapping[str, str] | None
) -> Path:
    environment = _of(environ)
    xdg = environment.get(xdg_name, "")
    if Path(xdg).is_absolute():
        return Path(xdg) / "toolgate"
    home = home_dir(environ)
    if sys.platform == "win32":
        return Path(environment.get(windows_name) or home / "AppData") / "toolgate"
    if sys.platform == "darwin":
        return home / "Library" / "Application Support" / "toolgate"
    return home / linux / "toolgate"
