"""One contract suite per seam; subclass it in a test and give it the fixture it asks for."""

import pytest

# Before the suites are imported, so that their assertions explain themselves like a test file's.
for _suite in ("packs", "store", "upstream", "vectors"):
    pytest.register_assert_rewrite(f"{__name__}.{_suite}")
