"""Rarely needed ingest kernels, compiled on first use so that a first program does not wait for them."""

from __future__ import annotations

from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt

from streamsched.estimation.gamma_posterior import ObservedInterval
from streamsched.estimation.hierarchical_prior import SWEEP_EVERY, step_sweep
from streamsched.estimation.related_members import join_pages
from streamsched.estimation.seasonality.seasonality_update import OUTCOMES_OF_SCHEDULE, update_own_schedule
from streamsched.numerics.arrays import Bytes, Ints
from streamsched.numerics.jit import address_of
from streamsched.outcomes import ETAG, LAST_MODIFIED, MOVED_TO
from streamsched.records.page_schema import BoundLimits
from streamsched.records.schema import ShardArrays
from streamsched.records.url_index import IndexArrays, resolve
from streamsched.records.validators import ValidatorColumns, keep_validators
from streamsched.state.known_pages import NewUrl, add_page

_MANY: Final = 1_000  # outcomes of a batch that need not be looked up to expect a new page among them


class LazyKernels(NamedTuple):
    """The addresses of kernels in this process; 0 of those that no batch has needed yet."""

    add_page: int
    join_pages: int
    step_sweep: int
    update_own_schedule: int
    keep_validators: int


_known: Final = [LazyKernels(0, 0, 0, 0, 0)]  # the types of their arguments are the same in all tables


def lazy_kernels(  # noqa: PLR0913, PLR0917  the arguments of kernels
    shard: ShardArrays,
    index: IndexArrays,
    blob: Bytes,
    offsets: Ints,
    given: npt.NDArray[np.uint16],
    validators: ValidatorColumns,
    bounds: BoundLimits,
) -> LazyKernels:
    """Return the kernels that a part of a batch may need, compiled. O(1), O(URLs) until a page has been added.

    `blob`, `offsets`: the part's URLs; `given`: which fields its outcomes have; `validators`: the columns of the batch.
    """
    known = _known[0]
    if 0 not in known:
        return known
    corpus, count = shard.corpus[0], given.size
    if not known.add_page and _may_add(shard, index, blob, offsets, given):
        hash_: Any = np.uint64(0)
        url = NewUrl(blob, 0, 0, hash_)
        adding = address_of(add_page, shard, index, url, 0.0, bounds)
        known = known._replace(add_page=adding, join_pages=address_of(join_pages, shard, 0))
    if not known.step_sweep and corpus["sweep_due"] + count >= SWEEP_EVERY:
        known = known._replace(step_sweep=address_of(step_sweep, shard))
    if not known.update_own_schedule and corpus["applied"] + count >= OUTCOMES_OF_SCHEDULE:
        observed = ObservedInterval(0.0, 0.0, 0.0, False)
        known = known._replace(update_own_schedule=address_of(update_own_schedule, shard, 0, observed))
    if not known.keep_validators and (shard.validators.state["pages"][0] or np.any(given & (ETAG | LAST_MODIFIED))):
        pages, arrays = shard.pages, shard.validators
        places = (pages.validators, pages.validator_texts, arrays, 0, validators, 0, 0, False)
        known = known._replace(keep_validators=address_of(keep_validators, *places))
    _known[0] = known
    return known


def _may_add(shard: ShardArrays, index: IndexArrays, blob: Bytes, offsets: Ints, given: npt.NDArray[np.uint16]) -> bool:
    """Return whether an outcome may be of, or name, a page that is unknown."""
    if given.size >= _MANY or np.any(given & MOVED_TO):
        return True
    rows = np.empty(given.size, np.int64)
    resolve(shard.pages, index, blob, offsets, rows)
    return bool(np.any(rows < 0))
