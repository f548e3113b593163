"""Which process of a test run gets which tests: whole modules and groups, the longest first."""

from xdist.scheduler.loadgroup import LoadGroupScheduling
from xdist.workermanage import WorkerController

LONGEST = (
    "tests/benchmarks/test_benchmarks.py",
    "demo",
    "browser",
    "installed-clients",
    "tests/packs/builtin/servoy/test_pack.py",
    "probe",
    "tests/soak/test_soak.py",
    "paused-database",
    "tests/outages/test_kill.py",
    "tests/outages/test_start.py",
    "tests/outages/test_full_disk.py",
    "tests/documents/formats/test_hostile_documents.py",
    "tests/packs/builtin/sql/test_sqlite_processes.py",
    "tests/packs/builtin/test_schema_intents.py",
    "tests/cli/test_serve.py",
    "conformance",
    "tests/intents/test_pack_stages.py",
    "tests/packs/builtin/sql/test_postgres_user_code.py",
    "tests/cli/test_detect.py",
    "tests/benchmarks/test_tail.py",
    "qdrant",
    "real-servers",
    "tests/cli/test_agent_with_a_shell.py",
    "tests/search/test_phrases.py",
    "tests/search/test_learning_quality.py",
    "tests/search/test_quality.py",
    "tests/cli/test_shipped_packs.py",
    "tests/real/test_replicas.py",
    "tests/real/test_footprint.py",
)
"""Modules and groups that take over five seconds although they have few tests.

At the end of a run, one of them would keep one process busy and leave the others without work.
"""


class ModuleScheduling(LoadGroupScheduling):
    """Gives a process all tests of a module or a group; after the longest, those with most tests.

    A process makes the fixtures of a module once, and the processes that wait for tests are told
    of whole modules: with 8,000 single tests, this takes 9 s of processor time less.
    """

    def _split_scope(self, nodeid: str) -> str:
        return super()._split_scope(nodeid).partition("::")[0]

    def _assign_work_unit(self, node: WorkerController) -> None:
        longest = next((scope for scope in LONGEST if scope in self.workqueue), None)
        if longest is not None:
            self.workqueue.move_to_end(longest, last=False)
        super()._assign_work_unit(node)
