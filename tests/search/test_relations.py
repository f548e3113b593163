"""How tools belong together: near-equal ones, and capability groups."""

import anyio

from tests.limits import HANG_S
from toolgate.search import Relations, SearchableTool
from toolgate.search.answer.capability_groups import grouped
from toolgate.search.semantic.near_duplicates import find_near_duplicates


def tool(key: str, about: str = "") -> SearchableTool:
    server, _, name = key.partition(":")
    return SearchableTool(key=key, server=server, name=name, description=about)


LETTER = "Send a letter to one or more people by electronic mail."
CATALOG = [
    tool("outlook:send_mail", LETTER),
    tool("gmail:sendMail", LETTER),
    tool("gmail:read_mail", "Read the letters of a folder."),
    tool("notes:add_label", "Add a label to a note."),
    tool("issues:remove_label", "Remove a label from an issue."),
]


def test_tools_of_two_servers_with_one_name_and_text_are_near_equal() -> None:
    assert find_near_duplicates(CATALOG) == {
        "outlook:send_mail": ("gmail:sendMail",),
        "gmail:sendMail": ("outlook:send_mail",),
    }


def test_tools_of_one_server_and_opposites_are_not() -> None:
    same = [tool("a:read_file", LETTER), tool("a:read-file", LETTER)]

    assert find_near_duplicates(same) == {}
    assert "notes:add_label" not in find_near_duplicates(CATALOG)
    assert find_near_duplicates([]) == {}


def test_named_groups_take_servers_and_patterns() -> None:
    groups = grouped(CATALOG, named={"letters": ["GMAIL", "outlook:send*"], "none": ["nobody"]})

    assert groups.find("Letters") == {"gmail:sendMail", "gmail:read_mail", "outlook:send_mail"}
    assert groups.find("none") == frozenset()
    assert groups.find("unknown") is None
    assert groups.derived == frozenset()


def many() -> list[SearchableTool]:
    themes = {
        "weather": "forecast of rain",
        "files": "folder and document",
        "money": "bank account",
    }
    return [
        tool(f"{theme}{n}:{verb}_{theme}", f"{verb} the {about} of {theme}")
        for theme, about in themes.items()
        for n in range(5)
        for verb in ("show", "find", "change")
    ]


def test_servers_in_no_group_are_grouped_by_themselves_and_always_alike() -> None:
    groups = grouped(many(), named={"mine": ["money0"]})

    assert groups.keys == grouped(many(), named={"mine": ["money0"]}).keys
    assert len(groups.derived) >= 2
    assert frozenset().union(*groups.keys.values()) == {each.key for each in many()}
    themes = [{key[:5] for key in groups.keys[name]} for name in groups.derived]
    assert all(len(theme) == 1 for theme in themes)


def test_groups_are_named_by_things_and_not_by_what_is_done_with_them() -> None:
    """Among real servers there were `create-update`, `query-search` and `file-only`."""
    shops = [
        tool(f"shop{n}:{verb}_{thing}", f"{verb} an {thing}; only available once a day.")
        for n in range(3)
        for verb in ("create", "update", "search")
        for thing in ("order", "invoice")
    ]
    names = grouped([*shops, *many()]).derived
    parts = {part for name in names for part in name.split("-")}
    assert {"order", "invoice"} <= parts
    assert parts.isdisjoint({"create", "update", "search", "only", "available", "once"})


def test_few_servers_need_no_groups() -> None:
    assert grouped(CATALOG[:2]).keys == {}
    assert grouped([]).keys == {}


async def test_relations_are_computed_beside_searches_and_again_after_a_change() -> None:
    named: dict[str, tuple[str, ...]] = {}
    relations = Relations(lambda: named)

    relations.refresh(1, CATALOG, object())
    with anyio.fail_after(HANG_S):
        await relations.wait_until_computed()
    assert set(relations.alternatives) == {"outlook:send_mail", "gmail:sendMail"}

    named["letters"] = ("gmail",)
    relations.refresh(1, CATALOG, object())
    with anyio.fail_after(HANG_S):
        await relations.wait_until_computed()
    assert set(relations.groups.keys) >= {"letters"}
    await relations.aclose()
