"""Contract suites: subclass one in a test and provide its fixtures."""

import pytest

# Before the suites are imported, so that pytest rewrites their assertions.
for _suite in ("packs", "store", "upstream", "vectors"):
    pytest.register_assert_rewrite(f"{__name__}.{_suite}")
