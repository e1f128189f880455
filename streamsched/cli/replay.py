"""``streamsched replay``: what each policy would have found, had it decided what to visit."""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

from rich.console import Console

from streamsched.cli.arguments import Commands, add_command, duration, moment, whole
from streamsched.cli.exits import DONE
from streamsched.errors import SettingsError
from streamsched.replay import POLICIES, ReplaySettings, rehearse, run_replay, to_json
from streamsched.replay.terminal import figure_table, show_progress

__all__ = ["add_commands"]

_EXAMPLES = """\
  streamsched replay data/scoop-extras.tsv.gz --from 2025-08-22 --report out.html
  streamsched replay outcomes.jsonl.gz --policy posterior --policy age --policy '1 - exp(-X/n*t)' --budget 0.02
  streamsched replay log.tsv.gz --cycle 1h --budget 0.005 --seeds 5 --json figures.json
"""


def add_commands(commands: Commands) -> None:
    """Add ``replay``."""
    help_line = "compare policies on a log of what really changed"
    parser = add_command(commands, "replay", help_line, _EXAMPLES + f"\npolicies: {', '.join(POLICIES)}, or a formula\n")
    parser.add_argument("log", metavar="LOG", help="a change log, or crawl outcomes in any format")
    parser.add_argument("--policy", action="append", metavar="NAME", help="a policy or a quoted formula; repeat (all)")
    parser.add_argument("--budget", type=float, default=0.05, metavar="SHARE", help="of the pages, a cycle (0.05)")
    parser.add_argument("--cycle", type=duration, default=86_400.0, metavar="TIME", help="(1d)")
    parser.add_argument("--warmup", type=whole(0), default=2, metavar="N", help="cycles that visit every page (2)")
    parser.add_argument("--changed", choices=["since-visit", "that-day"], default="since-visit", help="(since-visit)")
    parser.add_argument("--from", dest="start", type=moment, metavar="DATE", help="first day (the log's)")
    parser.add_argument("--to", dest="end", type=moment, metavar="DATE", help="end, exclusive (the log's)")
    parser.add_argument("--seed", type=whole(0), default=0, metavar="N", help="of chance and of ties (0)")
    parser.add_argument("--seeds", type=whole(1), default=1, metavar="N", help="runs a policy, N seeds from --seed (1)")
    parser.add_argument("--later-pages", action="store_true", help="take in pages that appear within the window")
    parser.add_argument("--workers", type=whole(1), default=os.cpu_count() or 1, metavar="N", help="processes (all cores)")
    parser.add_argument("--json", metavar="FILE", help="write the figures to FILE, - for standard output")
    parser.add_argument("--report", type=Path, metavar="FILE.html", help="write one self-contained page with plots")
    parser.add_argument("--save-state", type=Path, metavar="DIR", help="save what --state-policy knows at the end")
    parser.add_argument("--state-policy", default="default", metavar="NAME", help="(default)")
    parser.set_defaults(run=_replay)


def _replay(arguments: argparse.Namespace) -> int:
    settings = ReplaySettings(
        log=arguments.log,
        policies=tuple(arguments.policy or POLICIES),
        budget=arguments.budget,
        cycle_s=arguments.cycle,
        warmup=arguments.warmup,
        changed="that_day" if arguments.changed == "that-day" else "since_visit",
        start_s=arguments.start,
        end_s=arguments.end,
        seeds=tuple(range(arguments.seed, arguments.seed + arguments.seeds)),
        later_pages=arguments.later_pages,
        workers=arguments.workers,
    )
    with show_progress(Console(stderr=True)) as progress:
        result = run_replay(settings, progress)
    if arguments.json == "-":
        sys.stdout.write(to_json(result))
    else:
        Console().print(figure_table(result))
    if arguments.json not in (None, "-"):
        _write(Path(arguments.json), to_json(result))
    if arguments.report is not None:
        from streamsched.replay.report import render_report  # noqa: PLC0415  matplotlib takes half a second to import

        _write(arguments.report, render_report(result))
        print(f"report: {arguments.report}")  # noqa: T201
    if arguments.save_state is not None:
        saved = rehearse(settings, arguments.state_policy).save(arguments.save_state)
        print(f"state of policy {arguments.state_policy}: {saved}")  # noqa: T201
    return DONE


def _write(path: Path, text: str) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise SettingsError("output file", str(path), f"one that can be written ({error.strerror})") from error
