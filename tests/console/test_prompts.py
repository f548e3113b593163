"""The pages of prompts: what models receive, its versions, and a trial."""

import re
from typing import Any

from tests.console.console_client import open_console, visible_text
from toolgate.types import Caller


def state_of(page: str) -> str:
    """The version that a page was loaded with."""
    state = re.search(r'name="state" value="(\d+)"', page)
    assert state is not None
    return state[1]


async def test_a_prompt_is_tried_compared_saved_and_restored() -> None:
    async with open_console({}) as place:
        assert 'href="/console/prompt?name=vs-rephrase"' in await place.page("prompts")
        page = await place.page("prompt", name="vs-rephrase")
        fields: dict[str, Any] = {
            "name": "vs-rephrase",
            "text": "Ask <b>again</b>: {question}\r\n{history}",
        }
        values: dict[str, Any] = {"value:question": "Why?", "value:history": "H"}
        tried = await place.send("prompt", 200, **fields, do="try", **values)
        assert "<b>again" not in tried.text
        assert "What a model receives Ask <b>again</b>: Why? H" in visible_text(tried.text)
        compared = await place.send("prompt", 200, **fields, do="compare")
        assert "is: + Ask <b>again</b>: {question}" in visible_text(compared.text)
        assert "Never replaced." in visible_text(compared.text)
        await place.send("prompt", **fields, state=state_of(page), do="save")
        service, caller = place.app.gateway.prompts, Caller.local()
        assert (await service.prompt(caller, "vs-rephrase"))["text"] == (
            "Ask <b>again</b>: {question}\n{history}"
        )
        assert "vs-rephrase" in await place.page("prompts", state="replaced")
        assert "vs-grade" not in visible_text(
            (await place.page("prompts", state="replaced")).partition('id="prompts"')[2]
        )
        await place.send("prompt", name="vs-rephrase", do="restore")
        assert (await service.prompt(caller, "vs-rephrase"))["is_default"]


async def test_versions_of_a_prompt_are_compared_with_each_other() -> None:
    async with open_console({}) as place:
        service, caller = place.app.gateway.prompts, Caller.local()
        for word in ("one", "two", "three"):
            text = f"Version {word}: {{question}}\nsame\n{{history}}"
            await service.replace(caller, "vs-rephrase", text)
        told = visible_text(await place.page("prompt", name="vs-rephrase", version="3"))
        assert "From version 2 to version 3" in told
        assert "was: - Version two: {question} is: + Version three: {question}" in told
        first = visible_text(await place.page("prompt?name=vs-rephrase&version=3&with=1"))
        assert "From version 1 to version 3" in first
        assert "was: - Version one: {question}" in first
        assert "From the default text to version 1" in visible_text(
            await place.page("prompt", name="vs-rephrase", version="1")
        )
        for odd in ("9", "-1", "x"):
            page = await place.page("prompt", name="vs-rephrase", version=odd)
            assert 'id="compared"' not in page


async def test_a_text_is_kept_if_it_is_invalid_or_somebody_else_saved_first() -> None:
    async with open_console({}) as place:
        page = await place.page("prompt", name="vs-rephrase")
        wrong = await place.send(
            "prompt", 400, name="vs-rephrase", text="no field", state=state_of(page), do="save"
        )
        assert "lacks the field" in visible_text(wrong.text)
        assert "no field</textarea>" in wrong.text
        mine = "Mine: {question} {history}"
        await place.app.gateway.prompts.replace(
            Caller.local(), "vs-rephrase", "Theirs: {question} {history}"
        )
        late = await place.send(
            "prompt", 400, name="vs-rephrase", text=mine, state=state_of(page), do="save"
        )
        assert "was changed in the meantime" in visible_text(late.text)
        assert f"{mine}</textarea>" in late.text
        await place.send(
            "prompt", name="vs-rephrase", text=mine, state=state_of(late.text), do="save"
        )
        assert "no prompt" in visible_text(await place.page("prompt", 404, name="none"))
