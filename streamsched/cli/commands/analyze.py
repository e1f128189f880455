"""``streamsched analyze``: how the pages of a log change: how often, how regularly, and when in the week."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from rich.console import Console

from streamsched.cli.arguments import add_examples, duration, moment, share
from streamsched.cli.exits import DONE
from streamsched.cli.output import check_writable, echo, echo_error, name_rejections, write_file
from streamsched.errors import SettingsError
from streamsched.replay.analysis import (
    Analysis,
    AnalysisSettings,
    GivenRegion,
    Progress,
    merge_regions,
    parse_region,
    run_analysis,
    to_json,
)
from streamsched.replay.analysis.reporting.summary import print_summary

__all__ = ["add_arguments"]

_STDIO: Final = "-"
_EXAMPLES: Final = """\
  streamsched analyze data/scoop-extras.tsv.gz --report out.html --png pictures/
  streamsched analyze outcomes.jsonl.gz --from 2026-01-01 --to 2026-07-01 --json figures.json
  streamsched analyze log.tsv.gz --region UK=uk@Europe/London,ie --local --zone Europe/Paris
  streamsched analyze log.tsv.gz --step 1d --near 1w --json       # as a daily crawl would see it; to standard output
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of ``analyze``."""
    add_examples(parser, _EXAMPLES)
    parser.add_argument("log", metavar="LOG", help="a change log, or crawl outcomes in any format")
    parser.add_argument("--report", type=Path, metavar="FILE.html", help="write one self-contained page with figures")
    parser.add_argument("--png", type=Path, metavar="DIR", help="write each figure to DIR as a PNG file")
    parser.add_argument(
        "--json", nargs="?", const=_STDIO, metavar="FILE", help="write every number to FILE (standard output)"
    )
    parser.add_argument("--from", dest="start", type=moment, metavar="DATE", help="begin (the log's)")
    parser.add_argument("--to", dest="end", type=moment, metavar="DATE", help="end, exclusive (the log's)")
    parser.add_argument(
        "--step", type=duration, metavar="TIME", help="how often a crawl looks at a log of changes (1h, or its own)"
    )
    parser.add_argument(
        "--near", type=duration, metavar="TIME", help="mean interval to look closely at (1d, if there are such pages)"
    )
    parser.add_argument(
        "--level", type=share, default=0.01, metavar="SHARE", help="of Poisson pages that may be misnamed (0.01)"
    )
    parser.add_argument(
        "--region",
        action="append",
        type=_region,
        default=[],
        metavar="NAME=TLD,…",
        help="pages by top-level domain, each with @ZONE or without; repeat (CJK and FIGS)",
    )
    parser.add_argument("--zone", default="UTC", metavar="ZONE", help="whose clock the week goes by (UTC)")
    parser.add_argument("--local", action="store_true", help="regions go by their own clocks where they have one")
    parser.set_defaults(run=_analyze)


def _analyze(arguments: argparse.Namespace) -> int:
    regions, zones = merge_regions(arguments.region)
    settings = AnalysisSettings(
        log=arguments.log,
        start_s=arguments.start,
        end_s=arguments.end,
        step_s=arguments.step,
        near_s=arguments.near,
        level=arguments.level,
        regions=regions,
        zones=zones,
        zone=arguments.zone,
        local=arguments.local,
    )
    pictures = None if arguments.png is None else arguments.png / "intervals.png"
    for path in (arguments.report, arguments.json, pictures):
        if path is not None and path != _STDIO:
            check_writable(Path(path), arguments.log)
    with _show_progress(Console(stderr=True)) as progress:
        result = run_analysis(settings, progress)
        name_rejections(result.rejections, result.rejected)
        if progress is not None and (arguments.report or arguments.png):
            progress("Drawing")
        written = _draw(result, arguments)
    if arguments.json == _STDIO:
        echo(to_json(result).rstrip("\n"))
    else:
        print_summary(result)
    if arguments.json not in (None, _STDIO):
        write_file(Path(arguments.json), to_json(result))
    for line in written:
        (echo_error if arguments.json == _STDIO else echo)(line)
    return DONE


def _draw(result: Analysis, arguments: argparse.Namespace) -> list[str]:
    """Write report and pictures where asked for, and return a line on each."""
    written = []
    if arguments.report is not None:
        from streamsched.replay.analysis.reporting.analysis_report import render_analysis  # noqa: PLC0415  matplotlib takes half a second

        write_file(arguments.report, render_analysis(result))
        written.append(f"report: {arguments.report}")
    if arguments.png is not None:
        from streamsched.replay.analysis.reporting.png_files import write_pictures  # noqa: PLC0415  likewise

        written += [f"picture: {path}" for path in write_pictures(result, arguments.png)]
    return written


@contextmanager
def _show_progress(console: Console) -> Iterator[Progress | None]:
    """Show in this block what is being done where `console` is a terminal; its value goes to `run_analysis`."""
    if not console.is_terminal:
        yield None
        return
    with console.status("Reading the log") as status:
        yield status.update


def _region(text: str) -> GivenRegion:
    try:
        return parse_region(text)
    except SettingsError as error:
        raise argparse.ArgumentTypeError(f"expected {error.expected}, found {text!r}") from None
