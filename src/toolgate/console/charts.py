"""Small SVG charts without styles of their own."""

from collections.abc import Sequence

from markupsafe import Markup

__all__ = ["sparkline", "trendline"]

_HEIGHT = 40
_BAR = 4
_GAP = 1
_LINE_WIDTH = 120
_LINE_HEIGHT = 24
_ROUND = 3
_LEAST_SPREAD = 0.1


def sparkline(values: Sequence[tuple[int, int]], *, label: str, unit: str = "calls") -> Markup:
    """Bars side by side: of each value the whole and, below it, the part that failed.

    Args:
        values: The whole and the part, oldest first.
        label: What it shows, for who does not see it.
        unit: What is counted.
    """
    highest = max((whole for whole, _ in values), default=0)
    width = len(values) * (_BAR + _GAP)
    bars: list[Markup] = []
    for index, (whole, failed) in enumerate(values):
        if not whole:
            continue
        left = index * (_BAR + _GAP)
        high = max(2, round(whole / highest * _HEIGHT))
        low = round(failed / whole * high) if failed else 0
        low = max(low, 2) if failed else 0
        bars.append(_bar("bar", left, _HEIGHT - high, high))
        if low:
            bars.append(_bar("bar failed", left, _HEIGHT - low, low))
    total, failed = sum(whole for whole, _ in values), sum(part for _, part in values)
    summary = f"{label}: {total:,} {unit}, {failed:,} failed; at most {highest:,} in a minute."
    return Markup(
        '<svg class="sparkline" role="img" aria-label="{said}" viewBox="0 0 {width} {height}"'
        ' preserveAspectRatio="none">{bars}</svg>'
    ).format(said=summary, width=width, height=_HEIGHT, bars=Markup("").join(bars))


def trendline(values: Sequence[float], *, label: str) -> Markup:
    """Shares of 1 as a line from left to right, with a dot at the last.

    The height goes from the lowest to the highest; changes of less than a tenth do not fill it.

    Args:
        values: Oldest first, at least one.
        label: What it shows, for who does not see it.
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
    summary = f"{label}: {len(values):,} times, {values[0]:.3f} at first, {values[-1]:.3f} now."
    return Markup(
        '<svg class="trend" role="img" aria-label="{said}" viewBox="0 0 {width} {height}">'
        '<polyline points="{points}"/><circle cx="{x}" cy="{y}" r="{r}"/></svg>'
    ).format(
        said=summary,
        width=_LINE_WIDTH + 2 * _ROUND,
        height=_LINE_HEIGHT + 2 * _ROUND,
        points=" ".join(f"{x},{y}" for x, y in places),
        x=places[-1][0],
        y=places[-1][1],
        r=_ROUND,
    )


def _bar(kind: str, left: int, top: int, height: int) -> Markup:
    return Markup(  # noqa: S704 - words of ours and numbers
        f'<rect class="{kind}" x="{left}" y="{top}" width="{_BAR}" height="{height}"/>'
    )
