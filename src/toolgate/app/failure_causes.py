"""Find out from error and stderr why a server does not start, and the command that helps."""

import re
import shlex
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias, cast

from toolgate.base.processes.error_line import telling_line
from toolgate.types import Json, ServerStatus


@dataclass(frozen=True, kw_only=True)
class Cause:
    """A known reason why a server cannot be used."""

    found: str
    """One sentence about the reason."""

    hint: str
    """What to do, as a command where there is one."""


@dataclass(frozen=True, kw_only=True)
class FailedServer:
    """The server that a cause is about."""

    name: str
    """Its name."""

    is_stored: bool
    """Whether it is in the store, so that no file has a table for it."""

    def edit(self, change: str, where: str = "of [server.{}]", *, again: str) -> str:
        """Say how to change its configuration; a stored server has to be added again.

        Args:
            change: What to change, as an instruction, such as `correct url`.
            where: Where a file has it, with `{}` for the name.
            again: What follows the name in the command that adds it.
        """
        if not self.is_stored:
            return f"{change} {where.format(self.name)}"
        return f"{change}: toolgate servers remove {self.name} && toolgate add {self.name} {again}"


_URL: Final = "URL"
_COMMAND: Final = "-- COMMAND ARGS"

_Explain: TypeAlias = Callable[[re.Match[str], FailedServer], Cause]


def find_cause(
    name: str, error: str, stderr: Sequence[str], *, is_stored: bool = False
) -> Cause | None:
    """Find the cause of a failure; None if it is not a known one.

    Args:
        name: Name of the server, for commands.
        error: Why the connection failed, as reported by the gateway.
        stderr: The last lines of its standard error, oldest first.
        is_stored: Whether it is in the store, not in a file.
    """
    server = FailedServer(name=name, is_stored=is_stored)
    for line in (error, *stderr):
        for pattern, explain in _CAUSES:
            match = pattern.search(line)
            if match:
                return explain(match, server)
    return None


def cause_of(server: Json) -> Cause:
    """Say why a server that a gateway lists is not ready, by its error message and stderr.

    Args:
        server: As `/api/v1/servers` has it.
    """
    return _cause(
        str(server["name"]),
        str(server.get("last_error") or ""),
        cast("list[str]", server.get("stderr_tail") or []),
        is_stored=server.get("source") == "store",
        needs_login=bool(server.get("login_hint")),
    )


def cause_of_status(status: ServerStatus) -> Cause:
    """Say why a server is not ready, by its error message and stderr."""
    return _cause(
        status.name,
        status.last_error or "",
        status.stderr_tail,
        is_stored=status.source == "store",
        needs_login=bool(status.login_hint),
    )


def _cause(
    name: str, error: str, stderr: Sequence[str], *, is_stored: bool, needs_login: bool
) -> Cause:
    if needs_login:
        return Cause(found="It needs a login.", hint=f"Log in: toolgate servers login {name}")
    return find_cause(name, error, stderr, is_stored=is_stored) or Cause(
        found=telling_line(stderr) or error or "It is still starting.",
        hint=f"See: toolgate servers test {name}",
    )


def _corrected(server: FailedServer, change: str, *, again: str) -> str:
    """Say how to change the configuration, and how to try it; adding a server tries it too."""
    edit = server.edit(change, again=again)
    return edit if server.is_stored else f"{edit}. Then: toolgate servers test {server.name}"


def _docker_down(match: re.Match[str], server: FailedServer) -> Cause:
    start = "sudo systemctl start docker" if sys.platform == "linux" else "open Docker Desktop"
    return Cause(
        found=f"{match['text'].rstrip('. ')}.",
        hint=f"Start Docker: {start}. Then: toolgate servers test {server.name}",
    )


def _docker_denied(match: re.Match[str], server: FailedServer) -> Cause:
    return Cause(
        found=f"{match['text'].rstrip('. ')}.",
        hint="Join the group of Docker: sudo usermod -aG docker $USER. Then log in again, and: "
        f"toolgate servers test {server.name}",
    )


def _docker_image(match: re.Match[str], server: FailedServer) -> Cause:
    return Cause(
        found=f"The image {match['image']!r} cannot be pulled.",
        hint=f"See why: docker pull {match['image']}. Then: toolgate servers test {server.name}",
    )


def _unknown_host(match: re.Match[str], server: FailedServer) -> Cause:
    host = match["host"].strip("\"'")
    address = match.string[: match.start()]
    if match.re is _OWN_UNKNOWN_HOST and "//" in address and host not in address:
        return _proxy_cause(f"The proxy {host} cannot be reached: DNS does not know it.", server)
    return Cause(
        found=f"The name {host!r} cannot be resolved: DNS does not know it, or no DNS server "
        "answers.",
        hint=f"Look it up: nslookup {host}. Connect to the network or VPN that knows it, or "
        + server.edit("correct the name", "in [server.{}]", again=_URL),
    )


def _no_dns(match: re.Match[str], server: FailedServer) -> Cause:
    del match
    return Cause(
        found="A host name cannot be resolved: DNS does not know it, or no DNS server answers.",
        hint="Check the network, or its VPN. See the whole output: toolgate servers test "
        f"{server.name}",
    )


def _expired(match: re.Match[str], server: FailedServer) -> Cause:
    del match
    return Cause(
        found="The TLS certificate of the server has expired, or the clock of this machine is "
        "wrong.",
        hint=f"Check the clock: date. Otherwise whoever runs {server.name!r} must renew the "
        "certificate.",
    )


def _other_name(match: re.Match[str], server: FailedServer) -> Cause:
    del match
    return Cause(
        found="The TLS certificate of the server is for another host name.",
        hint=server.edit("Use a name from the certificate in url", again=_URL),
    )


def _unknown_issuer(match: re.Match[str], server: FailedServer) -> Cause:
    is_child = match.re is not _OWN_UNKNOWN_ISSUER
    advice = (
        server.edit(
            'write env = { NODE_EXTRA_CA_CERTS = "FILE", SSL_CERT_FILE = "FILE" }',
            "in [server.{}]",
            again="--env NODE_EXTRA_CA_CERTS=FILE --env SSL_CERT_FILE=FILE -- COMMAND ARGS",
        )
        if is_child
        else server.edit(
            'write ca = "FILE"',
            "in [server.{}.tls]",
            again="""'{"url": "URL", "tls": {"ca": "FILE"}}'""",
        )
    )
    return Cause(
        found="The TLS certificate is not trusted: it is self-signed, or from an authority that "
        "this machine does not know, such as a proxy that inspects traffic.",
        hint=f"Get the certificate of the authority as a PEM file, and {advice}. Then: "
        f"toolgate servers test {server.name}",
    )


def _no_tls(match: re.Match[str], server: FailedServer) -> Cause:
    del match
    return Cause(
        found="The server does not speak TLS on this port.",
        hint=server.edit(
            "If it serves plain HTTP, write http:// for https:// in url",
            again=_URL,
        ),
    )


def _without_proxy(server: FailedServer) -> str:
    add = """'{"url": "URL", "proxy": "none"}'"""
    return server.edit('go without a proxy: proxy = "none"', "in [server.{}].", again=add)


def _proxy_down(match: re.Match[str], server: FailedServer) -> Cause:
    return _proxy_cause(f"The proxy {match['proxy']} cannot be reached.", server)


def _proxy_cause(found: str, server: FailedServer) -> Cause:
    return Cause(
        found=found,
        hint="Correct HTTPS_PROXY, HTTP_PROXY, or proxy of the server or under [outbound], or "
        f"{_without_proxy(server)}",
    )


def _tunnel_failed(match: re.Match[str], server: FailedServer) -> Cause:
    del match
    return Cause(
        found="It cannot connect through the proxy that HTTPS_PROXY names.",
        hint="Correct HTTPS_PROXY where Toolgate runs, or unset it. Then: toolgate servers test "
        f"{server.name}",
    )


def _proxy_unanswered(match: re.Match[str], server: FailedServer) -> Cause:
    return Cause(
        found=f"It does not answer, and nothing answers at its proxy {match['proxy']}.",
        hint="Correct HTTPS_PROXY, HTTP_PROXY and ALL_PROXY where Toolgate runs, or unset them. "
        f"Then: toolgate servers test {server.name}",
    )


def _proxy_login(match: re.Match[str], server: FailedServer) -> Cause:
    del match
    return Cause(
        found="The proxy wants a user name and a password (407).",
        hint="Write them into the address: HTTPS_PROXY=http://USER:PASSWORD@HOST:PORT, or "
        f"{_without_proxy(server)}",
    )


def _proxy_refuses(match: re.Match[str], server: FailedServer) -> Cause:
    return Cause(
        found=f"The proxy refuses to connect to the server ({match['status']}).",
        hint=f"Ask whoever runs the proxy to allow it, or {_without_proxy(server)}",
    )


def _python_module(match: re.Match[str], server: FailedServer) -> Cause:
    module = match["module"].partition(".")[0]
    return Cause(
        found=f"Its Python has no module {match['module']!r}.",
        hint=f"Install the package that has it with the Python of this server, such as: "
        f"python -m pip install {module}. Then: toolgate servers test {server.name}",
    )


def _node_module(match: re.Match[str], server: FailedServer) -> Cause:
    return Cause(
        found=f"Node.js finds no module {match['module']!r}.",
        hint="Install and build the server: npm install && npm run build. Or "
        + server.edit("correct the path in args", again=_COMMAND),
    )


def _npm_package(match: re.Match[str], server: FailedServer) -> Cause:
    return Cause(
        found=f"The npm registry has no package {match['package']!r}.",
        hint="Search for it: npm search "
        f"{match['package'].partition('@')[0] or match['package']}. Then "
        + server.edit("correct its name in args", again=_COMMAND),
    )


def _python_package(match: re.Match[str], server: FailedServer) -> Cause:
    return Cause(
        found=f"The Python package index has no package {match['package']!r}.",
        hint=_corrected(server, "Correct its name in args", again=_COMMAND),
    )


def _variable(match: re.Match[str], server: FailedServer) -> Cause:
    name = match["name"]
    return Cause(
        found=f"{match['text'].strip().rstrip('.')}.",
        hint=f"Give it the value: toolgate credentials set {server.name} --env {name}",
    )


def _own_variable(match: re.Match[str], server: FailedServer) -> Cause:
    name = match["name"]
    return Cause(
        found=f"It needs the variable {name}, which is not set.",
        hint=f"Set it where Toolgate runs: export {name}=VALUE. Then: toolgate servers test "
        f"{server.name}. A running gateway needs a new start: toolgate stop && toolgate start",
    )


def _port_taken(match: re.Match[str], server: FailedServer) -> Cause:
    del match
    return Cause(
        found="It listens on a port that another program uses.",
        hint="Stop the other program, or "
        + server.edit("give it another port in args or env", again=_COMMAND),
    )


def _nobody_listens(match: re.Match[str], server: FailedServer) -> Cause:
    return Cause(
        found=f"Nothing listens at {match['url']}.",
        hint="Start that server, or " + _corrected(server, "correct url", again=_URL),
    )


def _no_endpoint(match: re.Match[str], server: FailedServer) -> Cause:
    what = "a web page" if match["page"] else match["status"]
    return Cause(
        found=f"{match['url']} answers with {what}, not as an MCP server.",
        hint="See its documentation: its path is often /mcp or /sse. "
        + _corrected(server, "Correct url", again=_URL),
    )


def _wants_login(match: re.Match[str], server: FailedServer) -> Cause:
    return Cause(
        found=f"{match['url']} wants a login, or a key in a header ({match['status']}).",
        hint=f"toolgate servers login {server.name}, or: toolgate credentials set {server.name} "
        "--header Authorization",
    )


def _is_reset(match: re.Match[str], server: FailedServer) -> Cause:
    return Cause(
        found=f"{match['url']} ends the connection without an answer.",
        hint=_corrected(server, "If it speaks TLS, write https:// in url", again=_URL),
    )


def _no_folder(match: re.Match[str], server: FailedServer) -> Cause:
    return Cause(
        found=f"The folder {match['folder']!r} in which it is to run does not exist.",
        hint=f"Create it: mkdir -p {shlex.quote(match['folder'])}, or "
        + server.edit("correct cwd", "of [server.{}]", again="--cwd FOLDER -- COMMAND ARGS"),
    )


def _python_file(match: re.Match[str], server: FailedServer) -> Cause:
    return Cause(
        found=f"Python finds no file {match['file']!r}.",
        hint=_corrected(server, "Correct the path in args", again=_COMMAND),
    )


def _required_argument(match: re.Match[str], server: FailedServer) -> Cause:
    return Cause(
        found=f"It lacks arguments: {match['names'].strip()}.",
        hint=_corrected(server, "Add them to args", again=_COMMAND),
    )


def _not_permitted(match: re.Match[str], server: FailedServer) -> Cause:
    return Cause(
        found=f"It may not write to {match['path']!r}.",
        hint=f"Make it writable: sudo chown -R $USER {shlex.quote(match['path'])}, or choose "
        f"another place. Then: toolgate servers test {server.name}",
    )


def _newer_libc(match: re.Match[str], server: FailedServer) -> Cause:
    return Cause(
        found=f"The program needs {match['version'].replace('_', ' ')}, which this system is too "
        "old for.",
        hint=f"Install a build for this system, or run it in a container. Then: "
        f"toolgate servers test {server.name}",
    )


_OWN_UNKNOWN_HOST: Final = re.compile(r"the name '(?P<host>[^']+)' cannot be resolved")
_OWN_UNKNOWN_ISSUER: Final = re.compile(r"certificate is not trusted \((?:self|unknown)")

_CAUSES: Final[tuple[tuple[re.Pattern[str], _Explain], ...]] = (
    # Docker: https://docs.docker.com/engine/daemon/troubleshoot/
    (
        re.compile(
            r"(?P<text>permission denied while trying to connect to the Docker (?:daemon|API)"
            r"[^:]*)",
            re.IGNORECASE,
        ),
        _docker_denied,
    ),
    (
        re.compile(
            r"(?P<text>Cannot connect to the Docker daemon(?: at [^\s]*[^\s.])?"
            r"|failed to connect to the docker API(?: at [^\s;]+)?"
            r"|Cannot connect to Podman)",
            re.IGNORECASE,
        ),
        _docker_down,
    ),
    (re.compile(r"pull access denied for (?P<image>[^\s,]+)"), _docker_image),
    (re.compile(r"manifest for (?P<image>\S+) not found"), _docker_image),
    # This gateway: messages of toolgate.security.outbound.describe_failure.
    (_OWN_UNKNOWN_HOST, _unknown_host),
    (re.compile(r"certificate is not trusted \(expired"), _expired),
    (re.compile(r"certificate is not trusted \(for another"), _other_name),
    (_OWN_UNKNOWN_ISSUER, _unknown_issuer),
    (re.compile(r"^No connection to (?P<url>\S+): Connection refused"), _nobody_listens),
    (
        re.compile(r"^The server at (?P<url>\S+) answered (?P<status>40[13] [A-Za-z]+)"),
        _wants_login,
    ),
    (
        re.compile(
            r"^The server at (?P<url>\S+) answered (?P<status>404 Not Found|405 [A-Za-z ]+"
            r"|200 with (?P<page>text/html))"
        ),
        _no_endpoint,
    ),
    (
        re.compile(r"^The connection to (?P<url>http:\S+) ended before the answer"),
        _is_reset,
    ),
    (re.compile(r"^The folder '(?P<folder>[^']+)' to run .* does not exist"), _no_folder),
    (re.compile(r"does not speak TLS on this port"), _no_tls),
    (re.compile(r"the proxy (?P<proxy>\S+) cannot be reached"), _proxy_down),
    (re.compile(r"the proxy wants a login"), _proxy_login),
    (re.compile(r"the proxy refused \((?P<status>\d+)"), _proxy_refuses),
    (re.compile(r"\btunnel error\b"), _tunnel_failed),  # uv
    (re.compile(r"the proxy variables name (?P<proxy>\S+), where"), _proxy_unanswered),
    # Node.js, Python, Go and Rust: messages of their standard libraries.
    (re.compile(r"getaddrinfo (?:ENOTFOUND|EAI_AGAIN) (?P<host>[\w.-]+)"), _unknown_host),
    (re.compile(r"lookup (?P<host>[\w.-]+)(?: on \S+)?: no such host"), _unknown_host),
    (
        re.compile(
            r"Name or service not known|Temporary failure in name resolution"
            r"|nodename nor servname provided|failed to lookup address information"
            r"|\bdns error\b"
        ),
        _no_dns,
    ),
    (re.compile(r"CERT_HAS_EXPIRED|certificate has expired", re.IGNORECASE), _expired),
    (
        re.compile(
            r"SELF_SIGNED_CERT|self[- ]signed certificate|UNABLE_TO_VERIFY_LEAF_SIGNATURE"
            r"|UNABLE_TO_GET_ISSUER_CERT|unable to get local issuer certificate"
            r"|CERTIFICATE_VERIFY_FAILED|certificate signed by unknown authority"
            r"|invalid peer certificate: UnknownIssuer|unable to verify the first certificate"
        ),
        _unknown_issuer,
    ),
    (re.compile(r"407 Proxy Authentication Required", re.IGNORECASE), _proxy_login),
    (re.compile(r"ModuleNotFoundError: No module named '(?P<module>[^']+)'"), _python_module),
    (re.compile(r": No module named (?P<module>[\w.]+)$"), _python_module),
    (re.compile(r"Cannot find module '(?P<module>[^']+)'"), _node_module),
    (re.compile(r"can't open file '(?P<file>[^']+)': \[Errno 2\]"), _python_file),
    (re.compile(r"the following arguments are required: (?P<names>.+)$"), _required_argument),
    (
        re.compile(
            r"EACCES: permission denied, (?:mkdir|open|rename|access|unlink) '(?P<path>[^']+)'"
        ),
        _not_permitted,
    ),
    (re.compile(r"version [`']?(?P<version>GLIBC(?:XX)?_[\d.]+)'? not found"), _newer_libc),
    (
        re.compile(
            r"404\s+(?:'|The requested resource ')?(?P<package>@?[\w./-]+)(?:@[^\s']*)?'?"
            r"(?: is not in th| could not be found)"
        ),
        _npm_package,
    ),
    (
        re.compile(r"[Bb]ecause (?P<package>[\w.-]+) was not found in the package registry"),
        _python_package,
    ),
    (
        re.compile(r"No matching distribution found for (?P<package>[\w.-]+)"),
        _python_package,
    ),
    (
        re.compile(r"server '[^']*' needs the variable (?P<name>\w+), which is not set"),
        _own_variable,
    ),
    (
        re.compile(
            r"(?P<text>[^:]*\b(?P<name>[A-Z][A-Z0-9]*_[A-Z0-9_]+)\b[^.]*"
            r"\b(?:required|not set|missing|must be set|not defined|undefined|not provided)\b[^.]*)"
        ),
        _variable,
    ),
    (
        re.compile(
            r"(?P<text>(?:[Mm]issing|[Pp]lease (?:set|provide)|[Rr]equires?)\b[^.]*"
            r"\b(?P<name>[A-Z][A-Z0-9]*_[A-Z0-9_]+)\b[^.]*)"
        ),
        _variable,
    ),
    (re.compile(r"EADDRINUSE|[Aa]ddress already in use"), _port_taken),
)
"""Error messages of programs and their meaning. The first match of the oldest line counts."""
