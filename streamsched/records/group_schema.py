"""Records of groups, which are hosts and URL patterns: one record, made of the fields of four owners; and of domains.

Each owner's fields are listed by themselves; `GROUP` composes them. The order in `_LAYOUT` is the layout on disk.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt

from streamsched.numerics.arrays import Bytes, Hashes, Records, field_offset

BY_SETTINGS: Final = 0xFFFF  # in GROUP.max_out and GROUP.max_batch: the limit is that of the settings

SURGE_SHARES: Final = 5  # shares of a group's pages that a surge may hit: the length of `surges.SHARES`

_Fields = dict[str, Any]  # name to format

PATTERN_FIELDS: Final[_Fields] = {  # written by records.url_patterns; visits and changes by state.ingest
    "name_span": "<u8",  # start in GroupArrays.names << 16 | length
    "visits": "<u8",
    "changes": "<u8",
    "pages": "<u4",  # pages whose deepest group this is
    "parent": "<u4",  # a host is its own parent
    "host": "<u4",
    "recheck_before": "<u4",  # before this sweep, pages of the group may still belong to a deeper one ...
    "recheck_rows": "<u4",  # ... if their rows are below this
    "host_pages": "<u4",  # of a host: its pages
    "host_patterns": "<u4",  # of a host: its URL patterns
    "depth": "u1",  # path segments in the name
    "source": "<u4",  # of a host: number plus 1 of its first source of change signals, written by state.notice; 0: none
}
PRIOR_FIELDS: Final[_Fields] = {  # written by estimation.hierarchical_prior
    "mean": "<f8",  # prior mean of a page's rate, changes per cycle
    "own_mean": "<f8",  # the mean by the group's own pages; `mean` lies between the parent's and this one
    "log_odds": "<f8",  # of a host: log odds that the means of its URL patterns predict better than their parents'
    "change_sum": "<f8",  # current sweep: weighted sum of the changes that the group's pages saw
    "exposure_sum": "<f8",  # current sweep: ... and of their exposures
}
POLITENESS_FIELDS: Final[_Fields] = {  # written by `politeness`; used of hosts only
    "ready_s": "<f8",  # no visits before
    "delay_s": "<f4",  # minimum time between two visits, NaN for that of the settings
    "out": "<u4",  # leased pages
    "max_out": "<u2",  # most leased pages at a time
    "max_batch": "<u2",  # most pages in a batch
    "backoffs": "u1",  # rests that it demanded in a row, at most 255
    "wait_reason": "u1",  # why ready_s is set, by the codes of politeness.limits
    "asked_to_wait": "u1",  # 1 from a rest that it demanded until a good answer to a visit after that
    "refused_since_s": "<f8",  # the earliest of the answers that `refusals` counts
    "probe_until_s": "<f8",  # when the lease of the probe ends
    "probe": "<u4",  # row plus 1 of the page that was leased last after a demanded rest; 0: none is awaited
    "refusal": "<u2",  # 429 or 503, valid if refusals is above 0
    "refusals": "u1",  # pages that gave this answer one after another, at most 255
}
SURGE_FIELDS: Final[_Fields] = {  # written by estimation.surges: of the open window, and of an earlier one it keeps
    "open_s": "<f8",  # start of the open window, -inf before the first
    "kept_s": "<f8",  # start of the kept window, -inf if there is none
    "open_share": "<f4",  # published share of the group's pages that a surge has hit; 0: none
    "kept_share": "<f4",
    "told_share": "<f4",  # kept_share when the open window began: what the pages visited in it were chosen by
    "hazard": "<f4",  # published rate at which surges hit a page before they are shown, per cycle
    "open_unvisited": "<u4",  # pages not visited since the window began
    "kept_unvisited": "<u4",
    "surge_sum": "<f4",  # closed windows: sum of their probabilities of a surge, fading
    "surge_days": "<f4",  # ... and of their days
    "hits": "<f4",  # what visits added to the shape of the hazard's posterior: pages hit, fading
    "page_days": "<f8",  # ... and to its exposure: days of pages
    "open_weights": ("<f4", SURGE_SHARES),  # probability that a surge has hit each of `surges.SHARES` of the pages
    "kept_weights": ("<f4", SURGE_SHARES),
}

SIGNIFICANCE_FIELDS: Final[_Fields] = {  # written by estimation.content; used of hosts only
    "significance": "<f4",  # mean of the changes of known significance
    "significant": "<f4",  # number of these changes, fading
}

_SPARE_FIELDS: Final[_Fields] = {"spare": ("u1", 5)}

# Four cache lines. A visit touches the first two of its page's group, rarely the third, and the fourth of its host; the
# sweep touches the first and the third.
_LAYOUT: Final = (
    *("mean", "own_mean", "hits", "surge_sum", "surge_days", "recheck_rows", "visits", "changes"),
    *("pages", "parent", "host", "recheck_before"),
    *("open_s", "kept_s", "open_share", "kept_share", "hazard", "open_unvisited", "page_days"),
    *("open_weights", "told_share"),
    *("name_span", "host_pages", "host_patterns", "kept_weights", "kept_unvisited", "change_sum", "exposure_sum"),
    *("significance", "significant"),
    *("log_odds", "ready_s", "refused_since_s", "probe_until_s", "probe", "delay_s", "out", "max_out"),
    *("max_batch", "refusal", "refusals", "backoffs", "wait_reason", "asked_to_wait", "depth", "spare", "source"),
)


def _compose(*owners: _Fields) -> np.dtype[Any]:
    fields = {name: format_ for owner in owners for name, format_ in owner.items()}
    assert set(fields) == set(_LAYOUT)
    assert len(_LAYOUT) == sum(len(owner) for owner in owners)
    return np.dtype([(name, fields[name]) for name in _LAYOUT])


GROUP: Final = _compose(
    PATTERN_FIELDS, PRIOR_FIELDS, POLITENESS_FIELDS, SURGE_FIELDS, SIGNIFICANCE_FIELDS, _SPARE_FIELDS
)
SURGES_AT: Final = field_offset(GROUP, "open_s")  # bytes from the start of a record to its second cache line
SUMS_AT: Final = field_offset(GROUP, "change_sum")  # ... to the sums of the sweep
HOST_AT: Final = field_offset(GROUP, "log_odds")  # ... to the one with the fields of hosts
MEMBER_LINK: Final = np.dtype([("before", "<u4"), ("after", "<u4")])  # rows plus 1; 0: none. Not saved.
DOMAIN: Final = np.dtype(  # a registrable domain: see `records.registrable_domains`
    [
        ("hash", "<u8"),  # of its name, under the key of the indexes
        ("pages", "<u4"),  # known pages of all its hosts
        ("visits", "<u4"),  # pages handed out on `day`, written by politeness.domain_shares
        ("day", "<i4"),  # the last one on which any were: days since 1970
        ("spare", "u1", 4),
    ]
)


class GroupArrays(NamedTuple):
    """The arrays of groups; lengths are the groups reserved, if not said otherwise."""

    records: Records  # GROUP[groups]
    names: Bytes  # the groups' names, one after another
    key: Hashes  # uint64[2]: of the index's hash
    slots: Hashes  # hash index of the groups
    candidates: Bytes  # count-min sketch: pages met per path prefix that is not a group yet
    scratch: Bytes  # one URL's name under construction
    member_links: Records  # MEMBER_LINK[rows]: linked list of each group's pages
    first_members: npt.NDArray[np.uint32]  # uint32[groups]: first row of each list plus 1; 0: empty
    anchors: Hashes  # uint64[groups]: place of each group's newest URL that is kept whole plus 1; 0: none
    domain_of: npt.NDArray[np.uint32]  # uint32[groups]: the number of each group's domain
    domains: Records  # DOMAIN[domains]
