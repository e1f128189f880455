"""``streamsched evolve``: score formulas evolved on a log, compared with the published ones."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any, Final, get_args

import click

from streamsched.cli import options
from streamsched.cli.exits import DONE
from streamsched.cli.output import check_writable, name_rejections, show_report
from streamsched.cli.progress import show_progress
from streamsched.errors import SettingsError
from streamsched.evolution.evolution_settings import EvolutionSettings, Metric, Parents
from streamsched.evolution.symbols import TERMINAL_SETS
from streamsched.replay.gp4c.protocol_experiment import run_protocol
from streamsched.replay.gp4c.protocol_report import report_protocol
from streamsched.replay.gp4c.protocol_settings import ProtocolSettings

_METRICS: Final[dict[str, Metric]] = {"change-rate": "change_rate", "ndcg": "ndcg"}
_DEFAULTS: Final = EvolutionSettings()
_EPILOG: Final = """
\b
Examples:
  streamsched evolve data/openwrt.tsv.gz --protocol paper --report out.html    # the paper's full settings
  streamsched evolve data/openwrt.tsv.gz --population 100 --generations 10 --seeds 2 --changed that-day
  streamsched evolve log.tsv.gz --from 2026-01-01 --to 2026-04-01 --metric ndcg --terminals full --json figures.json

Without --from and --to the experiment takes the last 57 cycles of the log, three spans of 19; with one of them the 57
cycles from or to that day; with both it cuts the time between them into three equal spans.
"""


@click.command("evolve", epilog=_EPILOG)
@click.argument("log")
@click.option(
    "--protocol",
    type=click.Choice(["paper"]),
    default="paper",
    expose_value=False,
    help="Experiment: the paper's temporal 5-fold.",
)
@click.option("--from", "start_s", type=options.MOMENT, help="Start of the period, a UTC midnight.")
@options.end
@options.cycle
@click.option(
    "--budget", type=options.SHARE, default=_DEFAULTS.budget, help="Share of a fold's pages visited per cycle."
)
@click.option(
    "--warmup", type=options.whole(1), default=_DEFAULTS.warmup, help="Visit every page in the first N cycles."
)
@options.changed
@click.option(
    "--metric",
    "metrics",
    multiple=True,
    type=click.Choice([*_METRICS]),
    show_default="both",
    help="Metric to evolve for. Can be repeated.",
)
@click.option(
    "--terminals",
    multiple=True,
    type=click.Choice([*TERMINAL_SETS]),
    show_default="basic and paper",
    help="Set of variables that formulas may use. Can be repeated.",
)
@click.option("--population", type=options.whole(1), default=_DEFAULTS.population, help="Formulas per generation.")
@click.option("--generations", type=options.whole(1), default=_DEFAULTS.generations, help="Generations per evolution.")
@click.option(
    "--parents",
    type=click.Choice([*get_args(Parents)]),
    default=_DEFAULTS.parents,
    help="Breed from the fittest of all generations so far, or from the last generation.",
)
@click.option(
    "--seeds", type=options.whole(1), default=_DEFAULTS.seeds, help="Evolutions per fold, metric and set of variables."
)
@options.seed
@options.workers
@options.figures
@options.report
def evolve_command(log: str, figures: str | None, report: Path | None, **given: Any) -> int:
    """Evolve score formulas on a log and test them.

    LOG is a change log, or crawl outcomes in any format. The test is the experiment of the GP4C paper: the evolved
    formulas are compared with the published estimators on pages and cycles that evolution has not seen.
    """
    settings = _settings(log, **given)
    check_writable(report, figures, log=log)
    with show_progress("Evolving") as progress:
        result = run_protocol(settings, progress)
    name_rejections(result.rejections, result.rejected)
    show_report(report_protocol(result), figures, report)
    return DONE


def _settings(
    log: str, changed: str, metrics: tuple[str, ...], terminals: tuple[Any, ...], **more: Any
) -> ProtocolSettings:
    for option, values in (("--metric", metrics), ("--terminals", terminals)):
        if any(count > 1 for count in Counter(values).values()):
            raise SettingsError(option, " ".join(values), "each once")
    protocol = {name: more.pop(name) for name in ("cycle_s", "start_s", "end_s", "seed")}
    return ProtocolSettings(
        log,
        metrics=tuple(_METRICS[metric] for metric in metrics or _METRICS),
        terminals=terminals or ("basic", "paper"),
        evolution=EvolutionSettings(reading="that_day" if changed == "that-day" else "since_visit", **more),
        **protocol,
    )
