"""The text of a `toolgate.toml` with servers imported from other clients. Writes nothing."""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from toolgate.cli.setup.importing._secrets import names_of, take_secrets
from toolgate.settings import render_table, server_name, set_import
from toolgate.settings.clients.choices import Choice, with_tilde
from toolgate.types import Json


def text_with_copies(
    text: str, choices: Iterable[Choice], display_paths: Mapping[Path, str]
) -> str:
    """Return the text of a `toolgate.toml` with the chosen servers added, without their secrets."""
    for choice in choices:
        origin = f"# from {choice.file.client.title}, {display_paths[choice.file.path]}"
        origin += f"; disabled: {choice.off}" if choice.off else ""
        config, secrets = take_secrets(choice.server.config)
        if names := names_of(secrets):
            origin += f"; encrypted in the store: {', '.join(names)}"
        if choice.off:
            config.pop("disabled", None)
            config["enabled"] = False
        if choice.name != choice.server.name:
            config["title"] = choice.server.name
        table = render_table(("server", choice.name), config)
        text = f"{text.rstrip()}\n\n{_one_line(origin)}\n{table}"
    return text


def text_with_references(
    text: str, path: Path, imports: Sequence[object], choices: Sequence[Choice], home: Path
) -> str:
    """Return the text of a `toolgate.toml` that imports the files of the chosen servers.

    Args:
        text: Current text.
        path: Path for error messages.
        imports: Current imports.
        choices: Decisions about all servers.
        home: Written as `~` in paths.
    """
    added: list[object] = []
    places = dict.fromkeys((choice.file.path, choice.server.project) for choice in choices)
    for file_path, project in places:
        here = [c for c in choices if (c.file.path, c.server.project) == (file_path, project)]
        if not any(choice.state == "new" for choice in here):
            continue
        table: Json = {"file": with_tilde(file_path, home)}
        skip = [c.server.name for c in here if c.state in {"same", "client_only", "broken"}]
        rename = {
            c.server.name: c.name
            for c in here
            if c.state == "new" and c.name != server_name(c.server.name)
        }
        table |= {"project": project} if project else {}
        table |= {"skip": skip} if skip else {}
        table |= {"rename": rename} if rename else {}
        added.append(table if len(table) > 1 else table["file"])
    return set_import(text, path, [*imports, *added])


def _one_line(text: str) -> str:
    return "".join(char if char.isprintable() else "?" for char in text)
