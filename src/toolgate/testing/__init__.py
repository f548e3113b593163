"""Test doubles and contract suites for people who extend Toolgate."""

from toolgate.testing.fake_service import FakeReply, FakeService, chat_reply, fake_service
from toolgate.testing.fake_upstream import FakeUpstream, text_result
from toolgate.testing.memory import FakePeer, memory_app

__all__ = [
    "FakePeer",
    "FakeReply",
    "FakeService",
    "FakeUpstream",
    "chat_reply",
    "fake_service",
    "memory_app",
    "text_result",
]
