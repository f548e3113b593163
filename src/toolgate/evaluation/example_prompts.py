"""Add messages to the prompts of an intent, after a preview of what that changes."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from anyio.lowlevel import checkpoint

from toolgate.errors import ArgumentError
from toolgate.evaluation.pack_expectations import read_expectations
from toolgate.intents import NONE, Cascade, Intent, IntentDetector, PackStages
from toolgate.models.embedders import Embedder
from toolgate.packs import Pack, intent_set_of


@dataclass(frozen=True, kw_only=True)
class ChangedMessage:
    """A known message that is classified differently with the new prompts."""

    message: str
    """The message."""

    before: str
    """Its current intent, or `none`."""

    after: str
    """Its intent with the new prompts."""

    expected: str = ""
    """The expected intent; empty if unknown."""

    @property
    def is_regression(self) -> bool:
        """Whether the message is classified correctly now and would become wrong."""
        return bool(self.expected) and self.before == self.expected != self.after


@dataclass(frozen=True, kw_only=True)
class Preview:
    """Effect of new prompts on all known messages."""

    known: int
    """Number of compared messages: prompts, tests, and the new ones."""

    changed: tuple[ChangedMessage, ...]
    """Messages whose intent changes, regressions first."""

    @property
    def regressions(self) -> tuple[ChangedMessage, ...]:
        """Messages that would become wrong."""
        return tuple(message for message in self.changed if message.is_regression)


async def preview(
    packs: Sequence[Pack],
    pack: Pack,
    intent: str,
    messages: Sequence[str],
    *,
    embedder: Embedder | None,
    cache: Path | None,
) -> Preview:
    """Preview what changes if messages become prompts of an intent.

    Args:
        packs: All packs in use, including `pack`.
        pack: The pack of the intent.
        intent: Its name, or `none` for messages that the pack does not support.
        messages: The new prompts.
        embedder: Embeds prompts and messages; None: character n-grams alone are used.
        cache: Folder that caches trained models.

    Raises:
        EmbedderError: The embedder failed.
        PackError: The tests of a pack are invalid.
    """
    known = dict(_known(packs))
    # An existing expectation wins over the new intent, so that a conflict counts as a regression.
    for message in messages:
        known.setdefault(message, intent)
    learned = _with_prompts(pack, intent, messages)
    after_packs = [learned if other is pack else other for other in packs]
    before = await _intents_of(list(known), packs, embedder, cache)
    after = await _intents_of(list(known), after_packs, embedder, cache)
    changed = [
        ChangedMessage(message=message, before=old, after=new, expected=expected)
        for (message, expected), old, new in zip(known.items(), before, after, strict=True)
        if old != new
    ]
    changed.sort(key=lambda message: not message.is_regression)
    return Preview(known=len(known), changed=tuple(changed))


async def _intents_of(
    messages: Sequence[str], packs: Sequence[Pack], embedder: Embedder | None, cache: Path | None
) -> list[str]:
    """Return the intent of each message, or `none`, as packs detect it."""
    detector = IntentDetector([intent for pack in packs for intent in pack.intents])
    stages = PackStages(embedder=embedder, cache=cache)
    await stages.update(intent_set_of(packs))
    cascade = Cascade(detector.keywords, stages)
    intents: list[str] = []
    for message in messages:
        # A gateway has other requests to answer while it computes this.
        await checkpoint()
        intents.append((await cascade.classify(detector.request(message))).intent)
    return intents


def _known(packs: Sequence[Pack]) -> Iterator[tuple[str, str]]:
    for pack in packs:
        for intent in pack.intents:
            for prompts in intent.prompts.values():
                yield from ((prompt, intent.name) for prompt in prompts)
        yield from ((message, NONE) for message in pack.unsupported)
        for test in read_expectations(pack.folder):
            if "intent" in test.expected:
                yield test.message, str(test.expected["intent"] or NONE)


def _with_prompts(pack: Pack, intent: str, messages: Sequence[str]) -> Pack:
    if intent == NONE:
        return replace(pack, unsupported=(*pack.unsupported, *messages))

    def taught(known: Intent) -> Intent:
        if known.name != intent:
            return known
        prompts = {**known.prompts, "": (*known.prompts.get("", ()), *messages)}
        return replace(known, prompts=prompts)

    return replace(pack, intents=tuple(map(taught, pack.intents)))


def prompt_file(pack: Pack, intent: str) -> Path:
    """Return the file to which new prompts of an intent are added."""
    if intent == NONE:
        return pack.folder / "unsupported.txt"
    return pack.intent_files[intent].with_name(f"{_stem(pack.intent_files[intent])}.txt")


def _stem(path: Path) -> str:
    # `refunds.de.txt` and `refunds.toml` both belong to `refunds`.
    return path.stem.partition(".")[0]


def as_prompts(messages: Sequence[str]) -> list[str]:
    """Convert messages to lines of a prompt file.

    Raises:
        ArgumentError: A message cannot be such a line.
    """
    lines = [" ".join(message.split()) for message in messages]
    for line in lines:
        if not line or line.startswith("#"):
            raise ArgumentError(
                f"{line!r} cannot be a prompt.",
                hint="Prompts are lines without # in front.",
            )
    return list(dict.fromkeys(lines))
