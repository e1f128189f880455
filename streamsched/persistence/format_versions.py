"""What saved records are made of in each format: those of releases before know nothing of what was added since."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from streamsched.estimation.surges import init_surges
from streamsched.numerics.arrays import Records
from streamsched.records.group_schema import GROUP
from streamsched.records.page_schema import PAGE, TRACE
from streamsched.records.schema import CORPUS, OLD_GROUP, OLD_LINK, OLD_ROW, OLD_SCHEDULE, VISIT
from streamsched.records.seasonality_schema import PROFILE, SEASONAL_LINK, SEASONALITY

__all__ = ["EDITIONS", "FORMAT_VERSION", "widen"]

FORMAT_VERSION: Final = 6
_FIRST_OF_SURGES: Final = GROUP.names.index("open_s") if GROUP.names else 0


def _cut(dtype: np.dtype[Any], stop: int) -> np.dtype[Any]:
    """Return `dtype` with its fields before number `stop` alone."""
    return np.dtype([(name, dtype[name]) for name in (dtype.names or ())[:stop]])


_PRESENT: Final[Mapping[str, np.dtype[Any]]] = MappingProxyType(
    {
        "corpus": CORPUS,
        "pages": PAGE,
        "traces": TRACE,
        "lease_until_s": np.dtype("<f8"),
        "text": np.dtype("u1"),
        "groups": GROUP,
        "names": np.dtype("u1"),
        "journal": VISIT,  # places are numbers of visits; the ring keeps the newest
        "candidates": np.dtype("u1"),
        "changed_rows": OLD_ROW,  # places mean nothing: each record names its own
        "changed_groups": OLD_GROUP,
        "links": SEASONAL_LINK,
        "changed_schedules": OLD_SCHEDULE,  # all are: they lie in no order that pages have
        "changed_links": OLD_LINK,
        "profiles": PROFILE,
        "seasonality": SEASONALITY,
    }
)
_RHYTHMS: Final = ("links", "changed_schedules", "changed_links", "profiles", "seasonality")
_GROUP_5: Final = _cut(GROUP, _FIRST_OF_SURGES)  # groups knew nothing of surges
_FORMER: Final[Mapping[str, np.dtype[Any]]] = MappingProxyType(  # ... and nothing was known of rhythms
    {name: dtype for name, dtype in _PRESENT.items() if name not in _RHYTHMS}
    | {"groups": _GROUP_5, "changed_groups": np.dtype([("number", "<u8"), ("group", _GROUP_5)])}
)

EDITIONS: Final[Mapping[int, Mapping[str, np.dtype[Any]]]] = MappingProxyType(
    {
        4: {name: dtype for name, dtype in _FORMER.items() if not name.startswith("changed_")},  # no increments yet
        5: _FORMER,
        FORMAT_VERSION: _PRESENT,
    }
)
"""The records of each array, by format."""


def widen(name: str, records: Records) -> Records:
    """Return the `records` of the array `name`, of any edition, as they are now, what was added as at first. O(n)."""
    present = _PRESENT[name]
    if records.dtype == present:
        return records
    wide = np.zeros(records.size, present)
    groups = wide if name == "groups" else wide["group"]
    init_surges(groups)
    _copy_fields(wide, records)
    return wide


def _copy_fields(wide: npt.NDArray[Any], records: npt.NDArray[Any]) -> None:
    """Copy the fields that `records` have, those within fields too."""
    for field in records.dtype.names or ():
        if records.dtype[field].names:
            _copy_fields(wide[field], records[field])
        else:
            wide[field] = records[field]
