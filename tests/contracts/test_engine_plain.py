"""The engine `plain` keeps the contract of engines."""

from tests.contracts.chat_engines import EngineContract


class TestPlain(EngineContract):
    engine = "plain"
