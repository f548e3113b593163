"""The current settings, in one holder that everything reads."""

from toolgate.settings.tables.root import Settings

__all__ = ["CurrentSettings"]


class CurrentSettings:
    """Holds the current settings of a running gateway; call it to get them.

    Code that needs settings after its start stores the holder, never the settings.
    """

    def __init__(self, settings: Settings) -> None:
        self._settings = settings

    def __call__(self) -> Settings:
        """Return the current settings."""
        return self._settings

    def replace(self, settings: Settings) -> None:
        """Replace the current settings."""
        self._settings = settings
