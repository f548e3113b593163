"""Commands are run as the tests of the command line run them."""

from tests.cli.conftest import command, toolgate

__all__ = ["command", "toolgate"]
