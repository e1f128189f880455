"""An optimiser beside a running scheduler: it plans how often to visit each page, again and again."""

from __future__ import annotations

import threading
from types import TracebackType
from typing import Final, Self

import numpy as np

from streamsched.errors import SettingsError
from streamsched.formula.champion import BY_PLAN, Champion, parse_provided
from streamsched.numerics.argument_checks import check_time
from streamsched.numerics.arrays import Ints
from streamsched.scheduler.core import SchedulerCore
from streamsched.scheduler.planning.learned_rates import NOTHING_SEEN, read_costs
from streamsched.scheduler.planning.optimiser_settings import OptimiserSettings, parse_budget
from streamsched.scheduler.planning.page_snapshot import copy_pages
from streamsched.scheduler.planning.planned_rates import Question, plan_rates
from streamsched.scheduler.planning.sequencers import arrange_batch
from streamsched.scheduler.results import Batch
from streamsched.scheduler.scheduler import Scheduler
from streamsched.scheduler.settings import SHARES_ROUNDING
from streamsched.state.crawl_plan import CrawlPlan

PLAN_FORMULA: Final = "crawl_rate * t + 3 * (1 - (1 - surge) * (1 - signalled))"
"""The share of a page's planned interval that has passed since its last visit: it is due at 1.

It is due before if news of a change is believed with a probability of 1/3 or more. A plan knows rates only, and without
the second term, logs of edits in bulk were crawled no better than by age. 1, 3 and 10 were compared on
the bundled logs.
"""


class Optimiser:
    """Plans how often `scheduler` visits each page, by an optimiser of `streamsched.optimal`, once in each epoch.

    A plan gives every page a crawl rate, the terminal ``crawl_rate``, which is part of the scheduler's state. With the
    first plan the scheduler begins to rank by `PLAN_FORMULA`, unless its formula reads the terminal already: the share
    of its planned interval that a page has waited, or news of a change since its last visit. `use` changes the formula
    at any time, and later plans leave it so. Pages that become known after a plan have a rate of 0
    until the next: the scheduler's `new_share` is for them. While the formula reads a plan of "mirrorsync", a tenth of
    each batch is drawn at random: it learns from these visits.

    `tick` and `plan_now` may be called from several threads. The solver runs without the scheduler's lock, which is
    held to copy a few thousand pages at a time, and to write the rates. Use it as a context manager, or call `close`.
    """

    def __init__(self, scheduler: Scheduler, settings: OptimiserSettings | None = None) -> None:
        """Plan for `scheduler`; `settings` None are the default ones.

        Raises SettingsError for other types, for "webfountain" without CasADi, and for "mirrorsync", a tenth of whose
        visits are drawn at random, if `new_share` and `panel` leave no room for them.
        """
        if not isinstance(getattr(scheduler, "core", None), SchedulerCore):
            raise SettingsError("scheduler", scheduler, "a Scheduler or DurableScheduler")
        self.scheduler = scheduler
        self.settings = OptimiserSettings() if settings is None else settings
        planner = self.settings.planner
        if planner.check_installed is not None:
            planner.check_installed()
        shares = scheduler.core.settings
        most = 1.0 - planner.probe_share
        if shares.new_share + shares.panel > most + SHARES_ROUNDING:
            expected = f"a policy that draws no pages at random, or new_share and panel of at most {most:g} together"
            raise SettingsError("policy", self.settings.policy, expected)
        self._planning = threading.Lock()  # held by the one that plans
        self._ticking = threading.Lock()
        self._thread: _PlanThread | None = None

    @property
    def plan(self) -> CrawlPlan | None:
        """How the crawl rates in use were planned, by this or another optimiser; None before the first plan."""
        return self.scheduler.core.plan

    @property
    def running(self) -> bool:
        """Whether a plan that `tick` began is not finished, or not reported yet."""
        return self._thread is not None

    def due(self, now: float) -> bool:
        """Return whether a plan is due at `now`, UTC epoch seconds. O(1).

        It is before the first plan, from one epoch after the last on, if the clock was set back before that, and after
        a change of policy or budget. It is not without pages.
        """
        now, plan, settings = check_time(now), self.plan, self.settings
        if not len(self.scheduler):
            return False
        if plan is None or (plan.policy, plan.budget) != (settings.policy, str(settings.budget)):
            return True
        return not 0.0 <= now - plan.planned_at_s < settings.every_s

    def tick(self, now: float) -> CrawlPlan | None:
        """Begin a plan in another thread if one is due; call it between batches. Microseconds.

        Returns a plan once it is in use, else None. Raises the error that ended a plan, such as SnapshotError.
        """
        now = check_time(now)
        with self._ticking:  # otherwise another caller may find a thread that has not begun, and take it for ended
            thread = self._thread
            if thread is None:
                if self.due(now):
                    self._thread = _PlanThread(self, now)
                    self._thread.start()
                return None
            if thread.is_alive():
                return None
            self._thread = None
        return thread.result()

    def plan_now(self, now: float) -> CrawlPlan:
        """Plan in this thread and return the plan, which is then in use. O(pages), about 0.5 s a million.

        The result depends only on the state and `now`. Raises SnapshotError if a `DurableScheduler` cannot log it.
        """
        now = check_time(now)
        with self._planning:
            core, settings = self.scheduler.core, self.settings
            before, cycle_s = self.plan, core.pages.cycle_s
            pages = copy_pages(core, now, now + settings.every_s)
            count = pages.available.size
            seen = NOTHING_SEEN
            if settings.planner.probe_share and before is not None and before.policy == settings.policy:
                seen = read_costs(core, before.planned_at_s, pages.crawl_rate)
            visits_per_s = parse_budget(settings.budget).visits_of(len(self.scheduler))
            wanted = (visits_per_s * cycle_s, settings.every_s / cycle_s)
            question = Question(pages, *wanted, seen, settings.floor, settings.complete_from)
            planned = plan_rates(settings.planner, question)
            is_read = before is not None or "crawl_rate" in self.scheduler.formula.terminals
            champion = None if is_read else Champion(parse_provided(PLAN_FORMULA), BY_PLAN, since_s=now)
            number = 1 if before is None else before.number + 1
            made = (number, settings.policy, now, str(settings.budget), visits_per_s, count, planned.new_share)
            plan = CrawlPlan(*made, settings.planner.probe_share)
            self.scheduler._follow_plan(plan, planned.rates, champion)  # noqa: SLF001  a call of the optimiser's own
            return plan

    def arrange(self, batch: Batch) -> Ints:
        """Return the places of the pages of `batch` in the order in which to visit them: int64[m]. O(m log m).

        By "webfountain": pages asked for or overdue first, then the sites in turn, the queues of new and of old pages
        of each joined in proportion to the plan's visits of both. By other policies the order of the batch.
        """
        plan = self.plan
        if plan is None or plan.new_share is None:
            return np.arange(len(batch))
        return arrange_batch(self.scheduler.core, batch, plan.new_share, plan.number)

    def close(self) -> None:
        """Wait for a plan under way; its error, if any, is lost."""
        thread, self._thread = self._thread, None
        if thread is not None:
            thread.join()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class _PlanThread(threading.Thread):
    """One plan of `optimiser`, made in a thread."""

    def __init__(self, optimiser: Optimiser, now: float) -> None:
        super().__init__(name="streamsched optimiser", daemon=True)
        self._optimiser = optimiser
        self._now = now
        self._result: CrawlPlan | Exception | None = None

    def run(self) -> None:
        """Plan, and keep the plan or the error."""
        try:
            self._result = self._optimiser.plan_now(self._now)
        except Exception as error:  # noqa: BLE001  raised by `result`
            self._result = error

    def result(self) -> CrawlPlan:
        """Return the plan of the ended thread, or raise its error."""
        if isinstance(self._result, Exception):
            raise self._result
        assert self._result is not None
        return self._result
