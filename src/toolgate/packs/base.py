"""The data type of a pack: intents, rules, tools and settings, read from its folder."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from toolgate.intents import DetectionLimits, Intent

__all__ = ["Pack"]


@dataclass(frozen=True, kw_only=True)
class Pack:
    """A pack, as read from its folder; immutable."""

    name: str
    """Its name: what `pack.toml` says, else that of the folder."""

    folder: Path
    """Where it was read."""

    fingerprint: str
    """Different whenever one of its files is."""

    version: str = ""
    """As `pack.toml` says."""

    description: str = ""
    """One sentence for people."""

    intents: tuple[Intent, ...] = ()
    """In their order, with their prompts; names are compared without case."""

    intent_files: Mapping[str, Path] = field(default_factory=dict[str, Path])
    """The file that an intent was read from first, by its name."""

    unsupported: tuple[str, ...] = ()
    """Messages that people send and the pack does not answer."""

    limits: DetectionLimits = field(default_factory=DetectionLimits)
    """When an answer is withheld, for all its intents."""

    own_limits: Mapping[str, DetectionLimits] = field(default_factory=dict[str, DetectionLimits])
    """The same for single intents, by name."""

    rules: Mapping[str, str] = field(default_factory=dict[str, str])
    """The text of `rules/NAME.md` by the name of its intent without case, as `str.casefold` writes
    it; placeholders stand in it as they were written."""

    rule_files: Mapping[str, Path] = field(default_factory=dict[str, Path])
    """Where each text of `rules` was read."""

    variables: Mapping[str, str] = field(default_factory=dict[str, str])
    """Its own placeholders and what stands for them: `[variables]` of `pack.toml`."""

    out_of_context: str = ""
    """What is answered to a message that has nothing to do with the pack; empty: the usual."""

    live: Mapping[str, str] = field(default_factory=dict[str, str])
    """Lists that grow by what is connected, and by what: `tables` are the names of the tables and
    types of the databases in `[connections]`."""

    needs: tuple[str, ...] = ()
    """What its tools cannot do without; they are not listed while it is missing: `connections`."""

    protected: tuple[str, ...] = ()
    """How names of files end, in lower case, that tools of other servers must not change."""

    protection: str = ""
    """What to use for them instead."""

    modules: tuple[Path, ...] = ()
    """Python files that register something, in their order: those of `tools`, `proxies`, `prompts`,
    `resources`, without names that begin with `_`."""

    programs: tuple[Path, ...] = ()
    """Programs over tools that are tools themselves: `programs/NAME.py`."""

    texts: Mapping[str, str] = field(default_factory=dict[str, str])
    """Prompts for clients by name: `prompts/NAME.md`."""

    resources: tuple[Path, ...] = ()
    """Files that clients may read: those in `resources`."""

    servers: Mapping[str, Mapping[str, Any]] = field(default_factory=dict[str, Mapping[str, Any]])
    """Servers that it brings along, by name: the entries of `servers.json`."""

    code: str = ""
    """Different whenever something other than intents and rules is."""

    problems: tuple[str, ...] = ()
    """What was left out and why, each with file, line and reason."""

    skipped: tuple[str, ...] = ()
    """Files and folders that are no part of the pack, each with the reason; nothing is wrong."""

    @property
    def has_server(self) -> bool:
        """Whether it offers anything to clients itself."""
        return bool(self.modules or self.programs or self.texts or self.resources)

    def rules_of(self, intent: str) -> str:
        """The rules of an intent, found without case; empty where there are none."""
        return self.rules.get(intent.casefold(), "")

    @property
    def prompts(self) -> Mapping[str, Mapping[str, tuple[str, ...]]]:
        """Prompts by intent and language, of the intents that have some."""
        return {intent.name: intent.prompts for intent in self.intents if intent.prompts}
