"""What a simulated crawl works on: the ground, the opening, a program's routine, and one thread's memory."""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from streamsched.formula.evaluation.machine import ROWS, make_slots
from streamsched.formula.terminals import NO_CONTEXT, Context
from streamsched.numerics.arrays import Floats, Hashes, Ints, Records
from streamsched.numerics.jit import mix
from streamsched.records.page_schema import PAGE, TRACE
from streamsched.records.seasonality_schema import SCHEDULE, SEASONAL_LINK

__all__ = [
    "READS_CHANGES",
    "READS_COST",
    "READS_GROUP",
    "READS_HISTORY",
    "READS_IMPORTANCE",
    "READS_LAST",
    "READS_RATE",
    "READS_SEASONALITY",
    "READS_VISITS",
    "READS_WEIGHTED",
    "UNSORTED",
    "VISITED_AGAIN",
    "Arena",
    "CompiledProgram",
    "CrawlHistory",
    "CrawlRules",
    "CrawlTrace",
    "CycleClocks",
    "SimulatedCrawl",
    "WarmState",
    "make_arena",
    "tie_offset",
]

PageNumbers = npt.NDArray[np.int32]  # page numbers

# Bits of ProgramRoutine.reads: what of a page's state, beside its last visit, can make its score differ from another's.
READS_VISITS: Final = 1
READS_CHANGES: Final = 2
READS_LAST: Final = 4  # what the last visit found
READS_WEIGHTED: Final = 8
READS_HISTORY: Final = 16
READS_RATE: Final = 32
READS_IMPORTANCE: Final = 64
READS_COST: Final = 128
READS_GROUP: Final = 256
READS_SEASONALITY: Final = (
    512  # by what rhythm it changes: its profile, and what its visits told of a schedule of its own
)

UNSORTED: Final = np.uint8(1)  # in PAGE.flags of a class: its page numbers are in any order
VISITED_AGAIN: Final = np.uint8(2)  # ... and that: its pages were visited since the warm-up

COUNTS: Final = np.dtype(
    [
        ("classes", "<i8"),  # in use: numbers 0 to classes - 1, none empty between cycles
        ("tail", "<i8"),  # of Arena.members in use
        ("before", "<i8"),  # classes when the cycle began: those from there on were made in it
        ("hits", "<i8"),  # of this cycle: pages that changed, at the front of Arena.hits
        ("misses", "<i8"),  # ... and that did not, at the front of Arena.misses
        ("parts", "<i8"),  # ... what visited classes fell into
        ("vacant", "<i8"),  # ... classes of which nothing is left
    ]
)


class CrawlRules(NamedTuple):
    """What one trial asks for."""

    warmup: int  # cycles that visit all
    cycles: int  # in all
    visits: int  # pages a cycle
    since_visit: bool  # else that_day
    positions_matter: bool  # whether places within the batch matter: for NDCG


class CycleClocks(NamedTuple):
    """When cycles were, and by which rhythms pages are known to change: as `timing` has them."""

    start_s: float  # of cycle 0
    cycle_s: float
    profiles: Records  # PROFILE[k]
    quarters: Ints  # int64[k, C + 1]


class CrawlHistory(NamedTuple):
    """What happens in one trial, whatever the score function; P pages, C cycles, k visits a cycle."""

    changed: Hashes  # uint64[C, words]: bit p % 64 of word p // 64 is whether page p changed in that cycle
    offsets: Ints  # int64[C]: the page number that goes first among equals
    discounts: Floats  # float64[k]: what a hit at each place is worth
    ideals: Floats  # float64[k + 1]: what the first m hits are worth in the best order
    surge_hazard: Floats  # float64[C, groups]: what surges have taken of each group, as `surge_hazard` has it
    clock: CycleClocks


class WarmState(NamedTuple):
    """The classes that the warm-up leaves, g of them, told apart by what a kind of program may read."""

    members: PageNumbers  # int32[P]: page numbers, ascending within each class
    starts: Ints  # int64[g + 1]
    pages: Records  # PAGE[g]; times are cycles, and the prior stays what it is
    traces: Records  # TRACE[g]
    links: Records  # LINK[g]; as the next, of no length for programs that read no rhythm
    schedules: Records  # SCHEDULE[1 + g]; that of class i, where its link names one, is number 1 + i


class CompiledProgram(NamedTuple):
    """A program as steps over slots: first the terminals', then the constants', then registers."""

    steps: npt.NDArray[np.int32]  # int32[m, 4]: operation, left, right and result slot
    terminals: npt.NDArray[np.int32]  # int32[T]: code of each, -1 for one that is not read
    constants: Floats
    result: int  # the slot that holds the score
    reads: int  # READS_…


class CrawlTrace(NamedTuple):
    """What a crawl did in each of r ranked cycles."""

    hits: Ints  # int64[r]: visited pages that had changed
    relevant: Ints  # int64[r]: pages that had changed, visited or not
    gains: Floats  # float64[r]: DCG, where places matter
    visited: (
        PageNumbers  # int32[r, k] or of no rows, by place: page number * 4, + 2 if new since the warm-up, + 1 for a hit
    )


class Arena(NamedTuple):
    """One thread's working memory for crawls of up to P pages and k visits a cycle."""

    counts: Records  # COUNTS[1]
    members: PageNumbers  # int32[2 P + k]: the classes' runs, in any order, with gaps; ascending but for UNSORTED ones
    starts: Ints  # by class
    sizes: Ints
    pages: Records
    traces: Records
    links: Records  # meaningful for programs that read rhythms
    schedules: Records  # as in WarmState
    keys: Hashes
    chosen: Ints
    hits: PageNumbers  # int32[k + 1]
    misses: PageNumbers
    vacant: Ints  # int64[k]
    first_part: Ints  # by class made in this cycle: the last of its parts, -1 for none
    next_part: Ints  # by part: the one before it
    part_starts: Ints  # by part: where in hits, or ~where in misses
    part_sizes: Ints
    table: Ints  # hash table of the classes made in this cycle, by state: number + 1, 0 for none
    table_slots: Ints  # by class made in this cycle: its place in the table
    buffer: PageNumbers  # int32[P], for compaction
    member_bits: Hashes  # uint64[P / 64 + 1]: pages that are being put in order; all 0 between uses
    new_bits: Hashes  # of these, pages not visited since the warm-up; kept only where visits are traced
    below: PageNumbers  # int32[P / 64 + 1]: pages marked in the words before each, while they are put in order
    stale: Hashes  # uint64[P / 64 + 1]: pages of which a visit in this cycle reports a change
    touched: Hashes  # bit w % 64 of word w // 64 where word w of these is not 0
    slots: Floats  # float64[slots, ROWS]
    context: Context  # what terminals take for what is around pages; those that read it are filled by `scenes`


class SimulatedCrawl(NamedTuple):
    """All that one simulated crawl works with."""

    history: CrawlHistory
    warm_state: WarmState
    rules: CrawlRules
    program: CompiledProgram
    arena: Arena
    trace: CrawlTrace


def tie_offset(salt: int, cycle: int, pages: int) -> int:
    """Return the number of the page that goes first among equals in `cycle`, drawn anew for each. O(1).

    >>> 0 <= tie_offset(salt=7, cycle=3, pages=1000) < 1000
    True
    """
    mixed = mix(np.uint64(mix(np.uint64(salt))) ^ np.uint64(cycle + 1))
    return int(mixed) % pages


def make_arena(pages: int, visits: int, slots: int) -> Arena:
    """Return working memory for crawls of up to that many pages and visits a cycle, and routines of up to `slots`."""
    words = pages // 64 + 1
    parts = 2 * visits
    classes = pages + parts
    return Arena(
        counts=np.zeros(1, COUNTS),
        members=np.empty(2 * pages + visits, np.int32),
        starts=np.empty(classes, np.int64),
        sizes=np.empty(classes, np.int64),
        pages=np.empty(classes, PAGE),
        traces=np.empty(classes, TRACE),
        links=np.empty(classes, SEASONAL_LINK),
        schedules=np.empty(1 + classes, SCHEDULE),
        keys=np.empty(classes, np.uint64),
        chosen=np.empty(classes, np.int64),
        hits=np.empty(visits + 1, np.int32),
        misses=np.empty(visits + 1, np.int32),
        vacant=np.empty(visits, np.int64),
        first_part=np.empty(parts, np.int64),
        next_part=np.empty(parts, np.int64),
        part_starts=np.empty(parts, np.int64),
        part_sizes=np.empty(parts, np.int64),
        table=np.zeros(1 << (2 * parts).bit_length(), np.int64),
        table_slots=np.empty(parts, np.int64),
        buffer=np.empty(pages, np.int32),
        member_bits=np.zeros(words, np.uint64),
        new_bits=np.zeros(words, np.uint64),
        below=np.zeros(words, np.int32),
        stale=np.zeros(words, np.uint64),
        touched=np.zeros((words >> 6) + 1, np.uint64),
        slots=make_slots(slots, ROWS),
        context=NO_CONTEXT,
    )
