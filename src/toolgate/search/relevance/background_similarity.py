"""What tools do in general, as a yardstick: some hundred short texts (`background_texts.json`).

A request that nothing serves is often nearer to one of them than to any tool that is there. How far
the tools are ahead of them says more than how near they are: it depends little on how a request is
worded, how long it is, and how large the catalog is. The texts are of no catalog and of no data
set: what people ask every day, and what is done with programs, files and services.
"""

import json
from functools import cache
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from toolgate.models.embedders import Embedder, embedded
from toolgate.types import json_object

__all__ = ["background_vectors"]

_FILE = Path(__file__).with_name("background_texts.json")
_MODELS = "bundled-"
"""The line with a yardstick is fitted to these models; others would be asked for nothing."""

_vectors_by_model: dict[str, NDArray[np.float32]] = {}


async def background_vectors(embedder: Embedder) -> NDArray[np.float32] | None:
    """Vectors of the texts, which a process computes once.

    None: this embedder has no yardstick, or it fails, which who embeds the tools will hear.
    """
    try:
        model = embedder.identity
        if model.startswith(_MODELS) and model not in _vectors_by_model:
            _vectors_by_model[model] = await embedded(embedder, _texts(), "document")
    except Exception:  # noqa: BLE001 - an embedder of anybody; search goes on without it
        return None
    return _vectors_by_model.get(model)


@cache
def _texts() -> tuple[str, ...]:
    texts_by_topic = json_object(json.loads(_FILE.read_text(encoding="utf-8")))
    return tuple(str(text) for texts in texts_by_topic.values() for text in texts)
