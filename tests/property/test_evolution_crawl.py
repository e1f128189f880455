"""The class-based evaluator equals a page-by-page crawl for any history, program and rules."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Literal

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamsched.evolution.data import shared_changes
from streamsched.evolution.data.change_history import ChangeHistory, CycleTimes
from streamsched.evolution.genomes import to_formula
from streamsched.evolution.simulation.compiled_programs import SizedProgram, compile_program
from streamsched.evolution.simulation.evaluator import Evaluator, Program
from streamsched.evolution.simulation.trials import Trial
from streamsched.evolution.symbols import TERMINAL_SETS, SymbolSet
from streamsched.formula import Binary, Constant, Formula, Node, Terminal, Unary
from streamsched.formula.terminal_table import TerminalSet
from streamsched.numerics.arrays import Ints
from streamsched.records.seasonality_schema import DAY_SETS, PROFILE, WEEK_HOURS
from tests.reference import simulated_crawl as naive
from tests.support.cases import examples

BASIC = ("n", "X", "t")
PAPER = (*BASIC, "CG", "NAD", "SAD", "AAD", "GAD")
BY_RHYTHM = ("tau", "rhythm", "due", "gain")
FULL = (*PAPER, "rate", "posterior", "importance", "cost", *BY_RHYTHM, "surge", "surge", "significance", "crawl_rate")
HUGE = Binary("*", Binary("pow", Constant(1000), Constant(80)), Binary("pow", Constant(1000), Constant(30)))  # < inf
METRICS = ("change_rate", "ndcg", "freshness", "balanced(0.3) * significance")

numbers = st.sampled_from([0.001, 0.01, 0.1, 0.5, 1.0, 10.0, 100.0, 1000.0, 0.0, -1.0, 2.0, 81.0, 1e300, 5e-324])


@pytest.fixture(autouse=True, scope="module")
def small_groups() -> Iterator[None]:
    """Allow small groups: these histories have few pages."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(shared_changes, "MIN_GROUP_PAGES", 3)
        yield


def soar(node: Node) -> Node:
    """0 where `node` is 0, else infinite."""
    return Binary("*", Binary("*", node, HUGE), HUGE)


def programs(names: Sequence[str]) -> st.SearchStrategy[Formula]:
    """Formulas over `names`, many of them with ties, infinities and NaN for some pages and not for others."""
    leaves: st.SearchStrategy[Node] = st.builds(Terminal, st.sampled_from(names)) | st.builds(Constant, numbers)

    def grow(below: st.SearchStrategy[Node]) -> st.SearchStrategy[Node]:
        signed = st.builds(Unary, st.sampled_from(["neg", "log", "exp"]), below)
        joined = st.builds(Binary, st.sampled_from(["+", "-", "*", "/", "pow"]), below, below)
        twins = st.builds(lambda op, node: Binary(op, node, node), st.sampled_from(["+", "-", "*", "/", "pow"]), below)
        infinite = below.map(soar) | below.map(lambda node: Binary("-", Constant(0), soar(node)))
        undefined = below.map(lambda node: Binary("-", soar(node), soar(node)))
        return joined | signed | twins | infinite | undefined

    return st.recursive(leaves, grow, max_leaves=8).map(Formula)


def shapes(cycles: int) -> st.SearchStrategy[int]:
    """The cycles in which a page changes, as bits: never, always, once, for a while, periodically, or arbitrary."""
    whole = (1 << cycles) - 1
    moments = st.integers(0, cycles - 1)
    run = st.builds(lambda first, length: ((1 << length) - 1 << first) & whole, moments, st.integers(1, cycles))
    seasonality = st.builds(
        lambda first, period: sum(1 << at for at in range(first, cycles, period)), moments, st.integers(1, 9)
    )
    return st.sampled_from([0, 0, whole]) | moments.map(lambda at: 1 << at) | run | seasonality | st.integers(0, whole)


def ups_and_downs(draw: st.DrawFn, least: int, whole: int) -> Ints:
    """Numbers from `least` up, of few kinds: even, with peaks, or all different."""
    few = draw(st.lists(st.sampled_from([least, 3 * least + 5, 7 * least]), min_size=7, max_size=7))
    return np.resize(np.array(few), whole)


@st.composite
def timings(draw: st.DrawFn, pages: int, cycles: int) -> CycleTimes:
    """Times of cycles: days, hours and odd lengths, with changing UTC offsets, over profiles of all shapes."""
    kinds = draw(st.integers(1, 3))
    profiles = np.zeros(kinds, PROFILE)
    for profile in profiles:
        profile["cumulative"][: WEEK_HOURS + 1] = np.append(0, np.cumsum(ups_and_downs(draw, 30_000, WEEK_HOURS)))
        profile["odds"] = draw(st.sampled_from([1 / 9, 1.0, 20.0]))
        profile["sets_rarity"][:DAY_SETS] = ups_and_downs(draw, 4, DAY_SETS)
        profile["hours_rarity"][:24] = ups_and_downs(draw, 0, 24)
    clocks = st.lists(st.sampled_from([0, 0, 4, -32]), min_size=cycles + 1, max_size=cycles + 1)
    quarters = np.array([draw(clocks) for _ in range(kinds)], np.int64)
    profile_of = np.array(draw(st.lists(st.integers(0, kinds - 1), min_size=pages, max_size=pages)), np.int64)
    start_s = draw(st.sampled_from([1.7e9, 1_700_006_400.0, 0.0, -1e6]))
    return CycleTimes(
        start_s, draw(st.sampled_from([86_400.0, 3_600.0, 21_600.0, 100_000.0])), profiles, quarters, profile_of
    )


@st.composite
def histories(draw: st.DrawFn, cycles: int, most: int = 40) -> ChangeHistory:
    kinds = draw(st.lists(shapes(cycles), min_size=1, max_size=5))
    bits = draw(st.lists(st.sampled_from(kinds) | shapes(cycles), min_size=1, max_size=most))
    changed = np.array([[word >> at & 1 for at in range(cycles)] for word in bits], np.bool_)
    few = st.sampled_from([1.0, 1.0, 0.5, 0.25, 3.0, 0.0])  # equal ones, so that pages share classes
    parts = st.sampled_from([1.0, 1.0, 0.5, 0.1, 0.0])
    means = st.sampled_from([0.1, 0.1, 0.02, 1.5, 1e-6])
    kinds_of_columns = (means, few, few, parts, few)
    columns = [draw(st.lists(values, min_size=len(bits), max_size=len(bits))) for values in kinds_of_columns]
    hashes = draw(st.lists(st.integers(0, 2**64 - 1) | st.integers(0, 3), min_size=len(bits), max_size=len(bits)))
    return ChangeHistory.of(
        changed,
        hashes=np.array(hashes, np.uint64),
        prior_shape=draw(st.sampled_from([1.0, 0.3, 20.0])),
        prior_mean=columns[0],
        importance=columns[1],
        cost=columns[2],
        significance=columns[3],
        crawl_rate=columns[4],
        groups=np.array(draw(st.lists(st.sampled_from([3, 3, 3, 8]), min_size=len(bits), max_size=len(bits)))),
        timing=draw(timings(len(bits), cycles)) if draw(st.integers(0, 2)) else None,
        half_life=draw(st.sampled_from([math.inf, 3.0, 60.0])),
    )


@st.composite
def trials(draw: st.DrawFn, cycles: st.SearchStrategy[int], most: int = 40) -> Trial:
    warmup = draw(st.integers(1, 5))
    first, ranked, rest = draw(st.integers(0, 3)), draw(cycles), draw(st.integers(0, 2))
    history = draw(histories(first + warmup + ranked + rest, most))
    budget = draw(st.floats(0.001, 1.0) | st.integers(1, history.pages).map(lambda k: k / history.pages))
    reading: Literal["since_visit", "that_day"] = draw(st.sampled_from(["since_visit", "that_day"]))
    length = warmup + ranked if rest or draw(st.booleans()) else None
    return Trial(history, first, length, warmup, budget, reading, draw(st.integers(0, 2**64 - 1)))


def check_by_twin(trial: Trial, formula: Formula) -> None:
    """Compare the evaluator, cycle by cycle and by each metric, with the page-by-page crawl."""
    expected = naive.crawl(trial, formula, cuts := (1.0, 0.5, 0.07))
    counted = np.array(expected.counted)
    series = Evaluator([trial], "ndcg", workers=1).series(formula, cuts=cuts)[0]
    for at, found in enumerate(series):
        rates = np.array(expected.cut_change_rate)[:, at]
        assert found.counted.tolist() == counted.tolist()
        assert found.visits == expected.cut_visits[at]
        assert found.change_rate.tolist() == np.where(counted, rates, 0.0).tolist()
        np.testing.assert_allclose(found.ndcg, np.array(expected.cut_ndcg)[:, at], rtol=0, atol=1e-12)
        assert found.new_pages.tolist() == [row[at] for row in expected.cut_new_pages]
    for metric in METRICS:
        fitness = Evaluator([trial], metric, workers=1).fitness([formula])
        np.testing.assert_allclose(fitness, [naive.fitness(trial, expected, metric)], rtol=1e-12, atol=1e-12)
        traced = Evaluator([trial], metric, workers=1).series(formula)[0][0]
        credit = (traced.weights * traced.hits).sum(axis=1)[counted]
        np.testing.assert_allclose(fitness, [credit.mean() if credit.size else 0.0], rtol=1e-12, atol=1e-12)


@examples(ordinary=15, whole=50)
@given(trials(st.integers(1, 12)), programs(BASIC))
def test_basic_terminals(trial: Trial, formula: Formula) -> None:
    check_by_twin(trial, formula)


@examples(ordinary=20, whole=65)
@given(trials(st.integers(1, 12)), programs(PAPER))
def test_the_terminals_of_the_paper(trial: Trial, formula: Formula) -> None:
    check_by_twin(trial, formula)


@examples(ordinary=20, whole=65)
@given(trials(st.integers(1, 12)), programs(FULL))
def test_terminals_that_tell_equal_histories_apart(trial: Trial, formula: Formula) -> None:
    check_by_twin(trial, formula)


@pytest.mark.parametrize(
    ("reading", "text"),
    [("since_visit", "t"), ("since_visit", "GAD * NAD * t"), ("that_day", "SAD + AAD * X"), ("that_day", "log(CG)")],
)
def test_many_tied_pages(reading: Literal["since_visit", "that_day"], text: str) -> None:
    """Ties of a few pages are ranked by comparison, of more by bitmaps: with equal sums, to the last bit."""
    rng = np.random.default_rng(3)
    rates = np.where(rng.random(3_000) < 0.35, 0.0, rng.gamma(0.4, 0.3, 3_000))
    history = ChangeHistory.of(rng.random((3_000, 9)) < rates[:, None], hashes=rng.integers(0, 2**63, 3_000, np.uint64))
    check_by_twin(Trial(history, budget=0.3, reading=reading, salt=1), Formula.parse(text))


@examples(ordinary=15, whole=50)
@given(trials(st.integers(1, 30), most=25), programs((*BY_RHYTHM, "t", "importance")))
def test_rhythms(trial: Trial, formula: Formula) -> None:
    check_by_twin(trial, formula)


@examples(ordinary=4, whole=15)
@given(trials(st.integers(60, 140), most=12), programs(FULL))
def test_more_cycles_than_a_word_has_bits(trial: Trial, formula: Formula) -> None:
    check_by_twin(trial, formula)


@st.composite
def genomes(draw: st.DrawFn, symbol_set: SymbolSet, most: int = 30) -> bytes:
    """Any program in prefix order: symbols until every operand is present."""
    word: list[int] = []
    open_operands = 1
    while open_operands:
        room = len(word) + open_operands < most
        fitting = [code for code, arity in enumerate(symbol_set.arity) if room or not arity]
        word.append(draw(st.sampled_from(fitting)))
        open_operands += symbol_set.arity[word[-1]] - 1
    return bytes(word)


@examples(ordinary=15, whole=50)
@given(trials(st.integers(1, 8)), st.sampled_from(sorted(TERMINAL_SETS)), st.data())
def test_genomes_are_their_formulas(trial: Trial, terminals: TerminalSet, data: st.DataObject) -> None:
    symbol_set = SymbolSet(TERMINAL_SETS[terminals])
    words = data.draw(st.lists(genomes(symbol_set), min_size=1, max_size=3))
    formulas = [to_formula(word, symbol_set) for word in words]
    evaluator = Evaluator([trial], "ndcg", symbol_set=symbol_set, workers=1)
    found = evaluator.fitness(words).tolist()
    assert found == evaluator.fitness(formulas).tolist()
    np.testing.assert_allclose(
        found, [naive.fitness(trial, naive.crawl(trial, each), "ndcg") for each in formulas], rtol=0, atol=1e-12
    )


@examples(ordinary=3, whole=10)
@given(st.lists(trials(st.integers(1, 8)), min_size=2, max_size=3), programs(FULL), st.sampled_from(METRICS))
def test_fitness_is_the_mean_over_trials(several: list[Trial], formula: Formula, metric: str) -> None:
    evaluator = Evaluator(several, metric, workers=1)
    alone = [Evaluator([trial], metric, workers=1).fitness([formula])[0] for trial in several]
    assert evaluator.matrix([formula]).tolist() == [alone]
    assert evaluator.fitness([formula])[0] == np.mean(alone)


@examples(ordinary=3, whole=5)
@given(st.lists(trials(st.integers(4, 8)), min_size=1, max_size=2), st.lists(programs(FULL), min_size=1, max_size=40))
def test_how_many_workers_there_are_changes_no_byte(several: list[Trial], formulas: list[Formula]) -> None:
    alone, *others = (Evaluator(several, "ndcg", workers=workers).matrix(formulas) for workers in (1, 2, 3))
    assert all(other.tobytes() == alone.tobytes() for other in others)


@examples(ordinary=3, whole=5)
@given(trials(st.integers(1, 8)), st.lists(programs(FULL), min_size=1, max_size=12))
def test_a_used_evaluator_is_as_good_as_new(trial: Trial, formulas: list[Formula]) -> None:
    """A crawl's leftovers in the working memory do not affect the next crawl."""
    evaluator = Evaluator([trial], "ndcg", workers=1)
    for formula in formulas:
        assert evaluator.fitness([formula]).tolist() == Evaluator([trial], workers=1).fitness([formula]).tolist()
        traces = [each.series(formula)[0][0] for each in (evaluator, Evaluator([trial], workers=1))]
        assert traces[0].ndcg.tolist() == traces[1].ndcg.tolist()
        assert traces[0].new_pages.tolist() == traces[1].new_pages.tolist()


def test_what_is_not_a_number_goes_after_minus_infinity() -> None:
    changed = np.zeros((5, 12), np.bool_)
    changed[1:3] = True
    history = ChangeHistory.of(changed, importance=np.arange(5.0))
    formula = Formula.parse("(importance - 2) * 1e300 * 1e300 - (importance - 1) * 1e300 * 1e300")
    with np.errstate(invalid="ignore"):
        scores = formula.evaluate({"importance": history.columns["importance"]})
    assert scores.tolist()[1:3] == [-np.inf, -np.inf]
    assert np.isnan(scores).tolist() == [True, False, False, True, True]
    trial = Trial(history, budget=0.4, reading="that_day", salt=1)
    assert set(Evaluator([trial], workers=1).series(formula)[0][0].change_rate.tolist()) == {1.0}
    check_by_twin(trial, formula)


STEADY = Trial(ChangeHistory.of(np.eye(6, 9, dtype=np.bool_)), budget=0.34)
SOME = [Formula.parse(text) for text in ("t", "t * X / n", "posterior", "1 - exp(-NAD * t)", "CG")]


@pytest.mark.parametrize("workers", [1, 2])
def test_past_the_deadline_only_what_is_known_has_a_fitness(workers: int) -> None:
    evaluator = Evaluator([STEADY, STEADY], workers=workers)
    known = evaluator.fitness(SOME[:2])
    with evaluator.deadline(0.0):
        while not evaluator.should_stop():
            pass
        assert evaluator.fitness(SOME)[:2].tolist() == known.tolist()
        assert np.isnan(evaluator.matrix(SOME)[2:]).all()
        assert evaluator.evaluated == 2
    assert not evaluator.should_stop()
    assert evaluator.fitness(SOME).tobytes() == Evaluator([STEADY, STEADY], workers=1).fitness(SOME).tobytes()


def test_without_a_deadline_all_is_evaluated() -> None:
    evaluator = Evaluator([STEADY], workers=2)
    with evaluator.deadline(None):
        assert not np.isnan(evaluator.fitness(SOME)).any()
        assert not evaluator.should_stop()


def test_a_deadline_breaks_off_the_crawl_it_meets(monkeypatch: pytest.MonkeyPatch) -> None:
    evaluator = Evaluator([STEADY], workers=1)

    def expire(program: Program, symbol_set: SymbolSet | None) -> SizedProgram:
        if program == SOME[2]:
            evaluator._expire()
        return compile_program(program, symbol_set)

    with monkeypatch.context() as patch:
        patch.setattr("streamsched.evolution.simulation.evaluator.compile_program", expire)
        assert np.isnan(evaluator.fitness(SOME)).tolist() == [False, False, True, True, True]
    with evaluator.deadline(None):
        pass
    assert evaluator.fitness(SOME).tobytes() == Evaluator([STEADY], workers=1).fitness(SOME).tobytes()


def test_what_ends_the_wait_for_workers_ends_their_work(monkeypatch: pytest.MonkeyPatch) -> None:
    """As Ctrl-C and SIGTERM do: without it they would go on through all programs, for minutes in a large state."""
    evaluator, spun = Evaluator([STEADY], workers=2), 0

    def fail_once(program: Program, symbol_set: SymbolSet | None) -> SizedProgram:
        nonlocal spun
        if program == SOME[0]:
            raise KeyboardInterrupt
        while not evaluator.should_stop() and spun < 10_000_000:
            spun += 1
        return compile_program(program, symbol_set)

    with monkeypatch.context() as patch:
        patch.setattr("streamsched.evolution.simulation.evaluator.compile_program", fail_once)
        with pytest.raises(KeyboardInterrupt):
            evaluator.fitness(SOME)
    assert evaluator.evaluated == 0
    assert evaluator.fitness(SOME).tobytes() == Evaluator([STEADY], workers=1).fitness(SOME).tobytes()
