"""`toolgate serve`: serve the gateway over HTTP."""

from dataclasses import replace
from importlib import import_module
from types import ModuleType

from toolgate.base.processes.memory import defer, starting
from toolgate.cli.client._load_settings import load_settings
from toolgate.cli.terminal._context import DEV_HELP, set_shared_options, shared_options
from toolgate.cli.terminal._plain_command import Option, PlainCommand


def serve(
    host: str | None = None,
    port: int | None = None,
    auth: str | None = None,
    log_file: str | None = None,
    workers: int | None = None,
    dev: bool = False,
) -> int:
    """Serve until SIGINT or SIGTERM."""
    options = shared_options()
    set_shared_options(
        replace(options, dev=options.dev or dev, auth=auth or "", log_file=log_file or "")
    )
    loaded = load_settings()
    count = workers or loaded.serve.workers
    if count > 1:
        supervisor = import_module("toolgate.cli.serving.workers.supervisor")
        return int(supervisor.supervise(loaded, host, port, count))
    return int(load_process().serve(loaded, host, port))


def load_process() -> ModuleType:
    """Import what serves, without the command lines of libraries."""
    with starting():
        defer("uvicorn")  # it also imports click, multiprocessing and watchfiles
        return import_module("toolgate.cli.serving._process")


command = PlainCommand(
    name="serve",
    help="""Serve the gateway over HTTP.

    MCP clients connect to http://HOST:PORT/mcp; the REST API is at http://HOST:PORT/api/v1. Ctrl-C
    and SIGTERM stop the gateway once active calls have finished. SIGHUP reloads the configuration;
    with several workers, it restarts them one by one without losing a call.
    """,
    options=(
        Option(
            flags=("--host",),
            metavar="ADDRESS",
            help="Address to listen on. Default: the serve.host setting (127.0.0.1 unless "
            "configured).",
        ),
        Option(
            flags=("--port", "-p"),
            metavar="NUMBER",
            kind=int,
            maximum=65_535,
            help="Port to listen on; 0 picks a free port. Default: the serve.port setting (7420 "
            "unless configured).",
        ),
        Option(
            flags=("--auth",),
            metavar="local|required",
            help="Whether clients need a token. Default: the auth setting (local unless "
            "configured).",
        ),
        Option(
            flags=("--log-file",),
            metavar="FILE",
            help="Write the log to this file. Default: the log.file setting, otherwise standard "
            "error.",
        ),
        Option(
            flags=("--workers",),
            metavar="NUMBER",
            kind=int,
            maximum=64,
            help="Number of worker processes; more than one requires Linux and PostgreSQL. "
            "Default: the serve.workers setting (1 unless configured).",
        ),
        Option(flags=("--dev",), kind=bool, help=DEV_HELP),
    ),
    call=serve,
)
"""The command and its options."""
