"""Re-evolution of a running scheduler's formula: when it is due, in a process of its own, and its promotion."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import islice
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from streamsched.api.views import Observed, TrialEvidence, TrialView
from streamsched.errors import FormulaError, SettingsError, SnapshotError
from streamsched.evolution.data.change_history import ChangeHistory
from streamsched.evolution.exchange_files import Elites, read_elites, write_elites
from streamsched.evolution.generations import derive_seed
from streamsched.evolution.job import Job, remove_abandoned_jobs
from streamsched.evolution.plan import EvolutionPlan, HitRateWatch
from streamsched.evolution.records import DataSpan, EvolutionRecord, EvolutionResult, RecordBook, Trigger
from streamsched.evolution.worker import load_evolution_function
from streamsched.formula.champion import BY_EVOLUTION, BY_HAND, BY_PLAN, Champion, parse_provided
from streamsched.formula.formula import Formula
from streamsched.formula.objectives import Aim, find_aim, name_objective
from streamsched.numerics.argument_checks import check_path, check_time
from streamsched.records.visit_journal import SAMPLE_PAGES
from streamsched.scheduler.core import SchedulerCore
from streamsched.scheduler.scheduler import Scheduler

BREED: Final = "streamsched.evolution.pipeline:run_evolution"
_NO_VISITS: Final = "promoted by the contest: no visit of a batch was seen in a round of the trial"
_ENOUGH: Final = 0.5  # share of the sampled pages that must be as old as the history
_MOST_CELLS: Final = 6_000_000  # pages times cycles times draws: with more pages, one draw misleads less
_MOST_HISTORY: Final = 200_000_000  # sampled pages times cycles, a byte each: others may ask for any number of cycles


class Evolver:
    """Evolves formulas for `scheduler` by `plan`, and promotes those that prove better on held-out pages.

    `directory`: for records and elites, usually that of the scheduler's state; None keeps them in memory, and then only
    `evolve_now` works. `breed`: the function that runs an evolution, as ``module:function``. `clock`: a monotonic clock
    in seconds, for the time limit. Use it as a context manager, or call `close`: it ends an evolution under way.

    `note`, `tick` and `evolve_now` may be called from several threads and do not block `observe` or `next_batch`: the
    scheduler's lock is held to copy the journal, for tens of milliseconds at the beginning of an evolution.
    """

    def __init__(
        self,
        scheduler: Scheduler,
        plan: EvolutionPlan | None = None,
        directory: str | Path | None = None,
        *,
        breed: str = BREED,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Continue from the records in `directory`. Raises SnapshotError if they cannot be read."""
        if not isinstance(plan, EvolutionPlan | None):
            raise SettingsError("plan", plan, "an EvolutionPlan, or None for its defaults")
        if not isinstance(getattr(scheduler, "core", None), SchedulerCore):
            raise SettingsError("scheduler", scheduler, "a Scheduler or DurableScheduler")
        directory = None if directory is None else check_path("directory", directory)
        self.scheduler = scheduler
        self.plan = EvolutionPlan() if plan is None else plan
        self.archive: tuple[str, ...] = ()
        self._book = None if directory is None else RecordBook(directory)
        self._directory = directory
        self._breed = breed
        self._clock = clock
        self._watch = None if self.plan.drift is None else HitRateWatch(self.plan.drift)
        self._lock = threading.RLock()
        self._job: Job | None = None
        self._draft: EvolutionRecord | None = None  # of the evolution under way
        self._untried: Champion | None = None  # a crash came between the record of its trial and the trial
        self._number = 1
        self._metric = "changes"  # that formulas were last bred for
        self._last_cycle: int | None = None  # of the newest evolution's start
        self._since_cycle: int | None = None  # of the first call of `due`; the first evolution is counted from it
        if directory is not None:
            remove_abandoned_jobs(directory)
            self._restore(directory)

    @property
    def running(self) -> bool:
        """Whether an evolution is under way."""
        return self._job is not None

    @property
    def drifted(self) -> bool:
        """Whether the hit rate of served pages has drifted since the last evolution."""
        return self._watch is not None and self._watch.drifted

    def note(self, observed: Observed) -> None:
        """Add the result of `Scheduler.observe` to the watched hit rate. A microsecond a served page."""
        if self._watch is not None and observed.served:
            with self._lock:
                self._watch.note(observed.served, observed.hits)

    def due(self, now: float) -> Trigger | None:
        """Return why an evolution is due at `now`, UTC epoch seconds: "schedule" or "drift", else None. O(1).

        None is due during a trial.
        """
        now = check_time(now)
        with self._lock:
            cycle = math.floor(now / self.scheduler.cycle_s)
            passed = cycle - (self._begin_to_count(cycle) if self._last_cycle is None else self._last_cycle)
            if self.scheduler.core.trial.current is not None:
                return None  # one challenger at a time
            if self.plan.every and passed >= self.plan.every:
                return "schedule"
            return "drift" if self.drifted and passed >= self.plan.rest else None

    def _begin_to_count(self, cycle: int) -> int:
        """Count from `cycle` to the first evolution, even after a restart; return `cycle`."""
        self._last_cycle = self._since_cycle = cycle
        with suppress(SnapshotError):  # a restart then counts from zero
            if self._directory is not None:
                write_elites(self._directory, self._elites())
        return cycle

    def tick(self, now: float) -> EvolutionRecord | None:
        """Start an evolution if one is due, or check on the one or the trial under way; call it between batches.

        Returns the record of what has ended, its decision applied, else None. Takes milliseconds. Raises
        SettingsError without a directory, SnapshotError if the record cannot be written; the champion then stays.
        """
        if self._directory is None:
            raise SettingsError("directory", None, "a directory: evolutions in processes of their own need its files")
        now = check_time(now)
        with self._lock:
            if self._job is None:
                if self._untried is not None:
                    self.scheduler.begin_trial(self._untried, now=now)
                    self._untried = None
                record = self.end_trial(now)
                if record is not None:
                    return record
                trigger = self.due(now)
                if trigger is not None:
                    self._begin(now, trigger, self._directory)
                return None
            outcome = self._job.poll()
            if outcome is None:
                return None
            job, self._job = self._job, None
            seconds = job.seconds
            job.end()
            assert self._draft is not None
            return self._conclude(replace(self._draft, data=job.data, seconds=seconds), outcome)

    def evolve_now(self, now: float, trigger: Trigger = "asked") -> EvolutionRecord:
        """Run an evolution in this thread and return its record, which depends only on the data and the seed.

        An evolution under way is ended. Raises SnapshotError if the record cannot be written, and any error of the
        evolution itself.
        """
        now = check_time(now)
        with self._lock:
            if self._job is not None:
                self._job.end()
                self._job = None
            draft = self._draft_record(now, trigger)
            begun = self._clock()
            draws, data = self._gather(now, draft.seed or 0)
            archive = [Formula.parse(text) for text in self.archive]
            breed = load_evolution_function(self._breed)
            settings = replace(self.plan.settings, metric=self._metric)
            bred = breed(draws, draft.champion_before.formula, archive, settings, draft.seed or 0)
            return self._conclude(replace(draft, data=data, seconds=self._clock() - begun), bred)

    def end_trial(self, now: float) -> EvolutionRecord | None:
        """End the trial under way if it has shown what it can, and apply what it has shown; return its record. O(1).

        A better challenger becomes the champion; otherwise all pages are ranked by the champion again. If a whole round
        had no visit that a batch asked for, nothing can be tried, and the contest decides. None without a trial, and
        while it is open. Raises SnapshotError if the record cannot be written; the trial then goes on.
        """
        with self._lock:
            core = self.scheduler.core
            trial, view = core.trial.current, self._view_trial(now)
            if trial is None or view is None:
                return None
            shown = view.evidence
            is_idle = not any(shown.costs) and now >= trial.start_s + core.trial.round_s
            if shown.state == "open" and not is_idle and not core.trial.is_over(now):
                return None
            before, number = self.scheduler.champion, self._next_number()
            challenger = replace(trial.challenger, record=number, since_s=now)
            if not is_idle:
                challenger = replace(challenger, gain=shown.gain, metric="trial")
            wins = shown.state == "better" or is_idle
            record = EvolutionRecord(
                number,
                now,
                "trial",
                "promoted" if wins else "rolled_back" if shown.state == "worse" else "kept",
                _NO_VISITS if is_idle else _describe_trial(shown),
                before,
                challenger if wins else before,
                challenger=view.challenger,
                trial=view,
            )
            if self._book is not None:
                record = self._book.append(record)
            if wins:
                self.scheduler.use(record.champion_after)
            else:
                self.scheduler.end_trial()
            return record

    def _view_trial(self, now: float) -> TrialView | None:  # noqa: ARG002
        """Return the trial under way and its evidence, None if nothing can be decided at `now`."""
        return self.scheduler.trial()

    def close(self) -> None:
        """End the evolution under way, if any; its findings are lost."""
        with self._lock:
            if self._job is not None:
                self._job.end()
                self._job = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _begin(self, now: float, trigger: Trigger, directory: Path) -> None:
        self._draft = draft = self._draft_record(now, trigger)
        settings = replace(self.plan.settings, metric=self._metric, workers=1)
        meta = {
            "champion": draft.champion_before.formula.text,
            "archive": list(self.archive),
            "settings": settings.to_json(),
            "seed": draft.seed,
        }
        try:
            self._job = Job(
                directory,
                lambda: self._gather(now, draft.seed or 0),
                meta,
                self._breed,
                self.plan.time_limit_s,
                self._clock,
            )
        except OSError as error:
            raise SnapshotError(str(directory), f"cannot be written: {error.strerror or error}") from error

    def _draft_record(self, now: float, trigger: Trigger) -> EvolutionRecord:
        """Return the record of an evolution that begins; the next one is due some time after it."""
        self._last_cycle = math.floor(now / self.scheduler.cycle_s)
        number = self._next_number()
        if self._watch is not None:
            self._watch.forget()
        champion, seed = self.scheduler.champion, self.plan.seed + number
        self._metric = self._choose_metric(champion)
        plan = replace(self.plan, settings=replace(self.plan.settings, metric=self._metric)).to_json()
        del plan["settings"]["workers"]  # without effect on the result
        return EvolutionRecord(number, now, trigger, "failed", "", champion, champion, settings=plan, seed=seed)

    def _choose_metric(self, champion: Champion) -> str:
        """Return what to breed for: the plan's objective, or that of the champion's formula.

        Other formulas keep the metric of the last evolution: it bred them, or they replaced one that it bred.
        """
        return self.plan.objective or name_objective(champion.formula.text) or self._metric

    def _next_number(self) -> int:
        number = self._number if self._book is None else max(self._number, self._book.next_number())
        self._number = number + 1
        return number

    def _gather(self, now: float, seed: int) -> tuple[Sequence[ChangeHistory], DataSpan]:
        """Return the histories of the last cycles, several draws if visits missed some of them, and their extent."""
        return draw_histories(self.scheduler.core, self.plan.history, self.plan.draws, seed, now)

    def _conclude(self, draft: EvolutionRecord, outcome: EvolutionResult | str) -> EvolutionRecord:
        """Write the record, then apply its decision; after a crash in between, the next evolver catches up."""
        self._draft = None
        if isinstance(outcome, str):
            record = replace(draft, why=outcome)
        else:
            record = _judge(draft, outcome, self.scheduler.champion)
        before, challenger = self.scheduler.champion, record.champion_after
        if record.decision == "promoted":
            try:
                parse_provided(record.champion_after.formula)
            except FormulaError as error:
                why = f"the challenger cannot be used: {str(error).splitlines()[0]}"
                record = replace(record, decision="failed", why=why, champion_after=before)
        if record.decision == "promoted" and self.plan.trial and _counts_finds(self._metric):
            record = replace(record, decision="trial", champion_after=before)
        if isinstance(outcome, EvolutionResult) and record.decision != "failed":
            record = self._keep_elites(outcome.archive, record)
        if self._book is not None:
            record = self._book.append(record)
        if record.decision == "promoted":
            self.scheduler.use(record.champion_after)
        elif record.decision == "trial":
            self.scheduler.begin_trial(challenger, now=record.when_s)
        return record

    def keep(self, directory: Path, records: Iterable[EvolutionRecord]) -> None:
        """Write `records` and the elites to `directory`, so that another evolver can continue from there.

        For an evolver without a directory. O(records). Raises SnapshotError if they cannot be written.
        """
        directory = check_path("directory", directory)
        book = RecordBook(directory)
        for record in records:
            book.append(record)
        write_elites(directory, self._elites())

    def _keep_elites(self, archive: Iterable[str], record: EvolutionRecord) -> EvolutionRecord:
        """Keep elites for the next evolution, new ones first; return `record`, with a note if they were not written.

        Elites are optional: an evolution without them starts with fewer formulas.
        """
        before, self.archive = self.archive, tuple(dict.fromkeys([*archive, *self.archive]))[: self.plan.archive]
        try:
            if self._directory is not None:
                write_elites(self._directory, self._elites(), record.number, before)
        except SnapshotError as error:
            return replace(record, why=f"{record.why}; elites were not kept: {error}")
        return record

    def _elites(self) -> Elites:
        return Elites(self.archive, self._since_cycle)

    def _restore(self, directory: Path) -> None:
        """Continue from the records and the elites in `directory`; elites that cannot be read are ignored."""
        book = RecordBook(directory)
        self._number = book.next_number()
        records = book.read()[0]
        if records:
            self._catch_up(records[-1].champion_after)
            is_alone = self.scheduler.champion == records[-1].champion_after and self.scheduler.trial() is None
            if records[-1].decision == "trial" and is_alone:
                with suppress(FormulaError):
                    self._untried = _challenger_of(records[-1])
        elites = read_elites(directory, self._number)
        self.archive = elites.formulas
        self._last_cycle = self._since_cycle = elites.since_cycle
        evolutions = [record for record in records if record.decision != "set"]
        bred_for = [record.metric for record in evolutions if record.metric is not None]
        if bred_for:
            self._metric = bred_for[-1]
        if evolutions:
            self._last_cycle = math.floor(evolutions[-1].when_s / self.scheduler.cycle_s)

    def _catch_up(self, champion: Champion) -> None:
        """Use the champion of the last record if the scheduler's state was saved before that record was written.

        A formula set by hand without a record stays, and so does that of a plan.
        """
        current = self.scheduler.champion
        if current != champion and (current.origin not in (BY_HAND, BY_PLAN) or current.record is not None):
            with suppress(FormulaError):  # of a version with other terminals
                self.scheduler.use(champion)


def draw_histories(
    core: SchedulerCore, cycles: int, draws: int, seed: int, now: float, share: float = 1.0
) -> tuple[list[ChangeHistory], DataSpan]:
    """Return the histories of the last `cycles` cycles before `now`, fewer if fewer are known, and their extent.

    Several draws, `draws` at most, if visits missed some of them; `share`: the most of all pages. O(pages).
    """
    known = core.known_cycles(now=now, share=_ENOUGH)  # fewer if most pages are younger
    sampled = min(len(core.pages), SAMPLE_PAGES)
    cycles = int(max(1, min(cycles, known, _MOST_HISTORY // max(sampled, 1))))
    seeds = [seed, *(derive_seed(seed, draw) for draw in range(1, draws))]
    trainings = core.trainings(cycles, now=now, seeds=seeds, share=share)
    training = next(trainings)
    pages, observed = training.history.pages, training.observed_share
    histories = [training.history]
    if observed < 1.0 and pages:
        more = bound_draws(draws, pages * cycles) - 1
        histories += [replace(histories[0], changed=other.history.changed) for other in islice(trainings, more)]
    data = DataSpan(training.span.start_s, cycles, pages, observed, training.panel_pages, training.newcomers)
    return histories, data


def bound_draws(draws: int, cells: int) -> int:
    """Return how many of `draws` completions of `cells` pages times cycles to learn from, 1 or more."""
    return max(1, min(draws, _MOST_CELLS // max(cells, 1)))


def _counts_finds(metric: str) -> bool:
    """Return whether a trial, which counts the changes found, judges by `metric`."""
    return metric == "ndcg" or find_aim(metric) in {Aim(0.0), None}


def _describe_trial(shown: TrialEvidence) -> str:
    """Return what a trial has shown as a sentence."""
    finds, costs = (f"{pair[0]:,.0f} and {pair[1]:,.0f}" for pair in (shown.finds, shown.costs))
    verdict = {"better": "found more", "worse": "found less", "open": "showed no difference that is certain"}
    return (
        f"the challenger {verdict[shown.state]} in its trial: {shown}; changes of its pages and of the champion's: "
        f"{finds}, visits: {costs}"
    )


def _judge(draft: EvolutionRecord, bred: EvolutionResult, current: Champion) -> EvolutionRecord:
    """Return the record with the decision of the contest, "kept" if the champion is no longer the draft's.

    `current`: the champion now.
    """
    record = replace(
        draft,
        decision="kept",
        candidates=bred.candidates,
        challenger=bred.challenger,
        metric=bred.metric,
        verdict=bred.verdict,
    )
    if bred.verdict is None or bred.challenger is None:
        few = f"too little to learn from: {draft.data}"
        return replace(record, why="nothing beat the champion in validation" if bred.candidates else few)
    if current.formula != draft.champion_before.formula:
        why = "not promoted: the champion was changed while it evolved"
        return replace(record, champion_after=current, why=why)
    if not bred.verdict.promote:
        return replace(record, champion_after=current, why=bred.verdict.why)
    try:
        champion = _challenger_of(record)
    except FormulaError as error:
        why = f"the challenger cannot be used: {str(error).splitlines()[0]}"
        return replace(record, decision="failed", why=why)
    return replace(record, decision="promoted", champion_after=champion, why=bred.verdict.why)


def _challenger_of(record: EvolutionRecord) -> Champion:
    """Return the challenger of a record with a verdict. Raises FormulaError if its formula cannot be parsed."""
    assert record.challenger is not None
    assert record.verdict is not None
    formula, gain = Formula.parse(record.challenger), record.verdict.relative_gain
    return Champion(formula, BY_EVOLUTION, record.number, record.when_s, gain, record.metric)
