"""``streamsched experiment`` and ``evolve``: the experiments of the papers, rerun."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, get_args

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
from streamsched.replay.optimisers import (
    CrawlSettings,
    NoisySettings,
    PlanSettings,
    SyncPlan,
    report_lambdacrawl,
    report_mirrorsync,
    report_noisy_signals,
    report_webfountain,
    run_lambdacrawl,
    run_mirrorsync,
    run_noisy_signals,
    run_webfountain,
)
from streamsched.replay.reporting.report import Report

if TYPE_CHECKING:
    from streamsched.replay.experiment import Progress


_EPILOG: Final = """
\b
Examples:
  streamsched experiment lambdacrawl --report lambdacrawl.html
  streamsched experiment lambdacrawl --data Dataset/urlid_offset_history.txt    # Microsoft's files
  streamsched experiment mirrorsync --runs 20 --json figures.json
  streamsched experiment noisy-signals --report noisy-signals.html
  streamsched experiment webfountain --starts 3 --report webfountain.html

The defaults are the papers' settings, but for noisy-signals. The same seed gives the same figures.
"""
_CRAWLS: Final = CrawlSettings()
_SYNCS: Final = SyncPlan()
_NOISY: Final = NoisySettings()
_PLANS: Final = PlanSettings()


@click.group("experiment", epilog=_EPILOG, no_args_is_help=False)
def experiment_command() -> None:
    """Rerun the experiments of the papers on optimal crawling."""


@experiment_command.command(
    "lambdacrawl", epilog="Example: streamsched experiment lambdacrawl --report lambdacrawl.html"
)
@click.option(
    "--data",
    type=options.FILE,
    show_default="generated pages",
    help="Microsoft's urlid_offset_history.txt; its companions are beside it.",
)
@click.option(
    "--pages", type=options.whole(25), default=_CRAWLS.pages, help="Pages to generate, or of a run of learning."
)
@click.option("--runs", type=options.whole(1), default=_CRAWLS.runs, help="Runs of experiment 3, which learns.")
@click.option("--epochs", type=options.whole(1), default=_CRAWLS.epochs, help="Days of experiment 3.")
@options.seed
@options.figures
@options.report
def _lambdacrawl(data: Path | None, figures: str | None, report: Path | None, **given: Any) -> int:
    """Compare what policies cost, with known and with learned rates.

    Experiments 1 to 3 of Kolobov et al. (NeurIPS 2019).
    """
    settings = CrawlSettings(data=None if data is None else str(data), **given)
    check_writable(report, figures, log=settings.data)

    def run(progress: Progress | None) -> Report:
        result = run_lambdacrawl(settings, progress)
        if result.file is not None:
            name_rejections(result.file.rejections, result.file.rejected)
        return report_lambdacrawl(result)

    return _show(run, "Experiments 1 and 2", figures, report)


@experiment_command.command("mirrorsync", epilog="Example: streamsched experiment mirrorsync --report mirrorsync.html")
@click.option("--runs", type=options.whole(1), default=_SYNCS.runs, help="Runs of each experiment.")
@click.option("--arms", type=options.whole(1), default=_SYNCS.arms, help="What is synchronised: pages, cache entries.")
@click.option("--rounds", type=options.whole(1), default=_SYNCS.rounds, help="Rounds of learning.")
@options.seed
@options.figures
@options.report
def _mirrorsync(figures: str | None, report: Path | None, **given: Any) -> int:
    """Compare how fast algorithms learn sync rates from costs.

    Experiments 1, 1a, 2 and 2a of Kolobov, Bubeck and Zimmert (ICML 2020).
    """
    plan = SyncPlan(**given)
    check_writable(report, figures)
    return _show(lambda progress: report_mirrorsync(run_mirrorsync(plan, progress)), "Experiment 1", figures, report)


@experiment_command.command(
    "noisy-signals", epilog="Example: streamsched experiment noisy-signals --report noisy-signals.html"
)
@click.option("--pages", type=options.whole(20), default=_NOISY.pages, help="Pages of a run.")
@click.option("--runs", type=options.whole(1), default=_NOISY.runs, help="Runs of each experiment.")
@click.option(
    "--time", type=options.whole(1), default=_NOISY.time, help="Units of time; a page changes up to once in 1."
)
@options.seed
@options.figures
@options.report
def _noisy_signals(figures: str | None, report: Path | None, **given: Any) -> int:
    """Compare policies after signals that may be false or missing.

    The synthetic experiments of Busa-Fekete et al. (WWW 2025), and the mixed case of LambdaCrawl.
    """
    settings = NoisySettings(**given)
    check_writable(report, figures)
    return _show(
        lambda progress: report_noisy_signals(run_noisy_signals(settings, progress)), "Experiment 1", figures, report
    )


@experiment_command.command(
    "webfountain", epilog="Example: streamsched experiment webfountain --report webfountain.html"
)
@click.option(
    "--budget",
    type=float,
    metavar="MILLIONS",
    show_default="fitted to the paper",
    help="Million pages that a period can crawl.",
)
@click.option("--starts", type=options.whole(1), default=_PLANS.starts, help="Starts of the search for each plan.")
@click.option("--buckets", type=options.whole(1), default=_PLANS.buckets, help="Buckets of pages, 256 at most.")
@click.option("--periods", type=options.whole(1), default=_PLANS.periods, help="Periods of a cycle.")
@options.seed
@options.figures
@options.report
def _webfountain(figures: str | None, report: Path | None, **given: Any) -> int:
    """Compare crawl plans of three strategies.

    Experiments 1 to 3 of Edwards, McCurley and Tomlin (WWW 2001). Needs CasADi: pip install 'streamsched[webfountain]'.
    """
    settings = PlanSettings(**given)
    check_writable(report, figures)
    return _show(
        lambda progress: report_webfountain(run_webfountain(settings, progress)), "Fitting the budget", figures, report
    )


def _show(run: Callable[[Progress | None], Report], first: str, figures: str | None, report: Path | None) -> int:
    """Run with a progress bar; print the tables or the JSON, and write the files."""
    with show_progress("Running", first) as progress:
        found = run(progress)
    show_report(found, figures, report)
    return DONE


_METRICS: Final[dict[str, Metric]] = {"change-rate": "change_rate", "ndcg": "ndcg"}
_EVOLUTION: Final = EvolutionSettings()
_EVOLVE_EPILOG: Final = """
\b
Examples:
  streamsched evolve data/openwrt.tsv.gz --protocol paper --report out.html    # the paper's full settings
  streamsched evolve data/openwrt.tsv.gz --population 100 --generations 10 --seeds 2 --changed that-day
  streamsched evolve log.tsv.gz --from 2026-01-01 --to 2026-04-01 --metric ndcg --terminals full --json figures.json

Without --from and --to the experiment takes the last 57 cycles of the log, three spans of 19; with one of them the 57
cycles from or to that day; with both it cuts the time between them into three equal spans.
"""


@click.command("evolve", epilog=_EVOLVE_EPILOG)
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
    "--budget", type=options.SHARE, default=_EVOLUTION.budget, help="Share of a fold's pages visited per cycle."
)
@click.option(
    "--warmup", type=options.whole(1), default=_EVOLUTION.warmup, help="Visit every page in the first N cycles."
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
@click.option("--population", type=options.whole(1), default=_EVOLUTION.population, help="Formulas per generation.")
@click.option("--generations", type=options.whole(1), default=_EVOLUTION.generations, help="Generations per evolution.")
@click.option(
    "--parents",
    type=click.Choice([*get_args(Parents)]),
    default=_EVOLUTION.parents,
    help="Breed from the fittest of all generations so far, or from the last generation.",
)
@click.option(
    "--seeds", type=options.whole(1), default=_EVOLUTION.seeds, help="Evolutions per fold, metric and set of variables."
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
    settings = _evolve_settings(log, **given)
    check_writable(report, figures, log=log)
    with show_progress("Evolving") as progress:
        result = run_protocol(settings, progress)
    name_rejections(result.rejections, result.rejected)
    show_report(report_protocol(result), figures, report)
    return DONE


def _evolve_settings(
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
