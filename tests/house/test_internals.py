"""Private parts of libraries that Toolgate uses still exist and have the shape it relies on.

When a test fails after an upgrade: adapt the module that the message names, then raise the upper
bound of the library in pyproject.toml.
"""

import inspect
import tomllib
from collections.abc import Callable
from importlib import import_module
from importlib.metadata import version
from pathlib import Path
from typing import Any

import anyio
import pytest
import uvicorn
from mcp.server.connection import Connection
from mcp.server.session import ServerSession
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol
from uvicorn.server import ServerState

PYPROJECT = Path(__file__).parents[2] / "pyproject.toml"


def check(library: str, used_in: str, *, has: bool, what: str) -> None:
    """Fail with what changed, where, and which module relies on it."""
    assert has, f"{library} {version(library)}: {what}. {used_in} relies on it."


def check_parameters(
    library: str, used_in: str, function: Callable[..., Any], *expected: str
) -> None:
    """Fail when a function does not take these parameters any more."""
    names = [*inspect.signature(function).parameters]
    missing = [name for name in expected if name not in names]
    check(
        library,
        used_in,
        has=not missing,
        what=f"{function.__qualname__}({', '.join(names)}) has no {', '.join(missing)}",
    )


def check_attributes(library: str, used_in: str, owner: object, *expected: str) -> None:
    """Fail when an object lacks an attribute."""
    missing = [name for name in expected if not hasattr(owner, name)]
    name = getattr(owner, "__name__", type(owner).__name__)
    check(library, used_in, has=not missing, what=f"{name} has no {', '.join(missing)}")


@pytest.mark.parametrize("library", ["mcp", "uvicorn", "fastmcp", "opentelemetry-sdk"])
def test_libraries_with_private_parts_in_use_have_an_upper_bound(library: str) -> None:
    project = tomllib.loads(PYPROJECT.read_text(encoding="utf-8"))["project"]
    extras = [row for rows in project["optional-dependencies"].values() for row in rows]
    bounds = [row for row in [*project["dependencies"], *extras] if row.startswith(f"{library}>=")]

    assert bounds
    assert all("<" in row for row in bounds)


async def test_uvicorn_parses_requests_as_our_parser_expects() -> None:
    module = "toolgate.server.asgi.parsing.http_parser"
    check_parameters(
        "uvicorn",
        module,
        HttpToolsProtocol.__init__,
        "config",
        "server_state",
        "app_state",
        "_loop",
    )
    config = uvicorn.Config(lambda: None, log_config=None, lifespan="off")
    config.load()
    protocol = HttpToolsProtocol(config, ServerState(), {})
    check_attributes(
        "uvicorn",
        module,
        protocol,
        "_unset_keepalive_if_required",
        "connection_made",
        "data_received",
        "on_header",
        "on_headers_complete",
        "on_message_begin",
        "on_message_complete",
        "parser",
        "send_400_response",
        "transport",
    )
    protocol.on_message_begin()
    check_attributes("uvicorn", module, protocol, "headers", "scope", "url")
    protocol.on_header(b"Accept", b"text/plain")
    check(
        "uvicorn",
        module,
        has=protocol.headers == [(b"accept", b"text/plain")],
        what=f"a header is stored as {protocol.headers}",
    )


def test_uvicorn_can_be_started_and_stopped_in_parts() -> None:
    module = "toolgate.server.http"
    check_parameters("uvicorn", module, uvicorn.Server.startup, "sockets")
    check_parameters("uvicorn", module, uvicorn.Server.shutdown, "sockets")
    config = uvicorn.Config(lambda: None, log_config=None, lifespan="off")
    check_attributes("uvicorn", module, config, "load", "loaded")
    config.load()
    check_attributes("uvicorn", module, config, "lifespan_class")
    check_attributes("uvicorn", module, uvicorn.Server(config), "main_loop", "should_exit")


def test_the_mcp_library_keeps_connection_and_channel_of_a_request() -> None:
    module = "toolgate.server.mcp.front"
    connection = Connection.from_envelope("2026-07-28", None, None)
    channel = object()
    session: Any = ServerSession(channel, connection)  # pyright: ignore[reportArgumentType]
    check_attributes("mcp", module, session, "_connection", "_request_outbound")
    check(
        "mcp",
        module,
        has=session._connection is connection and session._request_outbound is channel,
        what="ServerSession wraps what it is given",
    )
    check_attributes("mcp", module, connection, "initialize_accepted", "notify", "session_id")
    check("mcp", module, has=connection.state == {}, what="Connection.state is no empty dict")
    check_parameters(
        "mcp", "toolgate.server.mcp.peer", Connection.send_raw_request, "method", "params"
    )
    check_parameters("mcp", "toolgate.server.mcp.peer", Connection.notify, "method", "params")


@pytest.mark.parametrize(
    ("module", "names"),
    [
        (
            "mcp.client.auth.utils",
            "build_oauth_authorization_server_metadata_discovery_urls "
            "build_protected_resource_metadata_discovery_urls create_client_registration_request "
            "extract_resource_metadata_from_www_auth extract_scope_from_www_auth "
            "get_client_metadata_scopes handle_registration_response issuers_match "
            "should_use_client_metadata_url validate_authorization_response_iss "
            "validate_metadata_issuer",
        ),
        ("mcp.client.auth.oauth2", "check_registration_usable"),
        ("mcp.shared.auth_utils", "check_resource_allowed resource_url_from_server_url"),
    ],
)
def test_the_mcp_library_has_the_steps_of_a_login(module: str, names: str) -> None:
    check_attributes(
        "mcp", "toolgate.security.credentials.oauth", import_module(module), *names.split()
    )


def test_servers_of_fastmcp_and_mcp_can_be_opened() -> None:
    from fastmcp import FastMCP
    from mcp.server.lowlevel import Server
    from mcp.server.mcpserver import MCPServer

    module = "toolgate.upstream.transports.inprocess"
    fast: Any = FastMCP("x")
    check_attributes("fastmcp", module, fast, "_lifespan_manager", "_mcp_server")
    check(
        "fastmcp",
        module,
        has=isinstance(fast._mcp_server, Server),
        what="FastMCP._mcp_server is no Server of the mcp library",
    )
    plain: Any = MCPServer("x")
    check_attributes("mcp", module, plain, "_lowlevel_server")
    check(
        "mcp",
        module,
        has=isinstance(plain._lowlevel_server, Server),
        what="MCPServer._lowlevel_server is no Server",
    )


def test_fastmcp_has_the_index_that_evaluations_compare_with() -> None:
    module: Any = import_module("fastmcp.server.transforms.search.bm25")
    check_attributes("fastmcp", "toolgate.cli.evaluation.eval", module, "_BM25Index")
    index = module._BM25Index()
    index.build(["current weather", "stock price", "train times"])
    check(
        "fastmcp",
        "toolgate.cli.evaluation.eval",
        has=index.query("weather", 1) == [0],
        what="_BM25Index.query gives no positions of texts",
    )


def test_opentelemetry_has_the_parts_for_log_records() -> None:
    library, module = "opentelemetry-sdk", "toolgate.audit.sinks"
    logs = import_module("opentelemetry._logs")
    sdk = import_module("opentelemetry.sdk._logs")
    exporter = import_module("opentelemetry.exporter.otlp.proto.http._log_exporter")
    check_attributes(library, module, logs, "LogRecord", "SeverityNumber")
    check_attributes(library, module, sdk, "ReadableLogRecord")
    check_attributes(library, module, exporter, "OTLPLogExporter")
    check_parameters(library, module, sdk.ReadableLogRecord.__init__, "instrumentation_scope")
    check_parameters(library, module, exporter.OTLPLogExporter.__init__, "endpoint")


@pytest.mark.parametrize(
    ("failing", "text"),
    [
        (lambda: check_attributes("anyio", "x", anyio, "gone"), "anyio has no gone"),
        (lambda: check_parameters("anyio", "x", anyio.sleep, "gone"), "sleep(delay) has no gone"),
    ],
    ids=["attribute", "parameter"],
)
def test_a_change_is_reported_with_the_module_to_adapt(
    failing: Callable[[], None], text: str
) -> None:
    with pytest.raises(AssertionError) as raised:
        failing()
    assert f"anyio {version('anyio')}: {text}. x relies on it." in str(raised.value)
