"""The data type of a pack: intents, rules, tools and settings, read from its folder."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from toolgate.intents import DetectionLimits, Intent


@dataclass(frozen=True, kw_only=True)
class Pack:
    """A pack as read from its folder; immutable."""

    name: str
    """Name from `pack.toml`, or else of the folder."""

    folder: Path
    """Folder of the pack."""

    fingerprint: str
    """Hash that changes whenever one of its files does."""

    version: str = ""
    """Version from `pack.toml`."""

    description: str = ""
    """One sentence for people."""

    intents: tuple[Intent, ...] = ()
    """Intents in their order, with their prompts; names are case-insensitive."""

    intent_files: Mapping[str, Path] = field(default_factory=dict[str, Path])
    """The first file that an intent was read from, by its name."""

    unsupported: tuple[str, ...] = ()
    """Messages that people send but that the pack cannot answer."""

    limits: DetectionLimits = field(default_factory=DetectionLimits)
    """Limits for withholding a detection, for all intents."""

    own_limits: Mapping[str, DetectionLimits] = field(default_factory=dict[str, DetectionLimits])
    """Limits of single intents, by name."""

    rules: Mapping[str, str] = field(default_factory=dict[str, str])
    """The text of `rules/NAME.md` by the name of its intent in lower case (`str.casefold`);
    placeholders are not replaced."""

    rule_files: Mapping[str, Path] = field(default_factory=dict[str, Path])
    """The file of each text in `rules`."""

    variables: Mapping[str, str] = field(default_factory=dict[str, str])
    """Placeholders and their values: `[variables]` of `pack.toml`."""

    out_of_context: str = ""
    """Response to a message that is unrelated to the pack; empty: the default."""

    live: Mapping[str, str] = field(default_factory=dict[str, str])
    """Lists that are extended at run time, and what is added to them: `tables` are the names of
    the tables and types of the databases in `[connections]`."""

    needs: tuple[str, ...] = ()
    """What its tools require; they are not listed while it is missing: `connections`."""

    protected: tuple[str, ...] = ()
    """Suffixes of files, in lower case, that tools of other servers must not change."""

    protection: str = ""
    """What to use for them instead."""

    modules: tuple[Path, ...] = ()
    """Python files that register something, in this order: those of `tools`, `proxies`,
    `prompts`, `resources`, except for names that start with `_`."""

    programs: tuple[Path, ...] = ()
    """Programs that call tools and are tools themselves: `programs/NAME.py`."""

    texts: Mapping[str, str] = field(default_factory=dict[str, str])
    """Prompts for clients by name: `prompts/NAME.md`."""

    resources: tuple[Path, ...] = ()
    """Files that clients may read, from `resources`."""

    servers: Mapping[str, Mapping[str, Any]] = field(default_factory=dict[str, Mapping[str, Any]])
    """Servers that it adds, by name: the entries of `servers.json`."""

    code: str = ""
    """Hash that changes whenever something other than intents and rules does."""

    problems: tuple[str, ...] = ()
    """What was left out and why, each with file, line and reason."""

    skipped: tuple[str, ...] = ()
    """Files and folders that are not part of the pack, each with the reason; they are not
    errors."""

    @property
    def has_server(self) -> bool:
        """Whether it offers tools or other features to clients itself."""
        return bool(self.modules or self.programs or self.texts or self.resources)

    def rules_of(self, intent: str) -> str:
        """Return the rules of an intent, ignoring case; empty if there are none."""
        return self.rules.get(intent.casefold(), "")

    @property
    def prompts(self) -> Mapping[str, Mapping[str, tuple[str, ...]]]:
        """Prompts by intent and language, of intents that have some."""
        return {intent.name: intent.prompts for intent in self.intents if intent.prompts}
