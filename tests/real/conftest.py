"""Real servers, clients and judges: installed once, started by the tests that use them."""

import pytest

from tests.real.setup import Installed, ensure


@pytest.fixture(scope="session")
def installed() -> Installed:
    """Everything from npm and PyPI; `make test` has installed it before."""
    return ensure(print)
