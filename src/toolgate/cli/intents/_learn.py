"""Add messages to the prompts of an intent, after a preview of what that changes."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from toolgate.cli.intents._detect_session import DetectSession
from toolgate.cli.intents._pack_tests import read_expectations
from toolgate.errors import ArgumentError, PackError
from toolgate.intents import NONE, Intent
from toolgate.packs import Pack


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


def preview(packs: Sequence[Pack], pack: Pack, intent: str, messages: Sequence[str]) -> Preview:
    """Preview what changes if messages become prompts of an intent.

    Args:
        packs: All packs in use, including `pack`.
        pack: The pack of the intent.
        intent: Its name, or `none` for messages that the pack does not support.
        messages: The new prompts.
    """
    known = dict(_known(packs))
    # An existing expectation wins over the new intent, so that a conflict counts as a regression.
    for message in messages:
        known.setdefault(message, intent)
    texts = [(message, None) for message in known]
    learned = _with_prompts(pack, intent, messages)
    after_packs = tuple(learned if other is pack else other for other in packs)
    before = DetectSession(tuple(packs), "UTC", "", "cascade").answers(list(texts))
    after = DetectSession(after_packs, "UTC", "", "cascade").answers(list(texts))
    changed = [
        ChangedMessage(message=message, before=old.intent, after=new.intent, expected=expected)
        for (message, expected), old, new in zip(known.items(), before, after, strict=True)
        if old.intent != new.intent
    ]
    changed.sort(key=lambda message: not message.is_regression)
    return Preview(known=len(known), changed=tuple(changed))


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


def write_prompts(path: Path, messages: Sequence[str]) -> int:
    """Add messages to a prompt file unless it has them already; return how many were added.

    Raises:
        PackError: The file cannot be written.
    """
    try:
        text = path.read_text(encoding="utf-8") if path.exists() else ""
        present = {line.strip().casefold() for line in text.splitlines()}
        fresh = [message for message in messages if message.casefold() not in present]
        if fresh:
            gap = "" if not text or text.endswith("\n") else "\n"
            path.write_text("\n".join([f"{text}{gap}{fresh[0]}", *fresh[1:], ""]), encoding="utf-8")
    except (OSError, UnicodeError) as error:
        raise PackError(
            f"{path} cannot be written: {error}.", hint="Check its permissions."
        ) from error
    return len(fresh)


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
