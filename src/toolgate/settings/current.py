"""The settings in force: one holder that everything reads."""

from toolgate.settings.tables import Settings

__all__ = ["CurrentSettings"]


class CurrentSettings:
    """Holds the settings of a running gateway; call it to get them.

    Whatever needs settings later than at its start keeps the holder, never the settings.
    """

    def __init__(self, settings: Settings) -> None:
        self._settings = settings

    def __call__(self) -> Settings:
        """The settings in force."""
        return self._settings

    def replace(self, settings: Settings) -> None:
        """Put others in their place."""
        self._settings = settings
