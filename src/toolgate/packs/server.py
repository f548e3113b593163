"""Serves the tools, programs, prompts and resources of a pack as an MCP server."""

import hashlib
import inspect
import logging
import mimetypes
from collections.abc import Callable, Mapping
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType
from typing import Any, Final, cast

import anyio
from anyio import to_thread

from toolgate.base.installation import install_hint
from toolgate.base.pack_files import PackFile
from toolgate.base.tool_results import PARKED_META, failed_result
from toolgate.errors import PackError, ProgramError, SettingError, ToolgateError
from toolgate.gateway.programs.saved import SavedProgram, read_saved
from toolgate.packs.base import Pack
from toolgate.packs.modules import PackModules
from toolgate.settings import server_spec
from toolgate.types import Json, ServerSpec
from toolgate.upstream import (
    FunctionTool,
    LocalParts,
    LocalPrompt,
    LocalResource,
    LocalServer,
    ToolContext,
    ToolServices,
    tools_of,
)

log = logging.getLogger(__name__)

_MODULE_S: Final = 30.0
"""Seconds for importing a module, and again for its `register` (chosen)."""

_PROGRAM_S: Final = 3_700.0
"""Seconds that a call of a program may take: more than the highest `programs.timeout_s`, by which
programs are ended with an error that says so."""

_PROGRAM_META: Final = "toolgate/program"
"""Key in a tool's `_meta`: the hash of its program, and the version of its pack. A changed
program thus changes the definition, which quarantine and approvals detect."""


class PackServer:
    """One version of a pack as a server; its code runs on the first connection."""

    def __init__(
        self,
        pack: Pack,
        *,
        key: tuple[object, ...],
        services: ToolServices,
        on_news: Callable[[], None],
    ) -> None:
        """Create a server; no code of the pack runs yet.

        Args:
            pack: The pack.
            key: Identifies this version.
            services: What its tools may use.
            on_news: Called when its code has added servers, or could not be used.
        """
        self.pack = pack
        self.key = key
        self.problems: tuple[str, ...] = ()
        self.added: dict[str, Json] = {}
        """Servers that its code has added, by name."""
        self._services = services
        self._on_news = on_news
        self._modules = PackModules(pack.name, pack.folder)
        self._parts: LocalParts | None = None
        self._loading = anyio.Lock()

    def specs(self, target: LocalServer) -> list[ServerSpec]:
        """Return the server itself, and those that the pack adds.

        Args:
            target: Serves the pack, in this or later versions.
        """
        specs: list[ServerSpec] = []
        if self.pack.has_server:
            specs.append(
                ServerSpec(
                    name=self.pack.name,
                    kind="inprocess",
                    options={"target": target},
                    era="handshake",
                    source=str(self.pack.folder),
                    tool_timeouts_s={path.stem: _PROGRAM_S for path in self.pack.programs},
                    asking_tools=frozenset(path.stem for path in self.pack.programs),
                )
            )
        file = self.pack.folder / "servers.json"
        specs += [_spec(name, config, file) for name, config in self.pack.servers.items()]
        specs += [_spec(name, config, self.pack.folder) for name, config in self.added.items()]
        return specs

    async def load(self) -> LocalParts:
        """Run the code of the pack once; unusable parts are left out and reported in `problems`."""
        async with self._loading:
            if self._parts is None:
                gathered = _PackLoader(self.pack, self._modules, self._services)
                await gathered.run()
                self._parts = gathered.parts()
                self.problems = tuple(gathered.problems)
                self.added = gathered.added
                if self.added or self.problems:
                    self._on_news()
            return self._parts

    def forget(self) -> None:
        """Unload its modules, once no call runs in them."""
        self._modules.forget()


class PackHost:
    """Holds the server of a pack across its versions."""

    def __init__(self) -> None:
        """Create a host without a version."""
        self.version: PackServer | None = None
        self.target = LocalServer(self._load)

    async def _load(self) -> LocalParts:
        assert self.version is not None
        return await self.version.load()


class _PackLoader:
    """Imports the modules of a pack, and collects what they register."""

    def __init__(self, pack: Pack, modules: PackModules, services: ToolServices) -> None:
        self.problems: list[str] = []
        self.added: dict[str, Json] = {}
        self._pack = pack
        self._modules = modules
        self._services = services
        self._tools: dict[str, tuple[FunctionTool, Path]] = {}
        self._server: Any = None
        self._registered: dict[str, Path] = {}

    async def run(self) -> None:
        """Load all modules, in their order."""
        for path in self._pack.modules:
            try:
                with anyio.fail_after(_MODULE_S):
                    module = await to_thread.run_sync(
                        self._modules.load, path, abandon_on_cancel=True
                    )
                await self._take(module, path)
            except TimeoutError:
                self._left_out(path, f"it takes longer than {_MODULE_S:g} s to load")
            except ToolgateError as error:
                self._left_out(path, str(error))
            except (Exception, SystemExit) as error:
                log.debug("module of a pack not loaded", exc_info=True)
                self._left_out(path, _reason(error, self._pack.folder), line=_line(error, path))
        for path in self._pack.programs:
            self._take_program(path)

    def _take_program(self, path: Path) -> None:
        try:
            tool = _program_tool(path, self._pack.version)
            _ = tool.definition
        except ToolgateError as error:
            self._left_out(path, str(error))
        except SyntaxError as error:
            self._left_out(path, _reason(error, self._pack.folder), line=error.lineno)
        else:
            if tool.name in self._tools:
                self._twice("tool", tool.name, path, self._tools[tool.name][1])
            else:
                self._tools[tool.name] = (tool, path)

    def parts(self) -> LocalParts:
        """Return everything that was registered."""
        pack = self._pack
        return LocalParts(
            name=pack.name,
            tools=tuple(tool for tool, _ in self._tools.values()),
            prompts=tuple(_prompt(name, text, pack) for name, text in pack.texts.items()),
            resources=tuple(_resource(path, pack) for path in pack.resources),
            services=self._services,
            server=self._server,
        )

    async def _take(self, module: ModuleType, path: Path) -> None:
        tools = tools_of(module)
        register: object = getattr(module, "register", None)
        servers: object = getattr(module, "servers", None)
        if not tools and not callable(register) and not callable(servers):
            self._left_out(
                path,
                "it has neither a function marked with @tool nor a function register or servers. "
                "Let its name begin with _ if others import it",
            )
            return
        for tool in tools:
            _ = tool.definition  # report invalid tools now instead of when listing
        for tool in tools:
            if tool.name in self._tools:
                self._twice("tool", tool.name, path, self._tools[tool.name][1])
                continue
            self._tools[tool.name] = (tool, path)
        if callable(servers):
            with anyio.fail_after(_MODULE_S):
                brought = await to_thread.run_sync(servers, self._services, abandon_on_cancel=True)
            self._bring(cast("Mapping[str, Json]", brought), path)
        if callable(register):
            await self._register(register, path)

    async def _register(self, register: Callable[..., Any], path: Path) -> None:
        if find_spec("fastmcp") is None:
            raise PackError(
                "register(mcp) needs the library 'fastmcp', which is not installed.",
                hint=install_hint("fastmcp"),
            )
        library = await to_thread.run_sync(import_module, "toolgate.packs.fastmcp")
        added: dict[str, Json] = {}
        server = library.new_server(self._pack.name, added.__setitem__)
        call = library.registration(register, server)
        with anyio.fail_after(_MODULE_S):
            if inspect.iscoroutinefunction(register):
                await call()
            else:
                result = await to_thread.run_sync(call, abandon_on_cancel=True)
                if inspect.isawaitable(result):
                    await result
        self._bring(added, path)
        for name in [tool.name for tool in await server.list_tools()]:
            if name in self._tools or name in self._registered:
                other = self._registered.get(name) or self._tools[name][1]
                self._twice("tool", name, path, other)
                server.disable(names={name})
            else:
                self._registered[name] = path
        if self._server is None:
            self._server = library.new_server(self._pack.name, added.__setitem__)
        self._server.mount(server)

    def _bring(self, added: Mapping[str, Json], path: Path) -> None:
        for name, config in added.items():
            server_spec(name, config)  # raises for unknown keys
            if name in self.added:
                self._left_out(path, f"there is a server {name!r} already")
            else:
                self.added[name] = config

    def _twice(self, kind: str, name: str, path: Path, other: Path) -> None:
        self._left_out(path, f"the {kind} {name!r} is in {other.name} already; the first counts")

    def _left_out(self, path: Path, reason: str, *, line: int | None = None) -> None:
        where = "" if line is None else f":{line}"
        self.problems.append(f"{path}{where}: {reason.rstrip('.')}.")


def _program_tool(path: Path, version: str) -> FunctionTool:
    """Create the tool of a program file, named after the file.

    Args:
        path: The file.
        version: Version of its pack; empty if it has none.

    Raises:
        SyntaxError: The file is not valid Python.
        PackError: Its `main` cannot be described as a tool.
    """
    saved = read_saved(PackFile(path).text)
    program: Json = {"sha256": hashlib.sha256(saved.code.encode()).hexdigest()}
    if version:
        program["version"] = version
    return FunctionTool(_program_function(saved), name=path.stem, meta={_PROGRAM_META: program})


def _program_function(saved: SavedProgram) -> Any:
    """Create a function with the signature of the program."""

    async def run(context: ToolContext, **inputs: Any) -> Json:
        try:
            return await context.run_program(saved.code, inputs, asks=True)
        except ProgramError as error:  # for the model; not an error of the pack
            parked = {"_meta": {PARKED_META: error.waiting["id"]}} if error.is_waiting else {}
            return {**failed_result(str(error)), **parked}

    context = inspect.Parameter("context", inspect.Parameter.KEYWORD_ONLY, annotation=ToolContext)
    parameters = [*saved.signature.parameters.values(), context]
    signature = saved.signature.replace(parameters=parameters)
    run.__doc__ = saved.description
    run.__annotations__ = {name: p.annotation for name, p in signature.parameters.items()}
    run.__annotations__["return"] = signature.return_annotation
    vars(run)["__signature__"] = signature
    return run


def _spec(name: str, config: Mapping[str, Any], source: Path) -> ServerSpec:
    """Create a server that a pack adds; an unusable one has a `problem`."""
    folder = source if source.is_dir() else source.parent
    try:
        return server_spec(name, config, source=str(source), folder=folder)
    except SettingError as error:
        return ServerSpec(
            name=name, kind="stdio", enabled=False, problem=str(error), source=str(source)
        )


def _prompt(name: str, text: str, pack: Pack) -> LocalPrompt:
    for variable, value in pack.variables.items():
        text = text.replace(f"{{{{{variable}}}}}", value)
    first = text.lstrip().partition("\n")[0]
    return LocalPrompt(
        name=name,
        text=text.strip(),
        description=first.lstrip("#").strip() if first.startswith("#") else "",
    )


def _resource(path: Path, pack: Pack) -> LocalResource:
    below = path.relative_to(pack.folder / "resources").as_posix()
    guessed = "text/markdown" if path.suffix == ".md" else mimetypes.guess_type(path.name)[0]
    return LocalResource(
        uri=f"pack://{pack.name}/{below}",
        path=path,
        mime_type=guessed or "application/octet-stream",
    )


def _reason(error: BaseException, folder: Path) -> str:
    """Return what went wrong, in one line without the pack's folder."""
    text = " ".join(str(error).split()).replace(f"{folder}/", "")
    kind = type(error).__name__
    return f"{kind}: {text[:300]}" if text else kind


def _line(error: BaseException, path: Path) -> int | None:
    """Return the line of a file that an error is about."""
    if isinstance(error, SyntaxError):
        return error.lineno if error.filename == str(path) else None
    line: int | None = None
    trace = error.__traceback__
    while trace is not None:
        if trace.tb_frame.f_code.co_filename == str(path):
            line = trace.tb_lineno
        trace = trace.tb_next
    return line
