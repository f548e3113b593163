"""Tables about packs and their rules."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from toolgate.settings.tables.fields import between

__all__ = ["PackSettings", "RuleSettings"]


@dataclass(frozen=True, kw_only=True)
class PackSettings:
    """Table `[packs]`: which [packs](packs.md) are read, and what they are told."""

    paths: tuple[str, ...] = ()
    """Folders: each is a pack, or holds packs. A relative path belongs to the file's folder. The
    folder `packs` where Toolgate runs and packs that were installed are found without."""

    enable: tuple[str, ...] = ()
    """Packs of Toolgate itself that are used; `schema` is without."""

    disable: tuple[str, ...] = ()
    """Packs that are found and not used."""

    dev: bool = False
    """Whether intents that are marked `dev = true` are used too."""

    options: Mapping[str, Mapping[str, object]] = field(
        default_factory=dict[str, Mapping[str, object]], repr=False
    )
    """Tables `[packs.options.NAME]`: what the tools of the pack NAME are told. See the pack."""


@dataclass(frozen=True, kw_only=True)
class RuleSettings:
    """Table `[rules]`: what models are told when they ask for the rules of a request.

    See [rules](enrich.md).
    """

    budget_tokens: int = between(8_000, 200, 1_000_000)
    """Most estimated tokens of the rules in one answer; 200 to 1,000,000."""

    show_detection: bool = False
    """Whether an enriched prompt has a line that says how sure its intent is, and what else it
    could be."""

    recovery: bool = True
    """Whether a call that does not go with the last request, or whose arguments do not fit, is
    answered with the right rules and tools."""

    variables: Mapping[str, str] = field(default_factory=dict[str, str])
    """Values of variables in rules, such as `PROJECT_NAME = "shop"`, in place of what packs say."""
