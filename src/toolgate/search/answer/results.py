"""A tool in a discovery answer: the parts of its definition that are shown."""

from collections.abc import Collection
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple, cast

from toolgate.base import json_text
from toolgate.search.answer.safe_text import clean, cut, summary
from toolgate.search.answer.signature import shape, signature
from toolgate.search.base import Hit
from toolgate.types import Json, json_object

_HINTS = ("title", "readOnlyHint", "destructiveHint", "idempotentHint", "openWorldHint")
SIGNATURE_CHARS = 320
"""Most characters of a tool's parameters in an answer; chosen."""
# Both limits of the cache are chosen: it holds at most 16 MiB of definitions.
_REMEMBERED = 1_024
"""Most definitions whose cards are cached."""
_REMEMBERED_BYTES = 16_384
"""Largest definition in bytes whose card is cached."""
_SAYS_NOTHING = frozenset({"any", "object"})
"""Uninformative output shapes."""
_WRAPPERS = frozenset({"{result}", "{content}"})
"""Output shapes with which server libraries wrap any text; they matter to programs only."""


class DiscoveryResult(NamedTuple):
    """A tool in a discovery answer, ready to be shown; each answer creates several."""

    tool_key: str
    """`server:tool`, exactly as `tool_execute` takes it."""

    tool_name: str
    """Its original name on its server."""

    server_name: str
    """Name of its server."""

    kind: str
    """`tool`, `prompt`, `resource`, `template` or `skill`."""

    description: str
    """One line without lists of parameters, of up to 2,000 characters."""

    relevance: float
    """How likely the tool helps, in [0, 1]; higher is better."""

    explanation: str
    """Why it was found, one short sentence."""

    hint: str
    """The part of the explanation that name and description do not show; often empty."""

    source: str
    """What found it: `exact`, `lexical`, `vector`, `usage`, `core` (pinned) and others."""

    reasons: Json
    """Why it was found, for programs: matched words by field, cosine, prior, usage, score."""

    annotations: Json
    """The hints of its server: `readOnlyHint`, `destructiveHint` and others."""

    output_schema: Json | None = None
    """Its original output schema; None if it has none."""

    returns: str = ""
    """The output schema in short, `{id: int, title}`; empty if uninformative."""

    shown_name: str = ""
    """Its original name, fit to be shown."""

    full_parameters: str = ""
    """Its parameters in one line, `(owner, repo, title, body?)`."""

    input_schema: object = None
    """Its original input schema."""

    weak: bool = False
    """Whether it is listed although nothing fits the request well."""

    down: bool = False
    """Whether its server is down, so that a call would fail."""

    alternatives: tuple[str, ...] = ()
    """Keys of tools of other servers that do nearly the same."""

    used_with: tuple[tuple[str, str], ...] = ()
    """Tools often used together with it: key and parameters of each."""

    @property
    def signature(self) -> str:
        """Its call in one line, `create_issue(owner, repo, title, body?)`."""
        return self.shown_name + self.full_parameters

    def parameters(self, max_chars: int) -> str:
        """Return its parameters in one line, `(owner, repo, title, body?)`, shortened if needed."""
        if max_chars >= SIGNATURE_CHARS:
            return self.full_parameters
        shortened = signature("", self.input_schema, max_chars=max_chars)
        return _parameters_of(self.kind, clean(shortened))


def result_of(
    hit: Hit, definition: bytes, down: Collection[str], *, for_programs: bool = False
) -> DiscoveryResult:
    """Create a result from a hit; `down` are the servers that are down.

    `for_programs` keeps output shapes that only wrap a text: programs have to unwrap it.
    """
    server, _, name = hit.key.partition(":")
    card = card_of(definition)
    return DiscoveryResult(
        tool_key=hit.key,
        tool_name=name,
        server_name=server,
        kind=hit.kind,
        description=card.description,
        relevance=hit.relevance,
        explanation=cut(clean(hit.explanation), 160),
        hint=cut(clean(hit.hint), 160),
        source=hit.source,
        reasons=hit.fields,
        annotations=card.annotations,
        output_schema=card.output_schema,
        returns="" if card.returns in _WRAPPERS and not for_programs else card.returns,
        shown_name=clean(name),
        full_parameters=_parameters_of(hit.kind, card.parameters),
        input_schema=card.input_schema,
        weak=bool(hit.fields.get("weak")),
        down=server in down,
    )


def _parameters_of(kind: str, parameters: str) -> str:
    """Return the parameters to show; what can only be read has none, and no brackets."""
    return "" if kind != "tool" and parameters == "()" else parameters


@dataclass(frozen=True, kw_only=True, slots=True)
class _Card:
    """The parts of a definition that answers show, the same for every request."""

    description: str
    annotations: Json
    input_schema: object
    parameters: str
    output_schema: Json | None
    returns: str


def card_of(definition: bytes) -> _Card:
    """Return the parts of a definition that answers show."""
    # Large definitions are not cached: a thousand of them could fill the memory.
    few = len(definition) <= _REMEMBERED_BYTES
    return _card(definition) if few else _card.__wrapped__(definition)


@lru_cache(maxsize=_REMEMBERED)
def _card(definition: bytes) -> _Card:
    """Create a card; cached, since the same tools are found repeatedly."""
    read = json_object(json_text.loads(definition))
    hints = json_object(read.get("annotations"))
    schema, output = read.get("inputSchema"), read.get("outputSchema")
    texts = (read.get("description"), read.get("title"), hints.get("title"))
    text = next((text for text in texts if isinstance(text, str) and text.strip()), "")
    output = cast("Json", output) if isinstance(output, dict) else None
    returns = clean(shape(output)) if output else ""
    return _Card(
        description=cut(summary(text), 2_000),
        # A server may send anything as a hint: only values of the type that MCP specifies are
        # shown.
        annotations={
            key: cut(clean(value), 80) if isinstance(value, str) else value
            for key in _HINTS
            if isinstance(value := hints.get(key), str if key == "title" else bool)
        },
        input_schema=schema,
        parameters=clean(signature("", schema, max_chars=SIGNATURE_CHARS)),
        output_schema=output,
        returns="" if returns in _SAYS_NOTHING else returns,
    )
