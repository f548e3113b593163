"""Reading a pack's folder: what counts, and what is said of files that cannot be used."""

import os
from pathlib import Path

import pytest

from tests.packs.pack_files import SALES, write_files
from toolgate.errors import PackError
from toolgate.packs import load_pack


def test_a_folder_says_all_of_a_pack(tmp_path: Path) -> None:
    pack = load_pack(write_files(tmp_path / "sales", SALES))

    assert (pack.name, pack.version, pack.description) == ("sales", "2", "Orders and refunds.")
    assert [intent.name for intent in pack.intents] == ["orders", "refunds"]
    assert pack.prompts == {"refunds": {"": ("money back", "give me a refund")}}
    assert pack.rules_of("REFUNDS") == "# Refunds for {{PROJECT_NAME}}\n"
    assert pack.variables == {"COMPANY": "Acme"}
    assert pack.out_of_context == "I only know about sales."
    assert [path.name for path in pack.modules] == ["orders.py"]
    assert pack.problems == ()


def test_the_layout_of_the_source_documents_is_a_pack(tmp_path: Path) -> None:
    """Source document 000: `embeddings/` and `rules/` with manifests, names in any case."""
    pack = load_pack(
        write_files(
            tmp_path / "ide",
            {
                "embeddings/embeddings.list": "# prompts\nrelations.txt\n\nVALUELISTS.txt\nx.npy\n",
                "embeddings/relations.txt": "create a relation\n",
                "embeddings/VALUELISTS.txt": "create a value list\n",
                "embeddings/forms.txt": "create a form\n",
                "rules/rules.list": "relations.md\nvaluelists.md\n",
                "rules/relations.md": "how to relate",
                "rules/valuelists.md": "how to list",
                "rules/forms.md": "not in the manifest",
            },
        )
    )

    assert [intent.name for intent in pack.intents] == ["VALUELISTS", "relations"]
    assert pack.rules_of("RELATIONS") == "how to relate"
    assert pack.rules_of("valuelists") == "how to list"
    assert pack.rules_of("forms") == ""
    assert pack.rules_of("RELATION") == "", "names are looked up exactly"
    assert pack.problems == ()


def test_a_folder_of_prompts_alone_is_a_pack(tmp_path: Path) -> None:
    pack = load_pack(
        write_files(tmp_path / "small", {"refunds.txt": "money back", "x.de.txt": "hallo"})
    )

    assert pack.prompts == {"refunds": {"": ("money back",)}, "x": {"de": ("hallo",)}}


def test_prompts_and_keywords_of_one_name_are_one_intent(tmp_path: Path) -> None:
    pack = load_pack(
        write_files(
            tmp_path,
            {
                "pack.toml": 'name = "p"',
                "intents/Refunds.toml": 'name = "MONEY"\n[keywords.en]\nexact = ["refund"]',
                "intents/refunds.txt": "money back",
                "intents/refunds.de.txt": "geld zurück",
            },
        )
    )

    (intent,) = pack.intents
    assert intent.name == "MONEY"
    assert intent.prompts == {"": ("money back",), "de": ("geld zurück",)}
    assert pack.intent_files == {"MONEY": tmp_path / "intents" / "Refunds.toml"}


def test_intents_for_developers_come_only_when_asked_for(tmp_path: Path) -> None:
    write_files(
        tmp_path,
        {
            "pack.toml": 'name = "p"',
            "intents/refunds.txt": "money back",
            "intents/run_test_embeddings.toml": "dev = true",
            "intents/run_test_embeddings.txt": "run the tests of the embeddings",
        },
    )

    assert [each.name for each in load_pack(tmp_path).intents] == ["refunds"]
    both = [each.name for each in load_pack(tmp_path, dev=True).intents]
    assert both == ["refunds", "run_test_embeddings"]


BROKEN: list[tuple[str, str | bytes, str]] = [
    ("intents/bad.toml", 'tool = "a"\ntool = = 1', "bad.toml:2: this is not valid TOML"),
    ("intents/bad.toml", 'colour = "red"', "bad.toml:1: there is no key 'colour' here"),
    ("intents/bad.toml", "", "bad.toml: the intent 'bad' has neither prompts nor keywords"),
    ("intents/bad.toml", "dev = 1", "bad.toml:1: 'dev' is 1. It has to be true or false"),
    ("intents/bad.txt", b"\x89PNG\r\n\x1a\n\0\0", "bad.txt:1: this is not UTF-8 text"),
    ("intents/bad.txt", b"fine\nnul \0 here\n", "bad.txt:2: this is not text"),
    ("intents/bad.txt", b"# only words about it\n", "bad.txt: there are no prompts in it"),
    ("intents/bad.txt", b"word\n" * 1_200_000, "bad.txt is larger than 5,000,000 bytes"),
    ("intents/none.txt", "hello", "none.txt: an intent cannot be called 'none'"),
    ("intents/GOOD.txt", "hello", "good.txt: there is an intent 'good' already, in GOOD.txt"),
    (
        "intents/other.toml",
        'name = "Good"\n[keywords.en]\nexact = ["x"]',
        "good.txt: there is an intent 'good' already, in other.toml",
    ),
    ("rules/bad.md", b"\xff\xfe", "bad.md:1: this is not UTF-8 text"),
    ("rules/GOOD.md", "x", "good.md: there are rules for 'good' already, in GOOD.md"),
    ("prompts/bad.md", b"a\n\n\0", "bad.md:3: this is not text"),
    ("servers.json", "{\n  oops", "servers.json:2: this is not valid JSON"),
    ("servers.json", "[1]", "servers.json: it has no servers"),
    ("servers.json", '{"mcpServers": {"a": 1}}', "servers.json: the server 'a' is not an object"),
    ("unsupported.txt", b"\xff", "unsupported.txt:1: this is not UTF-8 text"),
]


@pytest.mark.parametrize(("name", "content", "said"), BROKEN, ids=range(len(BROKEN)))
def test_a_file_that_cannot_be_used_is_left_out_and_named(
    tmp_path: Path, name: str, content: str | bytes, said: str
) -> None:
    write_files(
        tmp_path,
        {"pack.toml": 'name = "p"', "intents/good.txt": "good", "rules/good.md": "good rules"},
    )
    write_files(tmp_path, {name: content})

    pack = load_pack(tmp_path)

    (problem,) = pack.problems
    assert said in problem
    assert "good" in {each.name.casefold() for each in pack.intents}


def test_a_manifest_that_names_a_missing_file_keeps_the_others(tmp_path: Path) -> None:
    write_files(
        tmp_path,
        {
            "pack.toml": 'name = "p"',
            "intents/embeddings.list": "good.txt\ngone.txt\n../../secret.txt\n",
            "intents/good.txt": "good",
            "rules/rules.list": "gone.md\n",
        },
    )

    pack = load_pack(tmp_path)

    assert [each.name for each in pack.intents] == ["good"]
    assert [problem.partition(": ")[2].partition(" in ")[0] for problem in pack.problems] == [
        "there is no file 'gone.txt'",
        "there is no file '../../secret.txt'",
        "there is no file 'gone.md'",
    ]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("name = ", "pack.toml:1: this is not valid TOML"),
        ('name = "a b"', "a pack cannot be called 'a b'"),
        ('name = "a__b"', "a pack cannot be called 'a__b'"),
        ("name = 1", "'name' is 1. It has to be a text"),
        ('nmae = "x"', "there is no key 'nmae' here. Allowed: "),
        ('name = "p"\n[variables]\ncompany = "x"', ":3: a variable cannot be called 'company'"),
        ('name = "p"\n[variables]\nCOMPANY = 1', ":3: 'COMPANY' is 1. It has to be a text"),
        ('name = "p"\nthreshold = 2', ":2: 'threshold' is 2. It has to be 0 to 1"),
        ('name = "p"\nfalse_alarms = true', "It has to be a number"),
        (b"name = '\xff'", ":1: this is not UTF-8 text"),
    ],
    ids=range(10),
)
def test_a_pack_whose_own_file_is_wrong_cannot_be_used(
    tmp_path: Path, text: str | bytes, said: str
) -> None:
    write_files(tmp_path, {"pack.toml": text, "intents/good.txt": "good"})

    with pytest.raises(PackError) as raised:
        load_pack(tmp_path)

    assert said in str(raised.value)
    assert str(tmp_path / "pack.toml") in str(raised.value)


def test_a_folder_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(PackError, match="gone is not a folder"):
        load_pack(tmp_path / "gone")


def test_every_change_of_a_file_is_another_fingerprint(tmp_path: Path) -> None:
    write_files(tmp_path, SALES)
    first = load_pack(tmp_path)
    write_files(tmp_path, {"rules/refunds.md": "# Other\n"})
    rules = load_pack(tmp_path)
    write_files(tmp_path, {"tools/orders.py": "x = 1\n"})
    tools = load_pack(tmp_path)
    write_files(tmp_path, {"tools/__pycache__/orders.pyc": "x", ".git/index": "x"})

    assert len({first.fingerprint, rules.fingerprint, tools.fingerprint}) == 3
    assert first.code == rules.code != tools.code
    assert load_pack(tmp_path).fingerprint == tools.fingerprint


def test_pipes_folders_and_odd_names_are_left_out(tmp_path: Path) -> None:
    """A pipe that nobody writes to must not stop the gateway."""
    write_files(tmp_path, {"pack.toml": 'name = "p"', "intents/good.txt": "good"})
    os.mkfifo(tmp_path / "intents" / "pipe.txt")
    (tmp_path / "intents" / "zero.txt").symlink_to("/dev/zero")
    (tmp_path / "intents" / "folder.txt").mkdir()
    (tmp_path / "intents" / "gone.txt").symlink_to(tmp_path / "nowhere")
    (tmp_path / "round").symlink_to(tmp_path)
    odd = os.fsencode(tmp_path / "intents") + b"/odd\xff.toml"
    Path(os.fsdecode(odd)).write_text("=", "utf-8")

    pack = load_pack(tmp_path)

    assert [intent.name for intent in pack.intents] == ["good"]
    said = [problem.removeprefix(f"{tmp_path}/intents/") for problem in pack.problems]
    assert [each.partition(". ")[0] for each in said] == [
        "folder.txt: this is not a file",
        "gone.txt cannot be read: No such file or directory",
        "pipe.txt: this is not a file",
        "zero.txt: this is not a file",
        "odd?.toml:1: this is not valid TOML: Invalid statement",
    ]
