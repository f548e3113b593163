"""Whatever stands in the files of a pack, reading them ends well or says which file is wrong."""

import tempfile
from pathlib import Path

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.packs.pack_files import write_files
from toolgate.errors import PackError
from toolgate.intents import KeywordStage
from toolgate.packs import Pack, load_pack

NAMES = st.sampled_from(
    [
        *("pack.toml", "intents/a.toml", "intents/a.txt", "intents/A.txt", "intents/b.de.txt"),
        *("intents/embeddings.list", "rules/a.md", "rules/rules.list", "unsupported.txt"),
        *("prompts/p.md", "servers.json", "resources/r.bin", "tools/t.py"),
    ]
)
LINES = st.sampled_from(
    [
        *('name = "p"', "name = 1", "[variables]", 'X = "y"', "dev = true", "threshold = 0.5"),
        *("[keywords.en]", 'exact = ["a b"]', 'exact = ["!!"]', 'patterns = ["{x} b|"]'),
        *('partial = ["x"]', 'context = ["y"]', "[[arguments]]", 'kind = "date"', "[lists]"),
        *("a.txt", "../a.txt", "# note", "hello {{X}}", '{"mcpServers": {"a": {"url": 1}}}', "{"),
    ]
)
CONTENT = st.one_of(
    st.binary(max_size=40), st.text(max_size=40), st.lists(LINES, max_size=6).map("\n".join)
)


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    st.dictionaries(
        NAMES,
        CONTENT.map(lambda c: c if isinstance(c, bytes) else c.encode(errors="replace")),
        max_size=6,
    )
)
def test_any_files_are_a_pack_or_an_error_that_names_one(files: dict[str, bytes]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        write_files(Path(folder), files)
        failed = ""
        pack = Pack(name="", folder=Path(folder), fingerprint="")
        try:
            pack = load_pack(Path(folder))
        except PackError as error:
            failed = str(error)
        if failed:
            assert folder in failed
            return
        assert all(folder in problem for problem in pack.problems)
        assert all(intent.prompts or intent.keywords for intent in pack.intents)
        names = [intent.name.casefold() for intent in pack.intents]
        assert len(names) == len(set(names))
        assert len(KeywordStage(pack.intents).intents) == len(names)
        assert load_pack(Path(folder)) == pack
