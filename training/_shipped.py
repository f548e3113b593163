"""Writes fitted tables into the package, or checks that they are what the fit gives."""

import json
from collections.abc import Mapping
from math import isclose
from pathlib import Path
from typing import Any, Final

_TOLERANCE: Final = 1e-3
"""Largest relative or absolute difference of a weight: processors sum in different orders, and
weights are rounded to four digits (chosen)."""


def ship(path: Path, fitted: Mapping[str, Any], *, check: bool) -> None:
    """Write a fitted table as JSON; with `check` compare it with the file instead.

    Raises:
        SystemExit: The file is not what was fitted, with the differences.
    """
    if not check:
        path.write_text(json.dumps(fitted, indent=2) + "\n", "utf-8")
        return
    differences = _differences(json.loads(path.read_text("utf-8")), fitted)
    if differences:
        listed = "\n  ".join(differences)
        raise SystemExit(
            f"{path.name} is not what the fit gives (in the file, fitted):\n  {listed}\n"
            "Write it with: make calibrate DATA=FOLDER"
        )
    print(f"{path.name} is what the fit gives")


def _differences(there: Any, fitted: Any, name: str = "") -> list[str]:
    """Return the values that differ, by their names."""
    if isinstance(there, dict) and isinstance(fitted, dict):
        return [
            line
            for key in sorted({*there, *fitted})
            for line in _differences(there.get(key), fitted.get(key), f"{name}.{key}".strip("."))
        ]
    if isinstance(there, float | int) and isinstance(fitted, float | int):
        same = isclose(there, fitted, rel_tol=_TOLERANCE, abs_tol=_TOLERANCE)
    else:
        same = bool(there == fitted)
    return [] if same else [f"{name}: {there}, {fitted}"]
