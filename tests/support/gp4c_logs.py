"""Logs and results of GP4C's experiment for its tests: small, and known."""

from __future__ import annotations

import numpy as np

from streamsched import PackedUrls
from streamsched.evolution.evolution_settings import EvolutionSettings
from streamsched.numerics.arrays import Floats
from streamsched.replay import ChangeLog
from streamsched.replay.gp4c import Choice, Evolved, Outcome, ProtocolResult, ProtocolSettings
from streamsched.replay.gp4c.protocol_results import BASELINES, SELECTIONS

DAY = 86_400.0
START = 20_000 * DAY  # 2024-10-04
CYCLES = 3  # ranked, of the five that each span of `made_result` has


def made_log(pages: int = 120, days: int = 60, seed: int = 1) -> ChangeLog:
    """Pages that change at rates from one in 2 days to one in 200, all there from the first day on."""
    rng = np.random.default_rng(seed)
    flags = rng.random((pages, days)) < np.geomspace(0.5, 0.005, pages)[:, None]
    page, day = np.nonzero(flags)
    pages_of = np.concatenate([np.arange(pages), page, [0]])
    times = np.concatenate([np.full(pages, START), START + DAY * day + 3600.0, [START + DAY * days]])
    urls = PackedUrls.pack([f"https://h.example/{number}" for number in range(pages)])
    return ChangeLog.collect(urls, pages_of, times, np.zeros(times.size, np.bool_))


def small_settings(**settings: object) -> ProtocolSettings:
    """An experiment of ten formulas and two generations."""
    evolution = EvolutionSettings(population=10, generations=2, seeds=2, workers=1)
    return ProtocolSettings("made.tsv", **{"evolution": evolution, **settings})  # type: ignore[arg-type]


def made_result(log: str = "made.tsv", **series: Floats) -> ProtocolResult:
    """A result in which each method has the series given, float64[5, 3], in both metrics; NAD's for those left out."""
    nad = series.get("nad", flat(0.5))
    window = made_log(20, 16).window(START, DAY, 15)
    return ProtocolResult(
        ProtocolSettings(log),
        window,
        int(window.changes().sum()),
        1,
        ((0.5, 0.1),) * 5,
        {name: _outcome(series.get(name, nad)) for name in BASELINES},
        tuple(
            _evolved(metric, terminals, series.get(name, nad))
            for metric in ("change_rate", "ndcg")
            for terminals, name in (("basic", "GP4C_Basic"), ("paper", "GP4C_All"))
        ),
        0,
        (),
        "",
    )


def flat(*folds: float) -> Floats:
    """The same figure in all three cycles: one for all five folds, or one a fold."""
    return np.repeat(np.broadcast_to(np.array(folds, np.float64), 5)[:, None], CYCLES, axis=1)


def _outcome(series: Floats) -> Outcome:
    return Outcome(series, series, np.full_like(series, 0.4))


def _evolved(metric: str, terminals: str, series: Floats) -> Evolved:
    choices = tuple(
        Choice(f"t * X + {fold} < &" if fold == 4 else f"t * X + {fold}", 0.5, 0.4, 0.3) for fold in range(5)
    )
    cuts = np.full((5, 5), 0.25)
    return Evolved(
        metric,  # type: ignore[arg-type]
        terminals,  # type: ignore[arg-type]
        dict.fromkeys(SELECTIONS, choices),
        dict.fromkeys(SELECTIONS, _outcome(series)),
        {"change_rate": cuts, "ndcg": cuts},
        np.array([[[0.1, 0.2], [0.15, 0.15]]] * 5),
        20,
    )
