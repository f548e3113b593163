"""The packs of a gateway: reads, watches and replaces them."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache
from hashlib import blake2b
from pathlib import Path
from types import MappingProxyType
from typing import Final

import anyio
from anyio import to_thread

from toolgate.base.names import fold
from toolgate.errors import PackError
from toolgate.packs.base import Pack
from toolgate.packs.discovery import Origin, PackLocation, find_packs, is_on_by_default
from toolgate.packs.reader import PackManifest, Stamps, load_pack, read_manifest, stamps_of
from toolgate.packs.server import PackHost, PackServer
from toolgate.settings import PackSettings
from toolgate.types import Json, ServerSpec
from toolgate.upstream import ToolServices

log = logging.getLogger(__name__)

_LOOK_S: Final = 1.0
"""Seconds between two checks for changed files (chosen)."""


@dataclass(frozen=True, kw_only=True)
class PackState:
    """State of a pack that was found."""

    name: str
    """Name of the pack, or of its folder if it cannot be read."""

    folder: Path
    """Folder of the pack."""

    origin: Origin
    """How it was found."""

    on: bool
    """Whether it is enabled."""

    version: str = ""
    """Version from its `pack.toml`."""

    description: str = ""
    """One sentence for people."""

    pack: Pack | None = None
    """The pack in use; None if it is off, or cannot be used at all."""

    is_kept: bool = False
    """Whether `pack` is the previous version, since the current files cannot be used."""

    problems: tuple[str, ...] = ()
    """Problems of its files, each with file, line and reason."""

    skipped: tuple[str, ...] = ()
    """What is not read of it, or why it is not a pack; these are not errors."""

    def to_json(self) -> Json:
        """Return it as JSON for REST and the command line."""
        intents = self.pack.intents if self.pack is not None else ()
        return {
            "name": self.name,
            "version": self.version,
            "description": self.description,
            "origin": self.origin,
            "folder": str(self.folder),
            "on": self.on,
            "is_kept": self.is_kept,
            "intents": [intent.name for intent in intents],
            "prompts": sum(len(lines) for intent in intents for lines in intent.prompts.values()),
            "rules": len(self.pack.rules) if self.pack is not None else 0,
            "problems": list(self.problems),
            "skipped": list(self.skipped),
        }


@dataclass(frozen=True, kw_only=True)
class PackSet:
    """The packs at one point in time; immutable."""

    version: str = ""
    """Hash that changes whenever a pack in use does."""

    states: tuple[PackState, ...] = ()
    """All packs that were found, in use or not; of two with the same name, the first is used."""

    @property
    def packs(self) -> tuple[Pack, ...]:
        """The packs in use; their names and intents are unique."""
        return tuple(state.pack for state in self.states if state.pack is not None)

    @property
    def problems(self) -> tuple[str, ...]:
        """Problems of all packs."""
        return tuple(problem for state in self.states for problem in state.problems)

    @property
    def skipped(self) -> tuple[str, ...]:
        """What is not read, each with the reason."""
        return tuple(reason for state in self.states for reason in state.skipped)

    def pack(self, name: str) -> Pack | None:
        """Return the pack with a name; None if it is not in use."""
        return next((pack for pack in self.packs if pack.name == name), None)


@dataclass(frozen=True, kw_only=True)
class _LoadedFolder:
    """What was read from a folder, and the stamps of its files at that time."""

    stamps: Stamps
    manifest: PackManifest
    pack: Pack | None = None
    is_kept: bool = False
    problems: tuple[str, ...] = field(default=())


class Packs:
    """The packs of a gateway.

    ```python
    packs = Packs(settings.packs, cwd=Path.cwd())
    await packs.refresh()
    packs.current.packs
    ```
    """

    def __init__(
        self,
        settings: PackSettings,
        *,
        cwd: Path,
        services: Callable[[Pack], ToolServices] | None = None,
        connections: Mapping[str, object] = MappingProxyType({}),
    ) -> None:
        """Create the packs without reading them yet.

        Args:
            settings: Which packs are used.
            cwd: Working folder of Toolgate.
            services: Returns what the tools of a pack may use; None: no code of packs is run.
            connections: Tables of the databases; when they change, code that needs databases
                runs again.
        """
        self._settings = settings
        self._connections = connections
        self._cwd = cwd
        self._services = services
        self._current = PackSet()
        self._scanned = self._announced = PackSet()
        self._read: dict[Path, _LoadedFolder] = {}
        self._servers: dict[str, PackServer] = {}
        self._hosts: dict[str, PackHost] = {}
        self._refused: dict[str, tuple[object, tuple[str, ...]]] = {}
        self._gone: list[PackServer] = []
        self._listeners: list[Callable[[PackSet], Awaitable[None]]] = []
        self._lock = anyio.Lock()
        self._tasks: set[asyncio.Task[None]] = set()

    @property
    def current(self) -> PackSet:
        """The active packs; use the same set for a whole request."""
        return self._current

    def on_change(self, listener: Callable[[PackSet], Awaitable[None]]) -> Callable[[], None]:
        """Register a listener for changes. Returns a function that removes it."""
        self._listeners.append(listener)
        return lambda: self._listeners.remove(listener)

    async def reload(
        self, settings: PackSettings, connections: Mapping[str, object] = MappingProxyType({})
    ) -> bool:
        """Apply new settings and connections, and read the packs again."""
        self._settings, self._connections = settings, connections
        return await self.refresh()

    async def refresh(self) -> bool:
        """Read what has changed since the last time.

        All packs are replaced at once. If a pack has an unusable file, its previous version
        stays in use if that had none; no error of a pack is raised.

        Returns:
            Whether anything changed.
        """
        async with self._lock:
            self._scanned, self._read = await to_thread.run_sync(
                _scan, self._settings, self._cwd, self._read
            )
            pack_set = await self._with_servers(self._scanned)
            hosted = {name: host.version for name, host in self._hosts.items()}
            if pack_set == self._announced and hosted == self._servers:
                return False
            await self._exchange(pack_set)
            return True

    async def load(self) -> None:
        """Run the code of all packs now instead of on first use."""
        for server in list(self._servers.values()):
            await server.load()
        while self._tasks:
            await asyncio.wait(self._tasks)

    def specs(self, taken: Collection[str], *, has_connections: bool) -> list[ServerSpec]:
        """Return the servers of all packs: their own, and those that they add.

        Args:
            taken: Names of other servers, which have precedence; a server of a pack with the
                same name is left out, and this is logged.
            has_connections: Whether there are databases; if not, packs that need some are left
                out.
        """
        specs: list[ServerSpec] = []
        places = {fold(name): "the configuration" for name in taken}
        reported = self._current.problems
        states = list(self._announced.states)
        for at, state in enumerate(states):
            pack = state.pack
            server = self._servers.get(state.name) if pack is not None else None
            if pack is None or server is None:
                continue
            if "connections" in pack.needs and not has_connections:
                continue
            twice: list[str] = []
            for spec in server.specs(self._hosts[state.name].target):
                where = places.get(fold(spec.name))
                if where is None:
                    places[fold(spec.name)] = f"the pack {pack.name!r}"
                    specs.append(spec)
                    continue
                twice.append(
                    f"{spec.source}: there is a server {spec.name!r} already, from {where}; the "
                    "one of the pack is left out. Give one of them another name."
                )
            for problem in twice:
                if problem not in reported:
                    log.error("pack %s: %s", state.name, problem)
            states[at] = replace(state, problems=(*state.problems, *twice))
        self._current = replace(self._announced, states=tuple(states))
        return specs

    async def aclose(self) -> None:
        """Stop announcing changes, and unload the code of packs."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        for server in self._servers.values():
            server.forget()

    def _hosted(self) -> list[PackHost]:
        """Update the hosts. Returns those whose version has changed."""
        changed: list[PackHost] = []
        for name, server in self._servers.items():
            host = self._hosts.setdefault(name, PackHost())
            if host.version is not server:
                host.version = server
                changed.append(host)
        self._hosts = {name: self._hosts[name] for name in self._servers}
        return changed

    async def _with_servers(self, pack_set: PackSet) -> PackSet:
        """Return the packs, with the previous version of those whose new code does not work."""
        if self._services is None:
            return pack_set
        states: list[PackState] = []
        servers: dict[str, PackServer] = {}
        for state in pack_set.states:
            if state.pack is None or not (state.pack.has_server or state.pack.servers):
                states.append(state)
                continue
            server, problems = await self._server(state.pack, self._services)
            servers[server.pack.name] = server
            is_old = server.pack.code != state.pack.code
            states.append(
                replace(
                    state,
                    pack=server.pack if is_old else state.pack,
                    is_kept=state.is_kept or is_old,
                    problems=(*state.problems, *problems),
                )
            )
        for name, server in self._servers.items():
            if servers.get(name) is not server:
                self._gone.append(server)
        self._servers = servers
        return _set_of(states)

    async def _server(
        self, pack: Pack, services: Callable[[Pack], ToolServices]
    ) -> tuple[PackServer, tuple[str, ...]]:
        """Return the server of a pack, and the problems of its current code."""
        needed = self._connections if "connections" in pack.needs else None
        key = (pack.folder, pack.code, repr(self._settings.options.get(pack.name)), needed)
        old = self._servers.get(pack.name)
        if old is not None and old.key == key:
            return old, old.problems
        refused = self._refused.get(pack.name)
        if old is not None and refused is not None and refused[0] == key:
            return old, refused[1]
        new = PackServer(pack, key=key, services=services(pack), on_news=self._on_news)
        if old is None or old.problems or old.key[0] != pack.folder:
            return new, ()
        await new.load()
        if not new.problems:
            return new, ()
        self._refused[pack.name] = (key, new.problems)
        new.forget()
        return old, new.problems

    def _on_news(self) -> None:
        task = asyncio.create_task(self._announce_again())
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _announce_again(self) -> None:
        """Announce servers that code has added, or errors that it has raised, after it has run."""
        async with self._lock:
            await self._exchange(await self._with_servers(self._scanned))

    async def _exchange(self, pack_set: PackSet) -> None:
        before, self._announced = self._announced, pack_set
        self._current = pack_set
        for state in pack_set.states:
            suffix = " The previous version is in use." if state.is_kept else ""
            for problem in state.problems:
                if problem not in before.problems:
                    log.error("pack %s: %s%s", state.name, problem, suffix)
        for reason in pack_set.skipped:
            if reason not in before.skipped:
                log.warning("skipped: %s", reason)
        changed = self._hosted()
        for listener in list(self._listeners):
            await listener(pack_set)
        for host in changed:
            await host.target.reload()
        if pack_set.version != before.version:
            log.info("packs read", extra={"packs": ", ".join(pack.name for pack in pack_set.packs)})
        while self._gone:
            self._gone.pop().forget()

    async def watch(self, *, stop: anyio.Event, interval_s: float = _LOOK_S) -> None:
        """Refresh whenever files have changed, after they have been stable for one interval.

        Shipped and installed packs are not watched, except with `[packs] dev`.
        """
        loaded: Stamps | None = None
        previous: Stamps = ()
        while not stop.is_set():
            stamps = await to_thread.run_sync(_watched, self._settings, self._cwd)
            if loaded is None or (stamps != loaded and stamps == previous):
                loaded = stamps
                try:
                    await self.refresh()
                except Exception:  # later changes must still be detected
                    log.exception("packs cannot be read")
            previous = stamps
            with anyio.move_on_after(interval_s):
                await stop.wait()


def _set_of(states: Iterable[PackState]) -> PackSet:
    pack_set = PackSet(states=tuple(states))
    version = blake2b(digest_size=16)
    for pack in pack_set.packs:
        intents = ",".join(intent.name for intent in pack.intents)
        version.update(f"{pack.name}\0{pack.fingerprint}\0{intents}\0".encode(errors="replace"))
    return replace(pack_set, version=version.hexdigest())


def no_services(pack: Pack) -> ToolServices:  # noqa: ARG001 -- as `Packs` asks for them
    """Return empty services, to try the code of tools that nobody will call."""
    return ToolServices()


def _scan(
    settings: PackSettings, cwd: Path, earlier: Mapping[Path, _LoadedFolder]
) -> tuple[PackSet, dict[Path, _LoadedFolder]]:
    read: dict[Path, _LoadedFolder] = {}
    states: list[PackState] = []
    skipped: list[PackState] = []
    for location in find_packs(settings.paths, cwd=cwd):
        if location.problem:
            states.append(_missing(location))
            continue
        if location.skipped:
            skipped.append(_missing(location))
            continue
        loaded = _read(location, earlier.get(location.folder), settings)
        read[location.folder] = loaded
        states.append(_state(location, loaded, settings))
    states = _settled(states)
    missing = {*settings.enable, *settings.disable} - {state.name for state in states}
    states += [_unknown(name, states) for name in sorted(missing)]
    return _set_of([*states, *skipped]), read


def _read(
    location: PackLocation, before: _LoadedFolder | None, settings: PackSettings
) -> _LoadedFolder:
    """Read a folder if anything in it has changed; only the manifest if the pack is off."""
    stamps = stamps_of(location.folder)
    try:
        manifest = _manifest(location.folder, stamps)
        on = _is_on(manifest.name, location, settings)
        stamps = (*stamps, (f"{on} {settings.dev}", 0, 0, 0))
        if before is not None and before.stamps == stamps:
            return before
        if not on:
            return _LoadedFolder(stamps=stamps, manifest=manifest)
        pack = _loaded(location.folder, stamps, dev=settings.dev)
    except PackError as error:
        manifest = (
            before.manifest if before is not None else PackManifest(name=location.folder.name)
        )
        earlier_pack = before.pack if before is not None else None
        return _LoadedFolder(
            stamps=stamps,
            manifest=manifest,
            pack=earlier_pack,
            is_kept=earlier_pack is not None,
            problems=(str(error),),
        )
    was_whole = before is not None and (before.is_kept or not before.problems)
    if pack.problems and before is not None and before.pack is not None and was_whole:
        return replace(before, stamps=stamps, is_kept=True, problems=pack.problems)
    return _LoadedFolder(stamps=stamps, manifest=manifest, pack=pack, problems=pack.problems)


@lru_cache(maxsize=32)
def _manifest(folder: Path, stamps: Stamps) -> PackManifest:
    del stamps
    return read_manifest(folder)


@lru_cache(maxsize=8)
def _loaded(folder: Path, stamps: Stamps, *, dev: bool) -> Pack:
    """Load a pack; gateways in the same process share it while its files do not change."""
    del stamps
    return load_pack(folder, dev=dev)


def _is_on(name: str, location: PackLocation, settings: PackSettings) -> bool:
    by_default = is_on_by_default(name, location.origin)
    return name not in settings.disable and (by_default or name in settings.enable)


def _state(location: PackLocation, read: _LoadedFolder, settings: PackSettings) -> PackState:
    return PackState(
        name=read.manifest.name,
        folder=location.folder,
        origin=location.origin,
        on=_is_on(read.manifest.name, location, settings),
        version=read.manifest.version,
        description=read.manifest.description,
        pack=read.pack,
        is_kept=read.is_kept,
        problems=read.problems,
        skipped=read.pack.skipped if read.pack is not None else (),
    )


def _settled(states: list[PackState]) -> list[PackState]:
    """Remove packs and intents with duplicate names."""
    owners: dict[str, Path] = {}
    intents: dict[str, Pack] = {}
    settled: list[PackState] = []
    for state in states:
        pack, problems = state.pack, list(state.problems)
        if pack is None:
            settled.append(state)
            continue
        if pack.name.casefold() in owners:
            problems.append(
                f"{pack.folder}: there is a pack {pack.name!r} already, in "
                f"{owners[pack.name.casefold()]}; this one is left out. Give one of them another "
                "name in its pack.toml."
            )
            settled.append(replace(state, pack=None, on=False, problems=tuple(problems)))
            continue
        owners[pack.name.casefold()] = pack.folder
        taken = [intent for intent in pack.intents if intent.name.casefold() in intents]
        for intent in taken:
            other = intents[intent.name.casefold()]
            problems.append(
                f"{pack.intent_files.get(intent.name, pack.folder)}: the intent {intent.name!r} is "
                f"in the pack {other.name!r} already ({other.folder}); this one is left out. Give "
                "one of them another name, or disable one pack."
            )
        if taken:
            pack = replace(
                pack, intents=tuple(intent for intent in pack.intents if intent not in taken)
            )
        intents |= {intent.name.casefold(): pack for intent in pack.intents}
        settled.append(replace(state, pack=pack, problems=tuple(problems)))
    return settled


def _missing(location: PackLocation) -> PackState:
    return PackState(
        name=location.folder.name,
        folder=location.folder,
        origin=location.origin,
        on=False,
        problems=(location.problem,) if location.problem else (),
        skipped=(location.skipped,) if location.skipped else (),
    )


def _unknown(name: str, states: Collection[PackState]) -> PackState:
    there = ", ".join(dict.fromkeys(state.name for state in states)) or "none"
    problem = PackError(
        f"The settings name the pack {name!r}, which was not found.",
        allowed=f"Found: {there}.",
        hint="Correct packs.enable or packs.disable, or add its folder to packs.paths.",
    )
    return PackState(
        name=name, folder=Path(name), origin="setting", on=False, problems=(str(problem),)
    )


def _watched(settings: PackSettings, cwd: Path) -> Stamps:
    return tuple(
        stamp
        for location in find_packs(settings.paths, cwd=cwd, local=not settings.dev)
        for stamp in (
            (str(location.folder), 0, 0, 0),
            *(() if location.skipped else stamps_of(location.folder)),
        )
    )
