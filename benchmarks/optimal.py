"""Optimal visit rates, rate learning, mirror steps and WebFountain's model.

The rival of LambdaCrawl is a plain bisection of the multiplier in NumPy, that of rate learning a bisection of all rates
at once over padded histories, that of the mirror step a bisection of the price. MirrorSync is run on the costs and
settings of its paper's experiments; its rival is the optimum.
"""

from __future__ import annotations

import importlib.util
import time
from collections.abc import Callable
from typing import Final

import numpy as np

from benchmarks.report import Row, best_seconds, digits, durations
from streamsched.numerics.arrays import Bools, Floats
from streamsched.optimal import (
    BinaryPoisson,
    CostFamily,
    RateLimits,
    SublinPoly,
    SyncRun,
    SyncSettings,
    async_mirror_sync,
    async_psgd,
    lambda_crawl,
    learn_rates,
    mirror_step,
    mirror_sync,
    optimal_sync_rates,
    paper_model,
    strategy_weights,
    webfountain,
)

_HOSTS: Final = 10_000
_HALVINGS: Final = 60  # to the digits of the rivals' results
_VISITS: Final = 14  # of each page whose rate is learned
_RUNS: Final = 5  # of each of MirrorSync's experiments; the paper has 150
_WEB_BUDGET: Final = 54.0  # million pages a day: strategy 1 then ends with as many obsolete pages as in table 3

_TABLES: Final = (  # version, strategy, objective and obsolete pages at the end in tables 3 and 4, tens of millions
    (1, 1, 32.592, 3.086),
    (1, 2, 1.722, 1.609),
    (1, 3, 2.138, 1.702),
    (2, 1, 37.744, 3.534),
    (2, 3, 2.500, 1.972),
)

_Learn = Callable[..., SyncRun]
_EXPERIMENTS: Final[tuple[tuple[str, _Learn, float, float], ...]] = (
    ("SublinPoly, MirrorSync", mirror_sync, 2.7, 20.0),
    ("SublinPoly, AsyncMirrorSync", async_mirror_sync, 1.6, 20.0),
    ("SublinPoly, AsyncPSGD", async_psgd, 0.08, 20.0),
    ("BinaryPoisson, MirrorSync", mirror_sync, 5.0, 8.0),
    ("BinaryPoisson, AsyncMirrorSync", async_mirror_sync, 1.3, 8.0),
    ("BinaryPoisson, AsyncPSGD", async_psgd, 0.5, 40.0),
    ("BinaryPoisson, MirrorSync, fitted", mirror_sync, 5.0, 8.0),
    ("BinaryPoisson, AsyncMirrorSync, fitted", async_mirror_sync, 1.3, 8.0),
)


def measure(pages: int, repeats: int) -> list[Row]:
    """Return the rows for 100,000 and for `pages` pages, for learning, for mirror steps, and for plans."""
    rows = [*_crawls(100_000, repeats), *_crawls(pages, 1)]
    rows += [_learning(pages // 10), _step(pages // 10, repeats)]
    rows += [_sync(*experiment) for experiment in _EXPERIMENTS]
    return rows + _plans()


def _crawls(pages: int, repeats: int) -> list[Row]:
    rng = np.random.default_rng(0)
    importance = rng.integers(1, 1001, pages).astype(np.float64)
    change_rate = np.clip(rng.lognormal(-2.0, 1.2, pages), 0.0005, 7.0)
    budget, complete = 0.2 * pages, np.arange(pages) < pages // 25
    host = rng.integers(0, _HOSTS, pages)
    limits = rng.uniform(0.0, 4.0, _HOSTS) * (pages / 100_000)  # half of the hosts are at their limits
    plain = best_seconds(lambda: lambda_crawl(importance, change_rate, budget=budget), repeats)
    mixed = best_seconds(lambda: lambda_crawl(importance, change_rate, budget=budget, complete=complete), repeats)
    polite = best_seconds(
        lambda: lambda_crawl(importance, change_rate, budget=0.7 * budget, host=host, host_budget=limits), repeats
    )
    rival = best_seconds(lambda: _bisect(importance, change_rate, budget, np.zeros(pages, np.bool_)), repeats)
    rival_mixed = best_seconds(lambda: _bisect(importance, change_rate, budget, complete), repeats)
    return [
        durations(f"LambdaCrawl, {pages:,} pages", plain, rival),
        durations(f"... with signals for 4 %, {pages:,} pages", mixed, rival_mixed),
        durations(f"... with limits of {_HOSTS:,} hosts, {pages:,} pages; rival: without", polite, plain),
    ]


def _bisect(importance: Floats, change_rate: Floats, budget: float, complete: Bools) -> Floats:
    low, high = 1e-12, 1e12
    rates = importance
    for _ in range(_HALVINGS):
        price = np.sqrt(low * high)
        rates = 0.5 * (np.sqrt(change_rate * change_rate + 4.0 * importance * change_rate / price) - change_rate)
        if complete.any():
            rates = np.where(complete, np.minimum(importance / price, change_rate), rates)
        low, high = (price, high) if rates.sum() > budget else (low, price)
    return rates


def _learning(pages: int) -> Row:
    rng = np.random.default_rng(0)
    rates = np.clip(rng.lognormal(-2.0, 1.2, pages), 0.0005, 7.0)
    intervals = rng.exponential(1.0, (pages, _VISITS))
    changed = rng.random((pages, _VISITS)) < -np.expm1(-rates[:, np.newaxis] * intervals)
    times, offsets = intervals.cumsum(axis=1).ravel(), np.arange(pages + 1) * _VISITS
    ours = best_seconds(lambda: learn_rates(times, changed.ravel(), offsets), 2)
    few = pages // 10  # the rival's time is in proportion
    rival = 10.0 * best_seconds(lambda: _bisect_rates(intervals[:few], changed[:few]), 1)
    return durations(f"learned rates of {pages:,} pages, {_VISITS} visits each", ours, rival)


def _bisect_rates(intervals: Floats, changed: Bools) -> Floats:
    seen = np.where(changed, intervals, 0.0)
    same = 0.5 + np.where(changed, 0.0, intervals).sum(axis=1)
    low, high = np.full(same.size, 0.0005), np.full(same.size, 7.0)
    for _ in range(_HALVINGS):
        rate = 0.5 * (low + high)
        with np.errstate(invalid="ignore"):
            terms = np.where(changed, seen / np.expm1(rate[:, np.newaxis] * seen), 0.0)
        above = terms.sum(axis=1) + 0.5 / np.expm1(0.5 * rate) > same
        low, high = np.where(above, rate, low), np.where(above, high, rate)
    return low


def _step(arms: int, repeats: int) -> Row:
    rng = np.random.default_rng(0)
    rates, gradient = rng.uniform(0.1, 1.0, arms), -rng.exponential(1.0, arms)
    limits = RateLimits(lowest=0.02, highest=3.0, budget=float(rates.sum()))
    ours = best_seconds(lambda: mirror_step(rates, gradient, 1.0, limits), repeats)
    rival = best_seconds(lambda: _bisect_price(rates, gradient, limits), 1)
    return durations(f"mirror step of {arms:,} arms", ours, rival)


def _bisect_price(rates: Floats, gradient: Floats, limits: RateLimits) -> Floats:
    inverse = 1.0 / rates + gradient
    low, high = 0.0, 1.0 / limits.lowest - float(inverse.min())
    moved = rates
    for _ in range(_HALVINGS):
        price = 0.5 * (low + high)
        with np.errstate(divide="ignore"):
            free = np.where(inverse + price > 0.0, 1.0 / (inverse + price), np.inf)
        moved = np.clip(free, limits.lowest, limits.highest)
        low, high = (price, high) if moved.sum() > limits.budget else (low, price)
    return moved


def _sync(name: str, learn: _Learn, learning_rate: float, cycle: float) -> Row:
    """Return the row of an experiment: mean final costs, those of the optimum, and the time of 150 runs."""
    family: type[SublinPoly | BinaryPoisson] = SublinPoly if name.startswith("Sublin") else BinaryPoisson
    settings = SyncSettings(
        learning_rate=learning_rate,
        cycle=cycle,
        highest_rate=3.0 if family is SublinPoly else 6.0,
        estimate="fitted" if name.endswith("fitted") else "probes",
    )
    best, final = [], []
    begin = time.perf_counter()
    for seed in range(_RUNS):
        costs: CostFamily = family.draw(seed=seed)
        best.append(costs.cost(optimal_sync_rates(costs, settings)))
        final.append(learn(costs, settings, seed=seed).cost[-1])
    seconds = (time.perf_counter() - begin) / _RUNS * 150
    ratio = float(np.mean(final) / np.mean(best))
    figures = f"{np.mean(final):.4f}", f"{np.mean(best):.4f}"
    return Row(f"{name}: cost, 150 runs in {seconds:.0f} s; ratio: of costs", *figures, f"{ratio:.4f}×")


def _plans() -> list[Row]:
    """Return the rows of the paper's tables; nothing without CasADi."""
    if importlib.util.find_spec("casadi") is None:
        return [Row("WebFountain's model", "CasADi is not installed")]
    rows = []
    for version, strategy, objective, printed in _TABLES:
        begin = time.process_time()
        model = paper_model(_WEB_BUDGET, version=version)
        plan = webfountain(model, strategy_weights(strategy, 14), starts=1)
        seconds = time.process_time() - begin
        obsolete = float(plan.obsolete[-1].sum()) / 10.0
        crawls = plan.crawl_share.sum(axis=0)
        shares = f"{(crawls < 0.05).mean():.0%} never crawled, {(crawls > 1.5).mean():.0%} twice"
        name = f"WebFountain, version {version}, strategy {strategy}, {seconds:.1f} s of CPU; objective, obsolete"
        figures = f"{plan.objective / 10.0:.3f}, {obsolete:.3f}; {shares}", f"{objective:.3f}, {printed:.3f} (paper)"
        ratios = f"{digits(plan.objective / 10.0 / objective)}×, {digits(obsolete / printed)}× of its values"
        rows.append(Row(name, *figures, ratios))
    return rows
