"""What holds for every text and every name."""

import json
import math
import tomllib
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from toolgate.errors import SettingError
from toolgate.settings import (
    Settings,
    load,
    redact,
    render_table,
    server_name,
    server_spec,
)
from toolgate.settings.notations.jsonc import parse, plain
from toolgate.settings.notations.jsonc import spans as spans_of
from toolgate.types import ServerSpec

anything = settings(
    deadline=None, max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture]
)

values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)
words = st.sampled_from([
    "mcpServers", "servers", "server", "a", "command", "args", "env", "url", "headers", "type",
    "import", "serve", "port", "version", "mode", "tools", "timeout_s", "[", "]", "{", "}", '"',
    "=", ":", ",", "\n", "//", "/*", "*/", "#", "1", "true", "${", "${A}", "http://h/", "\\", "'",
    "[server.a]\n", 'command = "x"\n', '{"mcpServers": {', '"a": {"command": "x"}', "\x00", "é",
])  # fmt: skip
texts = st.text() | st.lists(words, max_size=30).map("".join)
names = st.text(min_size=1)


@anything
@given(text=texts)
@pytest.mark.parametrize("name", ["toolgate.toml", "x.json", "x.toml"])
def test_any_text_gives_settings_or_a_setting_error(name: str, text: str, tmp_path: Path) -> None:
    (tmp_path / name).write_bytes(text.encode(errors="surrogatepass"))
    imports = [] if name == "toolgate.toml" else [name]
    found, message = outcome(imports, tmp_path)
    assert isinstance(found, Settings) or message.startswith((str(tmp_path), "The server name"))


@anything
@given(raw=st.binary())
def test_any_bytes_give_settings_or_a_setting_error(raw: bytes, tmp_path: Path) -> None:
    (tmp_path / "toolgate.toml").write_bytes(raw)
    found, message = outcome([], tmp_path)
    assert isinstance(found, Settings) or "toolgate.toml" in message


def outcome(imports: list[str], folder: Path) -> tuple[Settings | None, str]:
    try:
        return load(imports=imports, cwd=folder, environ={"HOME": "/h"}), ""
    except SettingError as error:
        return None, str(error)


keys = ("command", "args", "env", "cwd", "url", "headers", "type", "timeout_s", "tools", "enabled",
        "disabled", "pinned", "trust", "era", "env_file", "max_timeout_s", "python", "title",
        "transport", "max_message_bytes", "timeout", "env_vars", "http_headers")  # fmt: skip
entries = st.fixed_dictionaries({}, optional=dict.fromkeys(keys, values))


@anything
@given(config=st.dictionaries(names, values, max_size=5) | entries)
def test_any_configuration_gives_a_server_or_a_setting_error(config: dict[str, Any]) -> None:
    try:
        spec = server_spec("a", config, environ={})
    except SettingError:
        return
    assert isinstance(spec, ServerSpec)
    assert 0 < spec.timeout_s <= spec.max_timeout_s <= 86_400


@anything
@given(entry=st.dictionaries(names, values, max_size=6) | entries | values)
def test_any_entry_of_another_client_stops_no_other(entry: object, tmp_path: Path) -> None:
    body = {"mcpServers": {"any": entry, "good": {"command": "x"}}}
    (tmp_path / "x.json").write_text(json.dumps(body))
    found = load(imports=["x.json"], cwd=tmp_path, environ={})
    assert "good" in [server.name for server in found.servers if server.enabled]


@anything
@given(text=texts)
def test_taking_comments_out_keeps_every_position(text: str) -> None:
    bare = plain(text)
    assert len(bare) == len(text)
    assert [c for c in bare if c in "\r\n"] == [c for c in text if c in "\r\n"]
    assert all(new in {old, " "} for old, new in zip(text, bare, strict=True))


@anything
@given(value=values)
def test_json_without_comments_is_not_changed_by_taking_them_out(value: object) -> None:
    text = json.dumps(value)
    assert plain(text) == text
    assert parse(text) == value


@anything
@given(value=st.dictionaries(st.text(), values, max_size=4), data=st.data())
def test_comments_and_trailing_commas_change_no_value(value: object, data: st.DataObject) -> None:
    gaps = st.sampled_from(["", " ", "\n", "/* , ] */", "// }\n", "/* \n */ "])
    written = _with_gaps(value, lambda: data.draw(gaps))
    assert parse(written) == value


def _with_gaps(value: object, gap: Any) -> str:
    if isinstance(value, dict):
        inside = "".join(
            f"{gap()}{json.dumps(name)}{gap()}:{gap()}{_with_gaps(one, gap)}{gap()},"
            for name, one in value.items()
        )
        return f"{{{inside}{gap()}}}"
    if isinstance(value, list):
        return f"[{''.join(f'{gap()}{_with_gaps(one, gap)}{gap()},' for one in value)}{gap()}]"
    return json.dumps(value)


@anything
@given(value=values, indent=st.none() | st.integers(0, 3))
def test_the_span_of_a_value_is_its_text(value: object, indent: int | None) -> None:
    text = json.dumps(value, indent=indent)
    spans = spans_of(text)
    assert json.loads(text[spans[()].start : spans[()].end]) == value
    for path, span in spans.items():
        inner: Any = value
        for part in path:
            inner = inner[part]
        assert json.loads(text[span.start : span.end]) == inner
        if path and isinstance(path[-1], str):
            assert json.JSONDecoder().raw_decode(text, span.key_start)[0] == path[-1]


@anything
@given(originals=st.lists(st.text() | st.text("aA_. -é"), unique=True, max_size=30))
def test_mapped_names_are_valid_and_distinct(originals: list[str]) -> None:
    mapped = [server_name(original) for original in originals]
    assert len(set(mapped)) == len(originals)
    for name in mapped:
        assert 1 <= len(name) <= 32
        assert "__" not in name
        assert set(name) <= set("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.-")
        assert server_name(name) == name


toml_texts = st.text(st.characters(exclude_categories=["Cs"]))
tables = st.fixed_dictionaries(
    {"command": toml_texts},
    optional={
        "args": st.lists(toml_texts),
        "env": st.dictionaries(toml_texts, toml_texts, max_size=3),
        "timeout_s": st.floats(0.001, 100),
        "enabled": st.booleans(),
        "tools": st.dictionaries(toml_texts, st.just({"timeout_s": 5}), max_size=3),
    },
)


@anything
@given(name=toml_texts, config=tables)
def test_a_written_table_says_what_was_meant(name: str, config: dict[str, Any]) -> None:
    read = tomllib.loads(render_table(("server", name), config))["server"][name]
    assert read == {key: value for key, value in config.items() if key != "tools" or value}


@anything
@given(secret=st.text("abcdefghij0123456789", min_size=8), name=st.text(min_size=1))
def test_no_value_of_environment_or_headers_is_ever_shown(secret: str, name: str) -> None:
    config = {
        "env": {name: secret},
        "headers": {name: f"Bearer {secret}"},
        "args": ["--api-key", secret, f"--token={secret}"],
        "url": f"https://ada:{secret}@h/?k={secret}",
    }
    shown = redact(config)
    assert secret not in json.dumps(shown).replace(json.dumps(name)[1:-1], "")


def test_a_number_that_is_none_is_out_of_every_range() -> None:
    for value in (math.inf, -math.inf, math.nan):
        with pytest.raises(SettingError, match="timeout_s is"):
            server_spec("a", {"command": "x", "timeout_s": value}, environ={})
