"""``python -m benchmarks.formulas FOLDER``: what evolved and rival formulas gain on logs; writes docs/evolution.md.

Replays leave their JSON in FOLDER; those that are there are not run again. Rivals are also judged by simulated crawls
on the true changes, with the priors, groups and profiles that the default's replay learned. The best formula is bred on
these changes: so much a choice of formulas could gain at most.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import UTC, date, datetime
from itertools import pairwise
from pathlib import Path
from typing import Any, Final

import numpy as np
from rich.progress import track

from benchmarks.report import write_block
from streamsched import Scheduler
from streamsched.evolution.data.change_history import ChangeHistory
from streamsched.evolution.evolution_settings import REEVOLUTION_SETTINGS
from streamsched.evolution.generations import evolve_seeds
from streamsched.evolution.genomes import from_formula, to_formula
from streamsched.evolution.simulation.evaluator import Evaluator
from streamsched.evolution.simulation.trials import Trial
from streamsched.formula import Formula
from streamsched.numerics.url_bytes import hash_bytes
from streamsched.replay.log_reader import read_truth

ROOT: Final = Path(__file__).resolve().parent.parent
DOCUMENT: Final = ROOT / "docs" / "evolution.md"
LOGS: Final = {  # first and last day of a year
    "scoop-extras": (date(2025, 8, 22), date(2026, 8, 22)),
    "powershell-docs": (date(2025, 8, 20), date(2026, 8, 20)),
    "openwrt": (date(2025, 8, 22), date(2026, 8, 22)),
}
ROWS: Final = (("scoop-extras", 0), ("scoop-extras", 1), ("powershell-docs", 0), ("openwrt", 0), ("openwrt", 1))
POLICIES: Final = ("default", "posterior", "age", "nad", "gp4c", "gp4c-panel", "gp4c-paper")
DEFAULT: Final = "worth * gain"
RIVALS: Final = (
    "gain * (1 + X) / (1 + n)",
    "rate * tau",
    "1 - pow(1 - due, 1.5) * pow(1 - surge, 0.4)",
    "gain + 0.001 * t",
    "posterior",
    "t",
)
_DAYS: Final = 360
_POPULATION: Final = 60
_GENERATIONS: Final = 10


def replay(folder: Path, name: str, log: str, policies: Sequence[str], *words: str) -> dict[str, Any]:
    """Return the JSON of a replay, run unless `folder` has it."""
    path = folder / f"{name}.json"
    if not path.exists():
        first, last = LOGS[log]
        command = [sys.executable, "-m", "streamsched", "replay", str(ROOT / "data" / f"{log}.tsv.gz")]
        command += ["--from", str(first), "--to", str(last), "--against", "default", "--json", str(path), *words]
        for policy in policies:
            command += ["--policy", policy]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    found: dict[str, Any] = json.loads(path.read_text("utf-8"))
    return found


def difference(policy: dict[str, Any], metric: str) -> str:
    """Return a paired difference in per cent with half the width of its interval."""
    found = policy["against"][metric]["relative"]
    return f"{100 * found['value']:+.1f} ±{50 * (found['high'] - found['low']):.1f}".replace("-", "−")


def make_gains(folder: Path) -> str:
    """Return the tables of the policies that evolve, a metric each."""
    lines = []
    for metric, title in (("change_rate", "ChangeRate"), ("ndcg", "NDCG"), ("stale", "Stale pages")):
        names = " | ".join(f"`{policy}`" for policy in POLICIES)
        lines += [f"{title}:", "", f"| log | seed | {names} |", "| --- " * (len(POLICIES) + 2) + "|"]
        for log, seed in ROWS:
            found = replay(folder, f"{log}-{seed}", log, POLICIES, "--seed", str(seed))["policies"]
            own = found["default"]["figures"][metric]["value"]
            first = f"{100 * own:.2f} %" if metric == "stale" else f"{own:.4f}"
            lines.append(
                f"| {log} | {seed} | {first} | "
                + " | ".join(difference(found[policy], metric) for policy in POLICIES[1:])
                + " |"
            )
        lines.append("")
    return "\n".join(lines)


def true_history(folder: Path, log: str) -> ChangeHistory:
    """Return the true changes of the last cycles, with what the default's replay learned of the pages."""
    scheduler = Scheduler.load(folder / f"{log}-state")
    last = LOGS[log][1]
    end_s = datetime(last.year, last.month, last.day, tzinfo=UTC).timestamp()
    training = next(scheduler.core.trainings(_DAYS, now=end_s, seeds=[0]))
    history, span = training.history, training.span
    truth = read_truth(ROOT / "data" / f"{log}.tsv.gz")
    spans = pairwise(truth.urls.offsets.tolist())
    hashes = np.fromiter(
        (hash_bytes(truth.urls.blob, start, stop) for start, stop in spans), np.uint64, len(truth.urls)
    )
    row_of = {page: row for row, page in enumerate(history.hashes.tolist())}
    changed = np.zeros_like(history.changed)
    for page, bounds in zip(hashes.tolist(), pairwise(truth.offsets.tolist()), strict=True):
        row = row_of.get(page)
        if row is not None:
            cycles = np.floor((truth.times_s[slice(*bounds)] - span.start_s) / span.cycle_s).astype(int)
            changed[row, cycles[(cycles >= 0) & (cycles < span.cycles)]] = True
    return replace(history, changed=changed)


def judge(folder: Path, log: str) -> Iterator[str]:
    """Yield the rows of a log: each rival as replayed and as simulated, then the best formula bred on the changes."""
    options = ("--save-state", str(folder / f"{log}-state"), "--state-policy", "default")
    replayed = replay(folder, f"{log}-rivals", log, ("default", *RIVALS), *options)["policies"]
    history = true_history(folder, log)
    settings = replace(REEVOLUTION_SETTINGS, population=_POPULATION, generations=_GENERATIONS, metric="changes")
    trials = [Trial(history, budget=0.05, first=first, salt=first) for first in range(2)]
    evaluator = Evaluator(trials, "changes", symbol_set=settings.symbol_set)
    known = [Formula.parse(text) for text in (DEFAULT, *RIVALS)]
    fitness = evaluator.fitness(known)
    for text, value in zip(RIVALS, fitness[1:], strict=True):
        yield f"| {log} | `{text}` | {difference(replayed[text], 'change_rate')} | {_per_cent(value / fitness[0])} |"
    initial = [genome for one in known if (genome := from_formula(one, settings.symbol_set)) is not None]
    best = evolve_seeds(evaluator.fitness, settings, 0, initial=initial).elites[0]
    text = to_formula(best.genome, settings.symbol_set).simplify().text
    yield f"| {log} | best of {evaluator.evaluated:,}: `{text}` | | {_per_cent(best.fitness / fitness[0])} |"


def _per_cent(ratio: float) -> str:
    return f"{100 * (ratio - 1):+.1f}".replace("-", "−")


def main(folder: Path) -> None:
    """Run the replays, and write both tables into the document."""
    folder.mkdir(parents=True, exist_ok=True)
    rivals = ["| log | formula | replayed | simulated |", "| --- | --- | --- | --- |"]
    for log in track(LOGS, description="Rivals", transient=True):
        rivals += judge(folder, log)
    write_block(DOCUMENT, "rivals", "\n".join(rivals) + "\n")
    write_block(DOCUMENT, "gains", make_gains(folder))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
