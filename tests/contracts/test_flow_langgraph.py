"""The engine `langgraph` keeps the contract of engines."""

from tests.contracts.flow_engines import EngineContract


class TestLangGraph(EngineContract):
    engine = "langgraph"
