"""Simulated sources of change signals: settings, signals about the changes of a window, and what is true of them.

A covered page is chosen by a salted hash of its URL. Each change of a covered page is announced with the probability
`recall`, after an exponential delay. False signals are a Poisson process over all covered pages, at the rate at which a
share `precision` of the signals is expected to announce a change. A signal about a page that the crawler does not know
yet is left out, and so is one after the end.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Any, Final, NamedTuple

import numpy as np

from streamsched.errors import SettingsError
from streamsched.fields import MAX_NAME_BYTES
from streamsched.numerics.argument_checks import check_fields, check_part
from streamsched.numerics.arrays import Bools, Bytes, Floats, Hashes, Ints
from streamsched.numerics.durations import parse_duration
from streamsched.numerics.jit import kernel
from streamsched.numerics.packed_urls import PackedUrls
from streamsched.numerics.topk_order import tie_keys
from streamsched.numerics.url_bytes import hash_bytes
from streamsched.replay.ground_truth import Window

_SETTINGS: Final = {  # as people write them
    "share": "share",
    "recall": "recall",
    "precision": "precision",
    "late": "late_s",
    "start": "start_s",
    "flood": "flood_s",
    "kind": "kind",
}
_EXAMPLE: Final = "settings such as share=.5,recall=.7,precision=.7,late=6h"


@dataclass(frozen=True, slots=True)
class SimulatedSource:
    """One simulated source.

    ``share``: of the pages that it covers, for the whole replay. ``recall``: of their changes that it announces.
    ``precision``: of its signals that announce a change; the false ones come at one rate on all covered pages.
    ``late_s``: the mean delay of an announcement, exponentially distributed. ``start_s``: seconds of the replay before
    its first signal. ``flood_s``: signal all covered pages each such time instead, changed or not. ``kind``: the name
    of the source; one without a name is called by its number.

    Raises SettingsError if a value is invalid.
    """

    kind: str = ""
    share: float = 1.0
    recall: float = 1.0
    precision: float = 1.0
    late_s: float = 0.0
    start_s: float = 0.0
    flood_s: float | None = None

    def __post_init__(self) -> None:
        check_fields(self)
        for name in ("share", "recall", "precision"):
            check_part(name, getattr(self, name))
        for name in ("late_s", "start_s"):
            seconds = getattr(self, name)
            if not 0.0 <= seconds < math.inf:
                raise SettingsError(name, seconds, "a number of seconds of 0 or more")
        if self.flood_s is not None and not 1.0 <= self.flood_s < math.inf:
            raise SettingsError("flood_s", self.flood_s, "1 second or more")
        announces = (self.recall, self.precision, self.late_s) != (1.0, 1.0, 0.0)
        if self.flood_s is not None and announces:
            raise SettingsError("flood_s", self.flood_s, "no recall, precision or lateness beside it")
        if not self.kind.isprintable() or len(self.kind.encode(errors="replace")) > MAX_NAME_BYTES:
            raise SettingsError("kind", self.kind, f"at most {MAX_NAME_BYTES} bytes of printable UTF-8")

    def to_json(self) -> dict[str, Any]:
        """Return the settings as plain values for JSON; what does not apply to a flood is left out. O(1)."""
        plain = {"kind": self.kind, "share": self.share, "start_s": self.start_s}
        if self.flood_s is not None:
            return plain | {"flood_s": self.flood_s}
        return plain | {"recall": self.recall, "precision": self.precision, "late_s": self.late_s}


def is_simulated(text: str) -> bool:
    """Return whether `text` describes a simulated source; else it is the name of a file. O(length).

    >>> is_simulated("share=.5,late=6h"), is_simulated("signals.jsonl"), is_simulated("./share=.5")
    (True, False, False)
    """
    return text.partition("=")[0].isidentifier() and "=" in text


def parse_source(text: str) -> SimulatedSource:
    """Return the simulated source that `text` describes. O(length). Raises SettingsError.

    >>> parse_source("share=.5,recall=.7,precision=.7,late=6h")
    SimulatedSource(kind='', share=0.5, recall=0.7, precision=0.7, late_s=21600.0, start_s=0.0, flood_s=None)
    """
    given: dict[str, Any] = {}
    for part in text.split(","):
        name, _, value = part.partition("=")
        if name not in _SETTINGS or not value:
            raise SettingsError("signals", text, f"{_EXAMPLE}; known are {', '.join(_SETTINGS)}")
        if _SETTINGS[name] in given:
            raise SettingsError("signals", text, f"{name} once")
        given[_SETTINGS[name]] = _read(name, value, text)
    try:
        return SimulatedSource(**given)
    except SettingsError as error:
        name = error.setting.removesuffix("_s")
        raise SettingsError("signals", text, f"{name}: {error.expected}") from None


def name_sources(sources: Iterable[SimulatedSource]) -> tuple[SimulatedSource, ...]:
    """Return the sources with names: one that has none is called source-N, its place among all from 1. O(n).

    >>> [source.kind for source in name_sources([SimulatedSource(), SimulatedSource(kind="feed")])]
    ['source-1', 'feed']
    """
    return tuple(
        source if source.kind else replace(source, kind=f"source-{place}") for place, source in enumerate(sources, 1)
    )


def _read(name: str, value: str, text: str) -> Any:
    """Return the value of one setting. Raises SettingsError about the whole `text`."""
    if name == "kind":
        return value
    duration = name in ("late", "start", "flood")
    read: Callable[[str], float] = (lambda one: parse_duration(one, zero=name != "flood")) if duration else float
    try:
        return read(value)
    except (SettingsError, ValueError):
        expected = "a duration such as 6h" if duration else "a number such as .5"
        raise SettingsError("signals", text, f"{name}: {expected}") from None


_SALTS = 2**63
_HASHES = 2.0**64
_MOST_SIGNALS = 50_000_000  # of a source, 2 GB while they are sorted


@dataclass(frozen=True, slots=True)
class SourceFigures:
    """How far a source can be believed; None where nothing shows it.

    ``precision``: the share of its signals that announce a change; ``recall``: the share of the changes of its pages
    that it announces; ``lateness_s``: the mean delay of an announcement.
    """

    precision: float | None
    recall: float | None
    lateness_s: float | None


class PageSignals(NamedTuple):
    """m signals in time order: ``pages``: int64[m], rows of the window; ``at``: float64[m], epoch seconds; ``true``:
    bool[m], whether it announces a change; ``covered``: pages of the source; ``figures``: of these signals.
    """

    pages: Ints
    at: Floats
    true: Bools
    covered: int
    figures: SourceFigures


def simulate_signals(window: Window, source: SimulatedSource, seed: int) -> PageSignals:
    """Return the signals of `source`. They depend on `window`, `source` and `seed` only. O(changes + signals log).

    Random numbers are drawn in this order: the salt of the hash; for each change of a covered page, whether it is
    announced; the delay of each announcement; for each covered page the number of false signals; their times.
    """
    rng = np.random.default_rng([seed, *source.kind.encode()])
    covered = find_covered(window.urls, source.share, int(rng.integers(_SALTS)))
    start_s = window.start_s + source.start_s
    if source.flood_s is not None:
        pages, at = _flood(window, covered, start_s, source.flood_s)
        return _collect(window, covered, (pages, at, np.empty(0)), 0)
    changed, changed_at = _changes_of(window, covered, start_s)
    is_announced = rng.random(changed.size) < source.recall
    delays = rng.exponential(source.late_s, np.count_nonzero(is_announced))
    false = source.recall * changed.size * (1.0 / source.precision - 1.0)
    _check_count(false, "precision", source.precision)
    noise, noise_at = _draw_noise(window, covered, start_s, false, rng)
    pages = np.concatenate([changed[is_announced], noise])
    at = np.concatenate([changed_at[is_announced] + delays, noise_at])
    return _collect(window, covered, (pages, at, delays), changed.size)


def find_covered(urls: PackedUrls, share: float, salt: int) -> Ints:
    """Return the pages that a source with this `share` covers: int64[c], ascending. O(bytes)."""
    hashes = np.empty(len(urls), np.uint64)
    _hash_urls(urls.blob, urls.offsets, hashes)
    return np.flatnonzero(tie_keys(hashes, salt) / _HASHES < share)


def known_since(window: Window) -> Floats:
    """Return when a crawler knows each page: float64[n], the start of the first cycle after its appearance. O(n)."""
    edges = window.start_s + np.arange(window.cycles + 1) * window.cycle_s
    first = np.searchsorted(edges, window.appears_s, "right")
    return np.append(edges, np.inf)[first]


def _changes_of(window: Window, covered: Ints, start_s: float) -> tuple[Ints, Floats]:
    """Return the pages and times of the changes of `covered` pages from `start_s` on, page after page. O(changes)."""
    pages = np.repeat(np.arange(window.pages), np.diff(window.offsets))
    is_covered = np.zeros(window.pages, np.bool_)
    is_covered[covered] = True
    wanted = is_covered[pages] & (window.times_s >= start_s)
    return pages[wanted], window.times_s[wanted]


def _draw_noise(
    window: Window, covered: Ints, start_s: float, expected: float, rng: np.random.Generator
) -> tuple[Ints, Floats]:
    """Return the pages and times of false signals, `expected` in all on average, uniform over known page-time."""
    begin = np.maximum(known_since(window)[covered], start_s)
    spans = np.maximum(window.edge(window.cycles) - begin, 0.0)
    if not spans.sum():
        return np.empty(0, np.int64), np.empty(0)
    counts = rng.poisson(expected * spans / spans.sum())
    at = np.repeat(begin, counts) + rng.random(counts.sum()) * np.repeat(spans, counts)
    return np.repeat(covered, counts), at


def _flood(window: Window, covered: Ints, start_s: float, every_s: float) -> tuple[Ints, Floats]:
    """Return a signal about each covered page at `start_s` and each `every_s` after it. O(signals)."""
    rounds = max(window.edge(window.cycles) - start_s, 0.0) / every_s
    _check_count(rounds * covered.size, "flood", every_s)
    times = np.arange(start_s, window.edge(window.cycles), every_s)
    return np.tile(covered, times.size), np.repeat(times, covered.size)


def _check_count(signals: float, setting: str, found: float) -> None:
    """Raise SettingsError if a source would send more signals than fit into memory."""
    if signals > _MOST_SIGNALS:
        raise SettingsError(f"signals: {setting}", found, f"at most {_MOST_SIGNALS:,} signals, not {signals:,.0f}")


def _collect(window: Window, covered: Ints, signals: tuple[Ints, Floats, Floats], changes: int) -> PageSignals:
    """Return the signals that reach the crawler, in time order. O(m log m).

    `signals`: pages, times, and the delays of those that announce a change, which come first; `changes`: of the covered
    pages.
    """
    pages, at, delays = signals
    heard = np.flatnonzero((at >= known_since(window)[pages]) & (at < window.edge(window.cycles)))
    order = heard[np.argsort(at[heard], kind="stable")]
    true = order < delays.size
    announced = int(np.count_nonzero(true))
    figures = SourceFigures(
        announced / order.size if order.size else None,
        announced / changes if changes else None,
        float(delays[order[true]].mean()) if announced else None,
    )
    return PageSignals(pages[order], at[order], true, covered.size, figures)


@kernel
def _hash_urls(blob: Bytes, offsets: Ints, out: Hashes) -> None:
    for i in range(out.size):
        out[i] = hash_bytes(blob, offsets[i], offsets[i + 1])
