"""Reads a pack from its folder."""

import json
import os
import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from hashlib import blake2b
from pathlib import Path
from stat import S_ISREG
from typing import Final, TypeAlias, cast

from toolgate.base.pack_files import (
    MOST_BYTES,
    PackFile,
    PackTable,
    Trying,
    files_in,
    files_named,
    intents_home,
    pack_table,
)
from toolgate.errors import PackError
from toolgate.intents import read_intents
from toolgate.packs.base import Pack
from toolgate.packs.discovery import skipped_files
from toolgate.types import Json, json_object

_PACK_KEYS: Final = frozenset(
    [
        *("name", "version", "description", "variables", "out_of_context"),
        *("lists", "live", "needs", "protect", "subject", "false_alarms", "threshold"),
    ]
)
_NAME: Final = re.compile(r"[A-Za-z0-9_.-]{1,32}")
_VARIABLE: Final = re.compile(r"[A-Z][A-Z0-9_]*")
_SUFFIX: Final = re.compile(r"\.[A-Za-z0-9_.-]+")
_LIVE: Final = frozenset({"tables"})
_LIVE_HINT: Final = "Write: tables, for the names of the tables and types of [connections]."
_NEEDS: Final = frozenset({"connections"})
_NO_CODE: Final = frozenset({"intents", "embeddings", "rules", "unsupported.txt"})
_MADE: Final = frozenset({"__pycache__", "node_modules", "venv"})
_TEXTS: Final = frozenset({".toml", ".txt", ".md", ".py", ".json", ".list"})
_MOST_FILES: Final = 5_000
"""Files of a pack (chosen: bounds time if a folder is not a pack at all)."""

Stamps: TypeAlias = tuple[tuple[str, int, int, int], ...]
"""Path, modification time, size and inode of each file."""


def load_pack(folder: Path, *, dev: bool = False) -> Pack:
    """Read a pack from its folder.

    An unusable file is left out, and `Pack.problems` names it with the line and the reason.

    Args:
        folder: The pack's folder.
        dev: Whether to include intents that are marked `dev = true`.

    Raises:
        PackError: The folder or its `pack.toml` cannot be used.
    """
    problems: list[str] = []

    def report(error: PackError) -> None:
        # Names of files need not be valid text.
        problems.append(str(error).encode(errors="replace").decode())

    folder = folder.absolute()
    table = pack_table(folder)
    manifest = _manifest(table, folder)
    read = read_intents(folder, report=report, table=table)
    trying = Trying(report)
    rules = _rules(folder, trying, read.files)
    texts = _texts(folder, trying)
    servers = _servers(folder, trying)
    intents = tuple(intent for intent in read.intents if dev or not intent.dev)
    return Pack(
        name=manifest.name,
        version=manifest.version,
        description=manifest.description,
        folder=folder,
        fingerprint=fingerprint(folder),
        intents=intents,
        intent_files=read.files,
        unsupported=read.unsupported,
        limits=read.limits,
        own_limits=read.own_limits,
        rules={name: text for name, (_, text) in rules.items()},
        rule_files={name: path for name, (path, _) in rules.items()},
        variables=manifest.variables,
        out_of_context=manifest.out_of_context,
        live=manifest.live,
        needs=manifest.needs,
        protected=manifest.protected,
        protection=manifest.protection,
        modules=_modules(folder, trying),
        programs=_programs(folder, trying),
        texts=texts,
        resources=_resources(folder),
        servers=servers,
        code=fingerprint(folder, but=_NO_CODE),
        problems=tuple(problems),
        skipped=tuple(
            skipped_files(folder, read.files, {path for path, _ in rules.values()}, problems)
        ),
    )


@dataclass(frozen=True, kw_only=True)
class PackManifest:
    """The keys of `pack.toml` about the pack as a whole."""

    name: str
    """The name of the pack."""
    version: str = ""
    """Its version."""
    description: str = ""
    """One line for people."""
    variables: Mapping[str, str] = field(default_factory=dict[str, str])
    """Values for its rules, by name."""
    out_of_context: str = ""
    """Text for the model if a request does not belong to the pack."""
    live: Mapping[str, str] = field(default_factory=dict[str, str])
    """Lists that are extended at run time."""
    needs: tuple[str, ...] = ()
    """What the pack requires, such as `connections`."""
    protected: tuple[str, ...] = ()
    """Suffixes of files that only its tools may change."""
    protection: str = ""
    """Hint for a call that would change such a file."""


def read_manifest(folder: Path) -> PackManifest:
    """Read the keys of `pack.toml` about the pack as a whole.

    Raises:
        PackError: The file cannot be used.
    """
    return _manifest(pack_table(folder), folder)


def _manifest(table: PackTable, folder: Path) -> PackManifest:
    table.only(_PACK_KEYS)
    name = table.take("name", str, folder.name)
    if not _NAME.fullmatch(name) or "__" in name:
        table.fail(
            "name",
            f"a pack cannot be called {name!r}",
            "A name has 1 to 32 letters, digits, dots, hyphens and underscores, no two of these "
            'side by side; write: name = "..."',
        )
    variables = table.sub("variables")
    for key in variables.content:
        if not _VARIABLE.fullmatch(key):
            variables.fail(key, f"a variable cannot be called {key!r}", "Write it as COMPANY_NAME.")
    live = table.sub("live")
    for key in live.content:
        if live.take(key, str, "") not in _LIVE:
            live.fail(
                key, f"there is nothing live that is called {live.content[key]!r}", _LIVE_HINT
            )
    needs = tuple(table.strings("needs"))
    if not _NEEDS.issuperset(needs):
        table.fail("needs", f"tools cannot need {needs!r}", 'Write: needs = ["connections"]')
    protect = table.sub("protect")
    protect.only(frozenset({"suffixes", "hint"}))
    suffixes = protect.strings("suffixes")
    if not all(_SUFFIX.fullmatch(suffix) for suffix in suffixes):
        protect.fail("suffixes", f"files cannot end with {suffixes!r}", 'Write: [".rel", ".val"]')
    return PackManifest(
        name=name,
        version=table.take("version", str, ""),
        description=table.take("description", str, ""),
        variables={key: variables.take(key, str, "") for key in variables.content},
        out_of_context=table.take("out_of_context", str, ""),
        live={key: live.take(key, str, "") for key in live.content},
        needs=needs,
        protected=tuple(suffix.lower() for suffix in suffixes),
        protection=protect.take("hint", str, ""),
    )


def _rules(folder: Path, trying: Trying, intents: Collection[str]) -> dict[str, tuple[Path, str]]:
    """Return file and text of the rules by intent, in lower case.

    They are in `rules`, or next to the prompts of the intent: `x.md` next to `x.txt`.
    """
    home = folder / "rules"
    rules: dict[str, tuple[Path, str]] = {}
    names = {name.casefold() for name in intents}
    with trying:
        beside = [
            path for path in files_in(intents_home(folder), ".md") if path.stem.casefold() in names
        ]
        for path in [*_rule_files(folder, home, trying), *beside]:
            with trying:
                name = path.stem.casefold()
                if name in rules:
                    PackFile(path).fail(
                        None,
                        f"there are rules for {path.stem!r} already, in {rules[name][0].name}",
                        "Put both into one file.",
                    )
                rules[name] = (path, PackFile(path).prose())
    return rules


def _rule_files(folder: Path, home: Path, trying: Trying) -> list[Path]:
    for candidate in (home, folder):
        manifest = candidate / "rules.list"
        if manifest.is_file():
            return files_named(manifest, home, ".md", trying)
    return files_in(home, ".md")


def _modules(folder: Path, trying: Trying) -> tuple[Path, ...]:
    paths: list[Path] = []
    for name in ("tools", "proxies", "prompts", "resources"):
        with trying:
            paths += [
                path for path in files_in(folder / name, ".py") if not path.name.startswith("_")
            ]
    return tuple(paths)


def _programs(folder: Path, trying: Trying) -> tuple[Path, ...]:
    with trying:
        paths = files_in(folder / "programs", ".py")
        return tuple(path for path in paths if not path.name.startswith("_"))
    return ()


def _texts(folder: Path, trying: Trying) -> dict[str, str]:
    """Return the prompts for clients."""
    texts: dict[str, str] = {}
    with trying:
        for path in files_in(folder / "prompts", ".md"):
            with trying:
                texts[path.stem] = PackFile(path).prose()
    return texts


def _resources(folder: Path) -> tuple[Path, ...]:
    home = folder / "resources"
    return tuple(
        Path(entry.path)
        for entry in files_of(home)
        if entry.is_file() and not entry.name.endswith(".py")
    )


def _servers(folder: Path, trying: Trying) -> dict[str, Json]:
    """Return the configurations of the servers that a pack adds."""
    path = folder / "servers.json"
    with trying:
        if not path.is_file():
            return {}
        file = PackFile(path)
        try:
            read: object = json.loads(file.text)
        except json.JSONDecodeError as error:
            file.fail(error.lineno, f"this is not valid JSON: {error.msg}", "Correct the line.")
        except RecursionError:
            file.fail(None, "it is nested too deeply", "Correct it.")
        table = json_object(read)
        servers: object = table.get("mcpServers", table)
        if not isinstance(read, dict) or not isinstance(servers, dict):
            file.fail(None, "it has no servers", 'Expected: {"mcpServers": {"NAME": {...}}}.')
        configs = cast("Json", servers)
        for name, config in configs.items():
            if not isinstance(config, dict):
                file.fail(file.line(name), f"the server {name!r} is not an object", "Correct it.")
        return configs
    return {}


def files_of(folder: Path) -> Iterator[os.DirEntry[str]]:
    """Yield all files below a folder, sorted, without hidden and generated files."""
    pending = [str(folder)]
    count = 0
    while pending:
        directory = pending.pop()
        try:
            with os.scandir(directory) as listed:
                entries = sorted(listed, key=lambda entry: entry.name)
        except OSError:
            continue  # reported by the code that reads its files
        for entry in entries:
            if entry.name.startswith(".") or entry.name in _MADE:
                continue
            if entry.is_dir(follow_symlinks=False):
                pending.append(entry.path)
            elif count < _MOST_FILES:
                count += 1
                yield entry


def stamps_of(folder: Path) -> Stamps:
    """Return the stamps of all files, which differ after a file was changed."""
    stamps: list[tuple[str, int, int, int]] = []
    for entry in files_of(folder):
        try:
            stat = entry.stat()
        except OSError:
            continue
        stamps.append((entry.path, stat.st_mtime_ns, stat.st_size, stat.st_ino))
    return tuple(stamps)


def fingerprint(folder: Path, *, but: frozenset[str] = frozenset()) -> str:
    """Hash the files of a pack: contents of text files, size and modification time of others.

    Args:
        folder: The pack's folder.
        but: Files and folders directly in it that are ignored.
    """
    digest = blake2b(digest_size=16)
    for entry in files_of(folder):
        path = Path(entry.path)
        parts = path.relative_to(folder).parts
        if parts[0] in but:
            continue
        digest.update("/".join(parts).encode(errors="surrogateescape") + b"\0")
        try:
            stat = entry.stat()
            if path.suffix in _TEXTS and S_ISREG(stat.st_mode) and stat.st_size <= MOST_BYTES:
                digest.update(path.read_bytes())
            else:
                digest.update(f"{stat.st_size} {stat.st_mtime_ns}".encode())
        except OSError as error:
            digest.update(f"{error.errno}".encode())
        digest.update(b"\0")
    return digest.hexdigest()
