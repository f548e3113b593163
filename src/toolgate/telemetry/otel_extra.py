"""Loads the modules that need the extra `otel`, if the settings ask for them."""

from importlib import import_module
from typing import Any

from toolgate.base.installation import install_hint
from toolgate.errors import MissingExtraError


def load_otel_module(name: str, setting: str) -> Any:
    """Import a module of this package that needs the extra `otel`.

    Args:
        name: Such as `otlp_metrics`.
        setting: The setting that needs it, for the message.

    Raises:
        MissingExtraError: A library is not installed.
    """
    try:
        return import_module(f"toolgate.telemetry.{name}")
    except ModuleNotFoundError as error:
        missing = (error.name or "").partition(".")[0]
        if missing in {"", "toolgate"}:
            raise
        raise MissingExtraError(
            f"{setting} needs the library {missing!r}, which is not installed.",
            hint=install_hint("otel"),
        ) from error
