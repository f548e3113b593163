"""What every engine of turns must do, through whole turns."""

import anyio

from tests.chat.chat_gateway import chatting, check_pairs, contents
from toolgate.base.plugins import make
from toolgate.chat import Engine
from toolgate.testing import FakeUpstream, text_result
from toolgate.types import PluginSpec

CALL = {"tool_calls": [{"name": "clock__now", "arguments": {}}]}


def clock() -> dict[str, object]:
    return {"clock": FakeUpstream(tools={"now": lambda _: text_result("noon")})}


class EngineContract:
    """The duties in `toolgate.chat.Engine`."""

    engine = ""
    """File name in `flow/`."""

    def test_it_is_an_engine(self) -> None:
        """`plugins.make` refuses what is none."""
        spec = PluginSpec(name=self.engine, setting="chat.engine")
        assert isinstance(make("engine", Engine, spec, {}), Engine)

    async def test_it_goes_on_until_nothing_is_open(self) -> None:
        async with chatting(
            CALL, CALL, {"text": "Noon."}, servers=clock(), chat={"engine": self.engine}
        ) as place:
            assert await place.text("What time is it on the clock now?", thread="t") == "Noon."
            assert contents(place.model.last, "tool") == ["noon", "noon"]
            check_pairs(place.model.last)

    async def test_turns_that_run_at_the_same_time_do_not_see_each_other(self) -> None:
        said: list[str] = []

        async def turn(text: str) -> None:
            said.append(await place.text(text))

        async with (
            chatting(
                fallback={"text": "{{user}}", "delay_s": 0.05}, chat={"engine": self.engine}
            ) as place,
            anyio.create_task_group() as tasks,
        ):
            for number in range(5):
                tasks.start_soon(turn, f"Number {number}")

        assert sorted(said) == [f"Number {number}" for number in range(5)]

    async def test_what_a_step_raises_reaches_the_client(self) -> None:
        async with chatting({"status": 500}, chat={"engine": self.engine}) as place:
            messages = [{"role": "user", "content": "Hello"}]
            body = {"model": "main", "messages": messages}
            status, _ = await place.post("/v1/chat/completions", body)

            assert status == 502
