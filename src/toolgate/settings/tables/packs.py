"""Tables about packs and their rules."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from toolgate.settings.tables.fields import between


@dataclass(frozen=True, kw_only=True)
class PackSettings:
    """Table `[packs]`: which [packs](packs.md) are loaded, and their options."""

    paths: tuple[str, ...] = ()
    """Folders of packs, or folders that contain packs. Relative paths are resolved against the
    folder of `toolgate.toml`. The folder `packs` in the working directory and installed packs are
    found automatically."""

    enable: tuple[str, ...] = ()
    """Built-in packs to enable; `schema` is enabled by default."""

    disable: tuple[str, ...] = ()
    """Packs to disable."""

    dev: bool = False
    """Whether intents marked `dev = true` are used."""

    options: Mapping[str, Mapping[str, object]] = field(
        default_factory=dict[str, Mapping[str, object]], repr=False
    )
    """Tables `[packs.options.NAME]`: options for the tools of the pack NAME; see the pack's
    documentation."""


@dataclass(frozen=True, kw_only=True)
class RuleSettings:
    """Table `[rules]`: the rules that models get for a request.

    See [rules](enrich.md).
    """

    budget_tokens: int = between(8_000, 200, 1_000_000)
    """Maximum size of the rules in one answer, in estimated tokens; 200 to 1,000,000."""

    show_detection: bool = False
    """Whether the enriched prompt states the confidence of its intent and the alternatives."""

    recovery: bool = True
    """Whether a call that does not match the last request, or has wrong arguments, is answered with
    the right rules and tools."""

    variables: Mapping[str, str] = field(default_factory=dict[str, str])
    """Values of variables in rules, such as `PROJECT_NAME = "shop"`; they replace those of packs.
    """
