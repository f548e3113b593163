"""Methods of dataclasses that are compiled when they are called."""

import subprocess
import sys

import pytest

pytestmark = pytest.mark.skipif(
    sys.version_info >= (3, 13), reason="there, Python compiles them together"
)

DEFINE = """
import copy, dataclasses, inspect, pickle
from dataclasses import FrozenInstanceError, dataclass, field
from toolgate.base.processes.dataclass_methods import compile_on_first_call

compiled = []
create = dataclasses._create_fn
def count(name, *args, **kwargs):
    compiled.append(name)
    return create(name, *args, **kwargs)
dataclasses._create_fn = count
compile_on_first_call()
compile_on_first_call()

@dataclass(frozen=True, kw_only=True, order=True)
class Point:
    x: int
    y: "Point | None" = field(default=None, repr=True)

@dataclass
class Plain:
    x: int

assert compiled == ["__init__", "__init__"], compiled
assert str(inspect.signature(Point)) == "(*, x: int, y: 'Point | None' = None) -> None"
"""

USE = """
one = Point(x=1)
assert one == Point(x=1) != Point(x=2)
assert one.__eq__(1) is NotImplemented
assert hash(one) == hash(Point(x=1))
assert one < Point(x=2) <= Point(x=2)
assert repr(Point(x=2, y=one)) == "Point(x=2, y=Point(x=1, y=None))"
assert Point.__eq__.__qualname__ == "Point.__eq__"
assert copy.copy(one) == one == pickle.loads(pickle.dumps(one))
for change in (lambda: setattr(one, "x", 2), lambda: delattr(one, "x")):
    try:
        change()
    except FrozenInstanceError as error:
        assert "field 'x'" in str(error), error
    else:
        raise AssertionError("it is not frozen")
assert Plain.__hash__ is None
loop = Plain(1)
loop.x = loop
assert repr(loop) == "Plain(x=...)"
before = len(compiled)
assert one == Point(x=1) and hash(one) and repr(one)
assert len(compiled) == before, compiled[before:]
"""


def run(code: str) -> None:
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_only_the_initializer_is_compiled_with_the_class() -> None:
    """Source: the bound on the CPU time of the start."""
    run(DEFINE)


def test_the_methods_do_what_those_of_other_dataclasses_do() -> None:
    """Source: https://docs.python.org/3.11/library/dataclasses.html."""
    run(DEFINE + USE)


def test_a_gateway_starts_with_them() -> None:
    """Source: the bound on the CPU time of the start."""
    run(
        "import sys, dataclasses\n"
        "from toolgate import cli\n"
        "assert cli.run(['serve', '--port', 'none']) == 2\n"
        "assert dataclasses._create_fn.__module__.startswith('toolgate.')"
    )
