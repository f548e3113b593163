"""Doubles and contract suites for people who extend Toolgate."""

from toolgate.testing.fake_upstream import FakeUpstream, text_result
from toolgate.testing.memory import FakePeer, memory_app

__all__ = ["FakePeer", "FakeUpstream", "memory_app", "text_result"]
