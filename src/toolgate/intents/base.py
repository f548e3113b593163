"""The data types of intent detection: intents, requests, detections, and the stage protocol.

Intents come from packs. A stage classifies a message; stages do not depend on each other, on
servers or on the caller.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from datetime import date
from typing import Literal, Protocol, TypeAlias, runtime_checkable

from toolgate.types import Json

NONE = "none"
"""The name for "no intent"; no intent of a pack may have it."""

ArgumentKind: TypeAlias = Literal[
    "boolean",
    "choice",
    "count",
    "date",
    "email",
    "integer",
    "link",
    "list",
    "name",
    "number",
    "path",
    "period",
    "string",
    "url",
]
"""How the value of an argument is found in a message; `docs/intents.md` describes each."""


StageChoice: TypeAlias = Literal["keyword", "semantic", "cascade"]
"""Which stages are used."""


@dataclass(frozen=True, kw_only=True)
class MessageSpan:
    """A part of a message."""

    start: int
    """Offset of the first character in the original message, in code points, not bytes."""

    end: int
    """Offset after the last character."""


@dataclass(frozen=True, kw_only=True)
class Argument:
    """A value that was read from a message."""

    name: str
    """Name of the tool's parameter."""

    value: object
    """A JSON value; dates are ISO strings."""

    spans: tuple[MessageSpan, ...] = ()
    """Where the value was read; empty for a default."""

    text: str = ""
    """The words that the value was read from, unchanged; empty for a default."""

    kind: str = ""
    """The reader that found it (an `ArgumentKind`), `default`, or `pair` for `key=value`."""


@dataclass(frozen=True, kw_only=True)
class ArgumentSpec:
    """How a parameter of an intent's tool is filled from a message."""

    name: str
    """Name of the tool's parameter."""

    kind: ArgumentKind
    """The reader that looks for it."""

    part: Literal["since", "until", "day", "from", "to", "from-column", "to-column"] = "since"
    """For `date`: the first moment, the end, or the day itself of the date. For `link`: one of
    the two linked things, or the column that links it."""

    inclusive: bool = False
    """For `date` with `part = "until"`: whether the tool expects the last day, not the day after
    it."""

    past: bool = False
    """For `date` with `part = "until"`: whether it is left out if the period reaches today or
    beyond."""

    form: Literal["date", "date-time"] = "date"
    """For `date`: how a day is written; `date-time` writes its first moment in UTC."""

    values: Mapping[str, tuple[str, ...]] = field(default_factory=dict[str, tuple[str, ...]])
    """For `choice` and `name`: the known values, with synonyms for each."""

    live: frozenset[str] = frozenset()
    """For `name`: those of `values` that currently exist, such as tables of a database; they are
    found anywhere in a message."""

    patterns: tuple[str, ...] = ()
    """For `name` and `link`: phrases with `{name}` in place of the value, best first."""

    stop: frozenset[str] = frozenset()
    """For `name` and `link`: words that are never a value, in lower case."""

    case: Literal["", "lower", "upper", "title"] = ""
    """For `name`: the case of an unknown value; empty leaves it unchanged. `title` capitalizes
    the first letter only."""

    words: tuple[str, ...] = ()
    """Words that announce the value; if empty, the name of the parameter. For `count`: what is
    counted, such as `changes`; for `period`: its unit, such as `days`."""

    tools: frozenset[str] = frozenset()
    """Tools of the intent that take it; if empty, all."""

    writes: bool = False
    """Whether this argument makes the tool change something: it is left out for messages that
    only ask to see something."""

    default: object = None
    """The value if the message has none; None leaves the argument out."""

    minimum: float | None = None
    """For numbers: smaller values are ignored."""

    maximum: float | None = None
    """For numbers: larger values are lowered to this."""


@dataclass(frozen=True, kw_only=True)
class Keywords:
    """The words of one language that signal an intent."""

    exact: tuple[str, ...] = ()
    """Any one of these is enough; the first that occurs is reported."""

    partial: tuple[str, ...] = ()
    """Any one of these is enough together with a word of `context`; all that occur are reported."""

    context: tuple[str, ...] = ()
    """A partial keyword needs one of these, anywhere in the message."""

    patterns: tuple[str, ...] = ()
    """Phrases that count as an exact keyword."""

    weak_patterns: tuple[str, ...] = ()
    """Phrases that count as a partial keyword with its context."""

    misspelt: tuple[str, ...] = ()
    """Exact keywords of several words that contain one of these may have typing errors."""

    correct: tuple[str, ...] = ()
    """Words that look like one of `misspelt` but are not, such as "scheme"."""


@dataclass(frozen=True, kw_only=True)
class SubjectGuard:
    """Words of one language that show that a message is about something else.

    "What changed in the UI?" names a subject of its own after "in": then only keywords that
    contain a word of `home` count.
    """

    home: frozenset[str] = frozenset()
    """A message with one of these is about the pack's own subject."""

    before: frozenset[str] = frozenset()
    """Words that come before a subject: in, for, of, on."""

    between: frozenset[str] = frozenset()
    """Words that may come in between: the, our, my."""

    verbs: frozenset[str] = frozenset()
    """Verbs that are followed by a subject, unless it is one of `pronouns`: does, do, did."""

    pronouns: frozenset[str] = frozenset()
    """Subjects that say nothing: it, we, you."""

    own: frozenset[str] = frozenset()
    """Subjects that belong to the pack."""


@dataclass(frozen=True, kw_only=True)
class Intent:
    """Something that people ask for, the words that signal it, and the tool for it."""

    name: str
    """The file's name, unless the file sets another; case-insensitive."""

    tool: str = ""
    """The suggested tool; empty if there is none, or several."""

    tools: tuple[str, ...] = ()
    """All tools that belong to it, including `tool`."""

    description: str = ""
    """One sentence for people."""

    order: int = 100
    """Lower comes first: of two equal matches the earlier one wins. Names break ties."""

    keywords: Mapping[str, Keywords] = field(default_factory=dict[str, Keywords])
    """By language, such as `en`."""

    guards: Mapping[str, SubjectGuard] = field(default_factory=dict[str, SubjectGuard])
    """By language; if empty, keywords count whatever else the message is about."""

    names: Mapping[str, tuple[str, ...]] = field(default_factory=dict[str, tuple[str, ...]])
    """Lists that phrases refer to as `{list}`, such as known types."""

    arguments: tuple[ArgumentSpec, ...] = ()
    """The arguments read from a message, in the order of the answer."""

    prompts: Mapping[str, tuple[str, ...]] = field(default_factory=dict[str, tuple[str, ...]])
    """Example prompts by language, on which the semantic stage is trained."""

    pack: str = ""
    """Name of its pack."""

    dev: bool = False
    """Whether it exists only for developers of the pack."""


@dataclass(frozen=True, kw_only=True)
class DetectionLimits:
    """Confidence below which no intent is returned."""

    false_alarms: float = 0.05
    """Share of supported messages that may be rejected; a higher share rejects more of the
    unsupported ones."""

    threshold: float | None = None
    """The confidence below which no intent is returned; replaces `false_alarms`."""


@dataclass(frozen=True, kw_only=True)
class IntentSet:
    """The intents of all active packs."""

    version: str = ""
    """Changes whenever anything else in the set changes."""

    intents: tuple[Intent, ...] = ()
    """The intents, with their example prompts."""

    unsupported: Mapping[str, tuple[str, ...]] = field(default_factory=dict[str, tuple[str, ...]])
    """Example prompts that must not match any intent of a pack, by pack."""

    keyword_only: tuple[Intent, ...] = ()
    """Intents of packs that are not ready, for example for lack of a database. Only requests for
    the keyword stage alone get them."""

    pack_limits: Mapping[str, DetectionLimits] = field(default_factory=dict[str, DetectionLimits])
    """Limits that packs set for all their intents, by intent; other intents have the defaults."""

    own_limits: Mapping[str, DetectionLimits] = field(default_factory=dict[str, DetectionLimits])
    """Limits that individual intents set, by intent."""


@dataclass(frozen=True, kw_only=True)
class IntentCandidate:
    """A possible intent of a message, with its confidence."""

    intent: str
    """Its name."""

    confidence: float
    """In [0, 1]; higher is better."""

    why: str = ""
    """For people: the nearest prompt, or the keywords."""


@dataclass(frozen=True, kw_only=True)
class StageRequest:
    """A message with the context that stages need."""

    text: str
    """The message as the person wrote it."""

    today: date
    """The day that "yesterday" is relative to, in `zone`."""

    zone: str = "UTC"
    """Time zone of the days in the message; an IANA name."""

    languages: tuple[str, ...] = ()
    """Languages whose words count, such as `en`; empty means all."""

    previous: tuple[str, ...] = ()
    """Intents of the conversation so far, latest last."""


@dataclass(frozen=True, kw_only=True)
class DetectRequest:
    """Messages to classify, with options."""

    messages: tuple[str, ...]
    """The messages as written."""

    today: date | None = None
    """The day that "yesterday" is relative to; None: today."""

    zone: str = "UTC"
    """Time zone of the days in the messages; an IANA name."""

    languages: tuple[str, ...] = ()
    """Languages whose keywords count, such as `en`; empty means all."""

    previous: tuple[str, ...] = ()
    """Intents of the conversation so far, latest last; if empty, those of the caller's
    conversation."""

    deciding: StageChoice = "cascade"
    """Which stages are used."""


@dataclass(frozen=True, kw_only=True)
class Detection:
    """The intent of a message, with the arguments read from it."""

    use_mcp: bool
    """Whether a tool should be used."""

    intent: str
    """Its name, or `none`."""

    confidence: float
    """In [0, 1]; keywords give 0.9 (exact), 0.8 (partial with context) or 0.0."""

    asked_text: str = ""
    """The message with blanks in place of what it declines; empty if it declines nothing."""

    tool: str | None = None
    """The suggested tool."""

    arguments: Mapping[str, object] = field(default_factory=dict[str, object])
    """Arguments for the tool, as far as the message has them."""

    matched: tuple[str, ...] = ()
    """The keywords that decided."""

    stage: str = ""
    """The stage that decided: `keyword` or `semantic`."""

    reason: str = ""
    """One sentence for people: why this intent, or why none."""

    read_arguments: tuple[Argument, ...] = ()
    """Each argument with the place it was read from."""

    candidates: tuple[IntentCandidate, ...] = ()
    """All intents considered, best first, including the chosen one."""

    intents: tuple[str, ...] = ()
    """All intents that the message asks for, best first; several if it holds several requests."""

    unread: tuple[str, ...] = ()
    """Parts that limit a period but could not be read as a date: `since the last release`."""

    question: str = ""
    """The question to ask the user if the best candidates are too close; else empty."""

    def as_json(self) -> Json:
        """Return the JSON that REST and the command line show."""
        return {
            "use_mcp": self.use_mcp,
            "intent": self.intent,
            "confidence": self.confidence,
            "tool": self.tool,
            "arguments": dict(self.arguments),
            "matched": list(self.matched),
            "stage": self.stage,
            "reason": self.reason,
            "found": [asdict(argument) for argument in self.read_arguments],
            "intents": list(self.intents),
            "candidates": [
                {
                    "intent": candidate.intent,
                    "confidence": candidate.confidence,
                    "why": candidate.why,
                }
                for candidate in self.candidates
            ],
            "not_understood": list(self.unread),
            "question": self.question or None,
        }


@runtime_checkable
class Stage(Protocol):
    """Classifies messages.

    Contract:

    * Any text is a message: empty, huge, in any script. No text makes it raise.
    * The same request gives the same answer, regardless of earlier requests.
    * `arguments` and `read_arguments` stay empty: the code that combines stages fills them in
      for the intent that is chosen in the end.
    * Nothing slow (training, loading, long computation) happens while a message waits: while
      something is not ready, the answer is `none` with that reason.
    """

    @property
    def name(self) -> str:
        """The value for `Detection.stage`."""
        ...

    async def classify(self, request: StageRequest) -> Detection:
        """Return the intent of a message."""
        ...
