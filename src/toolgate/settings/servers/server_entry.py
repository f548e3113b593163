"""Converts a configured server into a `ServerSpec`: names, kinds, variables, redaction."""

import hashlib
import re
import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import cast
from urllib.parse import urlsplit, urlunsplit

from toolgate.base.plugins import installed
from toolgate.errors import SettingError
from toolgate.settings.folders import expand_home
from toolgate.settings.servers.forward_headers import read_forward_headers
from toolgate.settings.servers.location import EntryLocation
from toolgate.settings.servers.overrides import (
    keep_caller_variables,
    read_overrides,
    redact_overrides,
)
from toolgate.settings.table_reader import dotted, read_table
from toolgate.settings.tables.servers import CredentialTable, ServerTable
from toolgate.settings.variables import Missing, is_reference
from toolgate.settings.variables import replace as fill
from toolgate.types import (
    DEFAULT_PROJECT,
    CacheRule,
    CredentialSpec,
    Json,
    ServerSpec,
    ToolOverride,
)

_NAME = re.compile(r"[A-Za-z0-9_.-]{1,32}")

_KINDS: Mapping[str, str] = {
    "": "stdio",
    "stdio": "stdio",
    "local": "stdio",
    "http": "http",
    "streamable-http": "http",
    "streamable_http": "http",
    "streamablehttp": "http",
    "remote": "http",
    "sse": "sse",
}

_HEADER_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")

_SECRET_FLAG = re.compile(
    r"(?i)(?:^|[-_])(?:key|token|secret|password|passwd|pat|auth|bearer|header|credential)s?$"
)

_SECRET_VALUE = re.compile(
    r"(?i)^(?:sk-|gh[pousr]_|github_pat_|glpat-|xox[abp]-|AKIA|eyJ|Bearer |Basic )|://[^/@\s]+@"
)

_HIDDEN = "***"

_IDENTIFIERS = r"[^\W\d]\w*(?:\.[^\W\d]\w*)*"
_TARGET = re.compile(
    rf"(?P<file>.+\.py)(?P<attribute>:{_IDENTIFIERS})?|{_IDENTIFIERS}(?::{_IDENTIFIERS})?"
)
"""What `python` may name: a file or a module, or an object in it."""


def server_name(original: str) -> str:
    """Return a valid name for tool keys: the original if it fits, else cut, with a hash appended.

    Depends only on the original, so that other servers never change it.
    """
    if _NAME.fullmatch(original) and "__" not in original:
        return original
    words = _ascii_words(original)
    digest = hashlib.sha256(original.encode(errors="surrogatepass")).hexdigest()[:6]
    return f"{words[:25].strip('-_.') or 'server'}-{digest}"


def readable_name(original: str) -> str:
    """Return a valid name without a hash if the valid characters suffice; else `server_name`.

    It may not be unique: for names that a person is about to write down.
    """
    words = _ascii_words(original)
    has_all_letters = sum(map(str.isalnum, original)) == sum(map(str.isalnum, words))
    return words if has_all_letters and _NAME.fullmatch(words) else server_name(original)


def _ascii_words(original: str) -> str:
    """Replace everything that is invalid in tool keys with dashes."""
    ascii_only = unicodedata.normalize("NFKD", original).encode("ascii", "ignore").decode()
    return re.sub(r"_{2,}", "_", re.sub(r"[^A-Za-z0-9_.-]+", "-", ascii_only)).strip("-_.")


def read_server(
    name: str, config: object, location: EntryLocation, *, environment: Mapping[str, str]
) -> ServerSpec:
    """Create a server from a table with our own keys.

    A missing variable only affects this server: it is returned disabled, with its `problem`.

    Args:
        name: The name in the file.
        config: The table.
        location: Where the table is.
        environment: Variables from its `env_file`; `env` has precedence.

    Raises:
        SettingError: A key is unknown, a value is wrong, or it is unclear how to connect to it.
    """
    table = read_table(ServerTable, config, location.document, location.path)
    entry = cast("Json", config)
    kind = _kind(table, location)
    enabled = table.enabled and not table.disabled
    problem = ""
    credentials = CredentialSpec()
    overrides: Mapping[str, ToolOverride] = {}
    try:
        overrides = _overrides(table, location)
        options = _options(kind, table, location, environment)
        credentials = _credentials(kind, table.credentials, location)
    except Missing as missing:
        options = {}
        if enabled:
            problem = missing_problem(name, missing.name, location)
    tool_timeouts_s = {
        tool: settings.timeout_s
        for tool, settings in table.tools.items()
        if settings.timeout_s is not None
    }
    caches = {
        tool: CacheRule(ttl_s=settings.cache_s, scope=settings.cache_for)
        for tool, settings in table.tools.items()
        if settings.cache_s is not None
    }
    _check_caches(caches, table, location)
    max_timeout_s = table.max_timeout_s
    if "max_timeout_s" not in entry:
        max_timeout_s = max(max_timeout_s, table.timeout_s, *tool_timeouts_s.values(), 0)
    elif max_timeout_s < table.timeout_s:
        raise location.document.error(
            (*location.path, "max_timeout_s"),
            f"max_timeout_s of server {name!r} is {max_timeout_s:g}, less than its timeout_s.",
            allowed=f"Allowed: {table.timeout_s:g} or more.",
        )
    mapped = server_name(name)
    return ServerSpec(
        name=mapped,
        kind=kind,
        options=options,
        title=table.title or ("" if mapped == name else name),
        enabled=enabled and not problem,
        start=table.start,
        idle_s=table.idle_s,
        timeout_s=table.timeout_s,
        max_timeout_s=max_timeout_s,
        tool_timeouts_s=tool_timeouts_s,
        pinned=table.pinned,
        forward_headers=read_forward_headers(table, kind, location),
        trust=table.trust,
        max_message_bytes=table.max_message_bytes,
        era=table.era,
        project_id=table.project or DEFAULT_PROJECT,
        tool_permissions=table.tool_permissions,
        tool_overrides=overrides,
        tool_caches=caches,
        audit=table.audit,
        credentials=credentials,
        source=str(location.document.path),
        problem=problem,
    )


def _check_caches(
    caches: Mapping[str, CacheRule], table: ServerTable, location: EntryLocation
) -> None:
    """Refuse to share results of a server that depend on the user or project."""
    shared_by = {"server": ("caller", "project", "all"), "project": ("caller", "project")}
    allowed = shared_by.get(table.credentials.per, ("caller",))
    for tool, rule in caches.items():
        if rule.scope not in allowed:
            raise location.document.error(
                (*location.path, "tools", tool, "cache_for"),
                f"cache_for of tool {tool!r} is {rule.scope!r}, and the credentials of the server "
                f"are per {table.credentials.per}.",
                allowed=f"Allowed: {', '.join(allowed)}.",
                hint="Correct or remove it.",
            )


def _overrides(table: ServerTable, location: EntryLocation) -> Mapping[str, ToolOverride]:
    values = keep_caller_variables(location.scope.values)
    place = replace(location, scope=replace(location.scope, values=values))
    return read_overrides(
        table.tools,
        location.document,
        location.path,
        lambda value, key: _filled_values(value, key, place),
    )


def redact(config: Mapping[str, object]) -> Json:
    """Return a configuration for display: references to variables remain, values do not."""
    redacted: Json = dict(config)
    for name in ("env", "headers", "http_headers", "environment", "options"):
        values = redacted.get(name)
        if isinstance(values, Mapping):
            pairs = cast("Mapping[str, object]", values).items()
            redacted[name] = {key: _hide(value) for key, value in pairs}
    credentials = redacted.get("credentials")
    if isinstance(credentials, Mapping):
        table = cast("Mapping[str, object]", credentials)
        hidden = {"client_secret"} & table.keys()
        redacted["credentials"] = {**table, **{name: _hide(table[name]) for name in hidden}}
    if isinstance(redacted.get("tools"), Mapping):
        redacted["tools"] = redact_overrides(cast("Json", redacted["tools"]), _hide)
    if isinstance(redacted.get("proxy"), str):
        redacted["proxy"] = _hide_in_url(redacted["proxy"])
    args = redacted.get("args")
    if isinstance(args, Sequence) and not isinstance(args, str):
        redacted["args"] = _hide_arguments(
            [_as_text(part) for part in cast("Sequence[float | str]", args)]
        )
    for name in ("url", "serverUrl", "httpUrl"):
        if isinstance(redacted.get(name), str):
            redacted[name] = _hide_in_url(redacted[name])
    return redacted


def _kind(table: ServerTable, location: EntryLocation) -> str:
    written = table.type or table.transport
    key = "type" if table.type else "transport"
    kind = _KINDS.get(written.strip().lower())
    if kind is None and written in installed("transport"):
        return _plugin_kind(written, table, location)
    if kind is None and table.options:
        raise _unknown_kind(written, key, location)
    if table.options:
        raise location.document.error(
            (*location.path, "options"),
            f"{dotted(location.path)} has options, which only transports of plugins take.",
            hint="Remove options, or set type to the name of the transport.",
        )
    ways = [name for name in ("command", "url", "python") if getattr(table, name)]
    if len(ways) != 1:
        problem = f"has {' and '.join(ways)}" if ways else "has no command, url or python"
        raise location.document.error(
            location.path,
            f"{dotted(location.path)} {problem}.",
            allowed="Expected: one of command (a program), url (an address), python (an object).",
            hint="Add what is missing, or remove the server." if not ways else "Remove the others.",
        )
    if ways == ["python"]:
        return "inprocess"
    if kind is None:
        raise _unknown_kind(written, key, location)
    if ways == ["command"]:
        if kind != "stdio":
            raise _contradiction(location, key, written, "command", "url")
        return "stdio"
    if written and kind == "stdio":
        raise _contradiction(location, key, written, "url", "command")
    if not written:
        path = re.split(r"[?#]", _without_variables(table.url))[0]
        return "sse" if path.rstrip("/").endswith("/sse") else "http"
    return kind


def _plugin_kind(kind: str, table: ServerTable, location: EntryLocation) -> str:
    for name in ("command", "url", "python"):
        if getattr(table, name):
            raise location.document.error(
                (*location.path, name),
                f"{dotted(location.path)} has a {name}, which the transport {kind!r} does not use.",
                hint=f"Move it to {dotted((*location.path, 'options'))}, or remove it.",
            )
    return kind


def _unknown_kind(written: str, key: str, location: EntryLocation) -> SettingError:
    return location.document.error(
        (*location.path, key),
        f"{key} of {dotted(location.path)} is {written[:40]!r}.",
        allowed=f"Allowed: {', '.join(['stdio', 'http', 'sse', *installed('transport')])}.",
        hint="Correct or remove it.",
    )


def _contradiction(
    location: EntryLocation, key: str, written: str, has: str, lacks: str
) -> SettingError:
    return location.document.error(
        (*location.path, key),
        f"{dotted(location.path)} has a {has}, but its {key} is {written[:40]!r}.",
        hint=f"Remove {key}, or write a {lacks} in place of the {has}.",
    )


def _options(
    kind: str, table: ServerTable, location: EntryLocation, environment: Mapping[str, str]
) -> Json:
    if kind == "inprocess":
        return {"target": _target(table.python, location, environment)}
    if kind == "stdio":
        return _program(table, location, environment)
    if kind not in {"http", "sse"}:
        return cast("Json", _filled_values(table.options, "options", location))
    url = _filled(table.url, "url", location)
    headers = {
        name: _filled(_as_text(value), f"headers.{name}", location)
        for name, value in table.headers.items()
    }
    _check_url(url, location)
    for name, value in headers.items():
        if not _HEADER_NAME.fullmatch(name) or not value.isprintable():
            raise location.document.error(
                (*location.path, "headers", name),
                f"the header {name!r} of {dotted(location.path)} has a name or value that HTTP "
                "does not allow.",
                hint="Remove line breaks and other control characters.",
            )
    if urlsplit(url).username is not None and "authorization" in map(str.lower, headers):
        raise location.document.error(
            (*location.path, "url"),
            f"{dotted(location.path)} has credentials in its url and a header Authorization.",
            hint="Remove one of them: a request can send only one.",
        )
    return {"url": url, "headers": headers, **_connection(table, location)}


def _connection(table: ServerTable, location: EntryLocation) -> Json:
    """Return the certificates and the proxy that are set."""
    environ = location.scope.environ
    options: Json = {
        name: str(location.folder / expand_home(_filled(path, f"tls.{name}", location), environ))
        for name in ("ca", "cert", "key")
        if (path := getattr(table.tls, name))
    }
    if proxy := _filled(table.proxy, "proxy", location):
        if proxy != "none" and not re.match(r"https?://[^/\s]", proxy):
            raise location.document.error(
                (*location.path, "proxy"),
                f"proxy of {dotted(location.path)} is not a proxy URL.",
                allowed='Expected: "http://HOST:PORT", or "none".',
            )
        options["proxy"] = proxy
    return options


def _credentials(kind: str, table: CredentialTable, location: EntryLocation) -> CredentialSpec:
    """Return the credentials that are sent to a server besides those in its options."""
    path = (*location.path, "credentials")
    over_http = kind in {"http", "sse"}
    if table.type != "stored" and not over_http:
        raise location.document.error(
            (*path, "type"),
            f"{dotted(path)} says {table.type!r}, and the server has no url.",
            allowed='Allowed for it: "stored".',
            hint="Give variables of its process instead: toolgate credentials set.",
        )
    if table.type == "token_exchange" and table.per != "user":
        table = replace(table, per="user")
    texts = {
        name: _filled(getattr(table, name), name, replace(location, path=path))
        for name in ("client_id", "client_secret", "issuer", "token_url", "audience")
    }
    for name in ("issuer", "token_url"):
        if texts[name]:
            _check_url(texts[name], replace(location, path=path), name)
    by_machine = table.type in {"client_credentials", "token_exchange"}
    if by_machine and not texts["client_id"]:
        raise location.document.error(
            path,
            f"{dotted(path)} has no client_id, which {table.type} needs.",
            hint="Register a client at the authorization server, and write its id and secret here.",
        )
    is_named = texts["issuer"] or (by_machine and texts["token_url"])
    is_secret = table.client_secret or table.type == "token_exchange"
    if is_secret and not is_named:
        # Discovery starts at the server, which could name an authorization server of its own and
        # so receive the secret, or the callers' tokens.
        raise location.document.error(
            path,
            f"{dotted(path)} does not say which authorization server may receive"
            f" {'the client_secret' if table.client_secret else 'tokens of callers'}.",
            allowed=f"Expected: issuer{' or token_url' if by_machine else ''}.",
            hint="Set issuer to the URL of that server.",
        )
    for name in table.headers:
        if not _HEADER_NAME.fullmatch(name) or not over_http:
            raise location.document.error(
                (*path, "headers"),
                f"{dotted(path)} names the header {name[:60]!r}, which cannot be sent.",
                hint="Correct or remove it." if over_http else "Name variables in env instead.",
            )
    for name in table.env:
        if not name or "=" in name or "\0" in name or kind != "stdio":
            raise location.document.error(
                (*path, "env"),
                f"{dotted(path)} names the variable {name[:60]!r}, which cannot be set.",
                hint="Name headers instead." if over_http else "Correct or remove it.",
            )
    return CredentialSpec(
        type=table.type,
        per=table.per,
        scopes=table.scopes,
        headers=table.headers,
        env=table.env,
        **texts,
    )


def _program(table: ServerTable, location: EntryLocation, environment: Mapping[str, str]) -> Json:
    environ = location.scope.environ
    command = expand_home(_filled(table.command, "command", location), environ)
    if command.startswith(("./", "../", ".\\", "..\\")):
        command = str(location.folder / command)
    options: Json = {
        "command": command,
        "args": [
            expand_home(_filled(_as_text(part), "args", location), environ) for part in table.args
        ],
        "env": dict(environment),
    }
    for name, value in table.env.items():
        text = _as_text(value)
        filled = _filled(text, f"env.{name}", location)
        if not name or "=" in name or "\0" in name:
            raise location.document.error(
                (*location.path, "env"),
                f"{name!r} cannot be the name of a variable.",
                allowed="Expected: letters, digits and underscores.",
            )
        if filled or not _is_optional(text):
            options["env"][name] = filled
    if table.cwd:
        cwd = expand_home(_filled(table.cwd, "cwd", location), environ)
        options["cwd"] = str(location.folder / cwd)
    return options


def _target(python: str, location: EntryLocation, environment: Mapping[str, str]) -> str:
    """Return the name of the object; a file is relative to the folder of the configuration."""
    named = _TARGET.fullmatch(python)
    if named is None:
        raise location.document.error(
            (*location.path, "python"),
            f"python of {dotted(location.path)} is {python[:60]!r}.",
            allowed='Expected: "FILE.py", "FILE.py:NAME", "MODULE" or "MODULE:NAME", '
            'such as "my_tools.py".',
        )
    if file := named["file"]:
        return f"{location.folder / expand_home(file, environment)}{named['attribute'] or ''}"
    return python


def _check_url(url: str, location: EntryLocation, key: str = "url") -> None:
    try:
        parts = urlsplit(url)
        good = parts.scheme in {"http", "https"} and bool(parts.hostname) and parts.port != 0
    except ValueError:
        good = False
    if not good or not url.isprintable() or " " in url:
        raise location.document.error(
            (*location.path, key),
            f"{key} of {dotted(location.path)} is not a server URL.",
            allowed="Expected: http://HOST[:PORT]/PATH or https://…",
            hint="Correct it.",
        )


def _filled(text: str, key: str, location: EntryLocation) -> str:
    """Replace the variables in a text; rejects text that is invalid in processes and headers."""
    filled = fill(text, location.scope)
    if "\0" in filled or not _is_encodable(filled):
        raise location.document.error(
            (*location.path, *key.split(".", 1)),
            f"{dotted(location.path)}.{key} contains a character that cannot be passed on.",
            hint="Remove NUL characters and half characters (\\ud800 to \\udfff).",
        )
    return filled


def _filled_values(value: object, key: str, location: EntryLocation) -> object:
    """Replace the variables in all strings of a value."""
    if isinstance(value, str):
        return _filled(value, key, location)
    if isinstance(value, Mapping):
        table = cast("Mapping[str, object]", value)
        return {
            name: _filled_values(item, f"{key}.{name}", location) for name, item in table.items()
        }
    if isinstance(value, list | tuple):
        items = cast("Sequence[object]", value)
        return [_filled_values(item, key, location) for item in items]
    return value


def missing_problem(name: str, variable: str, location: EntryLocation) -> str:
    """Return why a server with a missing variable is disabled."""
    where = location.document.location(location.path)
    if variable.startswith("${"):
        return (
            f"{where}: server {name!r} uses {variable}, which only its editor can fill in. "
            "Write the value in its place, or disable the server."
        )
    if variable.startswith("workspaceFolder"):
        return (
            f"{where}: server {name!r} uses ${{{variable}}}, and no folder is open here. "
            "Write the folder in its place, or disable the server."
        )
    return (
        f"{where}: server {name!r} needs the variable {variable}, which is not set. "
        f"Set {variable} in the environment of Toolgate, write ${{{variable}:-DEFAULT}}, "
        f"write ${{secret:{variable}}} and store it (toolgate credentials set {server_name(name)} "
        f"--secret {variable}), or disable the server."
    )


def _without_variables(text: str) -> str:
    return re.sub(r"\$\{[^}]*\}", "x", text)


def _is_optional(text: str) -> bool:
    return re.fullmatch(r"\$\{[^}:]+:-\}|\$\{env:[^}:]+:-\}", text) is not None


def _is_encodable(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _as_text(value: float | str) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return value if isinstance(value, str) else f"{value:.15g}"


def _hide(value: object) -> str:
    text = str(value)
    return text if is_reference(text) or not text else _HIDDEN


def _hide_arguments(args: list[str]) -> list[str]:
    arguments: list[str] = []
    after_flag = False
    for part in args:
        flag, equals, value = part.partition("=")
        if after_flag and not part.startswith("-"):
            arguments.append(_hide(part))
        elif equals and value and (_SECRET_FLAG.search(flag) or _SECRET_VALUE.search(value)):
            arguments.append(f"{flag}={_hide(value)}")
        elif _SECRET_VALUE.search(part) and not is_reference(part):
            arguments.append(_hide_in_url(part) if "://" in part else _HIDDEN)
        else:
            arguments.append(_hide_in_url(part) if "://" in part else part)
        after_flag = part.startswith("-") and not equals and bool(_SECRET_FLAG.search(part))
    return arguments


def _hide_in_url(url: str) -> str:
    """Return the URL without user, password and the values of its query."""
    try:
        parts = urlsplit(url)
        host = parts.netloc.rpartition("@")[2]
    except ValueError:
        return _HIDDEN
    netloc = f"{_HIDDEN}@{host}" if "@" in parts.netloc else host
    query = re.sub(
        r"=([^&]*)", lambda match: f"={_hide(match[1])}" if match[1] else "=", parts.query
    )
    return urlunsplit((parts.scheme, netloc, parts.path, query, parts.fragment))
