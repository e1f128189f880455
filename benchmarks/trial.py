"""``python -m benchmarks.trial``: how long trials take and how they end, on simulated pages; writes docs/evolution.md.

Pages change as Poisson processes with log-normal rates; 5 % of them are visited a day, for 30 days before the trial.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

import numpy as np
from rich.progress import track

from benchmarks.report import write_block
from streamsched import OutcomeBatch, Scheduler
from streamsched.api.views import TrialView
from streamsched.numerics.packed_urls import PackedUrls

DOCUMENT: Final = Path(__file__).resolve().parent.parent / "docs" / "evolution.md"
_DAY_S: Final = 86_400.0
_BEFORE: Final = 30  # days without a trial
_MOST_DAYS: Final = 364
_BUDGET: Final = 0.05
_SEEDS: Final = 5
_SIZES: Final = (1_000, 4_000, 16_000)
_PAIRS: Final = (
    ("t", "worth * gain"),
    ("worth * gain", "t"),
    ("worth * gain", "worth * due"),
    ("worth * gain", "1 * worth * gain"),
)


class Ending(NamedTuple):
    """How a trial ended, and after how many days."""

    view: TrialView
    days: int


def run_trial(champion: str, challenger: str, pages: int, seed: int, most_days: int = _MOST_DAYS) -> Ending:
    """Return how a trial of `challenger` ends. O(pages * days)."""
    random = np.random.default_rng(seed)
    rates = random.lognormal(-4.0, 1.5, pages)
    urls = [f"https://h{i % 20}.example/s{i % 7}/{i}" for i in range(pages)]
    scheduler = Scheduler(formula=champion, seed=seed, host_share=None)
    scheduler.discover(urls, now=1.0)
    last_s = np.zeros(pages)
    view: TrialView | None = None
    day = 0
    for day in range(_BEFORE + most_days):
        now = _DAY_S * (day + 1)
        if day == _BEFORE:
            scheduler.begin_trial(challenger, now=now)
        batch = scheduler.next_batch(round(_BUDGET * pages), now=now, lease="1h")
        changed = random.random(len(batch)) < -np.expm1(-rates[batch.rows] * (now - last_s[batch.rows]) / _DAY_S)
        last_s[batch.rows] = now
        scheduler.observe(OutcomeBatch(PackedUrls.pack(batch.urls), np.full(len(batch), now + 60.0), changed=changed))
        view = scheduler.trial()
        if view is not None and view.evidence.state != "open":
            break
    assert view is not None
    return Ending(view, day - _BEFORE + 1)


def make_table() -> str:
    """Return the table of all pairs and sizes as Markdown. Minutes."""
    lines = [
        "| champion | challenger | pages | better | worse | open | days, median | challenger's visits | gain shown |",
        "| --- | --- | --- | --- | --- | --- | --- | --- | --- |",
    ]
    cases = [(*pair, pages) for pair in _PAIRS for pages in _SIZES]
    for champion, challenger, pages in track(cases, "trials"):
        endings = [run_trial(champion, challenger, pages, seed) for seed in range(_SEEDS)]
        lines.append(f"| `{champion}` | `{challenger}` | {pages:,} | {' | '.join(_describe(endings))} |")
    return "\n".join(lines) + "\n"


def _describe(endings: list[Ending]) -> Iterator[str]:
    for state in ("better", "worse", "open"):
        yield str(sum(ending.view.evidence.state == state for ending in endings))
    yield f"{np.median([ending.days for ending in endings]):.0f}"
    yield f"{np.median([ending.view.evidence.costs[0] for ending in endings]):,.0f}"
    gains = [ending.view.evidence.gain for ending in endings if ending.view.evidence.gain is not None]
    yield f"{100.0 * np.median(gains):+.0f} %" if gains else "–"


def main() -> None:
    """Write the table into the document, between its two comments."""
    write_block(DOCUMENT, "trial", make_table())


if __name__ == "__main__":
    main()
