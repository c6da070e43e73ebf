"""How figures look to people; a missing one is a dash, never a 0."""

MISSING = "-"

LABELS = {
    "p50": "p50",
    "p90": "p90",
    "p95": "p95",
    "p97": "p97",
    "p99": "p99",
    "p99_9": "p99.9",
    "max": "max",
}
"""Keys of a distribution in the order in which they are shown, and their names."""


def figure(value: float | None) -> str:
    """About three digits: 0.012, 3.46, 41.2, 1204; what is not 0 never shows as 0."""
    if value is None:
        return MISSING
    size = abs(value)
    if 0 < size < 0.01:
        return f"{value:.2g}"
    for limit, digits in ((0.1, 3), (10, 2), (1000, 1)):
        if size < limit:
            return f"{value:.{digits}f}"
    return f"{value:.0f}"


def percent(ratio: float | None) -> str:
    """A share in per cent, two decimals below 10 %; a small share is never 0."""
    if ratio is None:
        return MISSING
    if 0 < ratio < 0.0001:
        return "<0.01 %"
    return f"{ratio:.2%}".replace("%", " %") if ratio < 0.1 else f"{100 * ratio:.1f} %"


def reasons(counts: dict[str, int]) -> str:
    """A total and its parts: ``7 (stale 4, doomed 3)``; ``0`` for none."""
    total = sum(counts.values())
    if not total:
        return "0"
    return f"{total} ({', '.join(f'{why} {n}' for why, n in counts.items() if n)})"


def printable(text: str) -> str:
    """Foreign text without line breaks and other control characters."""
    return "".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in text)
