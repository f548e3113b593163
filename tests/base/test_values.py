"""`toolgate.types.values.dataclass` makes the classes that the standard decorator makes."""

import copy
import dataclasses
import inspect
import pickle
from collections.abc import Callable, Iterator
from dataclasses import FrozenInstanceError, field, fields, replace
from typing import Any, ClassVar, Generic, TypeVar

import pytest

from toolgate.types import values
from toolgate.types.values import dataclass

T = TypeVar("T")
Made = tuple[Any, tuple[Any, ...], dict[str, Any]]
"""A class, and arguments of an instance."""


@dataclass(frozen=True, kw_only=True)
class Point:
    """In a module, where pickle finds it."""

    x: int
    y: int = 2


def classes(decorate: Callable[..., Any]) -> Iterator[Made]:
    """The forms that classes can have, each made by a decorator."""

    @decorate
    class Changeable:
        """Without options."""

        a: int
        b: str = "b"

    yield Changeable, (1,), {"b": "c"}

    @decorate(frozen=True)
    class Empty:
        """Without fields."""

    yield Empty, (), {}

    @decorate(frozen=True, kw_only=True)
    class Named:
        """Each field by name."""

        a: int
        b: list[int] = field(default_factory=list[int])
        c: ClassVar[int] = 3

    yield Named, (), {"a": 1}

    @decorate(frozen=True)
    class Mixed(Generic[T]):
        """Fields by name, computed ones, hidden ones, and ones that are not compared."""

        a: T
        b: int = field(default=1, kw_only=True)
        c: int = field(default=2, compare=False)
        d: int = field(default=3, repr=False, hash=False)
        e: int = field(init=False, default=4)
        f: list[int] = field(init=False, compare=False, default_factory=lambda: [5])
        g: list[int] = field(init=False, hash=False)

        def __post_init__(self) -> None:
            object.__setattr__(self, "g", [self.b, self.c])

    yield Mixed, ("a", 5), {"b": 6}

    @decorate(eq=False)
    class Identity:
        """Equal to itself alone; a field has the usual name of the instance."""

        self: int

    yield Identity, (1,), {}

    @decorate(frozen=True, slots=True)
    class Slots:
        """Without a dictionary."""

        a: int

    yield Slots, (1,), {}

    @decorate(frozen=True, kw_only=True)
    class Own:
        """Decides itself what is equal."""

        a: int

        def __eq__(self, other: object) -> bool:
            return isinstance(other, Own)

        def __hash__(self) -> int:
            return 7

    yield Own, (), {"a": 1}

    @decorate(frozen=True)
    class Base:
        """For the next one."""

        a: int
        b: int = 1

    @decorate(frozen=True)
    class Extended(Base):
        """Has the fields of another value too."""

        b: int = 5
        c: int = 6

    yield Extended, (1,), {"c": 2}

    @dataclasses.dataclass(frozen=True)
    class Foreign(Base):
        """Extends a value with the standard decorator."""

        c: int = 6

    yield Foreign, (1,), {"c": 2}


def observed(made: Made) -> dict[str, object]:
    """Everything that users of a class can see."""
    cls, arguments, keywords = made
    signature = str(inspect.signature(cls))
    value, same, other = (cls(*arguments, **keywords) for _ in range(3))
    for item in fields(cls):
        if item.init:
            other = replace(other, **{item.name: "other"})
    return {
        "signature": signature,
        "text": repr(value).replace(hex(id(value)), ""),
        "equal": (value == same, value == other, value == "text", value == value),
        "hash": outcome(lambda: hash(value) == hash(same)),
        "hashable": cls.__hash__ is None,
        "fields": [(item.name, item.type, item.kw_only) for item in fields(cls)],
        "matched": cls.__match_args__,
        "frozen": cls.__dataclass_params__.frozen,
        "assigned": outcome(lambda: setattr(copy.copy(value), "b", 1)),
        "added": outcome(lambda: setattr(copy.copy(value), "unknown", 1)),
        "deleted": outcome(lambda: delattr(copy.copy(value), fields(cls)[0].name)),
        "too many": outcome(lambda: cls(*range(20))),
        "unknown": outcome(lambda: cls(unknown=1)),
        "missing": outcome(cls),
        "copied": repr(copy.deepcopy(value)).replace(hex(id(value)), "")[:20],
    }


def outcome(act: Callable[[], object]) -> str:
    """What an action returns or raises."""
    try:
        return repr(act())[:20]
    except (TypeError, AttributeError, IndexError) as error:
        return f"{type(error).__name__}: {error}"


CASES = [
    pytest.param(ours, theirs, id=ours[0].__name__)
    for ours, theirs in zip(classes(values.dataclass), classes(dataclasses.dataclass), strict=True)
]


@pytest.mark.parametrize(("ours", "theirs"), CASES)
def test_a_class_behaves_as_one_of_the_standard_decorator(ours: Made, theirs: Made) -> None:
    """Our decorator saves the text of six methods for each class, and nothing else changes."""
    assert observed(ours) == observed(theirs)


def test_values_are_pickled_copied_and_matched() -> None:
    """As those of the standard decorator."""
    point = Point(x=1)

    assert pickle.loads(pickle.dumps(point)) == point
    assert {point, copy.deepcopy(point), Point(x=1, y=2)} == {point}
    match point:
        case Point(x=x, y=2):
            assert x == 1
        case _:
            pytest.fail("no match")


def test_a_plain_class_that_extends_a_frozen_value_can_have_attributes_of_its_own() -> None:
    """As with the standard decorator: only the fields are protected."""

    class Named(Point):
        """Has an attribute."""

    named = Named(x=1)
    named.name = "origin"  # pyright: ignore[reportAttributeAccessIssue]

    with pytest.raises(FrozenInstanceError, match="cannot assign to field 'x'"):
        named.x = 2  # pyright: ignore[reportAttributeAccessIssue]
