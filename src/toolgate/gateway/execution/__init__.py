"""Parts of a tool call: argument check, result pages, running calls."""

from toolgate.gateway.execution.arguments import check as check_arguments
from toolgate.gateway.execution.arguments import without_nulls
from toolgate.gateway.execution.file_protection import Protection, Protections
from toolgate.gateway.execution.key_suggestions import nearest
from toolgate.gateway.execution.result_paging import STRUCTURED_MARK, read_page, text_of_block
from toolgate.gateway.execution.result_paging import page as page_result
from toolgate.gateway.execution.running_calls import Running, RunningCall
from toolgate.gateway.execution.tool_overrides import sent_arguments

__all__ = [
    "STRUCTURED_MARK",
    "Protection",
    "Protections",
    "Running",
    "RunningCall",
    "check_arguments",
    "nearest",
    "page_result",
    "read_page",
    "sent_arguments",
    "text_of_block",
    "without_nulls",
]
