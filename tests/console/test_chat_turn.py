"""Turns that are begun, followed and decided about in the console."""

import base64
import re
from dataclasses import dataclass
from typing import Any
from urllib.parse import parse_qs, quote, urlsplit

import anyio

from tests.chat.chat_gateway import (
    LOOK_UP,
    WITH_DOCUMENTS,
    ChatGateway,
    add_guide,
    chatting,
    events_in,
    grading,
)
from tests.chat.test_approvals import GUARDED, cities, order, weather
from tests.console.console_client import visible_text

BROWSER = {"Sec-Fetch-Site": "same-origin"}


@dataclass
class Browser:
    """A browser without scripts."""

    place: ChatGateway

    async def page(self, path: str, status: int = 200) -> str:
        """The HTML of a page."""
        async with self.place.session.get(
            f"{self.place.url}/console/{path}", headers=BROWSER
        ) as answer:
            assert answer.status == status, await answer.text()
            return await answer.text()

    async def send(self, path: str, status: int = 303, **fields: Any) -> str:
        """Where a form leads to, or what the page says that comes instead."""
        csrf = ""
        async with self.place.session.get(
            f"{self.place.url}/console/tokens", headers=BROWSER
        ) as answer:
            found = re.search(r'name="csrf" value="([0-9a-f]+)"', await answer.text())
            assert found is not None
            csrf = found[1]
            cookies = {name: one.value for name, one in answer.cookies.items()}
        async with self.place.session.post(
            f"{self.place.url}/console/{path}",
            data={"csrf": csrf, **fields},
            cookies=cookies,
            headers=BROWSER,
            allow_redirects=False,
        ) as answer:
            text = await answer.text()
            assert answer.status == status, visible_text(text)
            return answer.headers.get("location", "") or visible_text(text)

    async def say(self, text: str, **fields: Any) -> tuple[str, list[tuple[str, Any]]]:
        """The thread of a message, and what happened in its turn."""
        return await self.follow(await self.send("chat/send", text=text, **fields))

    async def follow(self, location: str) -> tuple[str, list[tuple[str, Any]]]:
        """The thread of a turn, and what happens in it until its end."""
        query = parse_qs(urlsplit(location).query)
        events = await self.page(f"chat/events?run={query['run'][0]}")
        return query["name"][0], events_in(events)


async def test_a_message_is_answered_and_followed_with_its_documents() -> None:
    async with chatting(
        LOOK_UP, grading("yes"), {"text": "By hand [1]."}, settings=WITH_DOCUMENTS
    ) as place:
        await add_guide(place)
        browser = Browser(place)
        assert 'name="collections"' in await browser.page("chat")
        name, events = await browser.say("What does the guide say?", collections="GUIDES")
        kinds = [kind for kind, _ in events]
        assert "".join(value for kind, value in events if kind == "stream") == "By hand [1]."
        assert kinds.index("vs_metadata") < kinds.index("stream") < kinds.index("sources")
        assert kinds[-1] == "end"
        _, settings = await place.get(f"/api/v1/threads/{name}/settings")
        assert settings["set"]["collections"] == ["GUIDES"]

        thread = await browser.page(f"thread?name={name}")
        assert "By hand [1]." in visible_text(thread)
        found = re.search(r'href="[^"]*/(documents/document\?[^"#]*)#(p\d+)"', thread)
        assert found is not None
        passage = await browser.page(found[1].replace("&amp;", "&"))
        assert f'id="{found[2]}"' in passage
        assert "cited" in visible_text(passage)


async def test_only_the_chosen_collections_are_searched() -> None:
    async with chatting(LOOK_UP, {"text": "Nothing."}, settings=WITH_DOCUMENTS) as place:
        await add_guide(place)
        _, events = await Browser(place).say("What does the guide say?", collections="OTHER")
        searched = next(value for kind, value in events if kind == "vs_metadata")
        assert searched["num_documents"] == 0


async def test_threads_are_found_by_name_and_models_are_chosen() -> None:
    async with chatting(fallback={"text": "Yes."}) as place:
        browser = Browser(place)
        await browser.say("One", name="holiday plans")
        await browser.say("Two", name="budget")
        thread, _ = await browser.say("How far is\nthe Moon? " + "Tell me. " * 20)
        assert re.fullmatch(r"How far is the Moon Tell.{20,40}… \(\w{6}\)", thread)
        assert thread in visible_text(await browser.page("chat?q=moon"))
        told = visible_text(await browser.page("chat?q=HOLI"))
        assert "holiday plans" in told
        assert "budget" not in told
        assert "No thread name contains" in visible_text(await browser.page("chat?q=xyz"))
        assert "The message is empty." in await browser.send("chat/send", 400, text=" ")
        assert "There is no model" in await browser.send("chat/send", 400, text="x", model="none")
        assert "There is no such turn" in visible_text(await browser.page("chat/events?run=x", 400))


async def test_a_call_is_approved_within_the_thread_and_the_turn_goes_on() -> None:
    server = weather()
    async with chatting(
        order("Bonn"), {"text": "It is ordered."}, servers={"weather": server}, settings=GUARDED
    ) as place:
        browser = Browser(place)
        name, events = await browser.say("Order the weather of Bonn")
        assert "approval" in [kind for kind, _ in events]
        thread = await browser.page(f"thread?name={name}")
        assert "is waiting for approval" in visible_text(thread)
        found = re.search(r'name="id" value="([^"]+)"', thread)
        assert found is not None
        refused = await browser.send("chat/decide", 400, name=name, id="other", do="approve")
        assert "no longer awaits approval" in refused
        location = await browser.send("chat/decide", name=name, id=found[1], do="approve")
        _, events = await browser.follow(location)
        assert any(kind == "mcp_tool" and value["status"] == "completed" for kind, value in events)
        assert cities(server) == ["Bonn"]
        told = visible_text(await browser.page(f"thread?name={name}"))
        assert "It is ordered." in told
        assert "is waiting for approval" not in told


async def test_documents_are_added_searched_and_removed_in_the_console() -> None:
    async with chatting(fallback={"text": "Yes."}, settings=WITH_DOCUMENTS) as place:
        browser = Browser(place)
        assert "No collections yet" in visible_text(await browser.page("documents"))
        await browser.send("documents", name="help", description="How we work")
        page = "documents/collection"
        await browser.send(
            page, name="help", do="upload", source="vpn.md", text="# VPN\n\nTokens come from IT."
        )
        content = base64.b64encode(b"<h1>Leave</h1><p>30 days a year.</p>").decode()
        await browser.send(
            page, name="help", do="upload", source="C:\\x\\leave.html", content=content
        )
        for fields, reason in (
            ({"source": "x.md"}, "The document is empty."),
            ({"source": "x.md", "content": "%"}, "The upload was incomplete."),
            ({"source": "x.bin", "text": "x"}, "x.bin"),
            ({"text": "x"}, "The document has no name."),
        ):
            assert reason in await browser.send(page, 400, name="help", do="upload", **fields)
        told = visible_text(await browser.page(f"{page}?name=help"))
        assert "Failed imports" in told
        assert "x.bin x.bin is not a supported kind of document." in told
        await browser.send(page, name="help", do="dismiss", source="x.bin", origin="console:x.bin")
        told = visible_text(await browser.page(f"{page}?name=help"))
        assert "Failed imports" not in told
        assert "vpn.md" in told
        assert "leave.html" in told
        found = visible_text(await browser.page("documents?q=how+many+days+of+leave"))
        assert "30 days a year." in found
        assert "given to a model" in found
        await browser.send(page, name="help", do="reindex")
        listing = await browser.page(f"{page}?name=help")
        ids = re.findall(r'name="id" value="([^"]+)"', listing)
        await browser.send(page, name="help", do="remove", id=ids[0])
        await browser.send(page, name="help", do="delete")
        assert "No collection" in visible_text(await browser.page(f"{page}?name=help", 400))
        assert "No collections yet" in visible_text(await browser.page("documents"))


async def test_an_answer_that_was_cut_off_says_so() -> None:
    """A stopped answer looked like a complete one."""
    slow = {"text": "word " * 400, "chunk": 5, "chunk_delay_s": 0.02}
    async with chatting(slow) as place:
        browser = Browser(place)
        query = parse_qs(urlsplit(await browser.send("chat/send", text="Go on")).query)
        assert place.app.chat is not None
        (run,) = place.app.chat.runs.running
        async for _, event in run.events():
            if "stream" in event:
                break
        await browser.send("chat/cancel", run=query["run"][0])
        page = visible_text(await browser.page(f"thread?name={quote(query['name'][0])}"))
        assert "The turn was cancelled here." in page


async def test_a_thread_that_is_opened_from_the_list_shows_its_running_turn() -> None:
    async with chatting({"text": "word " * 400, "chunk_delay_s": 0.05}) as place:
        browser = Browser(place)
        location = await browser.send("chat/send", text="Tell me more", name="story")
        running = parse_qs(urlsplit(location).query)["run"][0]
        while not (await place.history("story"))["running"]:
            await anyio.sleep(0)
        opened = await browser.page("thread?name=story")
        await browser.send("chat/cancel", run=running)
        stopped = await browser.page("thread?name=story")

    assert f"chat/events?run={running}" in opened
    assert "chat/events" not in stopped
