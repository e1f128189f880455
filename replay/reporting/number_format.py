"""Numbers, lengths of time and lists as the reports and the terminal show them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from streamsched.formula.champion import METRIC_NAMES
from streamsched.numerics.durations import format_duration
from streamsched.replay.confidence_intervals import Estimate
from streamsched.replay.simulation.simulator import DAY_S

_HOUR_S: Final = 3_600.0
_MAX_EXTRA_DIGITS: Final = 4  # ten labels with more digits are wider than a figure


def capitalize(text: str) -> str:
    """Return `text` with its first letter in upper case, the rest unchanged.

    >>> capitalize("all pages"), capitalize("CJK")
    ('All pages', 'CJK')
    """
    return text[:1].upper() + text[1:]


def join_names(names: Sequence[str]) -> str:
    """Return the names as a list within a sentence.

    >>> join_names(["nad"]), join_names(["nad", "aad", "cg"])
    ('nad', 'nad, aad and cg')
    """
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"


def format_count(count: float, noun: str = "") -> str:
    """Return a count, or a mean of counts, with its noun in the singular or plural.

    >>> format_count(12361.125), format_count(1, "page"), format_count(2, "page")
    ('12,361', '1 page', '2 pages')
    """
    if not noun:
        return f"{count:,.0f}"
    return f"{count:,.0f} {noun}" if count == 1 else f"{count:,.0f} {noun}s"


def format_expected(count: float) -> str:
    """Return an expected count: one decimal below 10, none above.

    >>> format_expected(3.04), format_expected(1234.5)
    ('3.0', '1,234')
    """
    return f"{count:.1f}" if count < 9.95 else f"{count:,.0f}"


def format_share(share: float) -> str:
    """Return a share in per cent, rounded for reading.

    >>> format_share(0.4213), format_share(0.0123), format_share(0.00004), format_share(0.999)
    ('42 %', '1.2 %', 'under 0.1 %', 'over 99 %')
    """
    if share in (0.0, 1.0):
        return "none" if share == 0 else "all"
    if share < 0.001:
        return "under 0.1 %"
    if share >= 0.995:
        return "over 99 %"
    return f"{100 * share:.0f} %" if share >= 0.0995 else f"{100 * share:.1f} %"


def format_percent(share: float | None) -> str:
    """Return a relative difference in per cent with its sign, a dash for None.

    >>> format_percent(0.0354), format_percent(None)
    ('+3.5 %', '–')
    """
    return "–" if share is None else f"{100 * share:+.1f} %"


def format_interval(low: float | None, high: float | None) -> str:
    """Return an interval of relative differences in per cent, nothing if there is none.

    >>> format_interval(0.002, 0.024)
    '(+0.2 to +2.4)'
    """
    return "" if low is None or high is None else f"({100 * low:+.1f} to {100 * high:+.1f})"


def format_gain(gain: float | None, noise: float | None, metric: str | None) -> str:
    """Return by how much a challenger beat the champion, in per cent of the champion's fitness, and the noise.

    >>> format_gain(0.031, 0.0125, "ndcg")
    '+3.1 ±1.2 % NDCG'
    """
    if gain is None:
        return "no contest"
    spread = "" if noise is None else f" ±{100 * noise:.1f}"
    name = metric or "ndcg"
    return f"{100 * gain:+.1f}{spread} % {METRIC_NAMES.get(name, name)}"


def format_number(value: float | None, digits: int = 3) -> str:
    """Return a number with that many decimals, a dash for None.

    >>> format_number(0.27), format_number(None)
    ('0.270', '–')
    """
    return "–" if value is None else f"{value:.{digits}f}"


def format_half_width(estimate: Estimate, digits: int = 3) -> str:
    """Return half the width of an estimate's interval, nothing if it has none.

    >>> from streamsched.replay.confidence_intervals import Estimate
    >>> format_half_width(Estimate(0.27, 0.25, 0.29)), format_half_width(Estimate(0.27))
    ('±0.020', '')
    """
    return "" if estimate.half_width is None else f"±{estimate.half_width:.{digits}f}"


def format_relative(value: float | None) -> str:
    """Return a ratio to an average with two decimals, a dash for NaN and None.

    >>> format_relative(1.234), format_relative(float("nan"))
    ('1.23', '–')
    """
    return "–" if value is None or value != value else f"{value:.2f}"  # noqa: PLR0124  NaN


def format_length(seconds: float) -> str:
    """Return a length of time for reading, in hours up to two days.

    >>> format_length(86400.0), format_length(5400.0), format_length(259200.0)
    ('24 h', '1.5 h', '3 d')
    """
    if _HOUR_S - 30 <= seconds < 48 * _HOUR_S:
        return f"{seconds / _HOUR_S:.3g} h"
    return format_duration(seconds)


def format_cycle(cycle_s: float) -> str:
    """Return what a cycle is called.

    >>> format_cycle(86400.0), format_cycle(3600.0)
    ('day', 'cycle of 3600 s')
    """
    return "day" if cycle_s == DAY_S else f"cycle of {cycle_s:g} s"


def format_distinct(numbers: Sequence[float | None]) -> list[str]:
    """Return numbers of 0 or more in two digits, or more if different numbers would look alike; a dash for None.

    >>> format_distinct([0.0, 0.021, 2.23, 44.2, None]), format_distinct([0.0, 0.0213, 0.0241, 2.2])
    (['0', '0.02', '2.2', '44', '–'], ['0', '0.021', '0.024', '2.20'])
    """
    texts: list[str] = []
    for extra in range(_MAX_EXTRA_DIGITS):
        texts = ["–" if number is None else _format_short(number, extra) for number in numbers]
        if len(set(texts)) == len(set(numbers)):
            break
    return texts


def _format_short(number: float, extra: int) -> str:
    if number == 0:
        return "0"
    return f"{number:.{extra + (0 if number >= 10 else 1 if number >= 1 else 2)}f}"
