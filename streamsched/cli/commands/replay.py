"""``streamsched replay``: what each policy would have found, had it decided what to visit."""

from __future__ import annotations

import argparse
import os
from collections.abc import Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Final

from rich.console import Console

from streamsched.cli.arguments import add_examples, duration, moment, share, whole
from streamsched.cli.exits import DONE
from streamsched.cli.output import check_writable, echo, echo_error, name_rejections, write_file
from streamsched.errors import SettingsError
from streamsched.persistence.lock import lock_state
from streamsched.persistence.recovery import has_state
from streamsched.replay import EVOLVING, STEADY, ReplayResult, ReplaySettings, prepare_state, run_replay, to_json
from streamsched.replay.reporting.terminal import print_figures, show_progress
from streamsched.replay.simulation.scheduler_policy import ScheduledPolicy
from streamsched.replay.simulation.simulator import Policy

__all__ = ["add_arguments"]

_STDIO: Final = "-"
_STATELESS: Final = ("rand", "oracle")  # policies that learn nothing
_EXAMPLES = f"""\
  streamsched replay data/scoop-extras.tsv.gz --from 2025-08-22 --report out.html
  streamsched replay outcomes.jsonl.gz --policy posterior --policy age --policy '1 - exp(-X/n*t)' --budget 0.02
  streamsched replay log.tsv.gz --cycle 1h --budget 0.005 --seeds 5 --json figures.json
  streamsched replay log.tsv.gz --policy posterior --save-state state/     # for next and explain
  streamsched replay log.tsv.gz --policy gp4c --policy posterior           # evolve weekly: a minute or more

policies: {", ".join(STEADY)}, {" or ".join(EVOLVING)}, which evolve formulas as they go, or a formula
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of ``replay``."""
    add_examples(parser, _EXAMPLES)
    parser.add_argument("log", metavar="LOG", help="a change log, or crawl outcomes in any format")
    parser.add_argument(
        "--policy", action="append", metavar="NAME", help="a policy or a quoted formula; repeat (all but gp4c)"
    )
    parser.add_argument("--budget", type=share, default=0.05, metavar="SHARE", help="of the pages, a cycle (0.05)")
    parser.add_argument(
        "--cycle", type=duration, default=86_400.0, metavar="TIME", help="how often pages are ranked (1d)"
    )
    parser.add_argument("--warmup", type=whole(0), default=2, metavar="N", help="cycles that visit every page (2)")
    parser.add_argument(
        "--changed", choices=["since-visit", "that-day"], default="since-visit", help="what counts (since-visit)"
    )
    parser.add_argument("--from", dest="start", type=moment, metavar="DATE", help="first day (the log's)")
    parser.add_argument("--to", dest="end", type=moment, metavar="DATE", help="end, exclusive (the log's)")
    parser.add_argument("--seed", type=whole(0), default=0, metavar="N", help="of chance and of ties (0)")
    parser.add_argument("--seeds", type=whole(1), default=1, metavar="N", help="runs a policy, N seeds from --seed (1)")
    parser.add_argument("--later-pages", action="store_true", help="take in pages that appear within the window")
    cores = os.cpu_count() or 1
    parser.add_argument("--workers", type=whole(1), default=cores, metavar="N", help="processes (one a core)")
    parser.add_argument("--json", metavar="FILE", help="write the figures to FILE, - for standard output")
    parser.add_argument("--report", type=Path, metavar="FILE.html", help="write one self-contained page with plots")
    parser.add_argument("--save-state", type=Path, metavar="DIR", help="save what a policy knows at the end")
    parser.add_argument("--state-policy", metavar="NAME", help="which of those replayed (the only one, or default)")
    parser.set_defaults(run=_replay)


def _replay(arguments: argparse.Namespace) -> int:
    settings = _settings(arguments)
    for path in (arguments.report, arguments.json):
        if path is not None and path != _STDIO:
            check_writable(Path(path), arguments.log)
    directory: Path | None = arguments.save_state
    with nullcontext() if directory is None else lock_state(directory, make=True):
        if directory is not None and has_state(directory):
            raise SettingsError("--save-state", str(directory), "a directory that holds no state yet")
        name = _state_policy(settings.policies, arguments.state_policy) if directory is not None else ""
        kept: list[ScheduledPolicy] = []
        if directory is not None and name not in EVOLVING:  # what evolves takes too long to run twice
            kept.append(prepare_state(settings, name))

        def keep(policy: str, seed: int, state: Policy) -> None:
            if isinstance(state, ScheduledPolicy) and (policy, seed) == (name, settings.seeds[0]):
                kept.append(state)

        with show_progress(Console(stderr=True)) as progress:
            result = run_replay(settings, progress, keep)
        name_rejections(result.rejections, result.rejected)
        _tell(result, arguments)
        if directory is not None:
            _note(f"state of policy {name}: {kept[0].save(directory)}", arguments)
    return DONE


def _state_policy(policies: Sequence[str], asked: str | None) -> str:
    """Return which of `policies` is to be saved: the one `asked` for, the only one, or the default."""
    keeping = [policy for policy in policies if policy not in _STATELESS]
    if asked is None and len(policies) == 1:
        asked = policies[0]
    name = "default" if asked is None and "default" in policies else asked
    if name not in keeping:
        known = f"one of {', '.join(keeping)}" if keeping else f"a --policy other than {' and '.join(_STATELESS)}"
        raise SettingsError("--state-policy", name, f"{known}, whose state is to be saved")
    return name


def _settings(arguments: argparse.Namespace) -> ReplaySettings:
    if arguments.save_state is not None and arguments.log == _STDIO:
        raise SettingsError("LOG", _STDIO, "a file: --save-state reads it a second time")
    return ReplaySettings(
        log=arguments.log,
        policies=tuple(arguments.policy or STEADY),
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


def _tell(result: ReplayResult, arguments: argparse.Namespace) -> None:
    """Print the figures, and write the files asked for."""
    figures = to_json(result)
    if arguments.json == _STDIO:
        echo(figures.rstrip("\n"))
    else:
        print_figures(result)
    if arguments.json not in (None, _STDIO):
        write_file(Path(arguments.json), figures)
    if arguments.report is not None:
        from streamsched.replay.reporting.replay_report import render_report  # noqa: PLC0415  matplotlib takes half a second to import

        write_file(arguments.report, render_report(result))
        _note(f"report: {arguments.report}", arguments)


def _note(text: str, arguments: argparse.Namespace) -> None:
    """Say where something was written, not amid JSON on standard output."""
    (echo_error if arguments.json == _STDIO else echo)(text)
