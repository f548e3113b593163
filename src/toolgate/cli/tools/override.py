"""`toolgate servers override`: offer a tool with another name, other texts or parameters."""

from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Final, NamedTuple

import typer

from toolgate.cli.client._gateway_client import path_of
from toolgate.cli.client._open_gateway import open_gateway
from toolgate.cli.terminal._command_app import AsJson
from toolgate.cli.terminal._exit import SUCCESS
from toolgate.cli.terminal._output import note, print_json, print_text
from toolgate.cli.tools.call import pair_of, read_json_object, typed_value
from toolgate.errors import ArgumentError
from toolgate.types import Json, json_object

_REPLACED: Final[Mapping[str, frozenset[str]]] = {
    "value": frozenset({"default", "hide"}),
    "default": frozenset({"value"}),
    "hide": frozenset({"value"}),
}
"""Members of the override of a parameter that another one takes the place of."""


class _Pairs(NamedTuple):
    """Values of the options about parameters."""

    value: Sequence[str]
    default: Sequence[str]
    hide: Sequence[str]
    describe: Sequence[str]
    reset: Sequence[str]


Value = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="PARAMETER=VALUE",
        help="Always send this value, and hide the parameter from callers. Can be repeated.",
    ),
]
Default = Annotated[
    list[str] | None,
    typer.Option(
        "--default",
        metavar="PARAMETER=VALUE",
        help="Send this value if the caller gives none. Can be repeated.",
    ),
]
Table = Annotated[
    str,
    typer.Option(
        "--table",
        metavar="JSON",
        help="The complete override as JSON; @FILE reads it from a file, - from standard input.",
    ),
]


async def override(
    key: Annotated[str, typer.Argument(metavar="KEY", help="Key of the tool, server:tool.")],
    name: Annotated[
        str | None, typer.Option("--name", metavar="NAME", help="Name for clients.")
    ] = None,
    description: Annotated[
        str | None, typer.Option("--description", metavar="TEXT", help="Description for clients.")
    ] = None,
    tag: Annotated[
        list[str] | None,
        typer.Option(
            "--tag", metavar="WORD", help="Extra search keyword for the tool. Can be repeated."
        ),
    ] = None,
    hide: Annotated[
        bool | None,
        typer.Option("--hide/--show", help="Hide the tool from everyone, or show it again."),
    ] = None,
    value: Value = None,
    default: Default = None,
    hide_parameter: Annotated[
        list[str] | None,
        typer.Option(
            "--hide-parameter",
            metavar="PARAMETER",
            help="Hide the parameter; it is not sent unless it has a --default. Can be repeated.",
        ),
    ] = None,
    describe: Annotated[
        list[str] | None,
        typer.Option(
            "--describe",
            metavar="PARAMETER=TEXT",
            help="Description of a parameter. Can be repeated.",
        ),
    ] = None,
    reset: Annotated[
        list[str] | None,
        typer.Option(
            "--reset",
            metavar="PARAMETER",
            help="Remove all changes to this parameter. Can be repeated.",
        ),
    ] = None,
    table: Table = "",
    remove: Annotated[bool, typer.Option("--remove", help="Remove the override.")] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Only show the result; save nothing.")
    ] = False,
    as_json: AsJson = False,
) -> int:
    """Change how a tool is presented to clients. Without options, show its current presentation.

    toolgate servers override tracker:create_issue --name report_bug --set repo=acme/app

    toolgate servers override tracker:create_issue --set 'reporter=${user.name}'

    Anything you do not specify stays unchanged. VALUE is parsed as JSON if that fits the parameter,
    otherwise it is taken as a string.
    """
    changes: Json = {"name": name, "description": description, "tags": tag, "hide": hide}
    changes = {option: given for option, given in changes.items() if given is not None}
    pairs = _Pairs(value or (), default or (), hide_parameter or (), describe or (), reset or ())
    is_change = bool(changes) or any(pairs)
    if sum((is_change, bool(table), remove)) > 1:
        raise ArgumentError(
            "The options contradict each other.",
            allowed="Allowed: options for what is changed, or --table, or --remove.",
        )
    if dry_run and remove:
        raise ArgumentError("--dry-run shows nothing of --remove.", hint="Leave out one of them.")
    whole = read_json_object(table, "--table") if table else None

    def table_of(shown: Json) -> Json | None:
        """Return a tool's new override, given its current one; None to change nothing."""
        return _changed(shown, changes, pairs) if is_change else whole

    return await _override(key, table_of, remove, dry_run, as_json)


async def _override(
    key: str,
    table_of: Callable[[Json], Json | None],
    remove: bool,
    dry_run: bool,
    as_json: bool,
) -> int:
    path = path_of("tools", key, "override")
    server = key.partition(":")[0]
    async with open_gateway(connect=[server]) as gateway:
        await gateway.wait_for_servers(server)
        if remove:
            shown = await gateway.request("DELETE", path)
        else:
            shown = await gateway.request("GET", path)
            table = table_of(shown)
            if table is not None and dry_run:
                shown = await gateway.request("POST", f"{path}/preview", table)
            elif table is not None:
                shown = await gateway.request("PUT", path, table)
    if as_json:
        print_json(shown)
    else:
        _show(shown)
    return SUCCESS


def _show(shown: Json) -> None:
    override = json_object(shown.get("override"))
    if override:
        print_text(f"Override of {shown['toolKey']}:")
        print_json(override)
    else:
        print_text(f"{shown['toolKey']} is offered as its server does.")
    if shown.get("offered") is None and shown.get("listed") is not None:
        print_text("Nobody sees the tool.")
    elif override and shown.get("offered") is not None:
        print_text("Offered as:")
        print_json(shown["offered"])
    for sentence in (*(shown.get("problems") or ()), shown.get("notice")):
        if sentence:
            note(str(sentence))


def _changed(shown: Json, changes: Json, pairs: _Pairs) -> Json:
    """Return the override of a tool with the changes from the options."""
    before = json_object(shown.get("override"))
    schema = json_object(json_object(shown.get("listed")).get("inputSchema"))
    described = json_object(schema.get("properties"))
    after = {
        name: dict(json_object(change))
        for name, change in json_object(before.get("parameters")).items()
        if name not in pairs.reset
    }

    def change(name: str, member: str, value: object) -> None:
        kept = after.get(name, {})
        replaced = _REPLACED.get(member, frozenset())
        stays = {key: kept[key] for key in kept if key not in replaced}
        after[name] = {**stays, member: value}

    fixed = [pair_of(text, "--set") for text in pairs.value]
    defaults = [pair_of(text, "--default") for text in pairs.default]
    changed = {*pairs.hide, *(name for name, _ in defaults)}
    if both := [name for name, _ in fixed if name in changed]:
        raise ArgumentError(
            f"The options contradict each other: --set names the parameter {both[0]!r}, and so does"
            " --default or --hide-parameter.",
            allowed="Allowed: --set (always sent, hidden), or the other two.",
        )
    for name, value in fixed:
        change(name, "value", typed_value(value, json_object(described.get(name))))
    for name, value in defaults:
        change(name, "default", typed_value(value, json_object(described.get(name))))
    for name in pairs.hide:
        change(name, "hide", value=True)
    for text in pairs.describe:
        name, value = pair_of(text, "--describe")
        change(name, "description", value)
    table = {**before, **changes, "parameters": after}
    return {key: value for key, value in table.items() if value not in ("", False, [], {})}
