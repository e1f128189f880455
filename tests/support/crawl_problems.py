"""Random problems for the optimisers, as Hypothesis strategies."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from hypothesis import strategies as st

from streamsched.numerics.arrays import Bools, Floats, Ints


@dataclass(frozen=True)
class Problem:
    """Pages on hosts, and a budget that the hosts can take."""

    importance: Floats
    change_rate: Floats
    complete: Bools
    host: Ints
    host_budget: Floats
    budget: float

    @property
    def pages(self) -> dict[str, Any]:
        return {"importance": self.importance, "change_rate": self.change_rate, "budget": self.budget}

    @property
    def hosts(self) -> dict[str, Any]:
        return {"host": self.host, "host_budget": self.host_budget}


weights = st.floats(1e-3, 1e3) | st.integers(1, 9).map(float)
rates = st.floats(1e-3, 10.0)


@st.composite
def problems(draw: st.DrawFn, least: int = 1, most: int = 12) -> Problem:
    count = draw(st.integers(least, most))
    hosts = draw(st.integers(1, 4))
    host = np.array(draw(st.lists(st.integers(0, hosts - 1), min_size=count, max_size=count)))
    limits = np.array(
        draw(st.lists(st.just(0.0) | st.just(np.inf) | st.floats(0.01, 5.0), min_size=hosts, max_size=hosts))
    )
    served = np.bincount(host, minlength=hosts) > 0
    if not limits[served].any():
        limits[host[0]] = 1.0
    room = min(20.0, float(limits[served].sum()))
    return Problem(
        np.array(draw(st.lists(weights, min_size=count, max_size=count))),
        np.array(draw(st.lists(rates, min_size=count, max_size=count))),
        np.array(draw(st.lists(st.booleans(), min_size=count, max_size=count))),
        host,
        limits,
        room * draw(st.floats(0.001, 0.999)),
    )
