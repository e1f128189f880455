"""Hosts, URL prefixes and the kinds of pages on them."""

from __future__ import annotations

import re

import numpy as np
import pytest

from streamsched.replay import KINDS, SyntheticSettings
from streamsched.replay.synthetic.sites import Sites, draw_sites, make_urls

SETTINGS = SyntheticSettings(pages=20_000)


@pytest.fixture(scope="module")
def sites() -> Sites:
    return draw_sites(SETTINGS, np.random.default_rng(3))


def test_every_host_has_pages_and_few_have_many(sites: Sites) -> None:
    assert np.array_equal(np.unique(sites.host), np.arange(SETTINGS.hosts))
    sizes = np.sort(np.bincount(sites.host[sites.prefix]))[::-1]
    assert sizes[-1] >= 1
    assert sizes[: SETTINGS.hosts // 10].sum() > SETTINGS.pages * 0.3
    assert np.median(sizes) < SETTINGS.pages_per_host / 1.5


def test_prefixes_are_runs_of_pages_within_a_host(sites: Sites) -> None:
    assert np.array_equal(np.repeat(np.arange(sites.host.size), np.diff(sites.offsets)), sites.prefix)
    assert np.all(np.diff(sites.host) >= 0)
    assert np.diff(sites.offsets).min() >= 1
    # A host begins a prefix too: so they are shorter than 24 pages, and never longer on average.
    assert 12 < SETTINGS.pages / sites.host.size < SETTINGS.pages_per_prefix


def test_shares_of_kinds_are_met_to_within_a_prefix_each(sites: Sites) -> None:
    counts = np.bincount(sites.kinds(), minlength=len(KINDS))
    longest = np.diff(sites.offsets).max()
    assert np.all(np.abs(counts - np.array(SETTINGS.shares) * SETTINGS.pages) <= longest)
    assert [sites.pages(kind).size for kind in KINDS] == counts.tolist()


def test_a_kind_without_a_share_has_no_page() -> None:
    settings = SyntheticSettings(pages=500, poisson=0, weekday=1, clock=0, bursty=0, dead=0)
    assert set(draw_sites(settings, np.random.default_rng(0)).kinds()) == {KINDS.index("weekday")}


@pytest.mark.parametrize(("accord", "least", "most"), [(0.0, 0.2, 0.4), (1.0, 0.95, 1.0)])
def test_prefixes_go_with_their_host_as_often_as_asked(accord: float, least: float, most: float) -> None:
    """Two prefixes of a host agree by chance with the sum of the squared shares, 0.3; in full accord but at a cut."""
    settings = SyntheticSettings(pages=20_000, host_accord=accord)
    sites = draw_sites(settings, np.random.default_rng(1))
    neighbours = np.flatnonzero(sites.host[1:] == sites.host[:-1])
    assert least < np.mean(sites.kind[neighbours] == sites.kind[neighbours + 1]) <= most


def test_urls_are_distinct_and_spell_host_and_prefix(sites: Sites) -> None:
    urls = list(make_urls(SETTINGS, sites, np.random.default_rng(0)))
    assert len(set(urls)) == SETTINGS.pages
    assert all(re.fullmatch(r"https://site\d{3}\.example/[a-z]{4}-\d+/\d+\.html", url) for url in urls)
    hosts = [url.split("/")[2] for url in urls]
    assert len(set(hosts)) == SETTINGS.hosts
    prefixes = ["/".join(url.split("/")[:4]) for url in urls]
    assert len(set(prefixes)) == sites.host.size
    spelled = np.unique(prefixes, return_inverse=True)[1]
    assert np.array_equal(spelled[1:] == spelled[:-1], np.diff(sites.prefix) == 0)


def test_one_page_makes_a_site() -> None:
    settings = SyntheticSettings(pages=1)
    sites = draw_sites(settings, np.random.default_rng(0))
    assert re.fullmatch(
        r"https://site0\.example/[a-z]{4}-0/0\.html", make_urls(settings, sites, np.random.default_rng(0))[0]
    )
