"""Small pictures of numbers, as SVG without any style of its own."""

from collections.abc import Sequence

from markupsafe import Markup

__all__ = ["sparkline"]

_HEIGHT = 40
_BAR = 4
_GAP = 1


def sparkline(values: Sequence[tuple[int, int]], *, label: str, unit: str = "calls") -> Markup:
    """Bars side by side: of each value the whole and, below it, the part that failed.

    Args:
        values: The whole and the part, oldest first.
        label: What it shows, for who does not see it.
        unit: What is counted.
    """
    most = max((whole for whole, _ in values), default=0)
    width = len(values) * (_BAR + _GAP)
    bars: list[Markup] = []
    for place, (whole, failed) in enumerate(values):
        if not whole:
            continue
        left = place * (_BAR + _GAP)
        high = max(2, round(whole / most * _HEIGHT))
        low = round(failed / whole * high) if failed else 0
        low = max(low, 2) if failed else 0
        bars.append(_bar("bar", left, _HEIGHT - high, high))
        if low:
            bars.append(_bar("bar failed", left, _HEIGHT - low, low))
    total, failed = sum(whole for whole, _ in values), sum(part for _, part in values)
    said = f"{label}: {total:,} {unit}, {failed:,} failed; at most {most:,} in a minute."
    return Markup(
        '<svg class="sparkline" role="img" aria-label="{said}" viewBox="0 0 {width} {height}"'
        ' preserveAspectRatio="none">{bars}</svg>'
    ).format(said=said, width=width, height=_HEIGHT, bars=Markup("").join(bars))


def _bar(kind: str, left: int, top: int, height: int) -> Markup:
    return Markup('<rect class="{}" x="{}" y="{}" width="{}" height="{}"/>').format(
        kind, left, top, _BAR, height
    )
