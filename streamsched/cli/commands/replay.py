"""``streamsched replay``: how many changes each policy would have found on a log."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click
from click.core import ParameterSource

from streamsched.cli import options
from streamsched.cli.exits import DONE
from streamsched.cli.output import STDOUT, check_writable, name_rejections, note_output, show_report
from streamsched.cli.progress import show_progress
from streamsched.errors import SettingsError
from streamsched.persistence.state_directory import has_state, lock_state
from streamsched.replay.experiment import prepare_state, run_replay
from streamsched.replay.plain_sites import SuiteSettings, run_suite
from streamsched.replay.replay_settings import BUDGETS, ReplaySettings
from streamsched.replay.reporting.plain_sites_report import report_plain_sites
from streamsched.replay.reporting.replay_report import report_replay
from streamsched.replay.simulation.policies import (
    EVOLVING,
    PLANNING,
    STATELESS,
    STEADY,
    VALUING,
    evolves,
    is_signalled,
    without_signals,
)
from streamsched.replay.simulation.scheduled_policies import ScheduledPolicy
from streamsched.replay.simulation.signal_sources import SimulatedSource, is_simulated, parse_source

if TYPE_CHECKING:
    from streamsched.replay.simulation.simulator import Policy


_EPILOG: Final = f"""
\b
Examples:
  streamsched replay data/scoop-extras.tsv.gz --from 2025-08-22 --report out.html
  streamsched replay outcomes.jsonl.gz --policy posterior --policy age --policy '1 - exp(-X/n*t)' --budget 0.02
  streamsched replay log.tsv.gz --cycle 1h --budget 0.005 --seeds 5 --json figures.json
  streamsched replay log.tsv.gz --budget 500                              # pages a day
  streamsched replay log.tsv.gz --learn-from 2023-08-22 --from 2025-08-22 --policy default --against posterior
  streamsched replay log.tsv.gz --policy default --calibration --report out.html
  streamsched replay log.tsv.gz --policy default --signals share=.5,recall=.7,precision=.7,late=6h
  streamsched replay log.tsv.gz --policy posterior --save-state state/    # for next and explain
  streamsched replay log.tsv.gz --policy gp4c --policy posterior          # evolves weekly: a minute or more
  streamsched replay --suite --seeds 2                                    # simulated sites: some minutes a seed

\b
Policies:
  {", ".join(STEADY)}
  {", ".join(VALUING)}: visits the pages that are worth most after noisy signals
  {", ".join(PLANNING)}: plan how often to visit each page
  {", ".join(EVOLVING)}: evolve their formula during the replay
  any formula in quotes
"""
_SUITE_OPTIONS: Final = ("suite", "seed", "runs", "workers", "figures", "report")


@click.command("replay", epilog=_EPILOG)
@click.argument("log", required=False)
@click.option(
    "--policy",
    "policies",
    metavar="NAME",
    multiple=True,
    show_default="rand, oracle and all with a formula",
    help="Policy, or formula in quotes. Can be repeated.",
)
@click.option(
    "--budget",
    type=options.Parsed("PAGES", lambda text: options.parse_share(text, BUDGETS)),
    default=0.05,
    help="Pages visited per cycle: a share up to 1, a whole number above 1.",
)
@options.cycle
@click.option("--warmup", type=options.whole(0), default=2, help="Visit every page in the first N cycles.")
@options.changed
@click.option(
    "--from",
    "start_s",
    type=options.MOMENT,
    show_default="first day of the log",
    help="Start of the period, a UTC midnight.",
)
@options.end
@click.option(
    "--learn-from",
    "learn_from_s",
    type=options.MOMENT,
    help="An earlier UTC midnight: crawl and learn from then on, measure from --from on, the pages alive then.",
)
@options.seed
@click.option("--seeds", "runs", type=options.whole(1), default=1, help="Runs per policy, with N seeds from --seed on.")
@click.option("--later-pages", is_flag=True, help="Include pages that appear after --from.")
@click.option(
    "--against",
    metavar="NAME",
    show_default="age, else the first",
    help="Policy that the others are compared with; it is replayed too.",
)
@click.option(
    "--signals",
    "sources",
    type=options.Parsed("SOURCE", lambda text: parse_source(text) if is_simulated(text) else text),
    multiple=True,
    help="File of change signals, or settings of a simulated source. Can be repeated.",
)
@click.option("--calibration", is_flag=True, help="Compare predicted probabilities of a change with what was observed.")
@click.option("--suite", is_flag=True, help="Instead of a LOG, crawl simulated sites whose rates are known.")
@options.workers
@options.figures
@options.report
@click.option("--save-state", "directory", type=options.DIRECTORY, help="Save the final state of one policy.")
@click.option(
    "--state-policy",
    metavar="NAME",
    show_default="the only policy, or default",
    help="Policy whose state --save-state saves.",
)
@click.pass_context
def replay_command(
    context: click.Context,
    /,
    *,
    suite: bool,
    figures: str | None,
    report: Path | None,
    directory: Path | None,
    state_policy: str | None,
    **given: Any,
) -> int:
    """Compare crawl policies on a log of page changes.

    LOG is a change log, or crawl outcomes in any format. In each cycle a policy chooses the pages to visit; the figures
    show how many changes it would have found, and how late.
    """
    if suite:
        return _run_suite(context, figures, report, **given)
    if given["log"] is None:
        raise click.MissingParameter(
            ctx=context, param=next(one for one in context.command.params if one.name == "log")
        )
    settings = _settings(**given)
    if directory is not None and settings.log == STDOUT:
        raise SettingsError("LOG", settings.log, "a file: --save-state reads it a second time")
    check_writable(report, figures, log=settings.log)
    with nullcontext() if directory is None else lock_state(directory, make=True):
        if directory is not None and has_state(directory):
            raise SettingsError("--save-state", str(directory), "a directory that holds no state yet")
        name = _state_policy(settings.policies, state_policy) if directory is not None else ""
        kept: list[ScheduledPolicy] = []
        if directory is not None and not evolves(name):  # a policy that evolves takes too long to run twice
            kept.append(prepare_state(settings, name))

        def keep(policy: str, seed: int, state: Policy) -> None:
            if isinstance(state, ScheduledPolicy) and (policy, seed) == (name, settings.seeds[0]):
                kept.append(state)

        with show_progress("Replaying") as progress:
            result = run_replay(settings, progress, keep)
        name_rejections(result.rejections, result.rejected)
        show_report(report_replay(result), figures, report)
        if directory is not None:
            note_output(f"state of policy {name}: {kept[0].save(directory)}", figures)
    return DONE


def _run_suite(context: click.Context, figures: str | None, report: Path | None, **given: Any) -> int:
    for option in context.command.params:
        stated = context.get_parameter_source(option.name or "") is ParameterSource.COMMANDLINE
        if stated and option.name not in _SUITE_OPTIONS:
            name = "LOG" if option.name == "log" else option.opts[0]
            raise SettingsError("--suite", name, "beside it --seed, --seeds, --workers, --json and --report alone")
    check_writable(report, figures)
    seed, runs = given["seed"], given["runs"]
    settings = SuiteSettings(seeds=tuple(range(seed, seed + runs)), workers=given["workers"])
    with show_progress("Crawling simulated sites") as progress:
        result = run_suite(settings, progress)
    show_report(report_plain_sites(result), figures, report)
    return DONE


def _settings(
    policies: tuple[str, ...],
    against: str | None,
    changed: str,
    sources: tuple[SimulatedSource | str, ...],
    seed: int,
    runs: int,
    **more: Any,
) -> ReplaySettings:
    chosen = policies or tuple(STEADY)
    if sources:
        chosen = tuple(without_signals(chosen))
    return ReplaySettings(
        policies=chosen if against is None or against in chosen else (*chosen, against),
        against=against,
        signals=tuple(one for one in sources if isinstance(one, SimulatedSource)),
        signal_files=tuple(one for one in sources if isinstance(one, str)),
        changed="that_day" if changed == "that-day" else "since_visit",
        seeds=tuple(range(seed, seed + runs)),
        **more,
    )


def _state_policy(policies: Sequence[str], asked: str | None) -> str:
    """Return the policy whose state is saved: the one `asked` for, the only one, or the default."""
    keeping = [policy for policy in policies if policy not in STATELESS]
    with_signals = [policy for policy in policies if is_signalled(policy)]
    if asked is None and len(with_signals) == 1:
        asked = with_signals[0]
    name = "default" if asked is None and "default" in policies else asked
    if name not in keeping:
        known = f"one of {', '.join(keeping)}" if keeping else f"a --policy other than {' and '.join(STATELESS)}"
        raise SettingsError("--state-policy", name, f"{known}, whose state is to be saved")
    return name
