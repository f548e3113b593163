"""The user's own requests as an evaluation set, read from the store."""

from toolgate.base.ids import utc_now
from toolgate.evaluation.logged_requests import read_labelled_requests
from toolgate.evaluation.search_metrics import LabelledSet, question_of, tool_of
from toolgate.settings import Settings, default_store_url
from toolgate.store import make_store
from toolgate.types import DEFAULT_PROJECT

_WHERE = "the usage log"


async def read_own_requests(settings: Settings, *, limit: int = 0) -> LabelledSet:
    """Read searches whose tools were called successfully or marked as right, as labelled requests.

    Args:
        settings: Settings with the store.
        limit: Maximum number of requests, newest first; 0 for all.

    Raises:
        ArgumentError: The usage log has no such request, or no texts.
        StoreError: The store cannot be read.
    """
    store = make_store(settings.store.url or default_store_url())
    await store.open()
    try:
        marks = await read_labelled_requests(store, DEFAULT_PROJECT)
    finally:
        await store.close()
    queries = marks.queries[:limit] if limit else marks.queries
    return LabelledSet(
        name=f"mine {utc_now()[:10]}",
        tools=tuple(tool_of(row, _WHERE) for row in marks.tools),
        questions=tuple(question_of(row, _WHERE) for row in queries),
    )
