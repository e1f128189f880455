"""Invariants: none is violated in a sound table, and each is reported when it is violated."""

from __future__ import annotations

import numpy as np
import pytest

from streamsched.numerics.arrays import Records
from streamsched.outcomes import OutcomeBatch
from streamsched.records.page_schema import OUT, VISITED
from streamsched.state.page_table import PageTable


def sound() -> PageTable:
    table = PageTable(86_400.0)
    urls = [f"https://{host}.example/docs/{i}" for host in "ab" for i in range(20)]
    for day in range(3):
        table.observe(OutcomeBatch(urls, np.full(40, day * 86_400.0), changed=np.arange(40) % 2 == 0))
    return table


def test_sound_tables_have_no_faults() -> None:
    assert PageTable(86_400.0).faults() == []
    assert sound().faults() == []


def array_of(table: PageTable, name: str) -> Records:
    shard = table.arrays
    return {
        "pages": shard.pages.records,
        "traces": shard.pages.traces,
        "groups": shard.groups.records,
        "chains": shard.groups.member_links,
        "journal": shard.journal,
        "shadows": shard.shadows,
        "corpus": shard.corpus,
    }[name]


@pytest.mark.parametrize(
    ("array", "field", "row", "value", "fault"),
    [
        ("traces", "url_span", 3, 5, "URLs fill the text, one after another"),
        ("corpus", "text_end", 0, 7, "URLs fill the text, one after another"),
        ("pages", "url_hash", 3, 5, "pages have the hashes of their URLs"),
        ("pages", "group", 3, 2, "every page is in a group"),
        ("groups", "pages", 1, 3, "every page is in a group"),
        ("groups", "host_pages", 1, 19, "hosts count their pages and URL patterns"),
        ("groups", "host_patterns", 0, 2, "hosts count their pages and URL patterns"),
        ("groups", "host", 1, 3, "a group's host is a host"),
        ("groups", "parent", 0, 1, "parents have lower numbers than their groups"),
        ("groups", "out", 0, 1, "hosts count their leased pages"),
        ("pages", "flags", 0, VISITED | OUT, "hosts count their leased pages"),
        ("pages", "changes", 0, 3, "pages changed at most as often as visited"),
        ("pages", "flags", 0, 0xFF ^ VISITED, "only visited pages have visits"),
        ("pages", "own_shape", 0, -1e-9, "evidence of visits is not negative"),
        ("shadows", "shape", 0, -1e-9, "shadows are a sample of the pages, and their evidence is not negative"),
        ("corpus", "shadow_stride", 0, 3, "shadows are a sample of the pages, and their evidence is not negative"),
        ("shadows", "exposure", -1, 1.0, "places of shadows that are not in use are empty"),
        ("corpus", "half_life", 0, 0.0, "the half-life is between those compared"),
        ("pages", "own_exposure", 0, np.nan, "evidence of visits is not negative"),
        ("pages", "last_visit_s", 0, 1e9, "no visit is newer than its page's last outcome"),
        ("corpus", "halvings", 0, 1, "the sample is halved as pages double"),
        ("journal", "row", 50, 40, "the journal's newest visit to a page is its last"),
        ("journal", "at_s", 119, 1e5, "the journal's newest visit to a page is its last"),
        ("journal", "at_s", 50, 2e5, "the journal's newest visit to a page is its last"),
        ("corpus", "journaled", 0, 119, "the journal's newest visit to a page is its last"),
        ("pages", "prior_shape", 3, 0.0, "pages' priors are finite and above 0"),
        ("pages", "prior_exposure", 3, np.inf, "pages' priors are finite and above 0"),
        ("groups", "mean", 1, 0.0, "priors are finite and above 0"),
        ("groups", "mean", 1, np.inf, "priors are finite and above 0"),
        ("groups", "open_weights", 1, 0.3, "weights and shares of surges are probabilities"),
        ("groups", "kept_share", 1, 1.0, "weights and shares of surges are probabilities"),
        ("groups", "hazard", 1, np.nan, "weights and shares of surges are probabilities"),
        ("chains", "after", 7, 30, "member lists hold the pages of each group"),
        ("chains", "before", 7, 0, "member lists hold the pages of each group"),
    ],
)
def test_broken_invariant_is_named(array: str, field: str, row: int, value: float, fault: str) -> None:
    table = sound()
    array_of(table, array)[field][row] = value
    assert fault in table.faults()
