"""``streamsched analyze``: how often, how regularly and when in the week pages change."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import click
from rich.progress import SpinnerColumn

from streamsched.cli import options
from streamsched.cli.exits import DONE
from streamsched.cli.output import STDOUT, check_writable, name_rejections, note_output, show_report
from streamsched.cli.progress import show_bar
from streamsched.replay.analysis.analysis import run_analysis
from streamsched.replay.analysis.analysis_report import report_analysis
from streamsched.replay.analysis.analysis_settings import AnalysisSettings, GivenRegion, merge_regions, parse_region

_REGION: Final = options.Parsed("NAME=DOMAINS", parse_region)
_EPILOG: Final = """
\b
Examples:
  streamsched analyze data/scoop-extras.tsv.gz --report out.html --png pictures/
  streamsched analyze outcomes.jsonl.gz --from 2026-01-01 --to 2026-07-01 --json figures.json
  streamsched analyze log.tsv.gz --region UK=uk@Europe/London,ie --local --zone Europe/Paris
  streamsched analyze log.tsv.gz --step 1d --near 1w --json    # as a daily crawl would see it
"""


@click.command("analyze", epilog=_EPILOG)
@click.argument("log")
@options.report
@click.option("--png", "pictures", type=options.DIRECTORY, help="Write each figure to this directory as a PNG file.")
@click.option(
    "--json",
    "figures",
    is_flag=False,
    flag_value=STDOUT,
    metavar="[FILE]",
    help="Write all numbers to FILE as JSON; without FILE print them instead of the summary.",
)
@click.option("--from", "start_s", type=options.MOMENT, show_default="start of the log", help="Start of the period.")
@options.end
@click.option(
    "--step",
    "step_s",
    type=options.DURATION,
    show_default="1h, or the log's resolution",
    help="Interval of a simulated crawl, for change logs.",
)
@click.option(
    "--near",
    "near_s",
    type=options.DURATION,
    show_default="1d if there are such pages",
    help="Mean interval of the pages to examine in detail.",
)
@click.option(
    "--level",
    type=options.SHARE,
    default=0.01,
    help="Significance level: the largest share of Poisson pages that may be classified as something else.",
)
@click.option(
    "--region",
    multiple=True,
    type=_REGION,
    show_default="CJK and FIGS",
    help="Group of pages by top-level domain: NAME=DOMAIN[@ZONE],… Can be repeated.",
)
@click.option("--zone", default="UTC", metavar="ZONE", help="Time zone of the hours of the week.")
@click.option("--local", is_flag=True, help="Use the local time of each region that has a time zone.")
def analyze_command(
    report: Path | None, pictures: Path | None, figures: str | None, region: tuple[GivenRegion, ...], **given: Any
) -> int:
    """Analyze how often and when pages change.

    LOG is a change log, or crawl outcomes in any format. The analysis classifies pages by how regularly they change and
    counts the changes in each hour of the week.
    """
    regions, zones = merge_regions(region)
    settings = AnalysisSettings(regions=regions, zones=zones, **given)
    check_writable(report, figures, pictures and pictures / "intervals.png", log=settings.log)
    with show_bar("Reading the log", SpinnerColumn()) as update:
        result = run_analysis(settings, None if update is None else lambda step: update(description=step))
        name_rejections(result.rejections, result.rejected)
    show_report(report_analysis(result), figures, report)
    if pictures is not None:
        from streamsched.replay.analysis.analysis_figures import write_pictures  # noqa: PLC0415  matplotlib takes half a second

        for path in write_pictures(result, pictures):
            note_output(f"picture: {path}", figures)
    return DONE
