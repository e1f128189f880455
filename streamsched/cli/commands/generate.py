"""``streamsched generate``: a synthetic change log of any size, for `replay` and for tests."""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn

from streamsched.cli.arguments import add_examples, moment, whole
from streamsched.cli.exits import DONE
from streamsched.cli.output import check_writable, echo
from streamsched.errors import SettingsError
from streamsched.replay import KINDS, SyntheticSettings, synthesize, write_changes

__all__ = ["add_arguments"]

_DEFAULTS: Final = SyntheticSettings()
_OPTIONS: Final = {  # by the settings that they set
    "pages": "--pages",
    "days": "--days",
    "start_s": "--from",
    "zone_hours": "--zone",
    "bulk_edits_per_day": "--bulk-edits",
}
_EXAMPLES: Final = """\
  streamsched generate corpus.tsv.gz                         # 417,000 pages, 57 days
  streamsched generate small.tsv.gz --pages 20000 --seed 1
  streamsched generate rhythm.tsv --pages 2000 --days 90 --kinds weekday=0.5,poisson=0.5 --zone 9
  streamsched generate bulk.tsv.gz --pages 5000 --bulk-edits 0.02
"""
_KINDS_HELP: Final = ",".join(f"{kind}={share:g}" for kind, share in zip(KINDS, _DEFAULTS.shares, strict=True))


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of ``generate``."""
    add_examples(parser, _EXAMPLES)
    pages, days, zone = _DEFAULTS.pages, _DEFAULTS.days, _DEFAULTS.zone_hours
    parser.add_argument("output", type=_output, metavar="OUT", help="a file: .tsv, with .gz for gzip")
    parser.add_argument("--pages", type=whole(1), default=pages, metavar="N", help=f"pages ({pages:,})")
    parser.add_argument("--days", type=whole(1), default=days, metavar="N", help=f"days ({days})")
    parser.add_argument("--seed", type=whole(0), default=0, metavar="N", help="a seed gives the same bytes (0)")
    parser.add_argument("--kinds", type=_kinds, metavar="SHARES", help=f"kinds of pages ({_KINDS_HELP})")
    parser.add_argument(
        "--from", dest="start", type=moment, default=_DEFAULTS.start_s, metavar="DATE", help="first day (2012-09-17)"
    )
    parser.add_argument(
        "--zone", type=float, default=zone, metavar="HOURS", help=f"local time, hours east of UTC ({zone:g})"
    )
    parser.add_argument(
        "--bulk-edits", type=float, default=0.0, metavar="RATE", help="edits a day of each URL prefix as a whole (0)"
    )
    parser.add_argument("--force", action="store_true", help="write OUT even where there is such a file")
    parser.set_defaults(run=_generate)


def _generate(arguments: argparse.Namespace) -> int:
    settings = _settings(arguments)
    output: Path = arguments.output
    check_writable(output)
    if output.exists() and not arguments.force:
        raise SettingsError("OUT", str(output), "the name of a file that is not there yet, or --force")
    with _show_progress(Console(stderr=True)) as advance:
        log = synthesize(settings, arguments.seed)
        count = write_changes(log, output, advance)
    pages = len(log.urls)  # which appear, each a line of the file; the others are changes
    echo(f"wrote {pages:,} pages and {count - pages:,} changes of theirs in {settings.days:,} days to {output}")
    return DONE


def _settings(arguments: argparse.Namespace) -> SyntheticSettings:
    kinds: dict[str, Any] = {} if arguments.kinds is None else dict.fromkeys(KINDS, 0.0) | arguments.kinds
    try:
        return SyntheticSettings(
            pages=arguments.pages,
            days=arguments.days,
            start_s=arguments.start,
            zone_hours=arguments.zone,
            bulk_edits_per_day=arguments.bulk_edits,
            **kinds,
        )
    except SettingsError as error:
        raise SettingsError(_OPTIONS.get(error.setting, error.setting), error.found, error.expected) from error


@contextmanager
def _show_progress(console: Console) -> Iterator[Callable[[int, int], None] | None]:
    """Show a progress bar in this block where `console` is a terminal; its value goes to `write_changes`."""
    if not console.is_terminal:
        yield None
        return
    columns = (TextColumn("{task.description}"), BarColumn(), TaskProgressColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console, transient=True) as bar:
        task = bar.add_task("Drawing changes", total=None)
        yield lambda done, total: bar.update(task, completed=done, total=total, description="Writing")


def _output(text: str) -> Path:
    path = Path(text)
    if (path.with_suffix("") if path.suffix == ".gz" else path).suffix != ".tsv":
        raise argparse.ArgumentTypeError(f"expected a name that ends in .tsv, with .gz or without, found {text!r}")
    return path


def _kinds(text: str) -> dict[str, float]:
    """Return the shares of ``poisson=0.5,dead=0.5``; those not named have none.

    >>> _kinds("poisson=0.9,dead=0.1")
    {'poisson': 0.9, 'dead': 0.1}
    """
    shares: dict[str, float] = {}
    for part in text.split(","):
        kind, _, share = part.partition("=")
        if kind not in KINDS or kind in shares or not _is_share(share):
            known = ", ".join(KINDS)
            raise argparse.ArgumentTypeError(f"expected shares such as poisson=0.5,dead=0.5 of {known}, found {text!r}")
        shares[kind] = float(share)
    if not math.isclose(math.fsum(shares.values()), 1, abs_tol=1e-6):
        raise argparse.ArgumentTypeError(f"expected shares that sum to 1, found {text!r}")
    return shares


def _is_share(text: str) -> bool:
    try:
        return 0 <= float(text) <= 1
    except ValueError:
        return False
