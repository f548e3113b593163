"""Commands are run as the tests of the command line run them."""

from tests.cli.conftest import command, folder, serve, toolgate

__all__ = ["command", "folder", "serve", "toolgate"]
