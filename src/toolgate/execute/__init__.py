"""Running a call: arguments checked, large results paged."""

from toolgate.execute.arguments import check as check_arguments
from toolgate.execute.arguments import without_nulls
from toolgate.execute.paging import page as page_result
from toolgate.execute.paging import read_page
from toolgate.execute.protect import Protection, Protections
from toolgate.execute.running import Running, RunningCall
from toolgate.execute.suggest import nearest

__all__ = [
    "Protection",
    "Protections",
    "Running",
    "RunningCall",
    "check_arguments",
    "nearest",
    "page_result",
    "read_page",
    "without_nulls",
]
