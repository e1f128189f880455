"""``streamsched evolve``: score functions evolved for a log, and whether they are better than what was known before."""

from __future__ import annotations

import argparse
import os
from pathlib import Path
from typing import Final

from rich.console import Console

from streamsched.cli.arguments import add_examples, duration, moment, share, whole
from streamsched.cli.exits import DONE
from streamsched.cli.output import check_writable, echo, echo_error, name_rejections, write_file
from streamsched.errors import SettingsError
from streamsched.evolution.gp.evolution_settings import EvolutionSettings, Metric
from streamsched.evolution.gp.symbols import TERMINAL_SETS
from streamsched.replay.gp4c import ProtocolResult, ProtocolSettings, run_protocol, to_json
from streamsched.replay.gp4c.protocol_summary import print_protocol
from streamsched.replay.reporting.terminal import show_progress

__all__ = ["add_arguments"]

_STDIO: Final = "-"
_METRICS: Final[dict[str, Metric]] = {"change-rate": "change_rate", "ndcg": "ndcg"}
_EXAMPLES: Final = """\
  streamsched evolve data/openwrt.tsv.gz --protocol paper --report out.html     # the paper's full settings
  streamsched evolve data/openwrt.tsv.gz --population 100 --generations 10 --seeds 2 --changed that-day
  streamsched evolve log.tsv.gz --from 2026-01-01 --to 2026-04-01 --metric ndcg --terminals full --json figures.json
"""
_DEFAULTS: Final = EvolutionSettings()


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of ``evolve``."""
    add_examples(parser, _EXAMPLES)
    parser.add_argument("log", metavar="LOG", help="a change log, or crawl outcomes in any format")
    parser.add_argument(
        "--protocol", choices=["paper"], default="paper", help="the experiment: GP4C's temporal 5-fold (paper)"
    )
    parser.add_argument(
        "--from", dest="start", type=moment, metavar="DATE", help="first day: of 57 cycles, or with --to of the window"
    )
    parser.add_argument(
        "--to",
        dest="end",
        type=moment,
        metavar="DATE",
        help="end, exclusive: of 57 cycles (the log's end), or with --from of the window, cut into three equal spans",
    )
    parser.add_argument("--cycle", type=duration, default=86_400.0, metavar="TIME", help="how often to rank (1d)")
    parser.add_argument(
        "--budget", type=share, default=_DEFAULTS.budget, metavar="SHARE", help="of a fold's pages, a cycle (0.05)"
    )
    parser.add_argument(
        "--warmup", type=whole(1), default=_DEFAULTS.warmup, metavar="N", help="cycles that visit every page (2)"
    )
    parser.add_argument(
        "--changed",
        choices=["since-visit", "that-day"],
        default="since-visit",
        help="what counts (since-visit; the paper's letter is that-day)",
    )
    _add_search(parser)
    parser.add_argument("--seed", type=whole(0), default=0, metavar="N", help="of folds, chance and ties (0)")
    cores = os.cpu_count() or 1
    parser.add_argument("--workers", type=whole(1), default=cores, metavar="N", help="threads (one a core)")
    parser.add_argument("--json", metavar="FILE", help="write the figures to FILE, - for standard output")
    parser.add_argument("--report", type=Path, metavar="FILE.html", help="write one self-contained page with plots")
    parser.set_defaults(run=_evolve)


def _add_search(parser: argparse.ArgumentParser) -> None:
    """Add what the search is for, what it may use, and how long it is; the defaults are the paper's."""
    parser.add_argument("--metric", action="append", choices=[*_METRICS], help="evolve for this; repeat (both)")
    parser.add_argument(
        "--terminals", action="append", choices=[*TERMINAL_SETS], help="evolve from these; repeat (basic, paper)"
    )
    for name, help_line in (
        ("population", "formulas a generation"),
        ("generations", "generations an evolution"),
        ("seeds", "evolutions a fold, metric and terminal set"),
    ):
        default = getattr(_DEFAULTS, name)
        parser.add_argument(f"--{name}", type=whole(1), default=default, metavar="N", help=f"{help_line} ({default})")


def _evolve(arguments: argparse.Namespace) -> int:
    settings = _settings(arguments)
    for path in (arguments.report, arguments.json):
        if path is not None and path != _STDIO:
            check_writable(Path(path), arguments.log)
    with show_progress(Console(stderr=True), "Evolving") as progress:
        result = run_protocol(settings, progress)
    name_rejections(result.rejections, result.rejected)
    _tell(result, arguments)
    return DONE


def _settings(arguments: argparse.Namespace) -> ProtocolSettings:
    evolution = EvolutionSettings(
        population=arguments.population,
        generations=arguments.generations,
        seeds=arguments.seeds,
        budget=arguments.budget,
        warmup=arguments.warmup,
        reading="that_day" if arguments.changed == "that-day" else "since_visit",
        workers=arguments.workers,
    )
    for option in ("metric", "terminals"):
        given = getattr(arguments, option) or []
        if len(set(given)) < len(given):
            raise SettingsError(f"--{option}", " ".join(given), "each once")
    metrics = arguments.metric or [*_METRICS]
    return ProtocolSettings(
        arguments.log,
        metrics=tuple(_METRICS[metric] for metric in metrics),
        terminals=tuple(arguments.terminals or ("basic", "paper")),
        cycle_s=arguments.cycle,
        start_s=arguments.start,
        end_s=arguments.end,
        seed=arguments.seed,
        evolution=evolution,
    )


def _tell(result: ProtocolResult, arguments: argparse.Namespace) -> None:
    """Print the tables, and write the files asked for."""
    figures = to_json(result)
    if arguments.json == _STDIO:
        echo(figures.rstrip("\n"))
    else:
        print_protocol(result)
    if arguments.json not in (None, _STDIO):
        write_file(Path(arguments.json), figures)
    if arguments.report is not None:
        from streamsched.replay.gp4c.protocol_report import render_protocol  # noqa: PLC0415  matplotlib is slow to import

        write_file(arguments.report, render_protocol(result))
        (echo_error if arguments.json == _STDIO else echo)(f"report: {arguments.report}")
