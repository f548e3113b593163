"""Implementations by name: `search/strategies/bm25.py` is the strategy `bm25` of the settings.

Every module in the folder of a kind is an implementation, except `base` and modules with a
leading underscore. It exports `Options`, a frozen keyword-only dataclass, and `build(options, *,
<services that it needs>)`. Installed packages add implementations through the entry point group
`toolgate.<kind>`; they never replace included ones.

This module knows no kind in particular: the interface of an implementation is the `contract`
passed to `make`.
"""

import inspect
import pkgutil
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import MISSING, Field, fields, is_dataclass
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any, TypeGuard, TypeVar, cast, get_type_hints

from toolgate.base.installation import install_hint
from toolgate.base.names import current_key
from toolgate.errors import (
    BrokenPluginError,
    MissingExtraError,
    OptionError,
    UnknownPluginError,
)
from toolgate.types import PluginSpec

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

FOLDERS = {
    "authenticator": "security.authn",
    "embedder": "models.embedders",
    "engine": "chat.engines",
    "llm": "models.llm",
    "reranker": "models.rerankers",
    "sandbox": "models.sandboxes",
    "search": "search.strategies",
    "store": "store",
    "transport": "upstream.transports",
    "vectors": "store.vectors",
}
"""Package below `toolgate` with the implementations of each kind."""

ContractT = TypeVar("ContractT")

_IMPORT = re.compile(
    r"^(?:from ([a-z_][\w.]*) import |import ([a-z_][\w.]*)(?: as \w+)?$)", re.MULTILINE
)
"""An import at the top of a module."""

_EXTRAS = {"langgraph": "chat", "monty": "programs", "pgvector": "postgres"}
"""Extras of implementations that are named differently, or that need more to be of use."""


def available(kind: str) -> list[str]:
    """Names of all implementations of a kind, sorted; imports none of them."""
    return sorted({*_shipped(kind), *_installed(kind)})


def is_available(kind: str, name: str) -> bool:
    """Whether an implementation is included or installed; imports none."""
    # Entry points are searched only if needed: that reads the metadata of every installed package.
    return name in _shipped(kind) or name in _installed(kind)


def installed(kind: str) -> list[str]:
    """Names that other packages add to a kind, sorted; imports none of them."""
    return sorted(_installed(kind).keys() - _shipped(kind))


def make(
    kind: str, contract: type[ContractT], spec: PluginSpec, services: Mapping[str, object]
) -> ContractT:
    """Build the implementation that `spec` names, with its options and the services it needs.

    Args:
        kind: A key of `FOLDERS`; from our own code, never from a request.
        contract: Protocol of the kind, which the built object must satisfy.
        spec: Name and options from the settings.
        services: All available services; `build` gets those that it names.

    Raises:
        UnknownPluginError: No file of the folder and no entry point has this name.
        MissingExtraError: The module needs a library that is not installed.
        OptionError: An option is unknown, of the wrong type or out of range.
        BrokenPluginError: The module breaks the rules above, or needs an unknown service.
    """
    label = f"{kind} {spec.name!r}"
    module = _import(kind, spec)
    options_type, build = _halves(module, label)
    options = _read_options(options_type, spec, label)
    built = build(options, **_pick_services(build, services, label))
    if not _satisfies(built, contract):
        raise BrokenPluginError(
            f"{label} built a {type(built).__name__!r}, which is no {contract.__name__!r}.",
            hint=f"Run the suite in toolgate.testing.contracts on {module.__name__}.",
        )
    return built


def module_of(kind: str, name: str) -> str | None:
    """Module of an included implementation; None for others."""
    return f"toolgate.{FOLDERS.get(kind, kind)}.{name}" if name in _shipped(kind) else None


def check_name(kind: str, spec: PluginSpec) -> None:
    """Reject the name of an unknown plugin, without importing anything.

    Raises:
        UnknownPluginError: It is neither included nor installed.
    """
    if is_available(kind, spec.name):
        return
    names = available(kind)
    raise UnknownPluginError(
        f"{kind} {spec.name!r} does not exist.",
        allowed=f"Available: {', '.join(names) or 'none'}.",
        hint=f"Set {spec.setting} to one of these, or install the package that provides it.",
    )


@cache
def is_importable(kind: str, name: str) -> bool:
    """Whether an implementation and the libraries it imports are installed; imports none of them.

    Args:
        kind: A key of `FOLDERS`.
        name: Its name in the settings.
    """
    if name in _shipped(kind):
        path = f"toolgate.{FOLDERS.get(kind, kind)}.{name}"
    elif name in _installed(kind):
        path = _installed(kind)[name].module
    else:
        return False
    source = find_spec(path)
    if source is None or source.origin is None or not source.origin.endswith(".py"):
        return source is not None
    return all(map(find_spec, _libraries_of(Path(source.origin))))


def _libraries_of(module: Path) -> set[str]:
    """Top-level packages that a module imports when it is loaded."""
    matches = _IMPORT.finditer(module.read_text("utf-8"))
    return {(match[1] or match[2]).partition(".")[0] for match in matches}


def check_installed(kind: str, spec: PluginSpec, *, used_with: Mapping[str, str]) -> None:
    """Check, without importing them, that the libraries of an implementation are installed.

    Args:
        kind: A key of `FOLDERS`.
        spec: The implementation.
        used_with: Implementations that are used together with it: name to kind. What they lack is
            installed by the command of the error as well.

    Raises:
        UnknownPluginError: The implementation does not exist.
        MissingExtraError: A library of `spec` is not installed.
    """
    check_name(kind, spec)
    if is_importable(kind, spec.name):
        return
    try:
        _import(kind, spec)
    except MissingExtraError as error:
        others = {
            name
            for name, its_kind in used_with.items()
            if module_of(its_kind, name) and not is_importable(its_kind, name)
        }
        if others and module_of(kind, spec.name):
            hint = install_hint(*sorted({*others, spec.name}))
            raise MissingExtraError(error.failed, hint=hint) from error
        raise


def check_options(kind: str, spec: PluginSpec) -> None:
    """Check name and options of a plugin, without building it.

    Raises:
        ConfigError: The name is unknown or an option is wrong.
    """
    options_type, _ = _halves(_import(kind, spec), f"{kind} {spec.name!r}")
    _read_options(options_type, spec, f"{kind} {spec.name!r}")


def _satisfies(built: object, contract: type[ContractT]) -> TypeGuard[ContractT]:
    """Whether an object has all members of a contract, without calling any.

    Before Python 3.12, `isinstance` reads properties, and a property may read a file that is
    missing or slow.
    """
    if not getattr(contract, "_is_protocol", False):
        return isinstance(built, contract)
    asked = {
        name
        for kind in contract.__mro__
        if getattr(kind, "_is_protocol", False)
        for name in (*vars(kind), *inspect.get_annotations(kind))
        if not name.startswith("_")
    }
    return all(inspect.getattr_static(built, name, None) is not None for name in asked)


@cache
def _shipped(kind: str) -> frozenset[str]:
    folder = import_module(f"toolgate.{FOLDERS.get(kind, kind)}")
    names = {module.name for module in pkgutil.iter_modules(folder.__path__) if not module.ispkg}
    return frozenset(name for name in names if name != "base" and not name.startswith("_"))


@cache
def _installed(kind: str) -> "dict[str, EntryPoint]":
    from importlib.metadata import entry_points  # noqa: PLC0415 - commands rarely need it

    return {point.name: point for point in entry_points(group=f"toolgate.{kind}")}


def _import(kind: str, spec: PluginSpec) -> ModuleType:
    check_name(kind, spec)
    shipped = module_of(kind, spec.name)
    path = shipped or _installed(kind)[spec.name].module
    try:
        return import_module(path)
    except ModuleNotFoundError as error:
        missing = (error.name or "").partition(".")[0]
        if missing in {"", "toolgate", path.partition(".")[0]}:
            raise  # our own module is missing: a bug, not a library to install
        raise MissingExtraError(
            f"{kind} {spec.name!r} needs the library {missing!r}, which is not installed.",
            hint=install_hint(_EXTRAS.get(spec.name, spec.name))
            if shipped
            else f"Install {missing!r}.",
        ) from error


def _halves(module: ModuleType, label: str) -> tuple[type[Any], Callable[..., object]]:
    options_type: object = getattr(module, "Options", None)
    build: object = getattr(module, "build", None)
    if isinstance(options_type, type) and is_dataclass(options_type) and callable(build):
        return options_type, build
    raise BrokenPluginError(
        f"{label} does not define a dataclass Options and a function build.",
        allowed=f"{module.__name__} needs both.",
        hint="Define both, or start the file name with an underscore if it is a helper.",
    )


@cache
def _validator(options_type: type[Any]) -> Callable[[object], object]:
    """Return what makes options of a type; building it costs two milliseconds."""
    from pydantic import TypeAdapter  # noqa: PLC0415 - a third of a command's start

    return TypeAdapter(options_type).validate_python


def _are_defaults_valid(options_type: type[Any]) -> bool:
    """Whether options that nobody sets need no validator, which takes long to build."""
    return not hasattr(options_type, "__post_init__") and all(
        map(_has_default, fields(options_type))
    )


def _has_default(field: Field[Any]) -> bool:
    return field.default is not MISSING or field.default_factory is not MISSING


def _read_options(options_type: type[Any], spec: PluginSpec, label: str) -> object:
    if not spec.options and _are_defaults_valid(options_type):
        return options_type()
    # A TypeAdapter drops keys that a plain dataclass lacks (pydantic 2.14), so a misspelt option
    # would be ignored silently; names are therefore compared first.
    from pydantic import ValidationError  # noqa: PLC0415 - a third of a command's start

    _refuse_unknown(options_type, spec.options, spec, label)
    try:
        return _validator(options_type)(dict(spec.options))
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        problem = first.get("ctx", {}).get("error")
        nested = [str(part) for part in first["loc"]]
        if isinstance(problem, OptionError) and problem.option:
            raise OptionError(
                f"Option {'.'.join([*nested, problem.option])!r} of {label} is {problem.problem}.",
                allowed=problem.allowed,
                hint=problem.hint or f"Correct it under {_table_of(spec, nested)}.",
            ) from None
        where = ".".join(nested) or "as a whole"
        table = _table_of(spec, nested[:-1])
        if first["type"] == "missing":
            raise OptionError(
                f"Option {where} of {label} is missing.",
                hint=f"Set it under {table}.",
            ) from error
        raise OptionError(
            f"Option {where} of {label} is not valid: got {_printable(first['input'])}.",
            allowed=f"{first['msg'].removeprefix('Value error, ').rstrip('.')}.",
            hint=f"Correct it under {table}.",
        ) from error


def _refuse_unknown(
    options_type: type[Any],
    options: Mapping[str, object],
    spec: PluginSpec,
    label: str,
    within: Sequence[str] = (),
) -> None:
    """Reject unknown options, also in nested tables."""
    allowed = sorted(field.name for field in fields(options_type))
    kinds = get_type_hints(options_type)
    for name, value in options.items():
        if name not in allowed:
            option = ".".join([*within, name])
            if renamed := current_key(name, allowed):
                raise OptionError(
                    f"Option {option!r} of {label} is called {renamed!r} now.",
                    hint=f"Rename it under {_table_of(spec, within)}.",
                )
            raise OptionError(
                f"Option {option!r} of {label} does not exist.",
                allowed=f"Allowed: {', '.join(allowed) or 'none'}.",
                hint=f"Correct or remove it under {_table_of(spec, within)}.",
            )
        if is_dataclass(kinds[name]) and isinstance(value, Mapping):
            nested = cast("Mapping[str, object]", value)
            _refuse_unknown(cast("type[Any]", kinds[name]), nested, spec, label, [*within, name])


def _table_of(spec: PluginSpec, within: Sequence[str]) -> str:
    """The table of the options in the settings."""
    return ".".join([spec.options_at or spec.setting, *within])


def _printable(value: object) -> str:
    """A value for a message: only plain numbers, since options contain secrets."""
    if value is None or isinstance(value, bool | int | float):
        return repr(value)
    return f"a value of type {type(value).__name__}"


def _pick_services(
    build: Callable[..., object], services: Mapping[str, object], label: str
) -> dict[str, object]:
    named = [
        parameter
        for parameter in inspect.signature(build).parameters.values()
        if parameter.kind is inspect.Parameter.KEYWORD_ONLY
    ]
    for parameter in named:
        if parameter.name not in services and parameter.default is inspect.Parameter.empty:
            raise BrokenPluginError(
                f"{label} asks for the service {parameter.name!r}, which does not exist.",
                allowed=f"Services: {', '.join(sorted(services)) or 'none'}.",
                hint="Correct the parameter of build, or give it a default.",
            )
    return {p.name: services[p.name] for p in named if p.name in services}
