"""Stages can be watched; nobody watching costs nothing."""

import pytest

from toolgate.base.tracing import Observation, observe, watch_stages
from toolgate.settings import Settings
from toolgate.testing import FakeUpstream, memory_app
from toolgate.types import Caller


def test_a_watched_stage_tells_its_name_fields_parent_and_outcome() -> None:
    seen: list[Observation] = []
    stop = watch_stages(seen.append)
    with pytest.raises(KeyError), observe("outer", a=1), observe("inner"):
        raise KeyError
    stop()
    with observe("unwatched"):
        pass

    inner, outer = seen
    assert (outer.stage, outer.fields, outer.failed) == ("outer", {"a": 1}, True)
    assert (inner.stage, inner.parent) == ("inner", outer)
    assert 0 <= inner.took_s <= outer.took_s


async def test_the_stages_of_a_discovery_and_a_call_can_be_watched() -> None:
    seen: list[str] = []
    # The audit is written beside the rest.
    stop = watch_stages(lambda one: None if one.stage == "audit" else seen.append(one.stage))
    settings = Settings(mode="meta", optimization="bm25")
    async with memory_app({"a": FakeUpstream()}, settings) as app:
        for arguments in (
            {"name": "tool_discovery", "arguments": {"query": "echo"}},
            {"name": "tool_execute", "arguments": {"toolKey": "a:echo", "arguments": {}}},
        ):
            await app.gateway.call(Caller.local(), arguments, None)
    stop()
    assert seen == ["decision", "search", "answer", "arguments", "server"]
