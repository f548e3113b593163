"""Checks of the whole configuration for contradictions between tables."""

import re
from collections.abc import Iterator
from ipaddress import ip_network

from toolgate.base.names import is_project_name
from toolgate.base.plugins import installed
from toolgate.errors import SettingError
from toolgate.settings.tables.root import META_TOOLS, Settings

_WHO = re.compile(r"everyone|(?:token|role|user(?:@[\w-]+)?|group|project):.+", re.DOTALL)

_THREAD_FIELD = re.compile(r"metadata\.\S+|[A-Za-z0-9!#$%&'*+^_`|~-]+")
_TOOL_KINDS = ("Vector Search", "NL2SQL")

_POLICIES = ("keep", "stub", "drop_pair")


def whole_errors(settings: Settings) -> Iterator[SettingError]:
    """Yield the errors of settings that are only wrong in combination."""
    where = str(settings.config_file or "The configuration")
    unknown = [name for name in settings.meta_tools if name not in META_TOOLS]
    if unknown:
        yield SettingError(
            f"{where}: meta_tools contains {unknown[0][:40]!r}.",
            allowed=f"Allowed: {', '.join(META_TOOLS)}.",
            hint="Correct or remove it.",
        )
    for key in settings.pinned:
        server, colon, tool = key.partition(":")
        if not (server and colon and tool):
            yield SettingError(
                f"{where}: pinned contains {key[:80]!r}.",
                allowed='Expected: "server:tool".',
                hint="Correct or remove it.",
            )
    enabled = [server.name for server in settings.servers if server.enabled]
    if settings.tool_names == "flat" and len(enabled) > 1:
        yield SettingError(
            f'{where}: tool_names is "flat", and these servers are enabled: {", ".join(enabled)}.',
            allowed="Allowed: one enabled server.",
            hint='Disable the others, or set tool_names = "prefixed".',
        )
    yield from _search_errors(settings, where)
    scheme = settings.store.url.partition(":")[0]
    if settings.store.url and not _is_database(scheme.partition("+")[0]):
        yield SettingError(
            f"{where}: store.url starts with {scheme[:20]!r}.",
            allowed="Allowed: sqlite:///PATH, postgresql://USER@HOST/DATABASE.",
            hint="Correct it, or remove it to use the default.",
        )

    yield from _access_errors(settings, where)
    yield from _chat_errors(settings, where)
    yield from _network_errors(settings, where)
    for name, connection in settings.connections.items():
        if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}", name):
            yield SettingError(
                f"{where}: [connections] has a connection called {name!r:.80}.",
                allowed="Allowed: up to 64 characters of A-Z a-z 0-9 _ . -, the first no sign.",
                hint="Name it after what the database contains.",
            )
        if "://" not in connection.url:
            # The value is not shown: it may be a misplaced password.
            yield SettingError(
                f"{where}: connections.{name[:80]}.url is not a database URL.",
                allowed="Allowed: sqlite:///PATH, postgresql://USER@HOST/DATABASE, and others that "
                "SQLAlchemy knows.",
                hint="Correct it, or remove the table.",
            )


def _is_database(name: str) -> bool:
    # Entry points are read only for other names, since that takes time at each start.
    return name in {"sqlite", "postgresql", "postgres"} or name in installed("store")


def _network_errors(settings: Settings, where: str) -> Iterator[SettingError]:
    """Yield the errors in listening and connecting addresses."""
    for key, values in (
        ("serve.trusted_proxies", settings.serve.trusted_proxies),
        ("outbound.allow", settings.outbound.allow),
    ):
        for value in values:
            if not _is_network(value) and (key == "serve.trusted_proxies" or "/" in value):
                yield SettingError(
                    f"{where}: {key} contains {value[:60]!r}.",
                    allowed="Expected: an address such as 10.1.2.3 or a network such as"
                    " 10.1.0.0/16.",
                    hint="Correct or remove it.",
                )
    path = settings.serve.root_path
    if path and not re.fullmatch(r"(?:/[A-Za-z0-9._~-]+)+", path):
        yield SettingError(
            f"{where}: serve.root_path is {path[:60]!r}.",
            allowed='Expected: a path such as "/tools", without a slash at its end.',
            hint="Correct or remove it.",
        )
    proxy = settings.outbound.proxy
    if proxy and proxy != "none" and not re.match(r"https?://[^/@\s]", proxy):
        yield SettingError(
            f"{where}: outbound.proxy is not a proxy URL.",
            allowed='Expected: "http://HOST:PORT", or "none".',
            hint="Correct or remove it.",
        )
    for key, endpoint in (
        ("traces.endpoint", settings.traces.endpoint),
        ("metrics.endpoint", settings.metrics.endpoint),
        ("audit.otel_endpoint", settings.audit.otel_endpoint),
    ):
        if endpoint and not re.fullmatch(r"https?://[^/:\s]\S*", endpoint):
            # The value is not shown: it may contain a password.
            yield SettingError(
                f"{where}: {key} is not a collector URL.",
                allowed="Expected: http://HOST:PORT/PATH or https://…",
                hint="Correct or remove it.",
            )
    document = settings.credentials.client_metadata_url
    if document and not re.match(r"https://[^/\s]+/[^\s]+", document):
        yield SettingError(
            f"{where}: credentials.client_metadata_url is {document[:80]!r}.",
            allowed="Expected: an https address with a path.",
            hint="Correct or remove it.",
        )


def _is_network(text: str) -> bool:
    try:
        ip_network(text, strict=False)
    except ValueError:
        return False
    return True


def _access_errors(settings: Settings, where: str) -> Iterator[SettingError]:
    """Yield the errors in projects and permission rules."""
    closed = [name for name, project in settings.project.items() if project.audit == "closed"]
    is_kept = settings.audit.enabled and settings.audit.sinks
    if not is_kept and (closed or settings.audit.on_failure == "closed"):
        yield SettingError(
            f"{where}: audit records are required for every call, but nothing is recorded.",
            hint='Set audit.enabled = true and audit.sinks = ["store"], or on_failure = "open".',
        )
    for name in settings.project:
        if not is_project_name(name):
            yield SettingError(
                f"{where}: [project] has a project called {name!r:.80}.",
                allowed="Allowed: up to 64 characters of A-Z a-z 0-9 _ . -, the first no sign;"
                " not default, not UNASSIGNED.",
                hint="Give it another name.",
            )
    yield from _project_search_errors(settings, where)
    for rule in settings.permission:
        if not rule.to or not (rule.allow or rule.deny):
            yield SettingError(
                f"{rule.source or where}: a rule in [[permission]] lacks `to`, or has neither "
                "`allow` nor `deny`.",
                allowed='Expected: to = ["role:dev"] and allow = ["github:*"] or deny = [...].',
                hint="Complete or remove it.",
            )
        for who in rule.to:
            if not _WHO.fullmatch(who):
                yield SettingError(
                    f"{rule.source or where}: a rule in [[permission]] is for {who!r:.80}.",
                    allowed="Allowed: everyone, token:NAME, role:NAME, user:NAME, user@jwt:NAME,"
                    " group:NAME, project:NAME.",
                    hint="Correct it.",
                )


def _project_search_errors(settings: Settings, where: str) -> Iterator[SettingError]:
    """Yield an error for each project that could reach no tool."""
    for name, project in settings.project.items():
        search, mode = project.optimization or settings.optimization, project.mode or settings.mode
        # If both values come from the top level, report the error once, for the top level.
        if search == "off" and mode == "meta" and (project.optimization or project.mode):
            yield SettingError(
                f'{where}: project.{name}.mode is "meta", and its search is off: its clients could'
                " reach no tool.",
                allowed='Allowed with the search off: mode = "auto" or "all".',
                hint=f"Change project.{name}.mode or project.{name}.optimization.",
            )


def _chat_errors(settings: Settings, where: str) -> Iterator[SettingError]:
    """Yield the errors in models and turns."""
    names = {alias for table in settings.models.values() for alias in table.aliases}
    names |= set(settings.models)
    asked = [
        ("chat.model", settings.chat.model),
        ("chat.helper_model", settings.chat.helper_model),
        *(
            (f"models.{name}.fallbacks", other)
            for name, table in settings.models.items()
            for other in table.fallbacks
        ),
    ]
    for key, name in asked:
        if name and name not in names:
            yield SettingError(
                f"{where}: {key} names the model {name!r:.80}, which is not in [models].",
                allowed=f"Allowed: {', '.join(sorted(names)) or 'none'}.",
                hint="Correct it, or write a table for it.",
            )
    for kind in settings.chat.tools_enabled:
        if kind not in _TOOL_KINDS:
            yield SettingError(
                f"{where}: chat.tools_enabled contains {kind!r:.60}.",
                allowed=f"Allowed: {', '.join(_TOOL_KINDS)}.",
                hint="Correct or remove it.",
            )
    for name in settings.chat.thread_fields:
        if not _THREAD_FIELD.fullmatch(name):
            yield SettingError(
                f"{where}: chat.thread_fields contains {name!r:.80}.",
                allowed="Allowed: names of headers, and metadata.NAME.",
                hint="Correct or remove it.",
            )
    for pattern, policy in settings.chat.results.items():
        if policy not in _POLICIES:
            yield SettingError(
                f"{where}: chat.results of {pattern[:80]!r} is {policy!r:.60}.",
                allowed=f"Allowed: {', '.join(_POLICIES)}.",
                hint="Set it to one of these.",
            )


def _search_errors(settings: Settings, where: str) -> Iterator[SettingError]:
    """Yield the errors in the keys of the search."""
    if (
        "off" in settings.optimizations
        and settings.mode == "meta"
        and settings.tool_names != "flat"
    ):
        part = "" if settings.experiment_percent in {0, 100} else " for a part of the conversations"
        yield SettingError(
            f'{where}: mode is "meta", and the search is off{part}: clients could reach no tool.',
            allowed='Allowed with the search off: mode = "auto" or "all".',
            hint=f'Set mode = "auto", or change optimization ({settings.optimization!r}) or '
            f"experiment_percent ({settings.experiment_percent:g}).",
        )
    for name in settings.groups:
        if name != name.strip() or not name.isprintable() or not name:
            yield SettingError(
                f"{where}: [groups] has a group called {name!r:.60}.",
                allowed="Allowed: printable names without spaces at their ends.",
                hint="Name it after the purpose of its tools.",
            )
    table = settings.catalog_search
    if table.strategy in {"off", "cloud"}:
        yield SettingError(
            f"{where}: catalog_search.strategy is {table.strategy!r}.",
            allowed="Allowed: bm25, hybrid, or another search that runs here.",
            hint="Set it to one of these.",
        )
    owners: dict[str, str] = {}
    for project, tokens in table.tokens.items():
        for token in tokens:
            problem = _token_problem(project, token)
            if owners.setdefault(token, project) != project:
                problem = f"is also a token of {owners[token]!r}"
            if problem:
                # The token itself is never shown.
                yield SettingError(
                    f"{where}: a token of catalog_search.tokens.{project[:40]} {problem}.",
                    allowed="Allowed: 16 characters or more, or sha256: and 64 hexadecimal digits.",
                    hint="Make one with: python -c 'import secrets; "
                    "print(secrets.token_urlsafe(32))'",
                )


def _token_problem(project: str, token: str) -> str:
    if not project.strip():
        return "has no project"
    if token.startswith("sha256:"):
        digits = token.removeprefix("sha256:")
        is_hash = len(digits) == 64 and set(digits.lower()) <= set("0123456789abcdef")
        return "" if is_hash else "has a hash that is none"
    if len(token) < 16:
        return f"has {len(token)} characters"
    # Such a token cannot be sent in a header.
    return "" if token.isascii() and token.isprintable() and " " not in token else "has odd signs"
