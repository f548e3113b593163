"""`toolgate call`: call a tool."""

import json
import shlex
import sys
from pathlib import Path
from typing import Any, cast

import anyio

from toolgate.cli.client._gateway_client import GatewayClient
from toolgate.cli.client._open_gateway import open_gateway
from toolgate.cli.terminal._exit import FAILED, SUCCESS
from toolgate.cli.terminal._output import note, print_data, print_json, spinner
from toolgate.cli.terminal._plain_command import Option, PlainCommand, Positional
from toolgate.errors import ArgumentError
from toolgate.types import Json, json_object

FORMATS = ("json", "csv", "table", "text")
"""Same values as `format` of `tool_execute`."""

_PYTHON_TYPES: dict[str, tuple[type, ...]] = {
    "string": (str,),
    "integer": (int,),
    "number": (int, float),
    "boolean": (bool,),
    "array": (list,),
    "object": (dict,),
    "null": (type(None),),
}


def call(
    key: str,
    inline: str = "",
    args: str = "",
    arg: list[str] | None = None,
    select: str = "",
    form: str | None = None,
    as_json: bool = False,
) -> int:
    """Call a tool."""
    if inline and args:
        raise ArgumentError(
            "The arguments were given twice, after the tool key and with --args.",
            hint="Give one JSON object, either way.",
        )
    arguments = _read_inline(inline) if inline else read_json_object(args, "--args")
    pairs = [pair_of(text, "--arg") for text in arg or []]
    shape: Json = {"select": select} if select else {}
    if form is not None:
        shape["format"] = form
    return anyio.run(_call, key, arguments, pairs, shape, as_json)


command = PlainCommand(
    name="call",
    help="Call a tool.",
    argument=Positional(name="key", metavar="KEY", help="Tool key, such as github:get_issue."),
    optional_argument=Positional(
        name="inline",
        metavar="[JSON]",
        help="All arguments as a JSON object, quoted for the shell.",
    ),
    options=(
        Option(
            flags=("--args",),
            metavar="JSON",
            help="The same as an option; @FILE reads the object from a file, - from standard "
            "input.",
        ),
        Option(
            flags=("--arg",),
            metavar="NAME=VALUE",
            repeated=True,
            help="One argument. Can be repeated.",
        ),
        Option(
            flags=("--select",),
            metavar="JQ",
            help="Print only the part of the result that this jq filter selects.",
        ),
        Option(
            flags=("--format",),
            parameter="form",
            metavar="FORMAT",
            choices=FORMATS,
            help="Output format: json, csv, table or text.",
        ),
        Option(
            flags=("--json",),
            parameter="as_json",
            kind=bool,
            help="Print the full result as JSON.",
        ),
    ),
    call=call,
)
"""The command and its options."""


def _read_inline(text: str) -> Json:
    """Read the arguments after the tool key.

    Raises:
        ArgumentError: They are not a JSON object; `NAME=VALUE` is answered with the option for it.
    """
    if text[0] in "@-" or isinstance(_parsed(text), dict):
        return read_json_object(text, "the argument after the tool key")
    name, equals, _ = text.partition("=")
    raise ArgumentError(
        f"The argument after the tool key is {text[:80]!r}.",
        allowed="Allowed: a JSON object.",
        hint=f"For a single argument, write: --arg {shlex.quote(text)}"
        if equals and name.isidentifier()
        else 'Quote the object for the shell: \'{"path": "/tmp"}\'',
    )


async def _call(
    key: str, arguments: Json, pairs: list[tuple[str, str]], shape: Json, as_json: bool
) -> int:
    server = key.partition(":")[0] if ":" in key else key.partition("__")[0]
    with spinner(f"Calling {key}"):
        async with open_gateway(connect=[server]) as gateway:
            schema = await _schema(gateway, key) if pairs else {}
            given = {**arguments, **read_arguments(pairs, schema)}
            result = await gateway.execute(key, given, shape)
    if as_json:
        print_json(result)
    else:
        show(result)
    return FAILED if result.get("isError") or _asks_user(result) else SUCCESS


def _asks_user(result: Json) -> bool:
    """Whether the tool asks the user for input."""
    return result.get("resultType") == "input_required"


def read_arguments(pairs: list[tuple[str, str]], schema: Json) -> Json:
    """Parse arguments from `NAME=VALUE`: JSON if it is valid and matches the schema, else text."""
    properties = json_object(schema.get("properties"))
    arguments: Json = {}
    for name, text in pairs:
        kinds = _kinds(json_object(properties.get(name)))
        repeated = sum(1 for other, _ in pairs if other == name) > 1
        if repeated and "array" in kinds:
            items = _kinds(json_object(json_object(properties[name]).get("items")))
            arguments.setdefault(name, []).append(_value(text, items))
        else:
            arguments[name] = _value(text, kinds)
    return arguments


def show(result: Json) -> None:
    """Print a result: text unchanged, structured content as JSON, a summary of other content."""
    is_error = bool(result.get("isError"))
    structured = result.get("structuredContent")
    for block in cast("list[object]", result.get("content") or []):
        text = _block(json_object(block))
        if structured is not None and _parsed(text) == structured:
            continue
        if is_error:
            note(text)
        else:
            print_data(text.removesuffix("\n"))  # as CSV ends
    if structured is not None:
        print_json(structured)
    if _asks_user(result):
        questions = [
            json_object(json_object(request).get("params")).get("message")
            for request in json_object(result.get("inputRequests")).values()
        ]
        asked = " ".join(f"{question!r}" for question in questions if question)
        note(
            f"The tool is asking for input, which this command does not support: {asked}"
            " Call it from an MCP client that does."
        )


def _block(block: Json) -> str:
    match block.get("type"):
        case "text":
            return str(block.get("text", ""))
        case "image" | "audio" as kind:
            size_bytes = len(str(block.get("data", ""))) * 3 // 4
            return f"[{kind} {block.get('mimeType', '')}, {size_bytes} bytes; see --json]"
        case "resource_link":
            return f"[{block.get('name', 'resource')}: {block.get('uri', '')}]"
        case "resource":
            resource = json_object(block.get("resource"))
            return str(resource.get("text") or f"[resource {resource.get('uri', '')}; see --json]")
        case _:
            return json.dumps(block, ensure_ascii=False)


async def _schema(gateway: GatewayClient, key: str) -> Json:
    described = await gateway.describe([key])
    tools = cast("list[object]", described.get("tools") or [])
    return json_object(json_object(tools[0]).get("inputSchema")) if tools else {}


def read_json_object(text: str, option: str) -> Json:
    """Read the JSON object of an option: text, `@FILE`, or `-` for standard input.

    Raises:
        ArgumentError: It is not a JSON object.
    """
    if not text:
        return {}
    if text == "-":
        text = sys.stdin.read()
    elif text.startswith("@"):
        try:
            text = Path(text[1:]).read_text("utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise ArgumentError(
                f"The file {text[1:]!r} of {option} cannot be read: {error}.",
                hint="Use a file with a JSON object.",
            ) from error
    value = _parsed(text)
    if not isinstance(value, dict):
        raise ArgumentError(
            f"{option} got {text[:80]!r}.",
            allowed="Allowed: a JSON object, @FILE, or - for standard input.",
            hint=f'Quote it for the shell: {option} \'{{"path": "/tmp"}}\'',
        )
    return cast("Json", value)


def pair_of(text: str, option: str) -> tuple[str, str]:
    """Split `NAME=VALUE` into name and value.

    Raises:
        ArgumentError: It does not have this form.
    """
    name, equals, value = text.partition("=")
    if not equals or not name:
        raise ArgumentError(f"{option} got {text!r}.", allowed="Allowed: NAME=VALUE.")
    return name, value


def _kinds(schema: Json) -> set[str]:
    """Return the JSON types that a schema allows; empty for any."""
    kind = schema.get("type")
    if isinstance(kind, str):
        return {kind}
    if isinstance(kind, list):
        return {str(name) for name in cast("list[object]", kind)}
    kinds: set[str] = set()
    for word in ("anyOf", "oneOf"):
        for branch in cast("list[object]", schema.get(word) or []):
            kinds |= _kinds(json_object(branch))
    return kinds


def typed_value(text: str, schema: Json) -> Any:
    """Convert a text: JSON if that matches the schema, else the text itself."""
    return _value(text, _kinds(schema))


def _value(text: str, kinds: set[str]) -> Any:
    value = _parsed(text)
    if value is _NOT_JSON:
        return text
    if kinds and not any(_is_of_type(value, kind) for kind in kinds):
        return text
    return value


def _is_of_type(value: object, kind: str) -> bool:
    if isinstance(value, bool):
        return kind == "boolean"
    return isinstance(value, _PYTHON_TYPES.get(kind, (object,)))


_NOT_JSON = object()


def _parsed(text: str) -> object:
    try:
        return json.loads(text)
    except ValueError:
        return _NOT_JSON
