"""``streamsched experiment``: the experiments of the papers on optimal crawling, rerun."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from streamsched.cli import options
from streamsched.cli.exits import DONE
from streamsched.cli.output import check_writable, name_rejections, show_report
from streamsched.cli.progress import show_progress
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
