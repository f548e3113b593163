"""Rejects unknown plugins in the settings, before anything needs them."""

from toolgate.app.factories.search import Strategies
from toolgate.base.plugins import check_name, check_options
from toolgate.errors import ConfigError
from toolgate.settings import DocumentSettings, ProgramSettings, Settings
from toolgate.types import PluginSpec


def check_plugins(settings: Settings) -> None:
    """Reject an unknown reranker or sandbox, and invalid options of the reranker.

    Only the name of a sandbox is checked: its library is large and may be installed later.

    Raises:
        ConfigError: A plugin is unknown, or an option is invalid.
    """
    if reranker := reranker_spec(settings.documents):
        check_options("reranker", reranker)
    check_name("sandbox", sandbox_spec(settings.programs))


def plugin_problems(settings: Settings) -> list[ConfigError]:
    """The errors of `check_plugins`, and those of search strategies that cannot work."""
    strategies = Strategies(settings.search, {})
    selector, service = settings.search.selector, settings.catalog_search
    searches: dict[str, tuple[str, str]] = dict.fromkeys(
        sorted(settings.optimizations), ("optimization", selector)
    )
    for project, table in settings.project.items():
        if table.optimization:
            searches.setdefault(table.optimization, (f"project.{project}.optimization", selector))
    if service.tokens:
        searches.setdefault(service.strategy, ("catalog_search.strategy", service.selector))
    problems: dict[str, ConfigError] = {}
    for name, (setting, selected_by) in searches.items():
        try:
            strategies.make(name, selector=selected_by, setting=setting)
        except ConfigError as error:
            problems[str(error)] = error
    try:
        check_plugins(settings)
    except ConfigError as error:
        problems[str(error)] = error
    return list(problems.values())


def reranker_spec(settings: DocumentSettings) -> PluginSpec | None:
    """The configured reranker of documents; None if it is off."""
    if settings.reranker == "off":
        return None
    return PluginSpec(
        name=settings.reranker,
        setting="documents.reranker",
        options=settings.reranker_options,
        options_at="documents.reranker_options",
    )


def sandbox_spec(settings: ProgramSettings) -> PluginSpec:
    """The configured sandbox of programs."""
    return PluginSpec(
        name=settings.sandbox,
        setting="programs.sandbox",
        options=settings.options.get(settings.sandbox, {}),
        options_at=f"programs.options.{settings.sandbox}",
    )
