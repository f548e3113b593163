"""The layout stays readable: sizes and names, with exceptions that may only shrink."""

import ast
import tokenize
from collections import Counter, defaultdict
from collections.abc import Iterator
from functools import cache
from graphlib import CycleError, TopologicalSorter
from io import StringIO
from pathlib import Path

import pytest

from tests.house.sources import MODULES, SOURCES, path_of, tree_of

pytestmark = pytest.mark.xdist_group("structure")
"""In the same process: the sources are parsed once, not once per worker."""

MAX_ENTRIES_AT_TOP = 28
MAX_MODULES_PER_PACKAGE = 16
MAX_MODULE_LINES = 600
LONG_MODULE_LINES = 400
MAX_LONG_MODULES_PERCENT = 8
MAX_FUNCTION_LINES = 90
MAX_PUBLIC_METHODS = 25
MAX_CONSTRUCTOR_PARAMETERS = 10
MAX_VAGUE_PER_1000 = 5
MIN_COMMENTS_PER_100 = 3
EXPLAINED_PACKAGES = ("audit", "intents", "search", "security", "upstream")
"""Packages whose code must say why, since most of it is there for a reason that it cannot show."""

VAGUE = frozenset(
    {
        *(
            "about",
            "came",
            "each",
            "found",
            "given",
            "held",
            "kept",
            "known",
            "look",
            "made",
            "mine",
        ),
        *("most", "now", "one", "others", "own", "past", "place", "said", "shown", "some", "told"),
        *("took", "wanted", "way", "what"),
    }
)
"""Identifiers that say nothing of what they hold."""

CROWDED_PACKAGES: dict[str, int] = {}
LONG_MODULES: dict[str, int] = {}
LONG_FUNCTIONS: dict[str, int] = {}
LARGE_CLASSES: dict[str, int] = {}
LARGE_CONSTRUCTORS: dict[str, int] = {}
SHARED_CLASS_NAMES = frozenset({"Options"})
"""Each implementation of a backend has its own `Options`, found by that name."""


@cache
def definitions_of(module: Path) -> list[ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef]:
    """All functions and classes, also those within others; walking is slower than parsing."""
    kinds = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
    return [node for node in ast.walk(tree_of(module)) if isinstance(node, kinds)]


def lines_of(node: ast.AST) -> int:
    return (getattr(node, "end_lineno", 0) or 0) - getattr(node, "lineno", 0) + 1


def is_migration(module: Path) -> bool:
    return "migrations" in module.parts


def functions() -> Iterator[tuple[str, ast.FunctionDef | ast.AsyncFunctionDef]]:
    for module in MODULES:
        if not is_migration(module):
            for node in definitions_of(module):
                if not isinstance(node, ast.ClassDef):
                    yield path_of(module), node


def classes() -> Iterator[tuple[str, ast.ClassDef]]:
    for module in MODULES:
        for node in definitions_of(module):
            if isinstance(node, ast.ClassDef):
                yield path_of(module), node


def unexpected(measured: dict[str, int], allowed: dict[str, int]) -> dict[str, int]:
    """What is over its limit, and exceptions that are no longer needed."""
    grown = {name: size for name, size in measured.items() if size > allowed.get(name, 0)}
    return grown | {name: 0 for name in allowed if name not in measured}


def test_the_top_level_has_few_entries() -> None:
    entries = [entry for entry in SOURCES.iterdir() if entry.name != "__pycache__"]

    assert len(entries) <= MAX_ENTRIES_AT_TOP


def test_packages_are_not_crowded() -> None:
    children: dict[str, set[str]] = defaultdict(set)
    for module in MODULES:
        parts = module.relative_to(SOURCES).parts
        for depth in range(1, len(parts)):
            children["/".join(parts[:depth])].add(parts[depth])
    crowded = {
        name: len(content - {"__init__.py"})
        for name, content in children.items()
        if len(content - {"__init__.py"}) > MAX_MODULES_PER_PACKAGE
        and name != "store/migrations/versions"
    }

    assert unexpected(crowded, CROWDED_PACKAGES) == {}


def test_modules_are_short() -> None:
    lengths = {path_of(module): len(module.read_text("utf-8").splitlines()) for module in MODULES}
    too_long = {name: lines for name, lines in lengths.items() if lines > MAX_MODULE_LINES}
    long = [name for name, lines in lengths.items() if lines > LONG_MODULE_LINES]

    assert unexpected(too_long, LONG_MODULES) == {}
    assert 100 * len(long) / len(lengths) <= MAX_LONG_MODULES_PERCENT


def test_functions_are_short() -> None:
    long = {
        f"{path}:{node.name}": lines_of(node)
        for path, node in functions()
        if lines_of(node) > MAX_FUNCTION_LINES
    }

    assert unexpected(long, LONG_FUNCTIONS) == {}


def test_classes_have_few_public_methods() -> None:
    large: dict[str, int] = {}
    for path, node in classes():
        public = [
            item
            for item in node.body
            if isinstance(item, ast.FunctionDef | ast.AsyncFunctionDef)
            if not item.name.startswith(("_", "test_"))
        ]
        if len(public) > MAX_PUBLIC_METHODS:
            large[f"{path}:{node.name}"] = len(public)

    assert unexpected(large, LARGE_CLASSES) == {}


def test_constructors_take_few_parameters() -> None:
    large: dict[str, int] = {}
    for path, node in functions():
        if node.name == "__init__":
            count = len([*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]) - 1
            if count > MAX_CONSTRUCTOR_PARAMETERS:
                large[path] = count

    assert unexpected(large, LARGE_CONSTRUCTORS) == {}


def test_a_class_name_has_one_owner() -> None:
    owners: dict[str, list[str]] = defaultdict(list)
    for path, node in classes():
        owners[node.name].append(path)
    shared = {
        name: paths
        for name, paths in owners.items()
        if len(paths) > 1 and name not in SHARED_CLASS_NAMES
    }

    assert shared == {}


def test_names_say_what_they_hold() -> None:
    names: Counter[str] = Counter()
    vague: Counter[str] = Counter()
    for module in MODULES:
        for node in ast.walk(tree_of(module)):
            match node:
                case ast.Name(id=name) | ast.arg(arg=name) | ast.Attribute(attr=name):
                    names[name] += 1
                    if name in VAGUE:
                        vague[f"{path_of(module)}: {name}"] += 1
                case _:
                    pass
    rate = 1000 * sum(names[name] for name in VAGUE) / names.total()

    assert rate <= MAX_VAGUE_PER_1000, vague.most_common(20)


def test_no_public_function_or_class_has_a_vague_name() -> None:
    public = [
        f"{path_of(module)}:{node.name}"
        for module in MODULES
        for node in tree_of(module).body
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)
        if node.name.lower() in VAGUE
    ]

    assert public == []


def test_numeric_constants_say_their_unit_and_source() -> None:
    silent: list[str] = []
    for module in MODULES:
        lines = module.read_text(encoding="utf-8").splitlines()
        body = tree_of(module).body
        for node, below in zip(body, [*body[1:], None], strict=True):
            name = numeric_constant(node)
            is_told = isinstance(below, ast.Expr) and isinstance(below.value, ast.Constant)
            at = node.lineno - 1
            if name and not (is_told or "#" in lines[at] or lines[at - 1].startswith("#")):
                silent.append(f"{path_of(module)}: {name}")

    assert silent == []


def numeric_constant(node: ast.stmt) -> str:
    """Its name; empty: it is something else."""
    match node:
        case (
            ast.Assign(targets=[ast.Name(id=name)], value=ast.expr() as value)
            | ast.AnnAssign(target=ast.Name(id=name), value=ast.expr() as value)
        ) if name.strip("_").isupper():
            parts = [part.value for part in ast.walk(value) if isinstance(part, ast.Constant)]
            arithmetic = (ast.Constant, ast.BinOp, ast.UnaryOp, ast.operator, ast.unaryop)
            is_number = all(isinstance(part, arithmetic) for part in ast.walk(value)) and all(
                isinstance(part, int | float) and not isinstance(part, bool) for part in parts
            )
            return name if is_number else ""
        case _:
            return ""


@pytest.mark.parametrize("package", EXPLAINED_PACKAGES)
def test_code_says_why(package: str) -> None:
    comments = code = 0
    for module in (SOURCES / package).rglob("*.py"):
        text = module.read_text(encoding="utf-8")
        tree = tree_of(module)
        comment_lines = {
            token.start[0]
            for token in tokenize.generate_tokens(StringIO(text).readline)
            if token.type == tokenize.COMMENT and token.line.lstrip().startswith("#")
        }
        texts = {
            line
            for node in ast.walk(tree)
            if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
            for line in range(node.lineno, (node.end_lineno or node.lineno) + 1)
        }
        lines = {number for number, line in enumerate(text.splitlines(), 1) if line.strip()}
        comments += len(comment_lines)
        code += len(lines - comment_lines - texts)

    assert 100 * comments / code >= MIN_COMMENTS_PER_100


def imports_of(module: Path, names: dict[str, Path]) -> set[str]:
    """Modules of the package that a module imports at its top, for types alone as well."""
    imported: set[str] = set()
    waiting: list[ast.AST] = [tree_of(module)]
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.Import):
            imported |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            for alias in node.names:
                member = f"{node.module}.{alias.name}"
                imported.add(member if member in names else node.module)
        elif not isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)):
            waiting += ast.iter_child_nodes(node)
    return imported & names.keys()


def test_modules_import_each_other_in_no_circle() -> None:
    """Not even behind `TYPE_CHECKING`; the root, which loads what it exports on demand, aside."""
    names = {
        ".".join(("toolgate", *module.relative_to(SOURCES).with_suffix("").parts)).removesuffix(
            ".__init__"
        ): module
        for module in MODULES
    }
    del names["toolgate"]
    graph = {name: imports_of(module, names) - {name} for name, module in names.items()}

    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        pytest.fail(f"import cycle: {' -> '.join(error.args[1])}")
