"""Which process of a test run gets which tests: whole modules and groups, the longest first."""

from xdist.scheduler.loadgroup import LoadGroupScheduling
from xdist.workermanage import WorkerController

LONGEST = (
    "tests/benchmarks/test_benchmarks.py",
    "demo",
    "browser",
    "installed-clients",
    "tests/soak/test_soak.py",
    "tests/packs/builtin/servoy/test_pack.py",
    "tests/packs/builtin/test_schema_intents.py",
    "tests/intents/test_pack_stages.py",
)
"""Modules and groups that take over ten seconds although they have few tests.

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
        longest = next((each for each in LONGEST if each in self.workqueue), None)
        if longest is not None:
            self.workqueue.move_to_end(longest, last=False)
        super()._assign_work_unit(node)
