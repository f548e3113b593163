"""Fits the space in which kinds of tools are compared.

    python -m training.kinds [--check]

It depends on the embedding model and on `typical_requests.txt` and `everyday_requests.txt`. It is
shipped because fitting it in each process takes 3 MB, most of it code of LAPACK, and 40 ms.
"""

import argparse
from typing import Final

import anyio
import numpy as np
from numpy.typing import NDArray

from toolgate.models.embedders.bundled import BundledEmbedder
from toolgate.search.relevance.typical_requests import SPACE, KindTexts, kind_texts

# Of the values in brackets, the one that best tells whether anything fits, with areas of phrases
# left out in turn.
_DIMENSIONS: Final = 128
"""Dimensions of the space (64, 96, 128, 192, 256)."""
_SHRINKAGE: Final = 0.3
"""Share of equal variance in all directions that is added to the variance within the kinds (.1, .3,
1, 3)."""
_TOLERANCE: Final = 1e-3
"""Largest difference of a cosine in the space: processors sum in different orders (chosen)."""


def fitted(texts: KindTexts) -> NDArray[np.float32]:
    """Return the projection that best separates kinds (linear discriminant analysis).

    Returns:
        Shape (dim, `_DIMENSIONS`).
    """
    vectors = np.concatenate([texts.requests, texts.descriptions])
    kinds = np.concatenate([texts.kinds, np.arange(len(texts.descriptions))])
    order = np.argsort(kinds, kind="stable")
    counts = np.bincount(kinds)
    sums = np.add.reduceat(vectors[order], np.cumsum([0, *counts[:-1]]), dtype=np.float64)
    means = sums / counts[:, None]
    within = vectors - means[kinds]
    spread = within.T @ within / len(vectors)
    spread += _SHRINKAGE * np.trace(spread) / len(spread) * np.eye(len(spread))
    values, axes = np.linalg.eigh(spread)
    whitened = axes / np.sqrt(values)
    means = means @ whitened
    # The axes are in ascending order of the variance between the kinds.
    between = np.linalg.eigh(means.T @ means)[1][:, -_DIMENSIONS:]
    return (whitened @ between).astype(np.float32)


def differs(texts: KindTexts, space: NDArray[np.float32]) -> bool:
    """Whether kinds are not as near to each other as in the fitted space; axes may be mirrored."""
    shipped, new = (texts.descriptions @ projection for projection in (space, fitted(texts)))
    return not np.allclose(_cosines(shipped), _cosines(new), atol=_TOLERANCE)


def _cosines(vectors: NDArray[np.float32]) -> NDArray[np.float32]:
    units = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    return units @ units.T


def main() -> None:
    """Write the space into the package, or check the one that is there."""
    parser = argparse.ArgumentParser(prog="python -m training.kinds", description=__doc__)
    parser.add_argument("--check", action="store_true", help="write nothing; fail if it differs")
    options = parser.parse_args()
    embedder = BundledEmbedder()
    texts = anyio.run(kind_texts, embedder)
    if not options.check:
        np.savez(SPACE, model=np.array(embedder.identity), space=fitted(texts))
        return
    with np.load(SPACE) as shipped:
        if str(shipped["model"]) != embedder.identity or differs(texts, shipped["space"]):
            raise SystemExit(f"{SPACE.name} is not what the fit gives.")
    print(f"{SPACE.name} is what the fit gives")


if __name__ == "__main__":
    main()
