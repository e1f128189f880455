"""Opens the scheduler of a saved state for short commands, repairs it, and changes its formula with a record."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from streamsched.errors import SnapshotError, StateInUse
from streamsched.formula.champion import BY_HAND, Champion, parse_provided
from streamsched.outcomes import OutcomeBatch
from streamsched.persistence.image_reader import load_images
from streamsched.persistence.image_writer import SavePlan, drop_images, save_state
from streamsched.persistence.log_reader import newest_log
from streamsched.persistence.state_directory import lock_state, newest_image
from streamsched.scheduler.compaction import compact
from streamsched.scheduler.core import SchedulerCore
from streamsched.scheduler.durable import DurableScheduler
from streamsched.scheduler.recovered_state import continue_without_lost_calls, mend_state
from streamsched.scheduler.scheduler import Scheduler
from streamsched.signals import SignalBatch
from streamsched.state.future_times import newest_time
from streamsched.state.stream_clock import WallClock

if TYPE_CHECKING:  # takes long to import
    from streamsched.evolution.records import EvolutionRecord, RecordBook

_NEVER: Final = SavePlan(every="52w")  # the one save is at the end


def open_state(directory: Path, clock: WallClock | None = None) -> DurableScheduler:
    """Return the scheduler of the state in `directory`; its calls return once they are on disk. O(pages).

    `clock`: refuses times ahead of it. Raises SnapshotError if there is no state, StateInUse if another process owns
    it.
    """
    with lock_state(directory):
        newest_image(directory)
    return DurableScheduler.open(directory, reread=_reread, clock=clock)


def drop_lost_log(directory: Path) -> list[SnapshotError]:
    """Continue without the calls of a damaged log that cannot be read; return the damage. See
    `recovered_state.continue_without_lost_calls`.
    """
    return continue_without_lost_calls(directory, reread=_reread)


def repair_state(directory: Path, latest_s: float) -> dict[str, int]:
    """Mend all times in the state in `directory` that are later than `latest_s`, and save it if there are any.

    Returns how many of each kind were changed. O(pages). Raises SnapshotError and StateInUse as `open_state` does.
    """
    from streamsched.evolution.exchange_files import mend_evolution_times  # noqa: PLC0415  takes long to import

    with lock_state(directory):
        newest_image(directory)
    with DurableScheduler.open(directory, reread=_reread, plan=_NEVER) as scheduler:
        present_s = newest_time(scheduler.core.pages.arrays, latest_s)
        changed = mend_state(scheduler.core, latest_s)
        changed["evolutions"] = mend_evolution_times(directory, scheduler.cycle_s, latest_s, present_s)
        if any(changed.values()):
            scheduler.snapshot(full=True)
    return changed


def compact_state(directory: Path) -> dict[str, tuple[int, int]]:
    """Save the state in `directory` again without what is forgotten; return counts and bytes, before and after.

    A whole image takes the place of all others at once, so a kill leaves the state before or the one after. O(pages).
    Raises SnapshotError and StateInUse as `open_state` does.
    """
    with lock_state(directory):
        newest_image(directory)
    with DurableScheduler.open(directory, reread=_reread, plan=_NEVER):
        pass  # at its end an image has all calls of the log
    with lock_state(directory):
        loaded = load_images(directory)
        if newest_log(directory)[0] != loaded.sequence:
            raise StateInUse(str(directory), "another streamsched process has changed this state: try again")
        before = SchedulerCore.from_state(loaded.pages, loaded.state)
        nbytes = sum(path.stat().st_size for path in loaded.files)
        after = compact(before)
        path = save_state(directory, after)
        drop_images(directory, 1)  # calls from now on name pages by their new rows
    sizes = [_sizes(core) for core in (before, after)]
    found = {name: (size, sizes[1][name]) for name, size in sizes[0].items()}
    return found | {"image_bytes": (nbytes, path.stat().st_size)}


def _sizes(core: SchedulerCore) -> dict[str, int]:
    corpus, table = core.pages.corpus[0], core.pages
    rows, groups = int(corpus["pages"]), int(corpus["groups"])
    return {"rows": rows, "groups": groups, "state_bytes": sum(table.state_bytes().values())}


def _reread(path: str, position: dict[str, Any] | None) -> Iterable[OutcomeBatch | SignalBatch]:
    # Imported after a crash only: reading files takes as long to import as `next` takes to run.
    from streamsched.service.stream_replay import reread_files  # noqa: PLC0415

    return reread_files(path, position)


def set_formula(scheduler: Scheduler, book: RecordBook, now: float, formula: str) -> EvolutionRecord:
    """Rank by `formula` from `now` on; write and return the record of the change. The caller saves the state.

    Raises FormulaError if it cannot be used, SnapshotError if the record cannot be written.
    """
    from streamsched.evolution.records import EvolutionRecord  # noqa: PLC0415  as above

    before, number = scheduler.champion, book.next_number()
    champion = Champion(parse_provided(formula), BY_HAND, number, now)
    why = "asked for this formula"
    return use_recorded_formula(scheduler, book, EvolutionRecord(number, now, "asked", "set", why, before, champion))


def use_recorded_formula(scheduler: Scheduler, book: RecordBook, record: EvolutionRecord) -> EvolutionRecord:
    """Rank by the champion in `record`; write and return the record.

    Raises FormulaError if the formula cannot be used, SnapshotError if the record cannot be written.
    """
    parse_provided(record.champion_after.formula)  # raises for a formula of another version before anything is written
    record = book.append(record)
    scheduler.use(record.champion_after)
    return record
