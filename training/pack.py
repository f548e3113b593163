"""Compresses the learned table: four bits per number, one scale per row.

The format is that of `toolgate.models.embedders._vector_table`.
"""

import hashlib
import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from toolgate.models.embedders._vector_table import read_table
from toolgate.models.embedders._verified import NEAR
from training.table import Learned

SHIPPED = Path("src/toolgate/models/embedders/data/model.npz")
"""The model in the package."""

VERSION = 1
"""Version; raised when the same file would give other vectors because its reader changed."""

SHARES = (1.0, 0.9, 0.8, 0.7, 0.6, 0.5)
"""Shares of a row's largest number that are tried as the largest code; the rest is clipped."""


def write(learned: Learned, pieces: Sequence[str], path: Path) -> int:
    """Write the file and its record; returns its size in bytes."""
    rows = learned.rows.copy()
    rows[0] = 0  # unknown words contribute nothing
    codes, scale = quantised(rows)
    pairs = learned.pairs.astype(np.int32)
    digest = hashlib.blake2b(digest_size=6)
    for part in (codes, scale, pairs):
        digest.update(part.tobytes())
    vocabulary = "\n".join(pieces).encode()
    digest.update(vocabulary)
    name = f"bundled-{VERSION}/{rows.shape[1]}/{digest.hexdigest()}"
    path.parent.mkdir(parents=True, exist_ok=True)
    unfinished = path.with_suffix(".part.npz")
    np.savez(
        unfinished,
        name=np.frombuffer(name.encode(), np.uint8),
        vocabulary=np.frombuffer(vocabulary, np.uint8),
        codes=codes,
        scale=scale,
        pairs=pairs,
    )
    unfinished.rename(path)
    one, other = map(read_table(path).vector, NEAR)
    record = {"name": name, "cosine": round(float(one @ other), 4)}
    path.with_name("model.json").write_text(json.dumps(record, indent=2) + "\n", encoding="utf-8")
    return path.stat().st_size


def quantised(rows: NDArray[np.float32]) -> tuple[NDArray[np.uint8], NDArray[np.float16]]:
    """Codes, two per byte, and the scale of each row: of those tried, the one that loses least."""
    most = np.abs(rows).max(1, keepdims=True)
    least = np.full(len(rows), np.inf, np.float32)
    codes = np.full(rows.shape, 8, np.uint8)
    scale = np.zeros((len(rows), 1), np.float16)
    for share in SHARES:
        tried = (most * share / 7).astype(np.float16)
        step = np.maximum(tried.astype(np.float32), 1e-8)
        rounded = np.clip(np.round(rows / step), -7, 7)
        loss = ((rounded * step - rows) ** 2).sum(1)
        better = loss < least
        codes[better] = (rounded[better] + 8).astype(np.uint8)
        scale[better], least[better] = tried[better], loss[better]
    half = rows.shape[1] // 2
    return codes[:, :half] | codes[:, half:] << 4, scale[:, 0]
