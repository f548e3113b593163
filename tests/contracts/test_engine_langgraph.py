"""The engine `langgraph` keeps the contract of engines."""

from tests.contracts.chat_engines import EngineContract


class TestLangGraph(EngineContract):
    engine = "langgraph"
