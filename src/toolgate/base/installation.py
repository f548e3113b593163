"""How this program was installed, and the commands that follow from it.

The layouts are those that pipx 1.18 and uv 0.13 write.
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

__all__ = ["DISTRIBUTION", "Installation", "current_installation", "install_hint", "package_hint"]

DISTRIBUTION: Final = "toolgate-mcp"
"""The name to install. `toolgate` on PyPI is another project's."""

Installer: TypeAlias = Literal["pip", "uv", "pipx", "pipx run", "uv tool", "uvx"]

_UV_CACHE = re.compile(r"(?:archive|environments|builds)-v\d+")
"""Folders of uv's cache that hold environments; the cache itself may have any name."""

_EXTRA_MARKER = re.compile(r"""\s*(?:and\s+)?extra\s*==\s*(['"])(?P<extra>[^'"]+)\1\s*$""")


@dataclass(frozen=True, kw_only=True)
class Installation:
    """One installed Toolgate."""

    installer: Installer
    """What made the environment; `pip` also stands for everything unknown."""

    environment: Path
    """The folder of the environment, `sys.prefix`."""

    distribution: Distribution | None
    """The installed metadata; None when the sources run without being installed."""

    search_path: Sequence[str]
    """Folders that packages are imported from, `sys.path`."""

    @property
    def is_temporary(self) -> bool:
        """Whether the environment is part of a cache and may be deleted at any time."""
        return self.installer in {"pipx run", "uvx"}

    def install_command(self, *, extra: str = "", package: str = "") -> str:
        """The command that installs an extra of Toolgate or another package into this environment.

        pipx gets the packages of the extra: `pipx inject` with the extra itself would replace the
        source that Toolgate was installed from by the package index.
        """
        packages = [package] if package else []
        match self.installer:
            case "pip" | "uv":
                program = "pip install" if self.installer == "pip" else "uv pip install"
                return f"{program} {_quoted(packages or [f'{DISTRIBUTION}[{extra}]'])}"
            case "pipx":
                packages = packages or self._packages_of(extra) or [f"{DISTRIBUTION}[{extra}]"]
                return f"pipx inject {self.environment.name} {_quoted(packages)}"
            case "uv tool":
                options = _with([*self._tool_packages(), *packages])
                return f"uv tool install {_quoted([self._requirement(extra)])}{options}"
            case _:
                starter, option = _STARTERS[self.installer]
                source = _quoted([self._requirement(extra)])
                return f"{starter} {option} {source}{_with(packages)} toolgate"

    def reinstall_command(self) -> str:
        """The command that installs the same Toolgate again."""
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
        """The command that removes the program; empty where it was never installed."""
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
        """Program and arguments that start the same Toolgate after its environment is deleted.

        Raises:
            SettingError: The source that this temporary environment was made from is not known, is
                gone, or has an address with a password in it.
        """
        starter, option = _STARTERS[self.installer]
        problem = self._source_problem()
        if problem:
            raise SettingError(
                f"Toolgate was started by {starter}, and {problem}, so the command that starts it "
                "again cannot be written into a client's file.",
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
        """Toolgate with the extras that it has and these, from the source it came from."""
        names = sorted({*self._present_extras(), *extras} - {""})
        name = f"{DISTRIBUTION}[{','.join(names)}]" if names else DISTRIBUTION
        url, _ = _without_credentials(self._source())
        return f"{name} @ {url}" if url else name

    def _source(self) -> str:
        """Address that Toolgate was installed from; empty for a package index."""
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
        """Why nobody can start from the source again; empty when it can be done."""
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
        """Requirements that an extra adds, as the metadata has them."""
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
        """Extras whose packages are all installed, without those that another one includes."""
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
        """What was added by `uv tool install --with`, which has to be named again."""
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
"""Programs that start a package without installing it, and their option for its source."""


def current_installation(
    environment: Path | None = None, search_path: Sequence[str] | None = None
) -> Installation:
    """The installation that runs now, or the one in another environment."""
    environment = environment or Path(sys.prefix)
    search_path = sys.path if search_path is None else search_path
    distribution = next(iter(distributions(name=DISTRIBUTION, path=list(search_path))), None)
    return Installation(
        installer=_installer_of(environment, distribution),
        environment=environment,
        distribution=distribution,
        search_path=search_path,
    )


def install_hint(extra: str) -> str:
    """What to do when a library of this extra is missing, without the full stop."""
    return f"Run: {current_installation().install_command(extra=extra)}"


def package_hint(package: str) -> str:
    """What to do when this package, which no extra brings, is missing; without the full stop."""
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
    """The address without user and password, and whether there were any; `ssh` has a user only."""
    parts = urlsplit(url)
    user, at, host = parts.netloc.rpartition("@")
    if not at or (parts.scheme.endswith("ssh") and ":" not in user):
        return url, False
    return urlunsplit(parts._replace(netloc=host)), True


def _quoted(requirements: Iterable[str]) -> str:
    return " ".join(f'"{requirement}"' for requirement in requirements)


def _with(packages: Iterable[str]) -> str:
    return "".join(f' --with "{package}"' for package in packages)
