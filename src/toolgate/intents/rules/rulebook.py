"""The rules of all packs, by intent."""

import logging
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Final

import anyio

from toolgate.base.token_estimate import estimate_tokens
from toolgate.intents.rules.base import STANDARD, PackRules, VariableSource
from toolgate.intents.rules.template import Template
from toolgate.types import Caller

log = logging.getLogger(__name__)

_SOURCE_S: Final = 2.0
"""Longest time in seconds for a source of variables (chosen); after that they stay unknown."""

_ENDING: Final = (
    "If the user's message has nothing to do with this, call no tool and answer with exactly "
    "this text:\n\n"
)


@dataclass(frozen=True, kw_only=True)
class IntentRule:
    """The rules of one intent."""

    intent: str
    """Name of the intent, as the pack wrote it."""

    pack: str
    """Pack that the rules come from."""

    template: Template
    """The text."""

    tokens: int
    """Estimated tokens of the text, before variables are filled in."""


class Rulebook:
    """All rules; they can be replaced at any time."""

    def __init__(self, packs: Iterable[PackRules] = (), *, common: VariableSource | None = None):
        """Create a rulebook.

        Args:
            packs: As for `replace_rules`.
            common: Values of variables for the rules of all packs.
        """
        self._common = common
        self._packs: Mapping[str, PackRules] = {}
        self._rules: Mapping[str, IntentRule] = {}
        self._sources: Mapping[str, VariableSource] = {}
        self.replace_rules(packs)

    def replace_rules(
        self, packs: Iterable[PackRules], sources: Mapping[str, VariableSource] | None = None
    ) -> None:
        """Use these rules from now on.

        Args:
            packs: If two have rules for the same intent, the first one's count.
            sources: Sources of a pack's live variables, by pack.
        """
        taken = list(packs)
        rules: dict[str, IntentRule] = {}
        for pack in taken:
            for intent, text in pack.rules.items():
                if text.strip():
                    rules.setdefault(intent.casefold(), _rule(pack, intent, text))
        self._packs = {pack.pack: pack for pack in taken}
        self._rules, self._sources = rules, dict(sources or {})

    def __bool__(self) -> bool:
        """Whether there are any rules."""
        return bool(self._rules)

    @property
    def intents(self) -> tuple[str, ...]:
        """The intents that have rules."""
        return tuple(rule.intent for rule in self._rules.values())

    def rule(self, intent: str) -> IntentRule | None:
        """Return the rules of an intent, by its exact name in any case; None if it has none."""
        return self._rules.get(intent.casefold())

    def out_of_context(self) -> tuple[str, ...]:
        """Return the answers of packs to messages unrelated to them."""
        texts = (pack.out_of_context.strip() for pack in self._packs.values() if pack.rules)
        return tuple(dict.fromkeys(text for text in texts if text))

    def endings(self, rules: Iterable[tuple[str, str]]) -> tuple[str, ...]:
        """Return texts after rules that do not themselves say how to answer other messages.

        Args:
            rules: Pack and text of the rules, variables filled in.
        """
        texts: dict[str, str] = {}
        for pack, text in rules:
            texts[pack] = texts.get(pack, "") + text
        answers = {
            pack: pack_rules.out_of_context.strip()
            for pack in texts
            if (pack_rules := self._packs.get(pack)) is not None
        }
        return tuple(
            f"{_ENDING}{answer}"
            for pack, answer in answers.items()
            if answer and answer not in texts[pack]
        )

    async def variable_values(
        self, pack: str, names: Collection[str], caller: Caller, overrides: Mapping[str, str]
    ) -> dict[str, str]:
        """Return the values of variables in a pack's rules.

        From lowest to highest priority: the standard texts for unknown values, values for all
        packs, the pack's own, the pack's live ones, and `overrides`, which an operator has set.

        Args:
            pack: Name of the pack.
            names: The variables needed; unknown ones get no value.
            caller: The caller.
            overrides: Values that replace all others.
        """
        resolved = {name: text for name, text in STANDARD.items() if name in names}
        pack_rules = self._packs.get(pack)
        common = await _asked(self._common, caller, names, "all packs")
        live = await _asked(self._sources.get(pack), caller, names, pack)
        for values in (
            common,
            pack_rules.variables if pack_rules else dict[str, str](),
            live,
            overrides,
        ):
            # A source that knows a variable but has an empty value leaves the standard text.
            resolved |= {
                n: text for n, text in values.items() if n in names and (text or n not in resolved)
            }
        if pack_rules is not None and "OUT_OF_CONTEXT" in names and pack_rules.out_of_context:
            resolved["OUT_OF_CONTEXT"] = pack_rules.out_of_context.strip()
        return resolved


def _rule(pack: PackRules, intent: str, text: str) -> IntentRule:
    whole = text.strip("\n")
    return IntentRule(
        intent=intent, pack=pack.pack, template=Template(whole), tokens=estimate_tokens(whole)
    )


async def _asked(
    source: VariableSource | None, caller: Caller, names: Collection[str], whose: str
) -> Mapping[str, str]:
    """Return the values of a source; empty if it fails or takes too long."""
    if source is None:
        return {}
    try:
        with anyio.fail_after(_SOURCE_S):
            return await source(caller, names)
    except Exception as error:  # noqa: BLE001 - code of packs: the rules are given without it
        reason = str(error) or type(error).__name__
        log.warning("variables not known", extra={"pack": whose, "reason": reason})
        return {}
