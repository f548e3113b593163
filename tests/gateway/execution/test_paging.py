"""Large results come in pages, and no character of them is lost."""

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from toolgate.base.token_estimate import estimate_tokens
from toolgate.errors import ArgumentError
from toolgate.gateway.execution import page_result, read_page
from toolgate.types import Json

IMAGE = {"type": "image", "data": "AAAA" * 50_000, "mimeType": "image/png"}


def text_block(text: str, **further: Any) -> Json:
    return {"type": "text", "text": text, **further}


class Kept:
    """Where `page_result` keeps the text; counts how often."""

    def __init__(self) -> None:
        self.bodies: list[bytes] = []

    async def save(self, body: bytes) -> str:
        self.bodies.append(body)
        return "handle-1"


def all_pages(first: Json, body: bytes, page_tokens: int) -> list[str]:
    """The texts of all pages, from the first answer on."""
    page, pages = first, [next(b["text"] for b in first["content"] if b["type"] == "text")]
    while (offset := page["_meta"]["toolgate/page"].get("nextOffset")) is not None:
        page = read_page(body, offset, handle="handle-1", page_tokens=page_tokens)
        pages.append(page["content"][0]["text"])
    return pages


async def test_a_small_result_is_the_very_same_object() -> None:
    kept = Kept()
    for result in (
        {"content": [text_block("hello")], "structuredContent": {"a": 1}, "x-own": [1]},
        {"content": [IMAGE]},
        {"content": []},
        {},
        {"content": "wrong"},
        {"content": [None, {"type": "text"}, {"type": "text", "text": 5}, "x"]},
    ):
        assert await page_result(result, page_tokens=100, save=kept.save) is result

    assert kept.bodies == []


async def test_a_large_text_is_answered_with_its_first_page_and_the_way_on() -> None:
    text = "".join(f"line {n}\n" for n in range(500))
    kept = Kept()

    paged = await page_result({"content": [text_block(text)]}, page_tokens=100, save=kept.save)

    page, note = paged["content"]
    end = len(page["text"])
    assert kept.bodies == [text.encode()]
    assert text.startswith(page["text"])
    assert page["text"].endswith("\n")
    assert estimate_tokens(page["text"]) <= 100
    assert note["text"] == (
        f"[toolgate: characters 0 to {end} of {len(text)}. The result is too large for one "
        f'answer; read on with result_read {{"handle": "handle-1", "offset": {end}}}.]'
    )
    assert paged["_meta"]["toolgate/page"] == {
        "handle": "handle-1",
        "offset": 0,
        "nextOffset": end,
        "totalCharacters": len(text),
    }


async def test_the_last_page_says_that_it_is_the_last() -> None:
    page = read_page(b"0123456789", 4, handle="h", page_tokens=100)

    assert page["content"][0]["text"] == "456789"
    assert (
        page["content"][1]["text"] == "[toolgate: characters 4 to 10 of 10, the end of the result.]"
    )
    assert "nextOffset" not in page["_meta"]["toolgate/page"]


async def test_everything_but_text_passes_as_it_is() -> None:
    """Images are not text; a failed call stays failed; unknown members survive."""
    result = {
        "content": [
            IMAGE,
            text_block("a" * 900, annotations={"audience": ["user"]}),
            {"type": "resource", "resource": {"uri": "x:y", "blob": "AAAA"}},
            text_block("b" * 900),
        ],
        "isError": True,
        "_meta": {"own": 1},
        "x-own": {"kept": True},
        "structuredContent": {"small": 1},
    }
    kept = Kept()

    paged = await page_result(result, page_tokens=100, save=kept.save)

    assert [block["type"] for block in paged["content"]] == ["image", "text", "resource", "text"]
    assert paged["content"][0] is IMAGE
    assert paged["content"][1]["annotations"] == {"audience": ["user"]}
    assert paged["isError"] is True
    assert paged["_meta"]["own"] == 1
    assert paged["x-own"] == {"kept": True}
    assert paged["structuredContent"] == {"small": 1}
    assert kept.bodies == [b"a" * 900 + b"\n" + b"b" * 900]
    assert "structuredContent" in result  # what came is not changed


async def test_large_structured_content_is_left_out_said_and_kept() -> None:
    structured = {"rows": list(range(2_000))}
    kept = Kept()

    paged = await page_result(
        {"content": [text_block("summary")], "structuredContent": structured},
        page_tokens=100,
        save=kept.save,
    )

    whole = kept.bodies[0].decode()
    assert "structuredContent" not in paged
    assert whole.startswith("summary\n")
    assert json.loads(whole.partition("(JSON) ---\n")[2]) == structured
    assert "structured content is left out" in paged["content"][-1]["text"]


async def test_structured_content_that_repeats_the_text_is_kept_once() -> None:
    """Servers send the same JSON as text, as the protocol advises."""
    structured = {"rows": list(range(2_000))}
    text = json.dumps(structured, indent=2)
    kept = Kept()

    await page_result(
        {"content": [text_block(text)], "structuredContent": structured},
        page_tokens=100,
        save=kept.save,
    )

    assert kept.bodies == [text.encode()]


async def test_the_text_of_resources_counts() -> None:
    resource = {"type": "resource", "resource": {"uri": "file:///a", "text": "x" * 4_000}}
    kept = Kept()

    paged = await page_result({"content": [resource]}, page_tokens=100, save=kept.save)

    assert kept.bodies == [b"x" * 4_000]
    assert len(paged["content"][0]["text"]) == 400


@settings(max_examples=80, deadline=None)
@given(
    text=st.text(st.characters() | st.sampled_from("\n \r🚀é"), min_size=20, max_size=400),
    page_tokens=st.integers(1, 30),
)
async def test_all_pages_together_are_the_text(text: str, page_tokens: int) -> None:
    """Any text, lone surrogates included, at any size of a page."""
    kept = Kept()

    paged = await page_result(
        {"content": [text_block(text)]}, page_tokens=page_tokens, save=kept.save
    )

    if kept.bodies:
        pages = all_pages(paged, kept.bodies[0], page_tokens)
        assert "".join(pages) == text
        assert all(estimate_tokens(page) <= max(page_tokens, 1) for page in pages)
        assert all(pages)
    else:
        assert estimate_tokens(text) <= page_tokens


@pytest.mark.parametrize("offset", [-1, 11, 10**30])
async def test_an_offset_outside_the_text_is_refused(offset: int) -> None:
    with pytest.raises(ArgumentError, match=r"Allowed: 0 to 10 \(characters\)\."):
        read_page(b"0123456789", offset, handle="h", page_tokens=100)


async def test_the_end_is_an_empty_page() -> None:
    assert read_page("0123456789", 10, handle="h", page_tokens=5)["content"][0]["text"] == ""
