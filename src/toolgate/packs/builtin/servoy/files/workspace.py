"""Reads a workspace: its solutions, their modules, and the objects in their files."""

import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache
from itertools import islice
from pathlib import Path
from typing import Final, Literal, TypeAlias

from toolgate.packs.builtin.servoy._errors import ToolRefusedError
from toolgate.packs.builtin.servoy.files import disk
from toolgate.packs.builtin.servoy.files.notation import (
    Dialect,
    Fields,
    FileStyle,
    NotationError,
    ServoyFile,
    Value,
    decode_file,
)
from toolgate.packs.builtin.servoy.files.undo_log import UndoLog

Kind: TypeAlias = Literal["relation", "value list", "form"]

KINDS: Final[dict[Kind, tuple[str, str, int]]] = {
    "relation": ("relations", ".rel", 22),
    "value list": ("valuelists", ".val", 34),
    "form": ("forms", ".frm", 3),
}
"""Folder, extension and typeid of each kind of object."""

SOLUTION: Final = 43
"""The typeid of a solution."""

_MODULE_TYPES: Final = frozenset({2, 16, 32, 64, 128, 512, 2048})
"""solutionType of solutions that are not started on their own: modules, login, hooks."""

_SMALL: Final = 65_536
"""Bytes; larger objects are not cached."""

_DEEPEST: Final = 5
"""Levels of folders that are searched (chosen)."""
_MOST_FOLDERS: Final = 5_000
"""Folders that are searched (chosen: bounds time if the workspace is a home folder)."""
_NO_SOLUTIONS: Final = frozenset(
    {"node_modules", "medias", "forms", "relations", "valuelists", "datasources", "__pycache__"}
)


@dataclass(frozen=True, kw_only=True)
class StoredObject:
    """An object of a solution, with its file."""

    kind: Kind
    """Kind of object."""

    name: str
    """Its name; that of the file if it cannot be read."""

    path: Path
    """Its file."""

    solution: str
    """Name of the solution or module that it belongs to."""

    content: bytes
    """The bytes of the file."""

    file: ServoyFile | None = None
    """The parsed file; None if it cannot be read."""

    problem: str = ""
    """Why it cannot be read: file, line and reason; else empty."""

    @property
    def fields(self) -> Fields:
        """Its properties, read-only; see `editable`.

        Raises:
            ToolRefusedError: The file cannot be read.
        """
        if self.file is None or not isinstance(self.file.root, Fields):
            raise ToolRefusedError(f"{self.problem} Nothing was changed.")
        return self.file.root

    def editable(self) -> "StoredObject":
        """Return a copy whose properties may be changed; those of `fields` are shared.

        Raises:
            ToolRefusedError: The file cannot be read.
        """
        _ = self.fields
        return replace(self, file=decode_file(self.content))

    @property
    def uuid(self) -> str:
        """Its UUID as written; empty if there is none."""
        return text_of(self.fields, "uuid")


@dataclass(frozen=True, kw_only=True)
class Solution:
    """A solution or module."""

    name: str
    """Name from `rootmetadata.obj`, or else of its folder."""

    folder: Path
    """Folder of the solution."""

    style: FileStyle
    """Spelling of its new files."""

    solution_type: int = 1
    """1 solution, 2 module, and others."""

    modules: tuple[str, ...] = ()
    """Names of its modules, as written."""

    main_form: str = ""
    """UUID of its first form; empty if there is none."""

    problem: str = ""
    """Why its settings cannot be read; else empty."""

    def folder_of(self, kind: Kind) -> Path:
        """Return its folder for a kind of object."""
        return self.folder / KINDS[kind][0]

    def file_of(self, kind: Kind, name: str) -> Path:
        """Return its file for an object with a name."""
        return self.folder_of(kind) / f"{name}{KINDS[kind][1]}"


@dataclass(frozen=True, kw_only=True)
class Workspace:
    """A folder with solutions.

    Everything that is read is cached: create a new workspace for each request.
    """

    folder: Path
    """The folder, with links resolved."""

    solution_name: str = ""
    """Name of the solution to work on; empty: the only one that is not a module."""

    _read: dict[tuple[str, Kind], tuple[StoredObject, ...]] = field(
        default_factory=dict[tuple[str, Kind], tuple[StoredObject, ...]]
    )

    @classmethod
    def open(cls, path: Path, solution: str = "") -> "Workspace":
        """Open the workspace at a path: its folder, or that of a solution in it.

        Raises:
            ToolRefusedError: The folder does not exist.
        """
        if not path.is_dir():
            raise ToolRefusedError(
                f"There is no folder {str(path)!r}. Set the pack's workspace to one."
            )
        path = path.resolve()
        if (path / "rootmetadata.obj").is_file():
            name = solution or _name_in(path)
            return cls(folder=path.parent, solution_name=name)
        return cls(folder=path, solution_name=solution)

    @cached_property
    def journal(self) -> UndoLog:
        """The log with which its files are changed."""
        return UndoLog(self.folder)

    @cached_property
    def solutions(self) -> dict[str, Solution]:
        """All solutions and modules in the folder, by name.

        Raises:
            ToolRefusedError: Two have the same name.
        """
        by_name: dict[str, Solution] = {}
        for folder in _solution_folders(self.folder):
            solution = _solution(folder)
            if solution.name in by_name:
                raise ToolRefusedError(
                    f"Two solutions are called {solution.name!r}: {by_name[solution.name].folder} "
                    f"and {folder}. Rename one, or set the pack's workspace to a folder with one."
                )
            by_name[solution.name] = solution
        return by_name

    @cached_property
    def active(self) -> Solution:
        """The solution to work on.

        Raises:
            ToolRefusedError: There is none, or several; or its settings cannot be read.
        """
        solution = self._chosen()
        if solution.problem:
            raise ToolRefusedError(f"{solution.problem} Nothing was changed.")
        return solution

    def _chosen(self) -> Solution:
        solutions = self.solutions
        if self.solution_name:
            if self.solution_name in solutions:
                return solutions[self.solution_name]
            raise ToolRefusedError(
                f"There is no solution {self.solution_name!r} in {self.folder}. "
                f"Available: {', '.join(sorted(solutions)) or 'none'}."
            )
        if not solutions:
            raise ToolRefusedError(
                f"{self.folder} holds no solution: no folder in it has a file rootmetadata.obj. "
                "Set the pack's workspace to the folder of your solutions."
            )
        used = {name for solution in solutions.values() for name in solution.modules}
        tops = [
            solution
            for solution in solutions.values()
            if solution.solution_type not in _MODULE_TYPES
        ]
        tops = (
            [solution for solution in tops if solution.name not in used]
            or tops
            or list(solutions.values())
        )
        if len(tops) == 1:
            return tops[0]
        names = ", ".join(sorted(solution.name for solution in tops))
        raise ToolRefusedError(
            f"{self.folder} holds several solutions: {names}. Set the pack's solution to one."
        )

    @cached_property
    def modules(self) -> tuple[Solution, ...]:
        """The modules of the active solution and their modules, in the order of their lists."""
        by_name: dict[str, Solution] = {}
        waiting = list(self.active.modules)
        while waiting:
            name = waiting.pop(0)
            if name in by_name or name == self.active.name or name not in self.solutions:
                continue
            by_name[name] = self.solutions[name]
            waiting += by_name[name].modules
        return tuple(by_name.values())

    @cached_property
    def missing_modules(self) -> tuple[str, ...]:
        """Listed modules that are not in the workspace."""
        named = [name for solution in (self.active, *self.modules) for name in solution.modules]
        return tuple(dict.fromkeys(name for name in named if name not in self.solutions))

    @property
    def scope(self) -> tuple[Solution, ...]:
        """The active solution and its modules."""
        return (self.active, *self.modules)

    def objects(self, kind: Kind, solution: Solution) -> tuple[StoredObject, ...]:
        """Return the objects of a kind in a solution, by name, including unreadable ones."""
        key = (solution.name, kind)
        if key not in self._read:
            suffix = KINDS[kind][1]
            try:
                paths = sorted(solution.folder_of(kind).iterdir())
            except (FileNotFoundError, NotADirectoryError):
                paths = []
            except OSError as error:
                raise ToolRefusedError(
                    f"{solution.folder_of(kind)} cannot be read: {error.strerror or error}."
                ) from error
            paths = [path for path in paths if path.suffix == suffix and path.name[0] != "."]
            objects = [_stored(kind, path, solution.name) for path in paths]
            self._read[key] = tuple(sorted(objects, key=lambda stored: (stored.name, stored.path)))
        return self._read[key]

    def objects_in_scope(self, kind: Kind) -> list[StoredObject]:
        """Return the objects of a kind in the active solution and its modules, in that order."""
        return [stored for solution in self.scope for stored in self.objects(kind, solution)]

    def find_objects(self, kind: Kind, name: str) -> list[StoredObject]:
        """Return all objects with exactly this name; those of the active solution first."""
        return [stored for stored in self.objects_in_scope(kind) if stored.name == name]

    def find_ignoring_case(self, kind: Kind, name: str) -> StoredObject | None:
        """Return an object whose name only differs in case; None if there is none."""
        folded = name.casefold()
        return next((e for e in self.objects_in_scope(kind) if e.name.casefold() == folded), None)

    def files(self, suffixes: frozenset[str]) -> Iterator[Path]:
        """Yield the files of all solutions with these suffixes, sorted."""
        for solution in sorted(self.solutions.values(), key=lambda entry: entry.name):
            yield from walk(solution.folder, suffixes)

    def display_path(self, path: Path) -> str:
        """Return a path for display, relative to the workspace."""
        try:
            return path.relative_to(self.folder).as_posix()
        except ValueError:
            return str(path)

    @cached_property
    def resources(self) -> tuple[Path, ...]:
        """Folders with definitions of tables: `datasources` of resource projects."""
        folders = [self.folder, *_folders(self.folder, _DEEPEST)]
        datasources = [
            folder / "datasources"
            for folder in folders
            if not (folder / "rootmetadata.obj").exists()
        ]
        return tuple(candidate for candidate in datasources if candidate.is_dir())


def text_of(fields: Fields, key: str) -> str:
    """Return a text property; empty if it is missing."""
    value = fields.get(key)
    return str(value) if isinstance(value, str) else ""


def number_of(fields: Fields, key: str, default: int = 0) -> int:
    """Return an integer property; the default if it is missing."""
    value = fields.get(key)
    return value if type(value) is int else default


def read_file(path: Path) -> tuple[bytes, ServoyFile]:
    """Read and parse a file.

    Raises:
        ToolRefusedError: It cannot be read; the message has file, line and reason.
    """
    content = disk.content_of(path)
    if content is None:
        raise ToolRefusedError(f"There is no file {path}.")
    try:
        return content, decode_file(content)
    except NotationError as error:
        raise ToolRefusedError(_damaged(path, error)) from error


def walk(folder: Path, suffixes: frozenset[str]) -> Iterator[Path]:
    """Yield the files below a folder with these suffixes, sorted, without hidden folders."""
    for directory, below, names in os.walk(folder):
        below[:] = sorted(name for name in below if name[0] != "." and name != "node_modules")
        for name in sorted(names):
            if os.path.splitext(name)[1].lower() in suffixes:  # noqa: PTH122 -- a path each costs twice the walk
                yield Path(directory, name)


def _damaged(path: Path, error: NotationError) -> str:
    where = f":{error.line}" if error.line else ""
    return f"{path}{where}: the file cannot be read: {error.reason}."


@lru_cache(maxsize=8_192)
def _decode_cached(content: bytes) -> ServoyFile:
    """Parse an object with a cache, since most of a workspace rarely changes."""
    return decode_file(content)


def _stored(kind: Kind, path: Path, solution: str) -> StoredObject:
    content = b""
    try:
        content = disk.content_of(path) or b""
        read = _decode_cached(content) if len(content) <= _SMALL else decode_file(content)
        if problem := _misfit(kind, path, read):
            return StoredObject(
                kind=kind,
                name=path.stem,
                path=path,
                solution=solution,
                content=content,
                problem=problem,
            )
    except (NotationError, ToolRefusedError) as error:
        problem = _damaged(path, error) if isinstance(error, NotationError) else str(error)
        return StoredObject(
            kind=kind,
            name=path.stem,
            path=path,
            solution=solution,
            content=content,
            problem=problem,
        )
    assert isinstance(read.root, Fields)
    return StoredObject(
        kind=kind,
        name=text_of(read.root, "name") or path.stem,
        path=path,
        solution=solution,
        content=content,
        file=read,
    )


def _misfit(kind: Kind, path: Path, read: ServoyFile) -> str:
    """Return why a valid file is not an object of its kind; empty if it is."""
    typeid = KINDS[kind][2]
    if not isinstance(read.root, Fields):
        return f"{path}: the file cannot be read: it holds a list and no {kind}."
    if number_of(read.root, "typeid") != typeid or not text_of(read.root, "uuid"):
        return (
            f"{path}: the file cannot be read: a {kind} has typeid {typeid} and a uuid; it may "
            "have been written in part."
        )
    return ""


def _folders(folder: Path, deepest: int) -> Iterable[Path]:
    """Yield subfolders, breadth first, without those that hold parts of a solution."""
    return islice(_breadth_first(folder, deepest), _MOST_FOLDERS)


def _breadth_first(folder: Path, deepest: int) -> Iterator[Path]:
    level = [folder]
    for _ in range(deepest):
        below: list[Path] = []
        for parent in level:
            try:
                with os.scandir(parent) as entries:
                    inside = sorted(
                        entry.name
                        for entry in entries
                        if entry.name[0] != "."
                        and entry.name not in _NO_SOLUTIONS
                        and entry.is_dir(follow_symlinks=False)
                    )
            except OSError:
                continue
            below += [parent / name for name in inside]
        yield from below
        level = below


def _solution_folders(folder: Path) -> Iterable[Path]:
    return [
        candidate
        for candidate in _folders(folder, _DEEPEST)
        if (candidate / "rootmetadata.obj").is_file()
    ]


def _name_in(folder: Path) -> str:
    return _solution(folder).name


def _solution(folder: Path) -> Solution:
    """Read a solution from its folder; damaged files are reported on use."""
    dialect: Dialect = "plain"
    try:
        _, read = read_file(folder / "rootmetadata.obj")
        root = _solution_fields(folder / "rootmetadata.obj", read)
        dialect = read.style.dialect
        style = FileStyle(dialect=dialect, end_of_line=read.style.end_of_line)
        settings = Fields()
        beside = folder / "solution_settings.obj"
        if beside.exists():
            settings = _solution_fields(beside, read_file(beside)[1])
    except ToolRefusedError as error:
        return Solution(
            name=folder.name, folder=folder, style=FileStyle(dialect=dialect), problem=str(error)
        )
    names = text_of(settings, "modulesNames") or text_of(root, "modulesNames")
    return Solution(
        name=text_of(root, "name") or folder.name,
        folder=folder,
        style=style,
        solution_type=number_of(root, "solutionType", 1),
        modules=tuple(name.strip() for name in names.split(",") if name.strip()),
        main_form=text_of(settings, "firstFormID"),
    )


def _solution_fields(path: Path, read: ServoyFile) -> Fields:
    root: Value = read.root
    if not isinstance(root, Fields) or number_of(root, "typeid") != SOLUTION:
        raise ToolRefusedError(
            f"{path}: the file cannot be read: it describes no solution (typeid {SOLUTION}); it "
            "may have been written in part."
        )
    return root
