"""``streamsched generate``: a synthetic change log of any size, for replays and tests."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any, Final

import click

from streamsched.cli.exits import DONE
from streamsched.cli.options import MOMENT, Parsed, output_file, whole
from streamsched.cli.output import check_writable, echo
from streamsched.cli.progress import show_bar
from streamsched.errors import SettingsError
from streamsched.replay.ground_truth import write_changes
from streamsched.replay.synthetic_corpus import synthesize
from streamsched.replay.synthetic_settings import KINDS, SyntheticSettings

_DEFAULTS: Final = SyntheticSettings()
_SHARES: Final = ",".join(f"{kind}={share:g}" for kind, share in zip(KINDS, _DEFAULTS.shares, strict=True))
_EPILOG: Final = f"""
\b
Examples:
  streamsched generate corpus.tsv.gz    # 417,000 pages, 57 days
  streamsched generate small.tsv.gz --pages 20000 --seed 1
  streamsched generate rhythm.tsv --pages 2000 --days 90 --kinds weekday=0.5,poisson=0.5 --zone 9
  streamsched generate bulk.tsv.gz --pages 5000 --bulk-edits 0.02

Default shares of the kinds of pages: {_SHARES}
"""


def _parse_kinds(text: str) -> dict[str, float]:
    """Return the shares of ``poisson=0.5,dead=0.5``; kinds that are left out have none.

    >>> _parse_kinds("poisson=0.9,dead=0.1")["poisson"]
    0.9
    """
    shares: dict[str, float] = {}
    for part in text.split(","):
        kind, _, share = part.partition("=")
        if kind not in KINDS or kind in shares or not _is_share(share):
            raise SettingsError("--kinds", text, f"shares such as poisson=0.5,dead=0.5 of {', '.join(KINDS)}")
        shares[kind] = float(share)
    if not math.isclose(math.fsum(shares.values()), 1, abs_tol=1e-6):
        raise SettingsError("--kinds", text, "shares that sum to 1")
    return dict.fromkeys(KINDS, 0.0) | shares


def _is_share(text: str) -> bool:
    try:
        return 0 <= float(text) <= 1
    except ValueError:
        return False


@click.command("generate", epilog=_EPILOG)
@click.argument("output", metavar="OUT", type=output_file(".tsv"))
@click.option("--pages", type=whole(1), default=_DEFAULTS.pages, help="Number of pages.")
@click.option("--days", type=whole(1), default=_DEFAULTS.days, help="Number of days.")
@click.option("--seed", type=whole(0), default=0, help="Random seed; the same seed gives the same file.")
@click.option(
    "--kinds",
    type=Parsed("SHARES", _parse_kinds),
    show_default="see below",
    help="Shares of the kinds of pages. Kinds that are left out have none.",
)
@click.option("--from", "start_s", type=MOMENT, default=_DEFAULTS.start_s, show_default="2012-09-17", help="First day.")
@click.option(
    "--zone",
    "zone_hours",
    type=float,
    metavar="HOURS",
    default=_DEFAULTS.zone_hours,
    help="Local time of the hosts, hours east of UTC.",
)
@click.option(
    "--bulk-edits",
    "bulk_edits_per_day",
    type=float,
    metavar="RATE",
    default=0.0,
    help="Edits per day of most pages of a URL prefix together.",
)
@click.option("--force", is_flag=True, help="Overwrite OUT if it exists.")
def generate_command(output: Path, seed: int, kinds: dict[str, Any] | None, force: bool, **given: Any) -> int:
    """Write a synthetic change log for replays and tests.

    OUT is a file whose name ends in .tsv, or in .tsv.gz to compress it. The defaults give a log of the size of the
    GP4C paper's corpus.
    """
    try:
        settings = SyntheticSettings(**given, **(kinds or {}))
    except SettingsError as error:
        flags = {option.name: option.opts[0] for option in generate_command.params}
        raise SettingsError(flags.get(error.setting, error.setting), error.found, error.expected) from error
    check_writable(output)
    if output.exists() and not force:
        raise SettingsError("OUT", str(output), "the name of a file that does not exist, or --force")
    with show_bar("Drawing changes") as update:
        log = synthesize(settings, seed)
        count = write_changes(log, output, update and (lambda done, total: update(completed=done, total=total)))
    pages = len(log.urls)  # each page that appears is a line of the file; the other lines are changes
    echo(f"wrote {pages:,} pages and {count - pages:,} changes of theirs in {settings.days:,} days to {output}")
    return DONE
