"""Validates call arguments against the tool's input schema.

Errors are worded so that a model can repair the call in one step. Values are never changed, and
nothing is fetched.
"""

import json
import logging
import re
import threading
from collections import OrderedDict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from hashlib import blake2b
from typing import Any, cast

import jsonschema_rs

from toolgate.errors import ArgumentError
from toolgate.types import Json, json_array, json_object

log = logging.getLogger(__name__)

_ERRORS = 5
"""Errors in one message (chosen: as many as a model fixes in one step)."""
_DEPTH = 100
"""Levels of arguments and schemas; jsonschema-rs crashes the process at some tens of thousands."""
_SCHEMA_NODES = 50_000
"""Nodes of a schema with its references expanded; a short schema can describe billions."""
_CHECK_STEPS = 1_000_000
"""Estimated steps (chosen: bounds CPU time)."""
_EXPLAIN_STEPS = 10_000
"""Estimated steps. Listing all errors costs far more than yes or no: 59,000 alternatives took 5
s."""
_EXPLAIN_NODES = 5_000
"""Values in the arguments (chosen: the search for the best explanation is slow)."""
_CACHED = 512
"""Schemas in the cache (chosen: bounds memory to some MB)."""

_SECRET = re.compile(
    r"pass|secret|token|credential|authorization|api.?key|private|cookie", re.IGNORECASE
)
_NO_SCHEMAS = frozenset({"enum", "const", "default", "examples"})
_ALTERNATIVES = ("anyOf", "oneOf", "allOf")


def check(
    schema: object, arguments: object, *, signature: str = "", digest: str = "", tool: str = ""
) -> None:
    """Raise an error with everything needed to correct the arguments, if they are not valid.

    An unusable schema (it does not compile, or is excessively large) is logged once and accepts
    everything: the server decides then.

    Args:
        schema: The tool's input schema, as its server sent it.
        arguments: What the caller sent; any JSON value.
        signature: The call in one line, for the message.
        digest: The cache key of the schema; computed if empty.
        tool: The tool's key, for the log.

    Raises:
        ArgumentError: The text names the field, the received value, what is allowed, and the
            signature.
    """
    hint = f"Expected: {signature}" if signature else ""
    if not isinstance(arguments, dict):
        raise ArgumentError(
            f"The arguments are {_kind(arguments)}.",
            allowed="They must be one JSON object with a member for each parameter.",
            hint=hint,
        )
    size = _size(cast("object", arguments))
    if size.depth > _DEPTH:
        raise ArgumentError(f"The arguments are nested deeper than {_DEPTH} levels.", hint=hint)
    checker = _checker(schema, digest, tool or signature.partition("(")[0])
    if checker is None or not checker.bears(size, _CHECK_STEPS):
        return
    if checker.fits(cast("Json", arguments)):
        return
    problems = checker.explain(cast("Json", arguments), size)
    if problems is None:
        return
    if not problems:
        problems = ["Some value does not fit the tool's input schema."]
    shown = " ".join(problems[:_ERRORS])
    more = f" And {len(problems) - _ERRORS} more." if len(problems) > _ERRORS else ""
    raise ArgumentError(f"The arguments do not fit. {shown}{more}", hint=hint)


def without_nulls(arguments: Mapping[str, Any], *, required: Collection[str] = ()) -> Json:
    """Remove arguments of a meta-tool that are null and not required.

    Some clients send every absent optional argument as null (seen with crewai).
    """
    return {key: value for key, value in arguments.items() if value is not None or key in required}


# ------------------------------------------------------------------ schemas


@dataclass(frozen=True)
class _Size:
    depth: int
    nodes: int


@dataclass
class _Checker:
    """A compiled schema, with an estimate of how its cost grows."""

    compiled: Any
    root: Json
    alternatives: int
    """Recursive branches of the schema at each level; 0 if it is not recursive."""

    def bears(self, size: _Size, steps: int) -> bool:
        """Whether arguments of this size can be checked in this number of steps."""
        return self.alternatives < 2 or self.alternatives**size.depth <= steps

    def fits(self, arguments: Json) -> bool:
        """Whether the arguments are valid, without reasons."""
        try:
            return bool(self.compiled.is_valid(arguments))
        except Exception:  # whatever the library cannot do, the server can judge
            log.warning("arguments could not be checked", exc_info=True)
            return True

    def explain(self, arguments: Json, size: _Size) -> list[str] | None:
        """A sentence for each problem; empty if finding them is too costly; None if all is well."""
        if not self.bears(size, _EXPLAIN_STEPS):
            return []
        try:
            if size.nodes > _EXPLAIN_NODES:
                errors = [_first_error(self.compiled, arguments)]
            else:
                errors = list(self.compiled.iter_errors(arguments))
        except Exception:  # as above
            log.warning("arguments could not be checked", exc_info=True)
            return None
        real = [error for error in errors if error is not None and error.kind.name not in _OURS]
        said = dict.fromkeys(_sentence(error, self.root) for error in real)
        return list(said) if real else None


_OURS = frozenset({"backtrackLimitExceeded", "regexEngineFailure", "$ref", "referencing"})
"""Failures of the check itself, not of the arguments."""


def _first_error(compiled: Any, arguments: Json) -> Any:
    try:
        compiled.validate(arguments)
    except jsonschema_rs.ValidationError as error:
        return error
    return None


_cache: "OrderedDict[str, _Checker | None]" = OrderedDict()
_cache_lock = threading.Lock()


def _checker(schema: object, digest: str, label: str) -> _Checker | None:
    if not isinstance(schema, dict) or not schema:
        return None
    key = digest or _digest(cast("Json", schema))
    with _cache_lock:
        if key in _cache:
            _cache.move_to_end(key)
            return _cache[key]
    made, reason = _compile(cast("Json", schema))
    if reason:
        log.warning(
            "input schema cannot be checked, its calls pass unchecked",
            extra={"tool": label[:100], "reason": reason},
        )
    with _cache_lock:
        _cache[key] = made
        while len(_cache) > _CACHED:
            _cache.popitem(last=False)
    return made


def _digest(schema: Json) -> str:
    try:
        text = json.dumps(schema, ensure_ascii=True)
    except (RecursionError, ValueError, TypeError):
        text = f"unreadable {id(schema)}"
    return blake2b(text.encode(), digest_size=16).hexdigest()


def _compile(schema: Json) -> tuple[_Checker | None, str]:
    size = _size(schema)
    if size.depth > _DEPTH:
        return None, f"it is nested deeper than {_DEPTH} levels"
    survey = _Survey(schema)
    if survey.places(schema) > _SCHEMA_NODES:
        return None, f"it describes more than {_SCHEMA_NODES} places"
    reason = ""
    # A schema in an unknown dialect is read as the protocol's default, 2020-12.
    for candidate in (schema, {k: v for k, v in schema.items() if k not in {"$schema", "$id"}}):
        try:
            compiled = jsonschema_rs.validator_for(
                candidate,
                mask="it",
                offline=True,
                pattern_options=jsonschema_rs.FancyRegexOptions(
                    backtrack_limit=20_000, size_limit=2**20, dfa_size_limit=2**21
                ),
            )
        except Exception as error:  # noqa: BLE001 - any schema may come, and any may fail
            reason = reason or str(error).partition("\n")[0][:200]
        else:
            alternatives = survey.alternatives if survey.recursive else 0
            return _Checker(compiled, candidate, alternatives), ""
    return None, reason


@dataclass
class _Survey:
    """Walks a schema with its local references to estimate the cost of a check."""

    root: Json
    recursive: bool = False
    alternatives: int = 0
    known: dict[int, int] = field(default_factory=dict[int, int])
    open: set[int] = field(default_factory=set[int])

    def places(self, node: object) -> int:
        """Count nodes with references expanded, capped just above the limit."""
        members, items, mark = json_object(node), json_array(node), id(node)
        if not members and not items:
            return 0
        if mark in self.open:
            self.recursive = True
            return 0
        if mark in self.known:
            return self.known[mark]
        if len(self.open) > 4 * _DEPTH:
            return _SCHEMA_NODES + 1  # a chain of references without end
        self.open.add(mark)
        total = 1 + sum(self.places(value) for value in items)
        for key, value in members.items():
            if key in _ALTERNATIVES:
                self.alternatives += sum('"$ref"' in _dumped(one) for one in json_array(value))
            if key in {"$ref", "$dynamicRef", "$recursiveRef"}:
                total += self.places(_pointed(self.root, value))
            elif key not in _NO_SCHEMAS:
                total += self.places(value)
        self.open.discard(mark)
        self.known[mark] = min(total, _SCHEMA_NODES + 1)
        return self.known[mark]


def _dumped(value: object) -> str:
    try:
        return json.dumps(value)
    except (RecursionError, ValueError, TypeError):
        return ""


def _pointed(root: object, ref: object) -> object:
    """Resolve a reference within the schema; None for all other references."""
    if not isinstance(ref, str) or not ref.startswith("#"):
        return None
    found: object = root
    for step in ref[1:].split("/")[1:]:
        key = step.replace("~1", "/").replace("~0", "~")
        if isinstance(found, dict):
            found = cast("Json", found).get(key)
        elif (
            isinstance(found, list) and key.isdecimal() and int(key) < len(cast("list[Any]", found))
        ):
            found = cast("list[Any]", found)[int(key)]
        else:
            return None
    return found


def _size(value: object) -> _Size:
    """Measure depth and number of values without recursion; stop just past the allowed depth."""
    depth, nodes, level = 0, 0, [value]
    while level and depth <= _DEPTH:
        below: list[object] = []
        for one in level:
            nodes += 1
            if isinstance(one, dict):
                below.extend(cast("Json", one).values())
            elif isinstance(one, list):
                below.extend(cast("list[object]", one))
        depth, level = depth + bool(below), below
    return _Size(depth, nodes)


# ------------------------------------------------------------------ messages


def _sentence(error: Any, root: Json) -> str:
    path: list[str | int] = list(error.instance_path)
    where = _path(path)
    kind, value = error.kind.name, error.kind.value
    if kind == "required":
        return f"{_path([*path, str(value)])} is missing."
    if kind in {"additionalProperties", "unevaluatedProperties"}:
        known = _known_names(root, list(error.schema_path))
        names = [_unknown(str(name), path, known) for name in list(value)[:_ERRORS]]
        return " ".join(names)
    came = _came(error.instance, path)
    if allowed := _allowed(error):
        return f"{where} is {came}; allowed: {allowed}."
    return f"{where} is {came}: {_short(str(error.message), 200)}."


def _unknown(name: str, path: Sequence[str | int], known: Collection[str]) -> str:
    near = get_close_matches(name, list(known), 1, 0.6)
    if near:
        return f"{_path([*path, name])} is not a parameter; did you mean {_path([*path, near[0]])}?"
    some = ", ".join(_short(one, 40) for one in list(known)[:12])
    return f"{_path([*path, name])} is not a parameter" + (f"; allowed: {some}." if some else ".")


def _known_names(root: Json, schema_path: Sequence[str | int]) -> list[str]:
    """Names of the properties in the schema whose keyword failed."""
    node: object = root
    for step in schema_path[:-1]:
        if isinstance(step, int):
            several = json_array(node)
            node = several[step] if step < len(several) else None
        else:
            node = json_object(node).get(step)
            node = _pointed(root, node) if step == "$ref" else node
    return list(json_object(json_object(node).get("properties")))


def _allowed(error: Any) -> str:
    """What is allowed, in a few words; empty if the library's message says it better."""
    kind, value = error.kind.name, error.kind.value
    if kind == "type":
        return " or ".join(str(one) for one in value)
    if kind == "enum":
        return _listed(value)
    if kind == "const":
        return _short(_dumped(value), 60)
    if kind in {"anyOf", "oneOf"} and isinstance(value, list):
        branches = _branches(cast("list[list[Any]]", value), list(error.instance_path))
        return _short(" or ".join(dict.fromkeys(branches)), 300)
    return ""


def _branches(context: Sequence[Sequence[Any]], path: Sequence[str | int]) -> Iterator[str]:
    """What each alternative requires, from its first error."""
    for branch in context[:8]:
        for error in branch[:1]:
            allowed = _allowed(error)
            if error.kind.name == "required":
                yield f"an object with {_short(str(error.kind.value), 40)}"
            elif allowed and list(error.instance_path) == path:
                yield allowed
            elif allowed:
                yield f"one with {_path(list(error.instance_path))} as {allowed}"


def _listed(values: Sequence[Any]) -> str:
    shown: list[str] = []
    for value in values:
        literal = _short(_dumped(value), 60)
        if shown and sum(map(len, shown)) + len(literal) > 300:
            return f"{', '.join(shown)} and {len(values) - len(shown)} more"
        shown.append(literal)
    return ", ".join(shown)


def _came(value: object, path: Sequence[str | int]) -> str:
    """Describe a received value: only its kind if it is long or its name suggests a secret."""
    kind = _kind(value)
    if value is None or isinstance(value, dict | list) or any(_is_secret(step) for step in path):
        return kind
    text = _dumped(value)
    if len(text) > 40 or not text.isprintable():
        return f"{kind} of {len(value) if isinstance(value, str) else len(text)} characters"
    return text if isinstance(value, bool) else f"{text} ({kind.partition(' ')[2]})"


def _is_secret(step: str | int) -> bool:
    return isinstance(step, str) and _SECRET.search(step) is not None


def _kind(value: object) -> str:
    match value:
        case None:
            return "null"
        case bool():
            return "a boolean"
        case int():
            return "an integer"
        case float():
            return "a number"
        case str():
            return "a string"
        case list():
            return "an array"
        case dict():
            return "an object"
        case _:
            return f"a {type(value).__name__}"


def _path(path: Sequence[str | int]) -> str:
    """A path as it is written in code: `labels[0].name`."""
    text = ""
    for step in path:
        text += (
            f"[{step}]"
            if isinstance(step, int)
            else f".{_short(step, 64)}"
            if text
            else _short(step, 64)
        )
    return f"'{text[:200]}'" if text else "The whole"


def _short(text: str, most: int) -> str:
    visible = "".join(letter if letter.isprintable() else " " for letter in text)
    return visible if len(visible) <= most else f"{visible[: most - 1]}…"
