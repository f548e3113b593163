"""Threads of the chat as people read them."""

import re
from html.parser import HTMLParser

from tests.chat.chat_gateway import LOOK_UP, WITH_DOCUMENTS, add_guide, chatting, grading
from tests.chat.test_openai_api import weather
from tests.console.console_client import visible_text
from toolgate.console.pages.models.chat import as_shown


async def test_a_thread_shows_what_was_asked_called_and_answered() -> None:
    calling = {"tool_calls": [{"name": "weather__forecast", "arguments": {"city": "<b>Rome</b>"}}]}
    async with chatting(calling, {"text": "Sun, I was told."}, servers=weather()) as place:
        await place.say("The forecast?", thread="t/1")
        async with place.session.get(f"{place.url}/console/chat") as answer:
            assert "t/1" in visible_text(await answer.text())
        address = f"{place.url}/console/thread?name=t/1"
        async with place.session.get(address) as answer:
            assert answer.status == 200
            text = await answer.text()
        assert "<b>Rome" not in text
        told = visible_text(text)
        for word in ("User", "The forecast?", "Calls", "Assistant", "Sun, I was told."):
            assert word in told, told
        async with place.session.get(f"{place.url}/console/thread?name=none") as answer:
            assert answer.status == 400


async def test_the_settings_of_a_thread_are_changed_on_its_page() -> None:
    async with chatting(fallback={"text": "Yes."}) as place:
        await place.say("One", thread="t")
        address = f"{place.url}/console/thread?name=t"

        async def sent(**fields: str) -> tuple[int, str]:
            async with place.session.get(address) as answer:
                found = re.search(r'name="csrf" value="([0-9a-f]+)"', await answer.text())
                cookies = {name: one.value for name, one in answer.cookies.items()}
            assert found is not None
            typed = {"csrf": found[1], "name": "t", **fields}
            async with place.session.post(
                address, data=typed, cookies=cookies, allow_redirects=False
            ) as answer:
                return answer.status, visible_text(await answer.text())

        status, told = await sent(history="no", top_k="3", tools_enabled="none", model="main")
        assert status == 303, told
        _, settings = await place.get("/api/v1/threads/t/settings")
        assert settings["set"] == {
            "history": False, "top_k": 3, "tools_enabled": [], "model": "main",
        }  # fmt: skip
        status, told = await sent(top_k="0")
        assert status == 400
        assert "1 to 100" in told
        await sent()
        _, settings = await place.get("/api/v1/threads/t/settings")
        assert settings["set"] == {}


async def test_documents_of_an_answer_are_laid_out() -> None:
    async with chatting(
        LOOK_UP, grading("yes"), {"text": "By hand [1], or not [9]."}, settings=WITH_DOCUMENTS
    ) as place:
        await add_guide(place)
        await place.say("What does the guide say?", thread="t")
        async with place.session.get(f"{place.url}/console/thread?name=t") as answer:
            text = await answer.text()
        told = visible_text(text)
        assert '<ol class="documents">' in text
        assert "from GUIDES" in told
        assert "guide.md" in told
        assert "page_content" not in told
        assert "Sources" in told
        assert "The answer cites [9], but there is no such source." in told


HOSTILE = """# Result

**Sun**, I was told:

| city | degrees |
|------|--------:|
| Rome | [30](https://weather.example/rome) |

<script>alert(1)</script> <img src="https://spy.example/a.png"> <b onclick="alert(1)">b</b>
![chart](https://spy.example/chart.png?secret=1) [run](javascript:alert(1))
[data](data:text/html,x) [delete](/console/chat/cancel) [other](//spy.example/x)
[https://bank.example](https://bank.example@spy.example/ 'x" onmouseover="alert(1)') a\u202eb
[reference]

[reference]: vbscript:alert(1)

```html" onclick="alert(1)
<img src=x onerror=alert(1)>
```
"""


class _Elements(HTMLParser):
    """The elements of a page, with their attributes."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None]]] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs)))


async def test_the_markdown_of_an_answer_is_rendered_but_can_do_nothing() -> None:
    async with chatting({"text": HOSTILE}) as place:
        await place.say("**The** forecast?", thread="t")
        async with place.session.get(f"{place.url}/console/thread?name=t") as answer:
            page = await answer.text()
            policy = answer.headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "img-src 'self' data:" in policy
    assert "**The** forecast?" in page  # only what a model says is rendered
    shown = page.partition('<div class="markdown">')[2].partition("As JSON")[0]
    assert "<strong>Sun</strong>" in shown
    assert "<h3>Result</h3>" in shown
    elements = _Elements(shown).found
    assert not {"script", "img", "b", "iframe", "style"} & {tag for tag, _ in elements}
    assert not [name for _, attrs in elements for name in attrs if name[:2] == "on"]
    assert not [attrs for _, attrs in elements if "style" in attrs]
    links = [attrs for tag, attrs in elements if tag == "a" and "nofollow" in str(attrs.get("rel"))]
    assert [attrs["href"] for attrs in links] == [
        "https://weather.example/rome",
        "https://spy.example/chart.png?secret=1",
        "https://bank.example@spy.example/",
    ]
    assert all("noreferrer" in str(attrs["rel"]) for attrs in links)
    told = visible_text(shown)
    for words in ("<script>alert(1)</script>", "https://bank.example (spy.example)", "U+202E"):
        assert words in told, told


def test_the_statement_that_was_run_stands_apart_from_its_rows() -> None:
    content = "1 row of db.\n1\nExecuted: SELECT 1"
    result = {"role": "tool", "name": "sql__query", "content": content}
    shown = as_shown(result)
    assert shown["text"] == "1 row of db.\n1"
    assert shown["executed"] == "SELECT 1"
    assert as_shown({**result, "role": "user"})["executed"] == ""
    for content in ('{"documents": 7}', '{"documents": [{}]}', "{", '{"a": 1}'):
        assert as_shown({**result, "content": content})["documents"] is None
