"""How this program was installed, and the commands that follow from it.

The folder layouts are those of pipx 1.18 and uv 0.13.
"""

import json
import re
import shutil
import sys
import tomllib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from importlib import import_module
from importlib.metadata import Distribution, distributions
from pathlib import Path
from typing import Final, Literal, TypeAlias
from urllib.parse import urlsplit, urlunsplit

from toolgate.errors import SettingError
from toolgate.types import Json, json_array, json_object

DISTRIBUTION: Final = "toolgate-mcp"
"""The name on PyPI. `toolgate` there is a different project."""

Installer: TypeAlias = Literal["pip", "uv", "pipx", "pipx run", "uv tool", "uvx"]

_UV_CACHE = re.compile(r"(?:archive|environments|builds)-v\d+")
"""Folders in uv's cache that contain environments; the cache itself can have any name."""

_EXTRA_MARKER = re.compile(r"""\s*(?:and\s+)?extra\s*==\s*(['"])(?P<extra>[^'"]+)\1\s*$""")


@dataclass(frozen=True, kw_only=True)
class Installation:
    """An installation of Toolgate."""

    installer: Installer
    """The program that created the environment; `pip` also if that is unknown."""

    environment: Path
    """The folder of the environment, `sys.prefix`."""

    distribution: Distribution | None
    """The metadata of the installed package; None if the sources run without being installed."""

    search_path: Sequence[str]
    """Folders that packages are imported from, like `sys.path`."""

    @property
    def is_temporary(self) -> bool:
        """Whether the environment is part of a cache and may be deleted at any time."""
        return self.installer in {"pipx run", "uvx"}

    def install_command(self, *extras: str, package: str = "") -> str:
        """The command that installs extras of Toolgate or another package into this environment.

        For pipx, the packages of the extras are named: injecting an extra itself would reinstall
        Toolgate from the package index.
        """
        packages = [package] if package else []
        names = ",".join(extras)
        match self.installer:
            case "pip" | "uv":
                program = "pip install" if self.installer == "pip" else "uv pip install"
                return f"{program} {_quoted(packages or [f'{DISTRIBUTION}[{names}]'])}"
            case "pipx":
                named = [name for extra in extras for name in self._packages_of(extra)]
                packages = packages or named or [f"{DISTRIBUTION}[{names}]"]
                return f"pipx inject {self.environment.name} {_quoted(packages)}"
            case "uv tool":
                options = _with([*self._tool_packages(), *packages])
                return f"uv tool install {_quoted([self._requirement(*extras)])}{options}"
            case _:
                starter, option = _STARTERS[self.installer]
                source = _quoted([self._requirement(*extras)])
                return f"{starter} {option} {source}{_with(packages)} toolgate"

    def reinstall_command(self) -> str:
        """The command that installs the same version from the same source again."""
        match self.installer:
            case "pip":
                return f"pip install --force-reinstall {_quoted([self._requirement()])}"
            case "uv":
                return f"uv pip install --reinstall {_quoted([self._requirement()])}"
            case "pipx":
                return f"pipx reinstall {self.environment.name}"
            case "uv tool":
                return f"uv tool upgrade --reinstall {DISTRIBUTION}"
            case "uvx":
                return f"uvx --refresh --from {_quoted([self._requirement()])} toolgate"
            case "pipx run":
                return f"pipx run --no-cache --spec {_quoted([self._requirement()])} toolgate"

    def uninstall_command(self) -> str:
        """The command that uninstalls Toolgate; empty if it was never installed."""
        match self.installer:
            case "pip":
                return f"{Path(sys.executable).name} -m pip uninstall {DISTRIBUTION}"
            case "uv":
                return f"uv pip uninstall {DISTRIBUTION}"
            case "pipx":
                return f"pipx uninstall {self.environment.name}"
            case "uv tool":
                return f"uv tool uninstall {DISTRIBUTION}"
            case _:
                return ""

    def start_command(self) -> tuple[str, ...]:
        """The command line that starts the same Toolgate even after this environment is deleted.

        Raises:
            SettingError: The environment is temporary, and its source is unknown, gone, or has
                an address with a password.
        """
        starter, option = _STARTERS[self.installer]
        problem = self._source_problem()
        if problem:
            raise SettingError(
                f"Toolgate was started by {starter}, and {problem}, so it does not know a command "
                "that clients can start it with.",
                hint=f"Install Toolgate with `uv tool install {DISTRIBUTION}` or `pipx install "
                f"{DISTRIBUTION}` and run the command again.",
            )
        requirement = self._requirement()
        program = shutil.which(starter.partition(" ")[0]) or starter.partition(" ")[0]
        rest = starter.split()[1:]
        if requirement == DISTRIBUTION:
            return (program, *rest, DISTRIBUTION)
        return (program, *rest, option, requirement, DISTRIBUTION)

    def _requirement(self, *extras: str) -> str:
        """The requirement of Toolgate with installed and given extras, from its original source."""
        names = sorted({*self._present_extras(), *extras} - {""})
        name = f"{DISTRIBUTION}[{','.join(names)}]" if names else DISTRIBUTION
        url, _ = _without_credentials(self._source())
        return f"{name} @ {url}" if url else name

    def _source(self) -> str:
        """The address that Toolgate was installed from; empty for a package index."""
        direct = self._direct_url()
        url = str(direct.get("url", ""))
        if vcs := json_object(direct.get("vcs_info")):
            revision = str(vcs.get("requested_revision") or "")
            url = f"{vcs.get('vcs')}+{url}" + (f"@{revision}" if revision else "")
        folder = str(direct.get("subdirectory") or "")
        return f"{url}#subdirectory={folder}" if folder else url

    def _direct_url(self) -> Json:
        """See https://packaging.python.org/en/latest/specifications/direct-url/."""
        text = self.distribution.read_text("direct_url.json") if self.distribution else None
        return json_object(json.loads(text)) if text else {}

    def _source_problem(self) -> str:
        """Why the source cannot be used again; empty if it can."""
        if self.distribution is None:
            return f"the source of {DISTRIBUTION} is not known"
        url, has_credentials = _without_credentials(str(self._direct_url().get("url", "")))
        if has_credentials:
            return "the address of its source contains credentials"
        if url.startswith("file:"):
            path = Path(import_module("urllib.request").url2pathname(urlsplit(url).path))
            if not path.exists():
                return f"its source {path} does not exist any more"
        return ""

    def _packages_of(self, extra: str) -> list[str]:
        """Requirements that an extra adds, from the metadata."""
        requires = (self.distribution.requires if self.distribution else None) or []
        packages: list[str] = []
        for requirement in requires:
            name, _, marker = requirement.partition(";")
            match = _EXTRA_MARKER.search(marker)
            if match is not None and match["extra"] == extra:
                platform = marker[: match.start()].strip()
                packages.append(f"{name.strip()}; {platform}" if platform else name.strip())
        return packages

    def _present_extras(self) -> set[str]:
        """Extras whose packages are all installed, without those that another extra includes."""
        if self.distribution is None:
            return set()
        provided: list[str] = self.distribution.metadata.get_all("Provides-Extra") or []
        packages = {extra: frozenset(self._packages_of(extra)) for extra in provided}
        complete = {
            extra: names
            for extra, names in packages.items()
            if names and all(self._is_installed(name) for name in names)
        }
        return {
            extra
            for extra, names in complete.items()
            if not any(names < larger for larger in complete.values())
        }

    def _is_installed(self, requirement: str) -> bool:
        if ";" in requirement:  # for some platforms only
            return True
        match = re.match(r"[\w.-]+", requirement)
        path = list(self.search_path)
        return match is not None and any(True for _ in distributions(name=match[0], path=path))

    def _tool_packages(self) -> list[str]:
        """Packages added by `uv tool install --with`, which must be named again."""
        receipt = tomllib.loads((self.environment / "uv-receipt.toml").read_text("utf-8"))
        rows = json_array(json_object(receipt.get("tool")).get("requirements"))
        return [
            f"{row['name']}{row.get('specifier', '')}"
            for row in rows
            if row["name"] != DISTRIBUTION
        ]


_STARTERS: Final[dict[str, tuple[str, str]]] = {
    "uvx": ("uvx", "--from"),
    "pipx run": ("pipx run", "--spec"),
}
"""Programs that run a package without installing it, and their option for its source."""


def current_installation(
    environment: Path | None = None, search_path: Sequence[str] | None = None
) -> Installation:
    """The running installation, or the one in another environment."""
    environment = environment or Path(sys.prefix)
    search_path = sys.path if search_path is None else search_path
    distribution = next(iter(distributions(name=DISTRIBUTION, path=list(search_path))), None)
    return Installation(
        installer=_installer_of(environment, distribution),
        environment=environment,
        distribution=distribution,
        search_path=search_path,
    )


def install_hint(*extras: str) -> str:
    """How to install the libraries of extras, without a full stop."""
    return f"Run: {current_installation().install_command(*extras)}"


def package_hint(package: str) -> str:
    """How to install a package that belongs to no extra, without a full stop."""
    return f"Run: {current_installation().install_command(package=package)}"


def _installer_of(environment: Path, distribution: Distribution | None) -> Installer:
    if (environment / "pipx_metadata.json").is_file():
        return "pipx" if environment.parent.name == "venvs" else "pipx run"
    if (environment / "uv-receipt.toml").is_file():
        return "uv tool"
    if any(_UV_CACHE.fullmatch(folder.name) for folder in environment.parents):
        return "uvx"
    installer = distribution.read_text("INSTALLER") if distribution else None
    return "uv" if (installer or "").strip() == "uv" else "pip"


def _without_credentials(url: str) -> tuple[str, bool]:
    """The URL without user and password, and whether it had any; for `ssh`, the user stays."""
    parts = urlsplit(url)
    user, at, host = parts.netloc.rpartition("@")
    if not at or (parts.scheme.endswith("ssh") and ":" not in user):
        return url, False
    return urlunsplit(parts._replace(netloc=host)), True


def _quoted(requirements: Iterable[str]) -> str:
    return " ".join(f'"{requirement}"' for requirement in requirements)


def _with(packages: Iterable[str]) -> str:
    return "".join(f' --with "{package}"' for package in packages)
