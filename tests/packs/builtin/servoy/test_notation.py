"""The notation of workspace files. Facts: observed files of 2010 to 2025 in both dialects."""

import string
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.packs.builtin.servoy.workspaces import (
    FORM,
    RELATION,
    TABLES,
    VALUE_LIST,
    Dialect,
    text_in,
)
from toolgate.packs.builtin.servoy._answers import as_json
from toolgate.packs.builtin.servoy.files.notation import (
    Fields,
    FileStyle,
    Items,
    NotationError,
    ServoyFile,
    decode_file,
    encode_file,
    format_file,
    insert_member,
    parse_text,
)

PLAIN_RELATION = """\
allowCreationRelatedRecords:true,
foreignDataSource:"db:/example_data/customers",
items:[
{foreignColumnName:"customerid",primaryDataProviderID:"customerid",typeid:23,uuid:"0D8A6B1C-5E53-4A0B-9B39-6C0B6F1E2A11"},
{foreignColumnName:"country",operator:512,primaryDataProviderID:"shipcountry",typeid:23,uuid:"A2C4E6F8-1B3D-4C5E-8F70-91A2B3C4D5E6"}
],
joinType:1,
name:"orders_to_customers",
primaryDataSource:"db:/example_data/orders",
typeid:22,
uuid:"7B1F3C52-9D0E-4E7A-8A55-2F6C1D9E0B47\""""


@pytest.mark.parametrize("dialect", ["plain", "json"])
@pytest.mark.parametrize(
    "value",
    [RELATION, VALUE_LIST, FORM, {"columns": TABLES["orders"], "name": "orders"}],
    ids=["relation", "value list", "form", "table"],
)
def test_a_file_is_written_as_it_was_read(value: dict[str, Any], dialect: Dialect) -> None:
    text = text_in(value, dialect)

    read = parse_text(text)

    assert read.style.dialect == dialect
    assert as_json(read.root) == value
    assert format_file(read) == text


def test_the_plain_dialect_looks_as_the_facts_show_it() -> None:
    assert text_in(RELATION, "plain") == PLAIN_RELATION
    assert as_json(parse_text(PLAIN_RELATION).root) == RELATION


@pytest.mark.parametrize(
    "text",
    [
        'customValues:"Active\\\nInactive|0\\\nPending"',
        'customValues:"Active\\nInactive|0\\nPending"',
        'customValues:"Active\nInactive|0\nPending"',
    ],
    ids=["backslash and line feed", "escape", "bare line feed"],
)
def test_the_three_spellings_of_a_line_break_are_read_and_kept(text: str) -> None:
    read = parse_text(text)

    assert isinstance(read.root, Fields)
    assert read.root["customValues"] == "Active\nInactive|0\nPending"
    assert format_file(read) == text


def test_a_new_text_gets_the_line_break_of_its_file() -> None:
    read = parse_text('comment:"a\\nb",\nname:"x"')
    assert isinstance(read.root, Fields)

    insert_member(read.root, "customValues", "1\n2")

    assert format_file(read) == 'comment:"a\\nb",\ncustomValues:"1\\n2",\nname:"x"'


@pytest.mark.parametrize(
    "text",
    [
        'name:"a",\ntypeid:34\n',
        'name:"a",\r\ntypeid:34',
        '\ufeffname:"a"',
        'customValues:"Home|1\\r\\\nOffice|2"',
        'name:"caf\\u00e9 \u2013 \\u2013"',
        'name:"a<\\/b"',
        'name:"a</b"',
        'name:"a\\/b"',
        "name:'single'",
        'uuid:"c56a4180-65aa-42ec-a945-5fd21dec0538"',
        "useTableFilter:false,\nvalueListType:0",
        "zebra:1,\nant:2",
        '"quoted key":1',
        "items:[\n\n]",
        "items:[]",
        "{}",
        '{\n    "a":{},\n    "b":[]\n}',
        "size:12.50,\nfactor:1e3,\nhuge:123456789012345678901234567890,\nodd:-0,\nword:free",
        '[\n{\nname:"a.png",\ntypeid:37\n}\n]\n',
        '[\n    {\n        "name":"a.png"\n    }\n]',
        "a:null,\nb:true,\nc:false,\nd:-5",
        "json:{\nlocation:{\nx:20,\ny:390\n}\n}",
        'name:"\\ud83d\\ude00 😀"',
        'name:"a\\\n\\nb\nc"',
        'primaryServerName:"s",\nprimaryTableName:"t",\ntypeid:22',
        'customProperties:"lazyLoading:false"',
    ],
)
def test_what_stands_in_a_file_survives_to_the_letter(text: str) -> None:
    content = text.encode()

    assert encode_file(decode_file(content)) == content


def test_a_dialect_file_with_a_text_of_several_lines_need_not_be_json() -> None:
    text = '{\n    "customValues":"a\\\nb"\n}'

    read = parse_text(text)

    assert as_json(read.root) == {"customValues": "a\nb"}
    assert format_file(read) == text


def test_escapes_mean_what_they_say() -> None:
    read = parse_text('a:"tab\\t quote\\" back\\\\ dash\\u2013 pair\\ud83d\\ude00 slash\\/"')

    assert as_json(read.root) == {"a": 'tab\t quote" back\\ dash\u2013 pair😀 slash/'}


def test_a_raw_carriage_return_in_a_text_is_dropped_and_kept_on_disk() -> None:
    content = b'a:"x\\\r\ny",\r\nb:"z\rz"'

    read = decode_file(content)

    assert as_json(read.root) == {"a": "x\ny", "b": "zz"}
    assert encode_file(read) == content


@pytest.mark.parametrize(
    ("text", "reason", "line"),
    [
        ("", "the file is empty", 0),
        (" \n ", "the file is empty", 0),
        ('name:"a",\ntypeid:', "a value is expected, not the end of the file", 2),
        ('name:"a', "a text is begun here and not ended: the file is cut off", 1),
        ('name:"a",\n', "the file ends after a comma: it is cut off", 2),
        ("items:[\n{a:1", "the file ends before '}': it is cut off", 2),
        ("items:[\n{a:1}", "the file ends before ']': it is cut off", 2),
        ('{"a":1', "the file ends before '}': it is cut off", 1),
        ("name", "a colon is expected after the key 'name', not the end of the file", 1),
        ('name:"a"\ntypeid:3', "a comma is expected, not 'typeid:3'", 2),
        ('{"a":1}\n}', "nothing is expected here, but there is '}'", 2),
        ("a:1,\nb:2,\na:3", "the key 'a' occurs twice in one object", 3),
        ("\x00\x01binary", "a colon is expected after the key '\\x00\\x01binary'", 1),
        (
            'name:"a",\n<<<<<<< HEAD\ntypeid:1\n=======\ntypeid:2\n>>>>>>> theirs',
            "there are marks of a merge conflict",
            2,
        ),
        ("a:" + "[" * 300 + "]" * 300, "values are nested more than 200 deep", 1),
    ],
)
def test_damage_is_told_with_line_and_reason(text: str, reason: str, line: int) -> None:
    with pytest.raises(NotationError) as error:
        parse_text(text)

    assert reason in error.value.reason
    assert error.value.line == line


def test_marks_of_a_conflict_inside_a_text_are_damage_too() -> None:
    text = 'customValues:"a\\\n<<<<<<< HEAD\nb\\\n=======\nc\\\n>>>>>>> x\nd"'

    with pytest.raises(NotationError, match="merge conflict"):
        parse_text(text)


def test_bytes_that_are_no_text_are_told_with_their_line() -> None:
    with pytest.raises(NotationError, match=r"line 2: this is not UTF-8 text"):
        decode_file(b'name:"a",\ncomment:"\xff"')


def test_put_keeps_the_order_of_keys() -> None:
    fields = Fields(a=1, c=3)

    insert_member(fields, "b", 2)
    insert_member(fields, "c", 4)

    assert list(fields.items()) == [("a", 1), ("b", 2), ("c", 4)]


def test_put_appends_where_a_file_has_an_order_of_its_own() -> None:
    fields = Fields(z=1, a=2)

    insert_member(fields, "m", 3)

    assert list(fields) == ["z", "a", "m"]


NAMES = st.text(string.ascii_letters + "_$" + string.digits, min_size=1).filter(
    lambda each: not each[0].isdigit()
)
TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=30)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(10**15), 10**15) | TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=3),
    max_leaves=12,
)


def _noted(value: Any) -> Any:
    if isinstance(value, dict):
        return Fields((key, _noted(value[key])) for key in sorted(value))
    if isinstance(value, list):
        return Items(_noted(each) for each in value)
    return value


FEW = settings(max_examples=30, deadline=None)


@FEW
@given(st.dictionaries(NAMES, VALUES, min_size=1, max_size=5), st.sampled_from(["plain", "json"]))
def test_any_value_is_read_as_it_was_written(value: dict[str, Any], dialect: Dialect) -> None:
    text = format_file(ServoyFile(root=_noted(value), style=FileStyle(dialect=dialect)))

    read = parse_text(text)

    assert as_json(read.root) == value
    assert format_file(read) == text


@FEW
@given(
    st.dictionaries(NAMES, VALUES, min_size=1, max_size=5),
    st.sampled_from(["plain", "json"]),
    st.sampled_from(["backslash", "escape", "bare"]),
    st.sampled_from(["\n", "\r\n"]),
    st.booleans(),
    st.sampled_from(["", "\n", "\n\n"]),
)
def test_any_style_is_kept(
    value: dict[str, Any], dialect: Any, line_break: Any, end: str, mark: bool, tail: str
) -> None:
    style = FileStyle(dialect=dialect, line_break=line_break, end_of_line=end, mark=mark, tail=tail)
    content = encode_file(ServoyFile(root=_noted(value), style=style))

    assert encode_file(decode_file(content)) == content


@FEW
@given(st.text(max_size=60))
def test_any_text_is_read_or_refused_with_a_reason(text: str) -> None:
    with suppress(NotationError):
        format_file(parse_text(text))


@FEW
@given(st.dictionaries(NAMES, VALUES, min_size=1, max_size=4), st.integers(0, 200))
def test_a_file_that_is_cut_off_never_raises_something_else(value: dict[str, Any], at: int) -> None:
    text = format_file(ServoyFile(root=_noted(value), style=FileStyle(dialect="json")))

    with suppress(NotationError):
        parse_text(text[:at])


def test_a_bare_key_may_hold_blanks() -> None:
    """Old forms have such keys; they are read and written as they are."""
    text = 'items:[\n{\nold key:1,\ntypeid:7\n}\n],\nname:"orders",\nwhat a name : "x"'

    read = parse_text(text)

    assert isinstance(read.root, dict)
    assert read.root["what a name"] == "x"
    assert format_file(read).replace(" ", "") == text.replace(" ", "")
    assert "old key:1" in format_file(read)
