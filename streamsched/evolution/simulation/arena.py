"""Data of a simulated crawl: history, state after the warm-up, compiled program, and one thread's working memory."""

from __future__ import annotations

from functools import reduce
from operator import or_
from typing import Final, NamedTuple, get_args

import numpy as np
import numpy.typing as npt

from streamsched.formula.evaluation.machine import ROWS, make_slots
from streamsched.formula.terminal_table import OWN, TERMINALS, Part
from streamsched.formula.terminals import NO_CONTEXT, Context
from streamsched.numerics.arrays import Floats, Hashes, Ints, Records
from streamsched.numerics.jit import mix
from streamsched.records.page_schema import PAGE, TRACE
from streamsched.records.seasonality_schema import SCHEDULE, SEASONAL_LINK

PageNumbers = npt.NDArray[np.int32]  # page numbers

# Bits of CompiledProgram.reads: the parts of a page's state, besides its last visit, that its score depends on.
READS: Final[dict[Part, int]] = {part: 1 << place for place, part in enumerate(get_args(Part))}
READS_VISITS: Final = READS["visits"]
READS_CHANGES: Final = READS["changes"]
READS_LAST: Final = READS["last"]
READS_WEIGHTED: Final = READS["weighted"]
READS_HISTORY: Final = READS["history"]
READS_RATE: Final = READS["rate"]
READS_GROUP: Final = READS["group"]
READS_SEASONALITY: Final = READS["seasonality"]
READS_SIGNIFICANCE: Final = READS["significance"]
OWN_BITS: Final = {name: reduce(or_, (READS[part] for part in TERMINALS[name].reads)) for name in OWN}
READS_OWN: Final = reduce(or_, OWN_BITS.values())
READS_LINK: Final = READS_SEASONALITY | READS_SIGNIFICANCE  # what its link holds

PADDING: Final = 32  # elements at the end of Arena.buffer, so that loops over it need no remainder

UNSORTED: Final = np.uint8(1)  # in PAGE.flags of a class: its page numbers are not sorted
VISITED_AGAIN: Final = np.uint8(2)  # in PAGE.flags of a class: its pages were visited since the warm-up

COUNTS: Final = np.dtype(
    [
        ("classes", "<i8"),  # in use: numbers 0 to classes - 1, none empty between cycles
        ("tail", "<i8"),  # length of Arena.members in use
        ("before", "<i8"),  # classes at the start of the cycle: later numbers were created in it
        ("hits", "<i8"),  # visited pages of this cycle that had changed, at the front of Arena.hits
        ("misses", "<i8"),  # ... that had not, at the front of Arena.misses
        ("parts", "<i8"),  # parts of visited classes in this cycle
        ("vacant", "<i8"),  # classes emptied in this cycle
        ("table", "<i8"),  # length of Arena.table in use, a power of two: short, so that it stays in a close cache
    ]
)


class CrawlRules(NamedTuple):
    """Parameters of one trial."""

    warmup: int  # cycles that visit all pages
    cycles: int  # in total
    visits: int  # pages per cycle
    since_visit: bool  # else within the cycle
    positions_matter: bool  # whether positions within the batch matter: for NDCG


class CycleClocks(NamedTuple):
    """Times of the cycles and the published profiles; see `CycleTimes`."""

    start_s: float  # of cycle 0
    cycle_s: float
    profiles: Records  # PROFILE[k]
    quarters: Ints  # int64[k, C + 1]


class CrawlHistory(NamedTuple):
    """Changes and constants of one trial, independent of the score function; P pages, C cycles, k visits per cycle."""

    changed: Hashes  # uint64[C, words]: bit p % 64 of word p // 64: page p changed in that cycle
    offsets: Ints  # int64[C]: the page number that ranks first among equal scores
    discounts: Floats  # float64[k]: gain of a hit at each position
    ideals: Floats  # float64[k + 1]: gain of m hits in the best order
    surge_hazard: Floats  # float64[C, groups]: see `find_surges`
    surge_frequency: Floats  # float64[groups]: surges per cycle
    fading: float  # rate per cycle at which the evidence of visits fades, 0 for none
    clock: CycleClocks


class WarmState(NamedTuple):
    """The g classes after the warm-up, separated by the page state that a program may read."""

    members: PageNumbers  # int32[P]: page numbers, ascending within each class
    starts: Ints  # int64[g + 1]
    pages: Records  # PAGE[g]; times in cycles, constant prior; url_hash: equal where all own values read are
    traces: Records  # TRACE[g]
    links: Records  # LINK[g]; like the next, empty for programs that read nothing of them
    schedules: Records  # SCHEDULE[1 + g]; class i's is number 1 + i, if its link refers to one


class CompiledProgram(NamedTuple):
    """A program as steps over slots: first terminals, then constants, then registers."""

    steps: npt.NDArray[np.int32]  # int32[m, 4]: operation, left, right and result slot
    terminals: npt.NDArray[np.int32]  # int32[T]: code of each, -1 if it is not read
    constants: Floats
    result: int  # the slot that holds the score
    reads: int  # READS_…


class CrawlTrace(NamedTuple):
    """Results of a crawl in each of r ranked cycles."""

    hits: Ints  # int64[r]: visited pages that had changed
    relevant: Ints  # int64[r]: pages that had changed, visited or not
    gains: Floats  # float64[r]: DCG, if positions matter
    # int32[r, k] or no rows, by position: page number * 4, + 2 if first visit since the warm-up, + 1 for a hit
    visited: PageNumbers


class Arena(NamedTuple):
    """One thread's working memory for crawls of up to P pages and k visits per cycle."""

    counts: Records  # COUNTS[1]
    members: PageNumbers  # int32[2 P + k]: the classes' runs, in any order, with gaps; ascending unless UNSORTED
    starts: Ints  # by class
    sizes: Ints
    pages: Records
    traces: Records
    links: Records  # used by programs that read something of them
    schedules: Records  # as in WarmState
    keys: Hashes
    chosen: Ints
    hits: PageNumbers  # int32[k + 1]
    misses: PageNumbers
    vacant: Ints  # int64[k]
    first_part: Ints  # by class created in this cycle: the last of its parts, -1 for none
    next_part: Ints  # by part: the previous part of its class
    part_starts: Ints  # by part: start in hits, or ~start in misses
    part_sizes: Ints
    table: Ints  # hash table by state of the classes created in this cycle: number + 1, 0 for none
    table_slots: Ints  # by class created in this cycle: its slot in the table
    buffer: PageNumbers  # int32[P + PADDING], between uses empty
    member_bits: Hashes  # uint64[P / 64 + 1]: bitmap of pages being sorted; all 0 between uses
    new_bits: Hashes  # of these, pages not visited since the warm-up; used only if visits are traced
    below: PageNumbers  # int32[P / 64 + 1]: pages marked in the words before each, while sorting
    stale: Hashes  # uint64[P / 64 + 1]: pages whose visit in this cycle would find a change
    touched: Hashes  # bit w % 64 of word w // 64: word w of member_bits is not 0
    slots: Floats  # float64[slots, ROWS]
    context: Context  # context of terminals; those that read it are filled by `class_terminals`


class SimulatedCrawl(NamedTuple):
    """All inputs, working memory and results of one simulated crawl."""

    history: CrawlHistory
    warm_state: WarmState
    rules: CrawlRules
    program: CompiledProgram
    arena: Arena
    trace: CrawlTrace


def tie_offset(salt: int, cycle: int, pages: int) -> int:
    """Return the pseudo-random page number that ranks first among equal scores in `cycle`. O(1).

    >>> 0 <= tie_offset(salt=7, cycle=3, pages=1000) < 1000
    True
    """
    mixed = mix(np.uint64(mix(np.uint64(salt))) ^ np.uint64(cycle + 1))
    return int(mixed) % pages


def make_arena(pages: int, visits: int, slots: int) -> Arena:
    """Return working memory for up to that many pages, visits per cycle and program slots."""
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
        buffer=np.empty(pages + PADDING, np.int32),
        member_bits=np.zeros(words, np.uint64),
        new_bits=np.zeros(words, np.uint64),
        below=np.zeros(words, np.int32),
        stale=np.zeros(words, np.uint64),
        touched=np.zeros((words >> 6) + 1, np.uint64),
        slots=make_slots(slots, ROWS),
        context=NO_CONTEXT,
    )
