"""The data types of intent detection: intents, requests, detections, and the stage protocol.

Intents come from packs. A stage classifies a message; stages are independent of each other, of
servers and of the caller.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from datetime import date
from typing import Literal, Protocol, TypeAlias, runtime_checkable

from toolgate.types import Json

__all__ = [
    "NONE",
    "Argument",
    "ArgumentKind",
    "ArgumentSpec",
    "DetectRequest",
    "Detection",
    "DetectionLimits",
    "Intent",
    "IntentCandidate",
    "IntentSet",
    "Keywords",
    "MessageSpan",
    "Stage",
    "StageChoice",
    "StageRequest",
    "SubjectGuard",
]

NONE = "none"
"""The name of "no intent"; no intent of a pack is called so."""

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
"""How the value of an argument is found in a message; `docs/intents.md` has a line for each."""


StageChoice: TypeAlias = Literal["keyword", "semantic", "cascade"]
"""Which stages are asked."""


@dataclass(frozen=True, kw_only=True)
class MessageSpan:
    """A piece of a message."""

    start: int
    """Offset of its first character in the message as it came; code points, not bytes."""

    end: int
    """Offset after its last character."""


@dataclass(frozen=True, kw_only=True)
class Argument:
    """A value that was read from a message."""

    name: str
    """Name of the tool's parameter."""

    value: object
    """A JSON value; dates are ISO texts."""

    spans: tuple[MessageSpan, ...] = ()
    """Where it was read; empty for a default."""

    text: str = ""
    """The words it was read from, as they came; empty for a default."""

    kind: str = ""
    """Which reader found it, an `ArgumentKind`, or `default`, or `pair` for `key=value`."""


@dataclass(frozen=True, kw_only=True)
class ArgumentSpec:
    """How a parameter of an intent's tool is filled from a message."""

    name: str
    """Name of the tool's parameter."""

    kind: ArgumentKind
    """Which reader looks for it."""

    part: Literal["since", "until", "day", "from", "to", "from-column", "to-column"] = "since"
    """For `date`: the first moment, the end, or the day itself of what was said. For `link`: one of
    the two things that are linked, or the column of it that links them."""

    inclusive: bool = False
    """For `date` with `part = "until"`: the tool wants the last day, not the day after it."""

    past: bool = False
    """For `date` with `part = "until"`: left out where the period reaches today or beyond."""

    form: Literal["date", "date-time"] = "date"
    """For `date`: how a day is written; `date-time` writes its first moment in UTC."""

    values: Mapping[str, tuple[str, ...]] = field(default_factory=dict[str, tuple[str, ...]])
    """For `choice` and `name`: the known values and other words for each."""

    live: frozenset[str] = frozenset()
    """For `name`: those of `values` that exist right now, such as tables of a database; they are
    found anywhere in a message."""

    patterns: tuple[str, ...] = ()
    """For `name` and `link`: phrases with `{name}` where the value stands, best first."""

    stop: frozenset[str] = frozenset()
    """For `name` and `link`: words that are never a value, in lower case."""

    case: Literal["", "lower", "upper", "title"] = ""
    """For `name`: how an unknown value is written; empty keeps it. `title` raises one letter."""

    words: tuple[str, ...] = ()
    """Words that announce the value; empty means the name of the parameter. For `count`: what is
    counted, as `changes`; for `period`: its unit, as `days`."""

    tools: frozenset[str] = frozenset()
    """Tools of the intent that take it; empty: all."""

    writes: bool = False
    """Whether the tool changes something when it gets this: left out of messages that only ask to
    see something."""

    default: object = None
    """Given when the message says nothing; None leaves the argument out."""

    minimum: float | None = None
    """For numbers: smaller ones are not read."""

    maximum: float | None = None
    """For numbers: larger ones are read as this."""


@dataclass(frozen=True, kw_only=True)
class Keywords:
    """The words of one language that give an intent away."""

    exact: tuple[str, ...] = ()
    """Any of these decides alone; the first that occurs is named."""

    partial: tuple[str, ...] = ()
    """Any of these decides together with a word of `context`; all that occur are named."""

    context: tuple[str, ...] = ()
    """Words that a partial keyword needs beside it, anywhere in the message."""

    patterns: tuple[str, ...] = ()
    """Phrases that count as an exact keyword."""

    weak_patterns: tuple[str, ...] = ()
    """Phrases that count as a partial keyword with its context."""

    misspelt: tuple[str, ...] = ()
    """Exact keywords of several words that hold one of these may have typing errors."""

    correct: tuple[str, ...] = ()
    """Words that look like one of `misspelt` and are none: scheme."""


@dataclass(frozen=True, kw_only=True)
class SubjectGuard:
    """Words of one language that show that a message is about something else.

    "What changed in the UI?" names a subject of its own after "in": keywords that do not hold a
    word of `home` do not count then.
    """

    home: frozenset[str] = frozenset()
    """A message with one of these is about the pack's own things."""

    before: frozenset[str] = frozenset()
    """Words that come before a subject: in, for, of, on."""

    between: frozenset[str] = frozenset()
    """Words that may stand between: the, our, my."""

    verbs: frozenset[str] = frozenset()
    """Words that a subject follows, unless it is one of `pronouns`: does, do, did."""

    pronouns: frozenset[str] = frozenset()
    """Subjects that say nothing: it, we, you."""

    own: frozenset[str] = frozenset()
    """Subjects that belong to the pack."""


@dataclass(frozen=True, kw_only=True)
class Intent:
    """Something that people ask for, the words that signal it, and the tool for it."""

    name: str
    """As the file is named, unless the file says otherwise; compared without case."""

    tool: str = ""
    """The tool that is suggested; empty where there is none, or several."""

    tools: tuple[str, ...] = ()
    """All tools that belong to it; holds `tool`."""

    description: str = ""
    """One sentence for people."""

    order: int = 100
    """Lower is asked first: of two equal matches the earlier one wins. Names decide ties."""

    keywords: Mapping[str, Keywords] = field(default_factory=dict[str, Keywords])
    """Per language, as `en`."""

    guards: Mapping[str, SubjectGuard] = field(default_factory=dict[str, SubjectGuard])
    """Per language; empty: keywords count whatever else the message is about."""

    names: Mapping[str, tuple[str, ...]] = field(default_factory=dict[str, tuple[str, ...]])
    """Lists that phrases refer to as `{list}`: known types, for example."""

    arguments: tuple[ArgumentSpec, ...] = ()
    """What is read from a message, in the order of the answer."""

    prompts: Mapping[str, tuple[str, ...]] = field(default_factory=dict[str, tuple[str, ...]])
    """Example prompts per language; what the semantic stage learns from."""

    pack: str = ""
    """Name of the pack it comes from."""

    dev: bool = False
    """Whether it is only there for those who work on the pack."""


@dataclass(frozen=True, kw_only=True)
class DetectionLimits:
    """When no intent is answered because the confidence is too low."""

    false_alarms: float = 0.05
    """Share of good messages that may be turned away; more catches more of the bad ones."""

    threshold: float | None = None
    """The confidence below which nothing is answered, instead of `false_alarms`."""


@dataclass(frozen=True, kw_only=True)
class IntentSet:
    """The intents of all active packs."""

    version: str = ""
    """Changes whenever anything else here changes."""

    intents: tuple[Intent, ...] = ()
    """With their example prompts."""

    unsupported: Mapping[str, tuple[str, ...]] = field(default_factory=dict[str, tuple[str, ...]])
    """Example prompts that must not match any intent of a pack, by pack."""

    keyword_only: tuple[Intent, ...] = ()
    """Intents of packs that are not ready, such as for lack of a database. Only who asks for the
    keyword stage alone gets them."""

    pack_limits: Mapping[str, DetectionLimits] = field(default_factory=dict[str, DetectionLimits])
    """Limits that packs set for all their intents, by intent; others have the defaults."""

    own_limits: Mapping[str, DetectionLimits] = field(default_factory=dict[str, DetectionLimits])
    """Limits that single intents set, by intent."""


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
    """As the person wrote it."""

    today: date
    """The day that "yesterday" counts from, in `zone`."""

    zone: str = "UTC"
    """Time zone of the days in the message; an IANA name."""

    languages: tuple[str, ...] = ()
    """Languages whose words count, as `en`; empty means all."""

    previous: tuple[str, ...] = ()
    """Intents of the conversation so far, latest last."""


@dataclass(frozen=True, kw_only=True)
class DetectRequest:
    """Messages to classify, with options."""

    messages: tuple[str, ...]
    """As they were written."""

    today: date | None = None
    """The day that "yesterday" counts from; None: today."""

    zone: str = "UTC"
    """Time zone of the days in them; an IANA name."""

    languages: tuple[str, ...] = ()
    """Languages whose keywords count, as `en`; empty means all."""

    previous: tuple[str, ...] = ()
    """Intents of the conversation so far, latest last; empty: those of the caller's."""

    deciding: StageChoice = "cascade"
    """Which stages are asked."""


@dataclass(frozen=True, kw_only=True)
class Detection:
    """The intent of a message, with the arguments read from it."""

    use_mcp: bool
    """Whether a tool should be used."""

    intent: str
    """Its name, or `none`."""

    confidence: float
    """In [0, 1]; from keywords 0.9 (exact), 0.8 (partial with context) or 0.0."""

    asked_text: str = ""
    """The message with blanks in place of what it declines; empty: it declines nothing."""

    tool: str | None = None
    """The tool that is suggested."""

    arguments: Mapping[str, object] = field(default_factory=dict[str, object])
    """Arguments for it, as far as the message has them."""

    matched: tuple[str, ...] = ()
    """The keywords that decided."""

    stage: str = ""
    """Which stage decided: `keyword` or `semantic`."""

    reason: str = ""
    """One sentence for people: why this intent, or why none."""

    read_arguments: tuple[Argument, ...] = ()
    """Each argument with the place it was read from."""

    candidates: tuple[IntentCandidate, ...] = ()
    """Every intent that was in question, best first; holds the chosen one."""

    intents: tuple[str, ...] = ()
    """All intents that the message asks for, best first: more than one if it holds several."""

    unread: tuple[str, ...] = ()
    """What the message says of a period and was not read as a date: `since the last release`."""

    question: str = ""
    """What to ask back when the best candidates are too close; else empty."""

    def as_json(self) -> Json:
        """As REST and the command line show it."""
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

    * Any text is a message: empty, huge, in any script. It never raises for one.
    * The same request gives the same answer, whatever was asked before.
    * `arguments` and `found` stay empty: whoever puts stages together fills them in for the
      intent that was chosen in the end.
    * Nothing is fitted, loaded or computed at length while a message waits: while something is not
      ready, the answer is `none` with that reason.
    """

    @property
    def name(self) -> str:
        """What `Detection.stage` says."""
        ...

    async def classify(self, request: StageRequest) -> Detection:
        """Which intent the message has."""
        ...
