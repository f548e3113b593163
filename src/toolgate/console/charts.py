"""Small SVG charts without inline styles."""

from collections.abc import Sequence
from itertools import groupby

from markupsafe import Markup

_HEIGHT = 40
"""Pixels, like all sizes here (chosen: a chart fits a table row or a card)."""
_BAR = 4
"""Width of a bar."""
_GAP = 1
"""Space between two bars."""
_LINE_WIDTH = 120
"""Width of a line chart."""
_LINE_HEIGHT = 24
"""Height of a line chart."""
_SHARE_HEIGHT = 8
"""Height of a bar that is split into shares."""
_ROUND = 3
"""Padding around a line, so that its ends are not cut off."""
_LEAST_SPREAD = 0.1
"""Smallest difference between values that fills the height (chosen: rounding must not look like
a change)."""


def bars(values: Sequence[tuple[str, float, float]], *, label: str, unit: str = "calls") -> Markup:
    """Draw a bar chart: for each value the total and, in another colour, a part of it.

    Args:
        values: Label, total and part of each bar, oldest first.
        label: Description for screen readers.
        unit: What is counted, in the plural.
    """
    highest = max((whole for _, whole, _ in values), default=0)
    width = max(len(values), 1) * (_BAR + _GAP)
    shapes: list[Markup] = []
    for index, (about, whole, part) in enumerate(values):
        left = index * (_BAR + _GAP)
        if whole:
            high = max(2, round(whole / highest * _HEIGHT))
            low = max(round(part / whole * high), 2) if part else 0
            shapes.append(_bar("bar", left, _HEIGHT - high, high))
            if low:
                shapes.append(_bar("bar failed", left, _HEIGHT - low, low))
            text = f"{about}: {_counted(whole, unit)}" + (f", {part:,.0f} failed" if part else "")
            shapes.append(_hover(left, text))
    total, failed = sum(whole for _, whole, _ in values), sum(part for _, _, part in values)
    summary = f"{label}: {_counted(total, unit)}"
    summary += f", {failed:,.0f} failed" if failed else ""
    return _chart(f"{summary}; at most {highest:,.0f} at a time.", width, shapes)


def _counted(number: float, unit: str) -> str:
    text = f"{number:,.0f}"
    return f"{text} {unit.removesuffix('s') if text == '1' else unit}"


def lines(
    values: Sequence[tuple[str, Sequence[float | None]]], *, label: str, kinds: Sequence[str]
) -> Markup:
    """Draw several lines over time, with gaps where there is no value.

    Args:
        values: Label of each point and the value of each line there, oldest first.
        label: Description for screen readers.
        kinds: The name of each line; the first is drawn last, on top of the others.
    """
    every = [value for _, of_lines in values for value in of_lines if value is not None]
    highest = max(every, default=0)
    width = max(len(values), 1) * (_BAR + _GAP)
    shapes: list[Markup] = []
    for number in reversed(range(len(kinds))):
        shapes.extend(
            Markup('<polyline class="line line-{}" points="{}"/>').format(
                "bc"[number % 2], " ".join(points)
            )
            for points in _runs([of_lines[number] for _, of_lines in values], highest)
        )
    for index, (about, of_lines) in enumerate(values):
        parts = [
            f"{kind} {value:,.0f} ms"
            for kind, value in zip(kinds, of_lines, strict=True)
            if value is not None
        ]
        if parts:
            shapes.append(_hover(index * (_BAR + _GAP), f"{about}: {', '.join(parts)}"))
    return _chart(f"{label}: at most {highest:,.0f} ms.", width, shapes)


def _runs(values: Sequence[float | None], highest: float) -> list[list[str]]:
    """Return the points of each part of a line that has values; a single one gets some width."""
    runs: list[list[str]] = []
    for present, run in groupby(enumerate(values), lambda one: one[1] is not None):
        if not present or not highest:
            continue
        points = [
            (index * (_BAR + _GAP) + _BAR / 2, _HEIGHT - (value or 0) / highest * (_HEIGHT - 2))
            for index, value in run
        ]
        if len(points) == 1:
            points.append((points[0][0] + _BAR, points[0][1]))
        runs.append([f"{x:g},{y:.1f}" for x, y in points])
    return runs


def _chart(summary: str, width: int, shapes: Sequence[Markup]) -> Markup:
    return Markup(
        '<svg class="chart" role="img" aria-label="{label}" viewBox="0 0 {width} {height}"'
        ' preserveAspectRatio="none"><path class="axis" d="M0 {height}h{width}"/>{shapes}</svg>'
    ).format(label=summary, width=width, height=_HEIGHT, shapes=Markup("").join(shapes))


def _hover(left: int, text: str) -> Markup:
    """Draw an invisible area of full height with a tooltip."""
    return Markup(
        '<rect x="{}" y="0" width="{}" height="{}" fill-opacity="0"><title>{}</title></rect>'
    ).format(left, _BAR + _GAP, _HEIGHT, text)


def trendline(values: Sequence[float], *, label: str) -> Markup:
    """Draw fractions of 1 as a line from left to right, with a dot at the last value.

    The height covers the range of the values; changes of less than a tenth do not fill it.

    Args:
        values: Oldest first, at least one.
        label: Description for screen readers.
    """
    step = _LINE_WIDTH / max(len(values) - 1, 1)
    first = 0.0 if len(values) > 1 else _LINE_WIDTH
    spread = max(max(values) - min(values), _LEAST_SPREAD)
    top = (max(values) + min(values) + spread) / 2
    places = [
        (
            round(first + at * step + _ROUND, 1),
            round((top - value) / spread * _LINE_HEIGHT + _ROUND, 1),
        )
        for at, value in enumerate(values)
    ]
    summary = f"{label}: {len(values):,} runs, from {values[0]:.3f} to {values[-1]:.3f}."
    return Markup(
        '<svg class="trend" role="img" aria-label="{label}" viewBox="0 0 {width} {height}">'
        '<polyline points="{points}"/><circle cx="{x}" cy="{y}" r="{r}"/></svg>'
    ).format(
        label=summary,
        width=_LINE_WIDTH + 2 * _ROUND,
        height=_LINE_HEIGHT + 2 * _ROUND,
        points=" ".join(f"{x},{y}" for x, y in places),
        x=places[-1][0],
        y=places[-1][1],
        r=_ROUND,
    )


def share_bar(value: float, *, label: str) -> Markup:
    """Draw a fraction of 1 as a horizontal bar, on a background for the whole.

    Args:
        value: In [0, 1].
        label: Description for screen readers.
    """
    return Markup(
        '<svg class="share" role="img" aria-label="{label}" viewBox="0 0 {width} {height}"'
        ' preserveAspectRatio="none"><rect class="whole" width="{width}" height="{height}"/>'
        '<rect class="part" width="{part}" height="{height}"/></svg>'
    ).format(
        label=f"{label}: {value:.3f}",
        width=_LINE_WIDTH,
        height=_SHARE_HEIGHT,
        part=round(value * _LINE_WIDTH, 1),
    )


def _bar(kind: str, left: int, top: int, height: int) -> Markup:
    return Markup(  # noqa: S704 - words of ours and numbers
        f'<rect class="{kind}" x="{left}" y="{top}" width="{_BAR}" height="{height}"/>'
    )
