"""The hierarchical prior: when the sweep moves, what it learns, and how strongly each level is shrunk."""

from __future__ import annotations

import numpy as np
import pytest

from streamsched.estimation import hierarchical_prior
from streamsched.estimation.gamma_posterior import HIGHEST_SHAPE, LOWEST_SHAPE
from streamsched.numerics.arrays import Floats
from streamsched.numerics.packed_urls import PackedUrls
from streamsched.outcomes import OutcomeBatch
from streamsched.records.page_schema import LONGEST_INTERVAL
from streamsched.state.page_table import PageTable

DAY = 86_400.0


def visit(table: PageTable, urls: list[str], day: float, changed: object = False) -> None:
    """Apply outcomes without surges: every change counts as its page's own."""
    flags = np.broadcast_to(np.asarray(changed, np.bool_), len(urls))
    table.observe(OutcomeBatch(urls, np.full(len(urls), day * DAY), changed=flags), surges=False)


def slow(table: PageTable) -> None:
    """Let the sweep go at its usual speed and first intervals move no mean, as if it had been learned."""
    table.arrays.corpus["swept_pages"], table.arrays.corpus["sweep_hurried"] = 1 << 40, 0


def corpus(table: PageTable, field: str) -> float:
    return float(table.arrays.corpus[field][0])


def prior_means(table: PageTable, count: int) -> Floats:
    """The means of the priors that pages have."""
    pages = table.arrays.pages.records[:count]
    return np.asarray(pages["prior_shape"] / pages["prior_exposure"], np.float64)


def host(name: str, count: int) -> list[str]:
    return [f"https://{name}.example/{i}" for i in range(count)]


@pytest.mark.parametrize(("cycle_s", "mean"), [(DAY, 0.1), (3_600.0, 0.1 / 24), (7 * DAY, 0.7)])
def test_first_belief_is_per_cycle(cycle_s: float, mean: float) -> None:
    table = PageTable(cycle_s)
    assert corpus(table, "mean") == pytest.approx(mean)
    assert corpus(table, "shape") == hierarchical_prior.FIRST_SHAPE
    table.discover(PackedUrls.pack(host("a", 1)), 0.0)
    assert table.arrays.groups.records["mean"][0] == corpus(table, "mean")


def test_sweep_moves_every_sixteen_intervals() -> None:
    """First visits and failures are not observed intervals."""
    table = PageTable(DAY)
    urls = host("a", 100)
    visit(table, urls, 0)
    slow(table)
    table.observe(OutcomeBatch(urls, np.full(100, DAY), status=np.full(100, 503, np.int32)), surges=False)
    assert (corpus(table, "sweep_row"), corpus(table, "sweep_due")) == (0, 0)
    visit(table, urls[:15], 2)
    assert (corpus(table, "sweep_row"), corpus(table, "sweep_due")) == (0, 15)
    visit(table, urls[15:16], 2)
    assert (corpus(table, "sweep_row"), corpus(table, "sweep_due")) == (hierarchical_prior.SWEEP_ROWS, 0)
    visit(table, urls[16:32], 2)
    assert (corpus(table, "sweep_row"), corpus(table, "sweep")) == (0, 1)


def test_means_are_learned_and_pulled_towards_what_stands_above() -> None:
    table = PageTable(DAY)
    often, never, few = host("often", 60), host("never", 60), host("few", 2)
    for day in range(30):
        visit(table, often + never + few, day, [day > 0] * 60 + [False] * 60 + [day > 0] * 2)
    means = table.arrays.groups.records["mean"][:3]
    assert means[0] > 1.0
    assert means[1] < corpus(table, "mean") / 4  # for eight pages as the corpus has them, and sixty of its own
    assert means[1] < corpus(table, "mean") < means[2] < means[0]


def test_learned_prior_reaches_pages_made_before_and_after() -> None:
    table = PageTable(DAY)
    table.discover(PackedUrls.pack(["https://a.example/early"]), 0.0)
    urls = host("a", 60)
    for day in range(30):
        visit(table, urls, day, day > 0)
    table.discover(PackedUrls.pack(["https://a.example/late", "https://b.example/"]), 0.0)
    pages, groups = table.arrays.pages.records, table.arrays.groups.records
    assert pages["group"][0] == pages["group"][61] == 0
    assert groups["mean"][0] > 1.0
    assert groups["mean"][1] == corpus(table, "mean") > 0.5  # a new host begins with the corpus'


def test_pages_take_their_groups_prior_in_their_turn() -> None:
    """When created, with an outcome, and when the sweep passes: not when means are updated."""
    table = PageTable(DAY)
    urls = host("a", 130)
    visit(table, urls, 0)
    first = float(table.arrays.groups.records["mean"][0])
    slow(table)
    visit(table, urls[:48], 1, True)  # three steps: a whole sweep, and means are renewed
    shard = table.arrays
    renewed, shape = float(shard.groups.records["mean"][0]), corpus(table, "shape")
    assert (corpus(table, "sweep"), renewed > 2 * first) == (1, True)
    assert prior_means(table, 130) == pytest.approx(np.full(130, first), rel=1e-6)
    table.observe(OutcomeBatch([urls[129]], [2 * DAY], status=np.full(1, 503, np.int32)), surges=False)
    table.discover(PackedUrls.pack(["https://a.example/late"]), 0.0)
    turned = np.arange(131) >= 129
    assert prior_means(table, 131) == pytest.approx(np.where(turned, renewed, first), rel=1e-6)
    slow(table)
    visit(table, urls[:16], 2)
    turned[:64] = True
    assert prior_means(table, 131) == pytest.approx(np.where(turned, renewed, first), rel=1e-6)
    assert shard.pages.records["prior_shape"][129] == np.float32(shape) != np.float32(corpus(table, "shape"))


def test_prior_of_a_rate_next_to_none_stays_finite() -> None:
    table = PageTable(DAY)
    visit(table, host("a", 1), 0)
    table.arrays.groups.records["mean"][0] = 1e-300
    visit(table, host("a", 1), 1)
    assert table.arrays.pages.records["prior_exposure"][0] == np.float32(LONGEST_INTERVAL)
    assert table.faults() == []


def test_new_prefix_begins_with_its_parents_mean() -> None:
    table = PageTable(DAY)
    for day in range(20):
        visit(table, host("a", 60), day, day > 0)
    table.discover(PackedUrls.pack([f"https://a.example/x/{i}" for i in range(16)]), 0.0)
    assert table.arrays.groups.records["mean"][1] == table.arrays.groups.records["mean"][0]


def test_shape_tells_how_alike_pages_are() -> None:
    """Pages that each change half of the time, against pages of which half always change and half never."""
    shapes = []
    for rates in (np.full(200, 0.5), np.arange(200) % 2):
        table, rng = PageTable(DAY), np.random.default_rng(1)
        for day in range(60):
            visit(table, host("a", 200), day, rng.random(200) < rates)
        shapes.append(corpus(table, "shape"))
    alike, unlike = shapes
    assert LOWEST_SHAPE <= unlike < 1.0 < alike < HIGHEST_SHAPE


@pytest.mark.parametrize("shape", [0.3, 1.0, 4.0])
def test_shape_of_the_rates_is_learned(shape: float) -> None:
    table, rng = PageTable(DAY), np.random.default_rng(2)
    rates = rng.gamma(shape, 0.1 / shape, 2_000)
    for day in range(0, 120, 6):
        visit(table, host("a", 2_000), day, rng.random(2_000) < -np.expm1(-6.0 * rates) if day else False)
    assert shape / 1.35 < corpus(table, "shape") < 1.35 * shape


def test_pages_of_one_rate_are_known_for_it_before_half_of_them_were_seen_again() -> None:
    table, rng = PageTable(DAY), np.random.default_rng(2)
    visit(table, host("a", 2_000), 0, changed=False)
    visit(table, host("a", 2_000), 1, changed=rng.random(2_000) < 0.04)
    for day in range(2, 92):
        again = [f"https://a.example/{10 * day + place}" for place in range(10)]
        visit(table, again, day, rng.random(10) < 1.0 - np.exp(-0.04 * day))
    assert corpus(table, "shape") > 5.0


def test_sweep_ends_though_no_page_was_visited_twice_for_long() -> None:
    """One page visited repeatedly beside many that never are: the sweep goes through all of them."""
    table = PageTable(DAY)
    table.discover(PackedUrls.pack(host("b", 1_000)), 0.0)
    for day in range(300):
        visit(table, ["https://a.example/"], day, day > 0)
    assert corpus(table, "sweep") >= 1
    assert corpus(table, "mean") > 0.1


def test_sweep_ends_though_pages_come_faster_than_it_goes() -> None:
    """A crawl that finds more pages than it revisits: a sweep covers the pages known when it began."""
    table = PageTable(DAY)
    often = host("a", 20)
    for day in range(80):
        visit(table, often, day, day > 0)
        table.discover(PackedUrls.pack([f"https://b.example/{day}/{i}" for i in range(100)]), day * DAY)
    assert len(table) == 8_020
    assert corpus(table, "sweep") >= 4
    assert corpus(table, "sweep_row") < corpus(table, "sweep_end") < len(table)


@pytest.mark.parametrize(
    ("mean", "shape", "within"),
    [
        (0.0012, 0.5, (3.0, 3.0, 1.5)),
        (0.05, 0.5, (1.5, 1.5, 1.25)),
        (5.0, 0.5, (2.0, 2.0, 2.0)),
        (5.0, 1.0, (3.0, 3.0, 3.0)),
    ],
)
def test_mean_is_learned_from_the_first_day_on(mean: float, shape: float, within: tuple[float, ...]) -> None:
    """2,000 pages, all visited for two days, then a twentieth a day; the error is a factor, on days 1, 7 and 60."""
    table, rng = PageTable(DAY), np.random.default_rng(11)
    urls, rates = host("a", 2_000), rng.gamma(shape, mean / shape, 2_000)
    last, learned = np.zeros(2_000), []
    visit(table, urls, 0)
    for day in range(1, 61):
        rows = np.arange(2_000) if day == 1 else (np.arange(100) + 100 * day) % 2_000
        expected = rates[rows] * (day - last[rows])
        visit(table, [urls[row] for row in rows], day, rng.random(rows.size) < -np.expm1(-expected))
        last[rows] = day
        if day in (1, 7, 60):
            learned.append(corpus(table, "mean") / mean)
    assert [max(ratio, 1.0 / ratio) < most for ratio, most in zip(learned, within, strict=True)] == [True] * 3, learned


def test_first_intervals_move_all_means_alike_until_a_sweep_has_seen_half_of_them() -> None:
    table = PageTable(DAY)
    urls = host("a", 3_000)
    table.discover(PackedUrls.pack([*urls, "https://b.example/"]), 0.0)
    visit(table, urls[:15], 0)
    visit(table, urls[:15], 1, True)
    assert corpus(table, "mean") == 0.1
    visit(table, urls[15:16], 0)
    visit(table, urls[15:16], 1, True)
    learned = corpus(table, "first_mean")
    assert corpus(table, "mean") == learned > 1.0
    assert table.arrays.groups.records["mean"][:2] == pytest.approx([learned, learned])
    slow(table)
    visit(table, urls[16:32], 0)
    visit(table, urls[16:32], 1)
    assert corpus(table, "first_mean") < learned / 2
    assert corpus(table, "mean") == learned


def test_new_mean_reaches_all_pages_by_a_fast_sweep() -> None:
    """Pages never visited have it before a sweep of the usual speed would have passed a tenth of them."""
    table = PageTable(DAY)
    count = 8 * hierarchical_prior.FAST * hierarchical_prior.SWEEP_ROWS
    urls = host("a", count)
    table.discover(PackedUrls.pack(urls), 0.0)
    visit(table, urls[:16], 0)
    visit(table, urls[:16], 1, True)
    learned = corpus(table, "mean")
    for day in range(2, 9):
        visit(table, urls[:16], day, True)
    assert prior_means(table, count)[16:] == pytest.approx(np.full(count - 16, learned), rel=1e-6)


def directories(count: int) -> list[list[str]]:
    """URLs of `count` directories of one host, 40 pages each."""
    return [[f"https://a.example/{name}/{i}" for i in range(40)] for name in range(count)]


def pattern_log_odds(table: PageTable) -> float:
    """The host's log odds: above 0 if its directories predict better than the host does."""
    return float(table.arrays.groups.records["log_odds"][0])


def test_directories_that_differ_are_trusted() -> None:
    table = PageTable(DAY)
    often, never = directories(2)
    for day in range(40):
        visit(table, often + never, day, [day > 0] * 40 + [False] * 40)
    means = table.arrays.groups.records["mean"][:3]
    assert pattern_log_odds(table) > 3.0
    assert means[1] > 1.5 * means[0] > 2.0 * means[2]


def test_a_bulk_edit_does_not_make_its_directory_one_that_changes_often() -> None:
    """All pages of a directory change on one day; most later visits find nothing, and the patterns' odds fall."""
    table = PageTable(DAY)
    edited, quiet = directories(2)
    for day in range(60):
        visit(table, edited, day, day == 5)
        visit(table, quiet[day % 40 : day % 40 + 2], day)
    assert pattern_log_odds(table) < 0.0
    groups = table.arrays.groups.records[:3]
    names = np.argsort(groups["own_mean"][1:]) + 1
    highest = int(names[-1])
    mean, own, above = groups["mean"][highest], groups["own_mean"][highest], groups["mean"][0]
    assert abs(mean - above) < abs(mean - own)
