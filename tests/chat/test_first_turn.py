"""The first turn after a start: as fast as later ones, since what it needs is loaded before."""

import subprocess
import sys
import threading
from typing import Any

import pytest

from tests.chat.chat_gateway import chatting, contents
from tests.limits import HANG_S
from toolgate.intents import Intent, IntentSet, Keywords
from toolgate.intents.rules import PackRules
from toolgate.intents.semantic import stage
from toolgate.settings import PackSettings, Settings

FIRST_TURN = """
import asyncio, sys
import aiohttp, anyio
from toolgate.intents.patterns import are_compiled
from toolgate.server.http import serve
from toolgate.settings import ModelTable, Settings
from toolgate.testing import memory_app

HEAVY = ("langgraph.graph", "openai")


async def main():
    model = ModelTable(url="http://127.0.0.1:9/v1", key="k", model="m", retries=0)
    async with memory_app({}, settings=Settings(models={"main": model})) as app:
        ready = asyncio.get_running_loop().create_future()
        task = asyncio.create_task(serve(app, port=0, on_ready=ready.set_result))
        url = await ready
        print("READY", *[name for name in HEAVY if name in sys.modules])
        with anyio.fail_after(60):
            while not (all(name in sys.modules for name in HEAVY) and are_compiled()):
                await anyio.sleep(0.01)
        await app.warm_up_chat()
        before = set(sys.modules)
        body = {"model": "main", "messages": [{"role": "user", "content": "Hello"}]}
        async with aiohttp.ClientSession() as session:
            async with session.post(url + "/v1/chat/completions", json=body) as answer:
                print("STATUS", answer.status)
        new = {name.partition(".")[0] for name in set(sys.modules) - before}
        print("NEW", *sorted(new & {"toolgate", "langgraph", "openai"}))
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


anyio.run(main)
"""


def test_a_gateway_is_ready_before_the_libraries_of_turns_and_the_first_turn_finds_them() -> None:
    done = subprocess.run(
        [sys.executable, "-c", FIRST_TURN],
        check=False,
        capture_output=True,
        text=True,
        timeout=HANG_S,
    )

    # No model listens there: the turn came as far as asking it.
    assert done.stdout.split("\n")[:3] == ["READY", "STATUS 502", "NEW"], done.stderr


async def test_a_turn_does_not_wait_for_the_long_first_training_of_a_pack(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    is_over = threading.Event()

    def endless_fit(*_: Any, **__: Any) -> None:
        is_over.wait(HANG_S)
        raise ValueError("not learned")

    monkeypatch.setattr(stage, "fit", endless_fit)
    intent = Intent(
        name="RELATIONS",
        keywords={"en": Keywords(exact=("open the relation",))},
        prompts={"en": ("open the relation", "show me the relation")},
        pack="ide",
    )
    rules = PackRules(pack="ide", rules={"relations": "Rules of relations."})
    settings = Settings(packs=PackSettings(disable=("schema",)))
    replies = [{"text": "One."}, {"text": "Two."}]
    async with chatting(*replies, settings=settings) as place:
        place.app.recognizer.replace_intents(IntentSet(version="test", intents=(intent,)))
        place.app.rulebook.replace_rules((rules,))
        await place.text("Please open the relation orders")
        with_rules = contents(place.model.last, "user")
        await place.text("Which ones are there?")
        is_training = place.app.recognizer.is_training
        is_over.set()

    assert is_training
    assert "Rules of relations." in str(with_rules)  # keywords count in the meantime
