"""Where packs are found, and which of them are used."""

import sys
from pathlib import Path

import anyio
import pytest

from tests.packs.pack_files import write_files
from toolgate.packs import Packs, PackSet, find_packs
from toolgate.settings import PackSettings


def found(settings: PackSettings, cwd: Path) -> PackSet:
    packs = Packs(settings, cwd=cwd)
    anyio.run(packs.refresh)
    return packs.current


def small(folder: Path, name: str = "") -> Path:
    about = f'name = "{name}"' if name else ""
    return write_files(
        folder, {"pack.toml": about, f"intents/{folder.name}.txt": f"do {folder.name}"}
    )


def used(packs: PackSet) -> list[str]:
    return [pack.name for pack in packs.packs]


def test_a_path_is_a_pack_or_holds_packs(tmp_path: Path) -> None:
    small(tmp_path / "one")
    small(tmp_path / "many" / "two")
    small(tmp_path / "many" / "three")
    write_files(tmp_path / "many", {"readme.txt": "no pack", "notes/x.md": "no pack"})

    packs = found(
        PackSettings(paths=(str(tmp_path / "one"), str(tmp_path / "many"))), tmp_path / "here"
    )

    assert used(packs) == ["one", "three", "two", "schema"]
    assert packs.problems == ()


def test_the_working_folder_has_packs_or_is_one(tmp_path: Path) -> None:
    small(tmp_path / "packs" / "sales")
    inside = small(tmp_path / "house")

    assert used(found(PackSettings(), tmp_path)) == ["sales", "schema"]
    assert used(found(PackSettings(), inside)) == ["house", "schema"]


def test_a_path_without_a_pack_is_a_problem_and_stops_nothing(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    gone, empty = str(tmp_path / "gone"), str(tmp_path / "empty")

    packs = found(PackSettings(paths=(gone, empty)), tmp_path)

    assert used(packs) == ["schema"]
    assert [problem.partition(". ")[0] for problem in packs.problems] == [
        f"{gone} is no folder",
        f"{empty} is no pack and holds none",
    ]


def test_shipped_packs_are_off_until_they_are_enabled(tmp_path: Path) -> None:
    off = found(PackSettings(), tmp_path)
    on = found(PackSettings(enable=("servoy",), disable=("schema",)), tmp_path)

    assert used(off) == ["schema"]
    assert [state.name for state in off.states if not state.on] == [
        *("documents", "prompts", "servoy", "sql")
    ]
    assert used(on) == ["servoy"]


def test_a_pack_that_nobody_has_cannot_be_enabled(tmp_path: Path) -> None:
    packs = found(PackSettings(enable=("sevroy",)), tmp_path)

    (problem,) = packs.problems
    assert "The settings name the pack 'sevroy', which was not found." in problem
    assert "Found: documents, prompts, schema, servoy, sql." in problem


def test_of_two_packs_with_one_name_the_first_is_used(tmp_path: Path) -> None:
    first, second = small(tmp_path / "a", "sales"), small(tmp_path / "b", "Sales")

    packs = found(PackSettings(paths=(str(first), str(second))), tmp_path)

    assert packs.packs[0].folder == first
    (problem,) = packs.problems
    assert problem.startswith(f"{second}: there is a pack 'Sales' already, in {first};")


def test_an_intent_of_two_packs_belongs_to_the_first(tmp_path: Path) -> None:
    first, second = small(tmp_path / "a"), small(tmp_path / "b")
    write_files(second, {"intents/A.txt": "do it too"})

    packs = found(PackSettings(paths=(str(first), str(second))), tmp_path)

    names = [intent.name for pack in packs.packs for intent in pack.intents]
    assert names[:2] == ["a", "b"]
    (problem,) = packs.problems
    assert problem.startswith(
        f"{second / 'intents' / 'A.txt'}: the intent 'A' is in the pack 'a' already ({first})"
    )


def test_a_pack_is_found_where_a_package_brings_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_files(
        tmp_path / "site",
        {
            "acme_pack/__init__.py": "raise RuntimeError('imported')",
            "acme_pack/pack.toml": 'name = "acme"',
            "acme_pack/intents/acme.txt": "do acme",
            "acme-1.dist-info/METADATA": "Metadata-Version: 2.1\nName: acme\nVersion: 1\n",
            "acme-1.dist-info/entry_points.txt": (
                "[toolgate.packs]\nacme = acme_pack\ngone = no_such_package_here\n"
            ),
        },
    )
    monkeypatch.setattr(sys, "path", [*sys.path, str(tmp_path / "site")])

    packs = found(PackSettings(), tmp_path)

    assert used(packs) == ["acme", "schema"]
    (problem,) = packs.problems
    assert "The installed pack 'gone' names 'no_such_package_here'" in problem


def test_a_link_to_a_pack_is_no_second_pack(tmp_path: Path) -> None:
    folder = small(tmp_path / "packs" / "sales")
    (tmp_path / "packs" / "zales").symlink_to(folder)

    assert len(find_packs([str(folder)], cwd=tmp_path, local=True)) == 1


def test_prompts_and_rules_next_to_each_other_are_an_intent_everywhere(tmp_path: Path) -> None:
    pair = {"refunds.txt": "money back", "refunds.md": "# Refunds"}
    write_files(tmp_path / "packs" / "flat", pair)
    write_files(tmp_path / "packs" / "named", {"pack.toml": "", **pair})
    write_files(
        tmp_path / "packs" / "folders",
        {"pack.toml": "", **{f"intents/{name}": line for name, line in pair.items()}},
    )
    write_files(tmp_path / "here" / "packs", pair)
    write_files(tmp_path / "set", pair)

    for packs in (
        found(PackSettings(disable=("schema", "named", "folders")), tmp_path),
        found(PackSettings(disable=("schema", "flat", "folders")), tmp_path),
        found(PackSettings(disable=("schema", "flat", "named")), tmp_path),
        found(PackSettings(disable=("schema",)), tmp_path / "here"),
        found(PackSettings(disable=("schema",), paths=(str(tmp_path / "set"),)), tmp_path / "no"),
    ):
        (pack,) = packs.packs
        assert pack.rules_of("refunds") == "# Refunds"
        assert [intent.name for intent in pack.intents] == ["refunds"]
        assert packs.problems == ()
        assert pack.skipped == ()


def test_a_broken_file_is_named_once_and_the_files_that_it_silences_as_skipped(
    tmp_path: Path,
) -> None:
    intents = tmp_path / "packs" / "rooms" / "intents"
    write_files(
        intents,
        {
            "../pack.toml": "",
            "empty.txt": "# nothing",
            "book.toml": "tool =",
            "book.txt": "book a room",
        },
    )

    packs = found(PackSettings(), tmp_path)

    assert packs.skipped == (f"{intents / 'book.txt'} is not read: book.toml has an error.",)
    problems = sorted(str(problem) for problem in packs.problems)
    assert len(problems) == 2
    assert str(intents / "book.toml") in problems[0]
    assert str(intents / "empty.txt") in problems[1]


def test_each_skipped_file_and_folder_is_named_with_the_reason(tmp_path: Path) -> None:
    packs_folder = tmp_path / "packs"
    write_files(
        packs_folder,
        {
            "README.md": "about",
            "notes/x.md": "no pack",
            "todo.rst": "no pack",
            "sales/pack.toml": "",
            "sales/intents/offer.txt": "make an offer",
            "sales/intents/offer.docx": "?",
            "sales/intents/gone.md": "# Rules of nothing",
            "sales/intents/old.txt": "old",
            "sales/intents/embeddings.list": "offer.txt",
            "sales/rules/offer.text": "# Rules",
            "sales/embeddings/x.txt": "x",
            "sales/lost.txt": "lost",
            "sales/old/offer.txt": "an old offer",
            "sales/lib/prices.py": "",
            "sales/README.md": "about",
        },
    )

    packs = found(PackSettings(), tmp_path)

    assert packs.problems == ()
    assert [reason.removeprefix(f"{packs_folder}/") for reason in packs.skipped] == [
        "sales/intents/gone.md is not read: there is no gone.txt beside it.",
        "sales/intents/offer.docx is not read: intents are files .txt, .toml and .md.",
        "sales/intents/old.txt is not read: embeddings.list does not name it, or it is unusable.",
        "sales/embeddings is not read: there is a folder intents already.",
        "sales/lost.txt is not read: prompts belong into intents/.",
        "sales/old is not read: a pack has the folders intents, rules, tools, prompts, resources"
        " and proxies.",
        "sales/rules/offer.text is not read: rules are files .md.",
        "notes has no pack.toml, no folder intents, rules or tools, and no x.txt beside x.md.",
        "todo.rst is a file; a pack is a folder.",
    ]
