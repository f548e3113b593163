"""The current settings, in one holder that everything reads."""

from toolgate.settings.tables.root import Settings


class CurrentSettings:
    """Holds the current settings of a running gateway.

    Code that needs settings after its start stores the holder, never the settings.
    """

    def __init__(self, settings: Settings) -> None:
        self.current = settings
        """The current settings; only `replace` changes them."""

    def replace(self, settings: Settings) -> None:
        """Replace the current settings."""
        self.current = settings
