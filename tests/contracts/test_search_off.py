"""The search `off` finds nothing and says why; the other duties of a search need hits."""

import numpy as np

from toolgate.base.plugins import make
from toolgate.search import SearchRequest, SearchStrategy
from toolgate.testing.contracts.search import sample_tools
from toolgate.types import PluginSpec


async def test_nothing_is_found_and_the_reason_is_given() -> None:
    """Source document 004: with no optimization `tool_discovery` returns empty results."""
    off = make("search", SearchStrategy, PluginSpec(name="off", setting="optimization"), {})
    await off.update(sample_tools())

    answer = await off.search(
        SearchRequest(queries=("github:create_issue", ""), mask=np.zeros(0, np.bool_))
    )

    assert (answer.hits, answer.searched, off.keys) == ((), 0, ())
    assert answer.notices == (
        "The search for tools is switched off here. The tools are in the list of tools"
        " (tools/list): call them by their names.",
    )
