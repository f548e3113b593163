"""Clients that people use talk to `/v1` as they are: openai (Python, JS), AI SDK, curl; aimock."""

import json
import shutil
import socket
import subprocess
from pathlib import Path

import anyio
import anyio.to_thread
import pytest

from tests.chat.chat_gateway import chatting, streamed_text
from tests.limits import HANG_S
from tests.real.setup import Installed
from toolgate.testing import FakeUpstream, text_result

pytestmark = [
    pytest.mark.real,
    pytest.mark.xdist_group("clients"),
]

ASKED = {
    "when": {"user": "clock", "has_tool_results": False},
    "reply": {"tool_calls": [{"name": "clock__now", "arguments": {}}]},
}
DONE = {"text": "It is noon."}
QUESTION = "What time is it on the clock now?"


def clock() -> dict[str, object]:
    return {"clock": FakeUpstream(tools={"now": lambda _: text_result("noon")})}


async def test_the_openai_library_for_python() -> None:
    # Here, since it takes a second of every process that collects tests.
    from openai import AsyncOpenAI, NotFoundError

    async with chatting(ASKED, fallback=DONE, servers=clock()) as place:
        client = AsyncOpenAI(base_url=f"{place.url}/v1", api_key="none", max_retries=0)
        messages = [{"role": "user", "content": QUESTION}]
        whole = await client.chat.completions.create(model="main", messages=messages)  # type: ignore[call-overload]
        async with client.chat.completions.stream(
            model="main",
            messages=messages,  # type: ignore[arg-type]
            stream_options={"include_usage": True},
        ) as stream:
            text = "".join([e.delta async for e in stream if e.type == "content.delta"])
            final = await stream.get_final_completion()
        response = await client.responses.create(model="main", input=QUESTION)
        async with client.responses.stream(model="main", input=QUESTION) as events:
            streamed = (await events.get_final_response()).output_text
        models = [model.id async for model in client.models.list()]
        with pytest.raises(NotFoundError):
            await client.chat.completions.create(model="no-such", messages=messages)  # type: ignore[call-overload]
        await client.close()

        assert whole.choices[0].message.content == text == "It is noon."
        assert final.usage is not None
        assert final.usage.total_tokens > 0
        assert response.output_text == streamed == "It is noon."
        assert models == ["main"]


async def test_the_openai_library_and_the_ai_sdk_for_javascript(installed: Installed) -> None:
    async with chatting(ASKED, fallback=DONE, servers=clock()) as place:
        script = installed.modules.parent / "chat.mjs"
        source = anyio.Path(__file__).parent / "clients" / "chat.mjs"
        script.write_text(await source.read_text(encoding="utf-8"), encoding="utf-8")
        done = await anyio.run_process(
            [installed.node.node, str(script), f"{place.url}/v1"], check=False
        )

        assert done.returncode == 0, done.stderr.decode()
        seen = json.loads(done.stdout)
        assert seen["whole"] == seen["text"] == seen["vercel"] == seen["response"] == "It is noon."
        assert seen["finish"] == "stop"
        assert seen["total"] > 0
        assert seen["refused"] == {"status": 404, "code": "model_not_found"}


async def test_curl() -> None:
    curl = shutil.which("curl")
    assert curl is not None, "No curl. On Debian and Ubuntu: apt-get install curl"
    async with chatting(ASKED, fallback=DONE, servers=clock()) as place:
        body = {
            "model": "main",
            "stream": True,
            "messages": [{"role": "user", "content": QUESTION}],
        }
        command = [curl, "-sN", f"{place.url}/v1/chat/completions", "-d", json.dumps(body)]
        command += ["-H", "Content-Type: application/json"]
        done = await anyio.to_thread.run_sync(
            lambda: subprocess.run(command, capture_output=True, text=True, check=True)
        )

        assert done.stdout.startswith('data: {"id":"chatcmpl-')
        assert done.stdout.endswith("data: [DONE]\n\n")


async def test_a_model_of_another_hand_calls_a_tool(installed: Installed, tmp_path: Path) -> None:
    """`@copilotkit/aimock`, scripted by its own rules, stands for the model."""
    call = {"name": "clock__now", "arguments": "{}"}
    fixtures = {
        "fixtures": [
            {
                "match": {"userMessage": "clock", "hasToolResult": False},
                "response": {"toolCalls": [call]},
            },
            {"match": {"hasToolResult": True}, "response": {"content": "It is noon."}},
        ]
    }
    file = tmp_path / "fixtures.json"
    file.write_text(json.dumps(fixtures), encoding="utf-8")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    program = installed.modules / ".bin" / "llmock"
    command = [installed.node.node, str(program), "-p", str(port), "-f", str(file)]
    process = await anyio.open_process(command)
    try:
        with anyio.fail_after(HANG_S):
            while not await _answers(port):
                await anyio.sleep(0.05)
        url = f"http://127.0.0.1:{port}/v1"
        async with chatting(servers=clock(), model={"url": url, "model": "gpt-4o"}) as place:
            assert await place.text(QUESTION) == "It is noon."
            events = await place.stream(QUESTION)
            assert streamed_text(events) == "It is noon."
    finally:
        process.kill()
        await process.aclose()


async def _answers(port: int) -> bool:
    try:
        await (await anyio.connect_tcp("127.0.0.1", port)).aclose()
    except OSError:
        return False
    return True
