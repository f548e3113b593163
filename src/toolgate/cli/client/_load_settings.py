"""The settings of a command, as selected by its global options."""

from __future__ import annotations

from typing import TYPE_CHECKING

from toolgate import settings
from toolgate.cli.terminal._context import shared_options
from toolgate.errors import UnknownServerError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from toolgate.settings import Settings
    from toolgate.types import Json


def load_settings() -> Settings:
    """Load the settings that the global options select.

    Raises:
        SettingError: The settings cannot be read.
    """
    options = shared_options()
    overrides: Json = {"packs": {"dev": True}} if options.dev else {}
    if options.auth:
        overrides["auth"] = options.auth
    if options.log_file:
        overrides["log"] = {"file": options.log_file}
    return settings.load(options.config, options.imports, overrides=overrides)


def store_url(loaded: Settings) -> str:
    """Return the URL of the configured store, or of the default one."""
    return loaded.store.url or settings.default_store_url()


def unknown_server(name: str, configured: Iterable[str]) -> UnknownServerError:
    """Create the error for a server name that is not configured."""
    return UnknownServerError(
        f"There is no server {name!r}.",
        allowed=f"Servers: {', '.join(sorted(configured)) or 'none'}.",
        hint="See: toolgate servers list",
    )
