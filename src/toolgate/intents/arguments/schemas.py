"""Derive argument specs from a tool's input schema if its intent declares none."""

from collections.abc import Mapping
from typing import Any, Final, cast

from toolgate.intents.arguments.prepared_spec import name_words
from toolgate.intents.base import ArgumentKind, ArgumentSpec

_SINCE: Final = frozenset({"since", "after", "from", "start", "begin", "earliest", "newer"})
_UNTIL: Final = frozenset({"until", "before", "to", "end", "till", "latest", "older"})
_COUNTS: Final = frozenset({"limit", "count", "top", "max", "results", "n", "size", "number"})
_SINGLE_COUNTS: Final = frozenset({"limit", "top", "n", "k", "count"})
_PERIODS: Final = frozenset({"days", "hours", "weeks", "months", "minutes", "seconds", "years"})
_DATE_SIGNS: Final = ("date", "iso 8601", "iso-8601", "iso8601", "yyyy", "timestamp", "rfc 3339")
_FORMATS: Final[dict[str, ArgumentKind]] = {
    "email": "email",
    "idn-email": "email",
    "uri": "url",
    "url": "url",
    "iri": "url",
    "uri-reference": "url",
    "date": "date",
    "date-time": "date",
    "path": "path",
    "file-path": "path",
    "directory-path": "path",
}
_NAMES: Final[dict[str, ArgumentKind]] = {
    "email": "email",
    "mail": "email",
    "url": "url",
    "uri": "url",
    "link": "url",
    "website": "url",
    "path": "path",
    "file": "path",
    "filename": "path",
    "filepath": "path",
    "folder": "path",
    "directory": "path",
    "dir": "path",
}


def specs_of_schema(schema: Mapping[str, Any]) -> tuple[ArgumentSpec, ...]:
    """Return the specs of a tool's top-level parameters; those that cannot be read are left out.

    Objects and lists are never guessed, and defaults are left to the tool.
    """
    properties = schema.get("properties")
    if not isinstance(properties, Mapping):
        return ()
    specs: list[ArgumentSpec] = []
    for name, declared in cast("Mapping[object, object]", properties).items():
        if isinstance(name, str) and name and isinstance(declared, Mapping):
            spec = _spec(name, _plain(cast("Mapping[str, Any]", declared), schema))
            if spec is not None:
                specs.append(spec)
    return tuple(specs)


def _plain(declared: Mapping[str, Any], schema: Mapping[str, Any]) -> Mapping[str, Any]:
    """Resolve "or null" and references in a declaration."""
    # Five steps: enough for references within `anyOf`, and a limit for schemas that refer to
    # themselves.
    for _ in range(5):
        reference = declared.get("$ref")
        if isinstance(reference, str) and reference.startswith("#/"):
            target = _target(schema, reference[2:].split("/"))
            rest = {key: value for key, value in declared.items() if key != "$ref"}
            declared = {**target, **rest}
            continue
        for key in ("anyOf", "oneOf", "allOf"):
            options = declared.get(key)
            if not isinstance(options, list):
                continue
            real = [
                cast("Mapping[str, Any]", option)
                for option in cast("list[object]", options)
                if isinstance(option, Mapping)
                and cast("Mapping[str, Any]", option).get("type") != "null"
            ]
            # If null has one alternative, that is the type; several alternatives cannot be read.
            if len(real) == 1:
                rest = {name: value for name, value in declared.items() if name != key}
                declared = {**real[0], **rest}
                break
        else:
            return declared
    return declared


def _target(schema: Mapping[str, Any], steps: list[str]) -> Mapping[str, Any]:
    """Return the target of a reference inside a schema; empty if it does not exist."""
    target: object = schema
    for step in steps:
        if not isinstance(target, Mapping):
            return {}
        target = cast("Mapping[str, object]", target).get(step)
    return cast("Mapping[str, Any]", target) if isinstance(target, Mapping) else {}


def _spec(name: str, declared: Mapping[str, Any]) -> ArgumentSpec | None:
    types = declared.get("type")
    if isinstance(types, list):
        real = [kind for kind in cast("list[object]", types) if kind != "null"]
        types = real[0] if len(real) == 1 else None
    words = name_words(name)
    description = str(declared.get("description") or "").casefold()
    choices = declared.get("enum")
    if isinstance(choices, list):
        plain = [
            option for option in cast("list[object]", choices) if isinstance(option, str) and option
        ]
        if not plain:
            return None
        return ArgumentSpec(name=name, kind="choice", values=dict.fromkeys(plain, ()))
    if types == "boolean":
        return ArgumentSpec(name=name, kind="boolean")
    if types in {"integer", "number"}:
        return _number(name, words, declared, whole=types == "integer")
    if types == "string":
        return _text(name, words, declared, description)
    return None


def _number(
    name: str, words: list[str], declared: Mapping[str, Any], *, whole: bool
) -> ArgumentSpec:
    lower, upper = declared.get("minimum"), declared.get("maximum")
    minimum = lower if isinstance(lower, int | float) else None
    maximum = upper if isinstance(upper, int | float) else None
    kind: ArgumentKind = "integer" if whole else "number"
    counted = _COUNTS.intersection(words)
    if whole and _PERIODS.intersection(words):
        kind = "period"
    elif whole and counted and (len(words) > 1 or words[0] in _SINGLE_COUNTS):
        kind = "count"
        # Nobody asks for fewer results than one.
        minimum = 1 if minimum is None else minimum
    return ArgumentSpec(name=name, kind=kind, minimum=minimum, maximum=maximum)


def _text(
    name: str, words: list[str], declared: Mapping[str, Any], description: str
) -> ArgumentSpec | None:
    form = str(declared.get("format") or "")
    kind: ArgumentKind | None = _FORMATS.get(form)
    if kind is None:
        kind = next((_NAMES[word] for word in reversed(words) if word in _NAMES), None)
    dated = kind == "date" or "date" in words or any(sign in description for sign in _DATE_SIGNS)
    if kind is None and dated and (_SINCE | _UNTIL | {"date", "day", "when"}).intersection(words):
        kind = "date"
    if kind is None and words in (["since"], ["until"]):
        kind = "date"
    if kind != "date":
        return ArgumentSpec(name=name, kind=kind or "string")
    part = "since"
    if _UNTIL.intersection(words):
        part = "until"
    elif not _SINCE.intersection(words):
        part = "day"
    exclusive = "exclusive" in description or "before" in words
    return ArgumentSpec(
        name=name,
        kind="date",
        part=part,
        inclusive=part == "until" and not exclusive and form != "date-time",
        form="date-time" if form == "date-time" else "date",
    )
