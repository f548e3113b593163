"""`toolgate add` and `toolgate servers add`: a command line, a JSON snippet or a URL."""

import sys
from collections.abc import Sequence
from typing import Annotated, Any, Literal

import typer
from typer.core import TyperCommand

from toolgate.app.failure_causes import cause_of
from toolgate.cli.client._gateway_client import GatewayResponseError
from toolgate.cli.client._open_gateway import open_gateway
from toolgate.cli.terminal._command_app import AsJson, CommandApp
from toolgate.cli.terminal._exit import FAILED, SUCCESS
from toolgate.cli.terminal._output import note, plural, print_json, print_text, spinner
from toolgate.cli.tools._pasted_server import NAME_END, named, read_servers, without_client
from toolgate.errors import ArgumentError
from toolgate.types import Json, json_object

app = CommandApp()


class AddCommand(TyperCommand):
    """A command whose options end where the command line of a server begins."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Read options also after a name, URL or JSON, but not in a server's command line."""
        parsed, _, _ = self.make_parser(ctx).parse_args(args=list(args))
        words = [str(word) for word in parsed.get("words") or ()]
        lead = args[: len(args) - len(words)]
        if lead[-1:] != [NAME_END]:
            words = without_client(words)
            args = [*lead, *words]
        flags = [flag for parameter in self.params for flag in parameter.opts]
        if words and lead[-1:] != [NAME_END] and named(words, flags).has_options:
            ctx.allow_interspersed_args = True
            if NAME_END in words:  # the parser takes the first one away
                end = len(lead) + words.index(NAME_END)
                args = [*args[:end], NAME_END, *args[end:]]
        return super().parse_args(ctx, args)


async def add(
    words: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[NAME --] COMMAND ARGS... | [NAME] URL | [NAME] JSON",
            help="The command, URL or JSON from the server's documentation; - reads standard "
            "input.",
        ),
    ] = None,
    url: Annotated[
        str,
        typer.Option("--url", metavar="URL", help="URL of the server, instead of a URL argument."),
    ] = "",
    header: Annotated[
        list[str] | None,
        typer.Option(
            "--header", "-H", metavar="NAME=VALUE", help="Header for a URL. Can be repeated."
        ),
    ] = None,
    env: Annotated[
        list[str] | None,
        typer.Option(
            *("--env", "-e"),
            metavar="NAME=VALUE",
            help="Environment variable for the command. Can be repeated.",
        ),
    ] = None,
    cwd: Annotated[
        str, typer.Option("--cwd", metavar="FOLDER", help="Working folder of the command.")
    ] = "",
    transport: Annotated[
        str, typer.Option("--transport", "-t", metavar="http|sse", help="Transport for a URL.")
    ] = "",
    save: Annotated[
        bool, typer.Option("--save", help="Write to toolgate.toml instead of the store.")
    ] = False,
    project: Annotated[
        str,
        typer.Option("--project", metavar="PROJECT", help="Add the server to this project only."),
    ] = "",
    start: Annotated[
        Literal["always", "on-demand"] | None,
        typer.Option(
            "--start",
            metavar="WHEN",
            help="always or on-demand (start on the first call, stop when idle).",
        ),
    ] = None,
    idle_s: Annotated[
        float | None,
        typer.Option(
            "--idle-s",
            metavar="SECONDS",
            help="With on-demand: idle time in seconds before the server is stopped. Default: 300.",
        ),
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Only show what would be added.")
    ] = False,
    as_json: AsJson = False,
) -> int:
    """Add a server: a command line, a JSON snippet or a URL.

    toolgate add files -- npx -y @modelcontextprotocol/server-filesystem /home/me

    toolgate add linear https://mcp.linear.app/mcp

    toolgate add '{"mcpServers": {"time": {"command": "uvx", "args": ["mcp-server-time"]}}}'

    If you omit the name, it is derived from the command, URL or JSON. Options go before the command
    line. Values can contain `${env:NAME}`; it is resolved when the server starts, and the
    variable's value is not stored.
    """
    servers = _read(words or [], url)
    config = _options(header or [], env or [], cwd=cwd, transport=transport)
    if idle_s is not None and start != "on-demand":
        raise ArgumentError("--idle-s needs --start on-demand.", hint="Add --start on-demand.")
    config |= {} if start is None else {"start": start}
    config |= {} if idle_s is None else {"idle_s": idle_s}
    servers = {name: _with_options(table, config) for name, table in servers.items()}
    if dry_run:
        print_json(servers)
        return SUCCESS
    return await _add(servers, save, project, as_json)


def register(group: typer.Typer) -> None:
    """Add the command `add` to this group."""
    group.command(cls=AddCommand, context_settings={"allow_interspersed_args": False})(add)


register(app)


def _read(words: Sequence[str], url: str) -> dict[str, Json]:
    if url:
        if len(words) > 1:
            raise ArgumentError("Give exactly one of a command and --url.", hint="Leave one out.")
        return {words[0]: {"url": url}} if words else read_servers([url])
    given = named(words)
    if given.name and NAME_END in words[1:] and (stray := words[1 : list(words).index(NAME_END)]):
        raise ArgumentError(
            f"Between the name {given.name!r} and -- there is {' '.join(stray)!r}.",
            allowed="Allowed there: options.",
            hint=f"For example: toolgate add {given.name} -- COMMAND ARGS",
        )
    text = [sys.stdin.read()] if list(given.words) == ["-"] else given.words
    return read_servers(text, given.name)


def _options(headers: Sequence[str], env: Sequence[str], *, cwd: str, transport: str) -> Json:
    """Return the keys of a server's table that the options set."""
    config: Json = {"headers": _pairs("--header", headers)} if headers else {}
    config |= {"env": _pairs("--env", env)} if env else {}
    config |= {"cwd": cwd} if cwd else {}
    # Other clients use `stdio` there, which is implied by a command line.
    return config | ({"type": transport} if transport not in {"", "stdio"} else {})


_OF_URLS = {"headers": "--header", "type": "--transport"}
_OF_COMMANDS = {"env": "--env", "cwd": "--cwd"}
"""Options for commands only, by the key of a server's table that they set."""


def _with_options(table: Json, config: Json) -> Json:
    """Return the table of a server with the keys from the options."""
    is_command = "command" in table
    for key, flag in (_OF_URLS if is_command else _OF_COMMANDS).items():
        if key in config:
            raise ArgumentError(
                f"{flag} cannot be used with {'a command' if is_command else 'a URL'}.",
                hint="Leave it out.",
            )
    pairs = {
        key: {**json_object(table.get(key)), **json_object(config[key])}
        for key in ("headers", "env")
        if key in config
    }
    return {**table, **config, **pairs}


def _pairs(flag: str, texts: Sequence[str]) -> dict[str, str]:
    pairs: dict[str, str] = {}
    for text in texts:
        # headers are often copied as `Name: value`
        mark = ":" if flag == "--header" and "=" not in text.partition(":")[0] else "="
        name, separator, value = text.partition(mark)
        if not separator or not name.strip():
            raise ArgumentError(f"{flag} got {name!r}.", allowed="Allowed: NAME=VALUE.")
        pairs[name.strip()] = value.strip() if mark == ":" else value
    return pairs


async def _add(servers: dict[str, Json], save: bool, project: str, as_json: bool) -> int:
    results: list[Json] = []
    with spinner(f"Adding {', '.join(servers)}"):
        async with open_gateway(connect=list(servers)) as gateway:
            for name, config in servers.items():
                body: Json = {"name": name, "config": config, "save": save}
                body |= {"project": project} if project else {}
                try:
                    await gateway.request("POST", "servers", body)
                except GatewayResponseError as error:
                    if len(servers) == 1:
                        raise
                    results.append({"name": name, "added": False, "error": str(error)})
                    continue
                rows = await gateway.wait_for_servers(name)
                state: Json = next((row for row in rows if row["name"] == name), Json())
                results.append({"name": name, "added": True, "server": state})
    if as_json:
        print_json({"saved_in": "file" if save else "store", "servers": results})
    else:
        for result in results:
            _report(result, save=save)
    return SUCCESS if all(result["added"] for result in results) else FAILED


def _report(result: Json, *, save: bool) -> None:
    name = str(result["name"])
    if not result["added"]:
        note(f"{name} was not added: {result['error']}")
        return
    server = result["server"]
    print_text(f"Added {name} to {'toolgate.toml' if save else 'the store'}.")
    if server.get("state") == "ready":
        print_text(f"It is ready, with {plural(int(server['tools']), 'tool')}.")
        if held := int(server.get("held") or 0):
            note(
                f"In quarantine: {plural(held, 'definition')}. See: toolgate servers approve {name}"
            )
    elif server.get("state") == "disabled":
        return
    elif server.get("login_hint"):
        note(str(server["login_hint"]))
    else:
        cause = cause_of({**server, "name": name})
        note(f"It is not ready yet. {cause.found}")
        note(cause.hint)
