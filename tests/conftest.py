"""Every test starts clean: no environment of ours, no network beyond this machine."""

import fcntl
import ipaddress
import itertools
import logging
import os
import pickle
import pwd
import socket
import sqlite3
import threading
from collections.abc import AsyncGenerator, Callable, Generator, Iterable, Iterator
from contextlib import asynccontextmanager, suppress
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import IO, Any

import anyio
import pytest
from hypothesis import HealthCheck, settings
from sqlalchemy import Connection, event

from toolgate.base.logs import ByServer
from toolgate.base.processes.memory import starting

# As the program itself does before numpy is loaded: several tests run at once, and threads that
# wait for each other made learning 440 prompts take 29 s instead of 3 on a busy machine. Only
# pytest-randomly loads numpy even earlier; the workers of pytest-xdist inherit the variables.
for _name in ("OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "VECLIB_MAXIMUM_THREADS"):
    os.environ.setdefault(_name, "1")

# Fixtures of modules that load numpy, so they cannot be imported above.
pytest_plugins = ["tests.postgres"]

AUTHORITY = Path(__file__).with_name("authority.pem")
"""Signs no certificate. Reading the hundred and more authorities of the system takes 40 ms."""

# No test asserts a time: several run at once, on machines that others use too.
settings.register_profile("shared", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("shared")


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Keep modules and tests, which all stay, out of garbage collections: they take 6 % of the CPU.

    The thresholds are those of a gateway.
    """
    with starting():
        return (yield)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """With `--dist loadgroup`, as in `make test`: whole modules, the longest first."""
    if config.getvalue("dist") != "loadgroup":
        return None
    from tests.scheduling import ModuleScheduling

    return ModuleScheduling(config, log)


@pytest.fixture
def anyio_backend() -> str:
    """The event loop that Toolgate runs on."""
    return "asyncio"


@pytest.fixture(scope="session")
def homes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A home for each test: that of the test before if it is empty still, as most are."""
    return _empty_folders(tmp_path_factory.mktemp("homes"))


def _empty_folders(parent: Path) -> Iterator[Path]:
    # Not by `mktemp`, which reads the names of all earlier ones.
    for number in itertools.count():
        folder = parent / str(number)
        folder.mkdir()
        yield folder
        while folder.is_dir() and not any(folder.iterdir()):
            yield folder


@pytest.fixture(autouse=True)
def clean_environment(monkeypatch: pytest.MonkeyPatch, homes: Iterator[Path]) -> None:
    """Settings and folders of the developer change no test."""
    for name in [name for name in os.environ if name.startswith(("TOOLGATE_", "XDG_"))]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(next(homes)))
    # Each HTTP client reads the trusted certificates, and tests open many clients.
    monkeypatch.setenv("SSL_CERT_FILE", str(AUTHORITY))


@pytest.fixture(autouse=True)
def clean_logging() -> Iterator[None]:
    """No test writes its log to where an earlier one had it: that place is closed by now."""
    yield
    root = logging.getLogger()
    for handler in root.handlers[:]:
        if any(isinstance(each, ByServer) for each in handler.filters):
            root.removeHandler(handler)


@pytest.fixture(autouse=True)
def no_network(monkeypatch: pytest.MonkeyPatch) -> None:
    """A test that reaches out fails at once and says where to."""
    connect = socket.socket.connect

    def connect_locally(sock: socket.socket, address: Any) -> None:
        if sock.family in {socket.AF_INET, socket.AF_INET6}:
            host = str(address[0])
            assert ipaddress.ip_address(host).is_loopback, f"a test connects to {host}"
        connect(sock, address)

    monkeypatch.setattr(socket.socket, "connect", connect_locally)


@pytest.fixture(scope="session")
def run_folder(tmp_path_factory: pytest.TempPathFactory, worker_id: str) -> Path:
    """A folder that all processes of this test run share."""
    own = tmp_path_factory.getbasetemp()
    return own if worker_id == "master" else own.parent


class SharedResults:
    """What the processes of a test run have computed, in files; each result once."""

    def __init__(self, folder: Path, worker_id: str) -> None:
        folder.mkdir(exist_ok=True)
        self._folder = folder
        self._worker_id = worker_id

    def get(self, content: object) -> Any:
        """The result for this content; None if nobody has computed it yet."""
        with suppress(FileNotFoundError):
            return pickle.loads(self._path_of(content).read_bytes())
        return None

    def put(self, content: object, result: object) -> None:
        """Keep a result, which is not None."""
        path = self._path_of(content)
        # Under another name first: no process reads half a file.
        unfinished = path.with_suffix(f".{self._worker_id}.{threading.get_ident()}")
        unfinished.write_bytes(pickle.dumps(result))
        unfinished.replace(path)

    @asynccontextmanager
    async def alone(self, content: object) -> AsyncGenerator[None]:
        """Compute a result while no other process computes the same."""
        with self._path_of(content).with_suffix(".lock").open("w") as file:
            while not _is_locked(file):
                await anyio.sleep(0.05)  # a thread that waits for the lock could not be cancelled
            yield

    def _path_of(self, content: object) -> Path:
        return self._folder / sha256(repr(content).encode()).hexdigest()


def _is_locked(file: IO[str]) -> bool:
    """Lock a file until it is closed; gives whether no other process has."""
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


SHIPPED_PROMPTS = 1_000
"""The shipped packs have at least this many prompts each; those in tests of learning have fewer."""


@pytest.fixture(scope="session", autouse=True)
def train_once(run_folder: Path, worker_id: str) -> Iterator[None]:
    """Read and fit equal prompts once in a test run, since many tests load the shipped packs."""
    from toolgate.intents.semantic import readings, stage

    train, fit = stage.SemanticStage._trained_model, stage.fit
    shared = SharedResults(run_folder / "trained", worker_id)

    async def train_shipped_once(own: Any, training_set: Any, background: Any, digest: str) -> Any:
        if len(training_set.texts) < SHIPPED_PROMPTS:
            return await train(own, training_set, background, digest)
        async with shared.alone(digest):
            if (model := shared.get(digest)) is None:
                model = await train(own, training_set, background, digest)
                shared.put(digest, model)
        if own._cache is not None:  # other processes may read it, which are not patched
            stage._write(own._cache / f"intents-{digest}.npz", model)
        return model

    def fit_once(
        training_set: Any, texts: Any, names: Any, background: Any, *, is_cancelled: Any
    ) -> Any:
        lessons = (training_set.intents, training_set.texts, training_set.owners)
        vectors = [
            (matrix.shape, sha256(matrix.tobytes()).digest())
            for matrix in (texts, names, background.vectors)
        ]
        if (model := shared.get((lessons, vectors))) is None:
            model = fit(training_set, texts, names, background, is_cancelled=is_cancelled)
            shared.put((lessons, vectors), model)
        return model

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(stage.SemanticStage, "_trained_model", train_shipped_once)
        patch.setattr(stage, "fit", fit_once)
        patch.setattr(readings, "in_english", cache(readings.in_english))
        yield


@pytest.fixture(scope="session", autouse=True)
def compile_tables_once() -> Iterator[None]:
    """Create the tables of later stores with the SQL of the first one of their kind.

    Thousands of tests open a store of their own, and generating that SQL takes most of the time.
    A store in memory is a copy of one with empty tables.
    """
    from toolgate.store.engine import schema_version
    from toolgate.store.engine.sqlite_file import driver

    create = schema_version.create
    scripts: dict[str, list[str]] = {}
    template = sqlite3.connect(":memory:", check_same_thread=False)
    alone = threading.Lock()

    def create_from_cache(connection: Connection) -> None:
        dialect = connection.dialect.name
        if dialect not in scripts:
            # Complete when assigned: several threads may create a store.
            scripts[dialect] = _create_and_note(create, connection)
            return
        if dialect == "postgresql":
            connection.exec_driver_sql(";".join(scripts[dialect]))  # all at once
        elif driver(connection).execute("PRAGMA database_list").fetchone()[2]:
            for statement in scripts[dialect]:
                driver(connection).execute(statement)
        else:
            with alone:
                if not template.execute("PRAGMA page_count").fetchone()[0]:
                    template.executescript(";".join(scripts[dialect]))
                driver(connection).execute("COMMIT")  # nobody else has this store
                template.backup(driver(connection))
                driver(connection).execute("BEGIN IMMEDIATE")
        schema_version.add_first_rows(connection)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(schema_version, "create", create_from_cache)
        yield
    template.close()


def _create_and_note(create: Callable[[Connection], None], connection: Connection) -> list[str]:
    """Create tables; gives the statements."""
    statements: list[str] = []

    def note(_connection: Any, _cursor: Any, statement: str, *_: Any) -> None:
        if not statement.startswith("INSERT"):
            statements.append(statement)

    event.listen(connection, "before_cursor_execute", note)
    create(connection)
    event.remove(connection, "before_cursor_execute", note)
    return statements


MOST_STAGES = 100
"""Each takes some 100 kB with the intents of a pack that ships."""


@pytest.fixture(scope="session", autouse=True)
def prepare_once() -> Iterator[None]:
    """Make once what never changes, as a process does that serves: here, each test has an app.

    Scanning the tools of the packs that ship takes 200 ms of an app. The others are the keywords
    of intents, the templates of the console and the users of the machine.
    """
    from toolgate.catalog.scanner import quarantine
    from toolgate.console import application
    from toolgate.intents.detection import keyword_detector

    make_stage = keyword_detector.KeywordStage
    stages: dict[tuple[int, ...], keyword_detector.KeywordStage] = {}

    def stage_of(intents: Iterable[Any]) -> keyword_detector.KeywordStage:
        intents = tuple(intents)
        # Intents have no hash. A stage keeps its own, so none that come later have their `id`.
        key = tuple(map(id, intents))
        if key not in stages:
            if len(stages) == MOST_STAGES:
                stages.clear()
            stages[key] = make_stage(intents)
        return stages[key]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(keyword_detector, "KeywordStage", stage_of)
        patch.setattr(application, "Renderer", cache(application.Renderer))
        # Not what asks for them: a test fakes the platform.
        patch.setattr(pwd, "getpwall", cache(pwd.getpwall))
        patch.setattr(quarantine, "Scanner", cache(quarantine.Scanner))
        yield


@pytest.fixture(scope="session", autouse=True)
def embed_background_once() -> None:
    """Compute what a process keeps; a test that ends before that would leave it to the next."""
    from toolgate.models.embedders.bundled import BundledEmbedder
    from toolgate.search.relevance.background_similarity import background_vectors
    from toolgate.search.relevance.typical_requests import typical_requests

    anyio.run(background_vectors, BundledEmbedder())
    anyio.run(typical_requests, BundledEmbedder())
