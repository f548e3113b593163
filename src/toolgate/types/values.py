"""The decorator of all value classes: `dataclasses.dataclass` that makes methods when needed.

The standard decorator writes six methods of each class as source text and compiles them, which
was a third of the CPU time that the imports of `serve` take. Here `__init__` is compiled for the
first instance, and the other methods need no text.
"""

import dataclasses
from collections.abc import Callable, Iterable
from dataclasses import MISSING, Field, FrozenInstanceError
from functools import partial
from operator import attrgetter
from reprlib import recursive_repr
from typing import TYPE_CHECKING, Any, TypeAlias

__all__ = ["dataclass"]

Method: TypeAlias = Callable[..., Any]


class _Factory:
    """Default of a parameter whose value the factory of its field makes."""

    def __repr__(self) -> str:
        return "<factory>"


_ABSENT = _Factory()

_OPTIONS = frozenset({"eq", "frozen", "kw_only"})
_METHODS = frozenset({"__init__", "__eq__", "__hash__", "__repr__", "__setattr__", "__delattr__"})

if TYPE_CHECKING:
    from dataclasses import dataclass
else:

    def dataclass(cls=None, /, **options):
        """Give a class the methods of a value; options and result are those of the standard one.

        The standard decorator makes classes that use an option besides `eq`, `frozen` and
        `kw_only`, extend another value, or define one of the methods. Without `InitVar`.
        """
        if cls is None:
            return lambda cls: dataclass(cls, **options)
        extends = any(map(dataclasses.is_dataclass, cls.__mro__[1:]))
        if extends or options.keys() - _OPTIONS or cls.__dict__.keys() & _METHODS:
            return dataclasses.dataclass(cls, **options)
        return _with_methods(cls, **options)


def _with_methods(
    cls: Any, *, eq: bool = True, frozen: bool = False, kw_only: bool = False
) -> object:
    dataclasses.dataclass(init=False, repr=False, eq=False, kw_only=kw_only)(cls)
    fields = dataclasses.fields(cls)
    cls.__init__ = _Init(cls, frozen=frozen)
    cls.__repr__ = _repr_of([field.name for field in fields if field.repr])
    if eq:
        cls.__eq__ = _eq_of(_values_of(field.name for field in fields if field.compare))
        hashed = (field.name for field in fields if _is_hashed(field))
        cls.__hash__ = _hash_of(_values_of(hashed)) if frozen else None
    if frozen:
        cls.__setattr__, cls.__delattr__ = _guards_of(cls, {field.name for field in fields})
        # The standard decorator looks at it when it makes a class that extends this one.
        cls.__dataclass_params__.frozen = True
    return cls


class _Init:
    """Makes the `__init__` of a class, and replaces itself by it, when it is first looked up."""

    def __init__(self, cls: Any, *, frozen: bool) -> None:
        self._cls = cls
        self._frozen = frozen

    def __get__(self, instance: object, owner: type) -> Method:
        init = self._cls.__init__ = _init_of(self._cls, frozen=self._frozen)
        return init if instance is None else partial(init, instance)


def _init_of(cls: Any, *, frozen: bool) -> Method:
    """Compile the same function as the standard decorator."""
    names: dict[str, Any] = {"__set": object.__setattr__, "__absent": _ABSENT}
    parameters: list[str] = []
    keywords: list[str] = []
    lines: list[str] = []
    fields = dataclasses.fields(cls)
    for field in fields:
        name, value = field.name, field.name
        has_factory = field.default_factory is not MISSING
        default = _ABSENT if has_factory else field.default
        if has_factory:
            names[f"__make_{name}"] = field.default_factory
            value = f"__make_{name}()" + (
                f" if {name} is __absent else {name}" if field.init else ""
            )
        if field.init:
            names[f"__default_{name}"] = default
            given = name if default is MISSING else f"{name}=__default_{name}"
            (keywords if field.kw_only else parameters).append(given)
        if field.init or has_factory:
            lines.append(
                f"__set(__self, {name!r}, {value})" if frozen else f"__self.{name} = {value}"
            )
    if hasattr(cls, "__post_init__"):
        lines.append("__self.__post_init__()")
    head = ", ".join(["__self", *parameters, *(["*", *keywords] if keywords else [])])
    text = "\n ".join([f"def __init__({head}):", *(lines or ["pass"])])
    exec(text, names)  # noqa: S102 - only names of fields vary
    init = names["__init__"]
    init.__module__, init.__qualname__ = cls.__module__, f"{cls.__qualname__}.__init__"
    init.__annotations__ = {field.name: field.type for field in fields if field.init}
    init.__annotations__["return"] = None
    return init


def _is_hashed(field: Field[Any]) -> bool:
    return field.compare if field.hash is None else field.hash


def _values_of(names: Iterable[str]) -> Callable[[object], tuple[object, ...]]:
    """A function that returns the values of fields."""
    match list(names):
        case []:
            return lambda _: ()
        case [name]:
            return attrgetter(name, name)  # with a single name, it returns no tuple
        case many:
            return attrgetter(*many)


def _eq_of(values: Callable[[object], tuple[object, ...]]) -> Method:
    def equals(self: object, other: object) -> bool:
        if other.__class__ is self.__class__:
            return values(self) == values(other)
        return NotImplemented

    return equals


def _hash_of(values: Callable[[object], tuple[object, ...]]) -> Method:
    def to_hash(self: object) -> int:
        return hash(values(self))

    return to_hash


def _repr_of(names: list[str]) -> Method:
    @recursive_repr()
    def text(self: object) -> str:
        shown = (f"{name}={getattr(self, name)!r}" for name in names)
        return f"{self.__class__.__qualname__}({', '.join(shown)})"

    return text


def _guards_of(cls: Any, names: set[str]) -> tuple[Method, Method]:
    """The methods that refuse to change a frozen value."""

    def assign(self: object, name: str, value: object) -> None:
        if type(self) is cls or name in names:
            raise FrozenInstanceError(f"cannot assign to field {name!r}")
        super(cls, self).__setattr__(name, value)

    def delete(self: object, name: str) -> None:
        if type(self) is cls or name in names:
            raise FrozenInstanceError(f"cannot delete field {name!r}")
        super(cls, self).__delattr__(name)

    return assign, delete
