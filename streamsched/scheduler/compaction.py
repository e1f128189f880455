"""Compaction of a whole state, and cutting it: a scheduler of the pages that stay, which goes on as the one before."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from streamsched.numerics.arrays import Bools
from streamsched.records.page_schema import FORGOTTEN
from streamsched.scheduler.core import SchedulerCore
from streamsched.state.compaction import Kept, compact_table


def compact(core: SchedulerCore, hosts: Bools | None = None) -> SchedulerCore:
    """Return a scheduler with the pages of `core` that are not forgotten, in less memory. O(pages).

    ``hosts``: bool[groups], True for the hosts whose pages stay; None for all. `core` is as before, and shares nothing
    with the result. The result must be saved whole, and apart from the log of `core`, which names pages by their rows.
    Scores, leases, waiting times, rules, blocks and keys of batches are as before; `compact_table` says what is not. A
    page that is forgotten stays while a key of a batch names it.
    """
    with core.lock:
        kept = Kept(hosts, core.keys.rows(), core.clock.newest_s, core.panel.bar)
        table, rows = compact_table(core.pages, kept)
        state = core.to_json()
        state["keys"] = core.keys.renumbered(rows.after).to_json()
        if core.plan is not None:
            planned = int(np.count_nonzero(rows.before < core.plan.pages))
            state["plan"] = replace(core.plan, pages=planned).to_json()
        state["forgotten"] = int(np.count_nonzero(table.arrays.pages.records["rule"][: len(table)] == FORGOTTEN))
        return SchedulerCore.from_state(table, state, core.settings.threads)
