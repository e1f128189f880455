"""``python -m benchmarks.plans``: plans beside rankings on the bundled logs; writes the tables of docs/plans.md.

The last year of each log, a cold start, 5 % of the pages a day.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Final
from unittest.mock import patch

import numpy as np
from rich.progress import track

from benchmarks.report import write_block
from streamsched.replay.confidence_intervals import Estimate
from streamsched.replay.experiment import replay_log
from streamsched.replay.ground_truth import ChangeLog
from streamsched.replay.log_reader import read_truth
from streamsched.replay.replay_results import PolicyResult
from streamsched.replay.replay_settings import ReplaySettings
from streamsched.replay.simulation.signal_sources import SimulatedSource
from streamsched.replay.simulation.simulator import DAY_S
from streamsched.scheduler.planning import optimiser

_ROOT: Final = Path(__file__).resolve().parent.parent
DOCUMENT: Final = _ROOT / "docs" / "plans.md"
_LOGS: Final = ("scoop-extras", "powershell-docs", "openwrt")
_POLICIES: Final = ("age", "default", "balanced", "freshness", "lambdacrawl", "binary", "mirrorsync", "webfountain")
_UNWEIGHTED: Final = ("age", "mirrorsync", "webfountain")  # they crawl almost as without weights: never bold with them
_WITHOUT_NEWS: Final = "crawl_rate * t"
_SOURCES: Final = {
    "none": (),
    "recall 0.7, precision 0.1": (SimulatedSource(recall=0.7, precision=0.1),),
    "recall 0.7, precision 0.7, half the pages": (SimulatedSource(recall=0.7, precision=0.7, share=0.5),),
    "recall 0.99, precision 1": (SimulatedSource(recall=0.99),),
}
_SPREAD: Final = 1.5  # of the logarithms of importance
_SEED: Final = 7
_DAYS: Final = 365


def _replay(
    log: ChangeLog, policies: tuple[str, ...], signals: tuple[SimulatedSource, ...] = ()
) -> dict[str, PolicyResult]:
    """Return the results of `policies` in the last year of `log`."""
    end_s = log.last_s // DAY_S * DAY_S
    settings = ReplaySettings(
        "log", policies, start_s=end_s - _DAYS * DAY_S, end_s=end_s, against="balanced", signals=signals
    )
    return {result.name: result for result in replay_log(log, settings).policies}


def _show(figure: Estimate, digits: int) -> str:
    assert figure.value is not None
    return f"{figure.value:.{digits}f}"


def make_signal_table(logs: Mapping[str, ChangeLog]) -> str:
    """Return the table of Freshness by the source of signals, as Markdown: a plan, without news, `balanced`."""
    lines = _head("source")
    for name, source in track(_SOURCES.items(), "sources"):
        cells = []
        for log in logs.values():
            whole = _replay(log, ("lambdacrawl", "balanced"), source)
            with patch.object(optimiser, "PLAN_FORMULA", _WITHOUT_NEWS):
                bare = _replay(log, ("lambdacrawl", "balanced"), source)
            shown = (whole["lambdacrawl"], bare["lambdacrawl"], whole["balanced"])
            cells.append(" · ".join(_show(result.figures["freshness"], 3) for result in shown))
        lines.append(f"| {name} | {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def make_policy_table(logs: Mapping[str, ChangeLog]) -> str:
    """Return the table of all policies without and with importance, and a sentence on their stale copies. Minutes."""
    lines, sentences = _head("policy"), []
    for weighted in track((False, True), "policies"):
        rng = np.random.default_rng(_SEED)
        drawn = {name: rng.lognormal(0.0, _SPREAD, len(log.urls)) for name, log in logs.items()}
        found = {
            name: _replay(replace(log, importance=drawn[name]) if weighted else log, _POLICIES)
            for name, log in logs.items()
        }
        columns = [_column(results, weighted=weighted) for results in found.values()]
        for place, policy in enumerate(_POLICIES):
            label = f"`{policy}`, weighted" if weighted else f"`{policy}`"
            lines.append(f"| {label} | {' | '.join(column[place] for column in columns)} |")
        differences = [_stale(results["lambdacrawl"]) for results in found.values()]
        sentences.append(", ".join(f"{each} ({name})" for each, name in zip(differences, logs, strict=True)))
    plain, weighed = sentences
    return "\n".join(lines) + f"\n\nStale copies of `lambdacrawl` against `balanced`: {plain};\nweighted {weighed}.\n"


def _head(first: str) -> list[str]:
    return [f"| {first} | {' | '.join(_LOGS)} |", "|" + " --- |" * (len(_LOGS) + 1)]


def _column(results: Mapping[str, PolicyResult], *, weighted: bool) -> list[str]:
    """Return a cell for each policy: freshness, mean delay and ChangeRate, the best of each in bold."""
    shown = (("freshness", 4), ("delay_mean", 1), ("change_rate", 3))
    rows = [[_show(results[policy].figures[name], digits) for name, digits in shown] for policy in _POLICIES]
    rivals = [row for policy, row in zip(_POLICIES, rows, strict=True) if not (weighted and policy in _UNWEIGHTED)]
    best = [choose((row[at] for row in rivals), key=float) for at, choose in enumerate((max, min, max))]
    return [
        " · ".join(f"**{text}**" if text == top else text for text, top in zip(row, best, strict=True)) for row in rows
    ]


def _stale(result: PolicyResult) -> str:
    assert result.against is not None
    relative = result.against["stale"].relative
    assert relative.value is not None
    assert relative.half_width is not None
    return f"{100 * relative.value:+.1f} ±{100 * relative.half_width:.1f} %".replace("-", "\N{MINUS SIGN}")


def main() -> None:
    """Write both tables."""
    logs = {name: read_truth(str(_ROOT / "data" / f"{name}.tsv.gz")) for name in _LOGS}
    write_block(DOCUMENT, "signalled", make_signal_table(logs))
    write_block(DOCUMENT, "policies", make_policy_table(logs))


if __name__ == "__main__":
    main()
