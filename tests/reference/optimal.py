"""The optimisers page by page, by plain bisection, and WebFountain's balance equations bucket by bucket."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence


def bisect(function: Callable[[float], float], low: float, high: float) -> float:
    """Return where `function`, which falls, is 0 between two positive numbers."""
    for _ in range(400):
        middle = math.sqrt(low) * math.sqrt(high)
        low, high = (middle, high) if function(middle) > 0.0 else (low, middle)
    return high


def harmonic_rate(importance: float, change_rate: float, price: float, complete: bool) -> float:
    if importance == 0.0 or change_rate == 0.0:
        return 0.0
    if complete:
        return min(1.0, importance / (price * change_rate)) * change_rate
    return (-change_rate + math.sqrt(change_rate**2 + 4.0 * importance * change_rate / price)) / 2.0


def binary_rate(importance: float, change_rate: float, price: float, floor: float) -> float:
    return max(floor, math.sqrt(importance * change_rate / price) - change_rate)


def divide(
    rate: Callable[[int, float], float], hosts: Sequence[Sequence[int]], limits: Sequence[float], budget: float
) -> dict[int, float]:
    """Return the rates of the pages of `hosts` by nested bisection; `rate` gives one of a page and a price."""

    def used(host: int, price: float) -> float:
        return sum(rate(page, price) for page in hosts[host])

    def total(price: float) -> float:
        return sum(min(limits[host], used(host, price)) for host in range(len(hosts)))

    price = bisect(lambda price: total(price) - budget, 1e-100, 1e100)
    found: dict[int, float] = {}
    for host, pages in enumerate(hosts):
        own = price
        if used(host, price) > limits[host]:
            own = bisect(lambda price, host=host: used(host, price) - limits[host], price, 1e200)  # type: ignore[misc]
        found |= {page: rate(page, own) for page in pages}
    return found


def harmonic_cost(pages: Sequence[tuple[float, float, float]]) -> float:
    """Return the mean of -importance ln(rate/(rate + change rate)) of triples of these."""
    return -sum(m * math.log(r / (r + d)) for m, d, r in pages) / len(pages)


def binary_cost(pages: Sequence[tuple[float, float, float]]) -> float:
    return sum(m * d / (r + d) for m, d, r in pages) / len(pages)


def learn_rate(history: Sequence[tuple[float, bool]]) -> float:
    """Return the root within its bounds by bisection, from (time, changed) of each visit."""
    before, intervals = 0.0, [(0.5, True), (0.5, False)]
    for time, changed in history:
        intervals.append((time - before, changed))
        before = time

    def slope(rate: float) -> float:
        value = 0.0
        for w, changed in intervals:
            growth = math.expm1(rate * w) if rate * w < 700.0 else math.inf
            seen = w / growth if growth > 0.0 else 1.0 / rate
            value += seen if changed else -w
        return value

    return bisect(slope, 0.0005, 7.0)


def mirror_step(
    rates: Sequence[float], gradient: Sequence[float], learning_rate: float, limits: tuple[float, float, float]
) -> list[float]:
    """Return the mirror step by bisection of the price; `limits`: lowest, highest, budget."""
    lowest, highest, budget = limits

    def move(price: float) -> list[float]:
        inverse = [1.0 / r + learning_rate * g + price for r, g in zip(rates, gradient, strict=True)]
        return [highest if one * highest <= 1.0 else max(lowest, 1.0 / one) for one in inverse]

    if sum(move(0.0)) <= budget:
        return move(0.0)
    return move(bisect(lambda price: sum(move(price)) - budget, 1e-30, 1e30))


def gradient_step(
    rates: Sequence[float], gradient: Sequence[float], learning_rate: float, limits: tuple[float, float, float]
) -> list[float]:
    lowest, highest, budget = limits

    def move(price: float) -> list[float]:
        free = [r - learning_rate * g - price for r, g in zip(rates, gradient, strict=True)]
        return [min(max(one, lowest), highest) for one in free]

    if sum(move(0.0)) <= budget:
        return move(0.0)
    return move(bisect(lambda price: sum(move(price)) - budget, 1e-30, 1e30))


def follow(
    buckets: tuple[Sequence[float], Sequence[float], Sequence[float]],
    new: tuple[float, float, float, float],
    crawled: Sequence[Sequence[float]],
    new_crawled: Sequence[float],
) -> tuple[list[list[float]], list[list[float]], list[float]]:
    """Return y, b and n after each period by equations (2) to (4) of WebFountain's model.

    `buckets`: pages, change shares and obsolete pages; `new`: waiting, arrivals, found by old and by new.
    """
    first, changes, stale = buckets
    waiting, arrivals, by_old, by_new = new
    pages = list(first)
    obsolete, sizes, left = [], [], []
    for x, z in zip(crawled, new_crawled, strict=True):
        stale = [
            (1.0 - x[i] / pages[i]) * ((1.0 - changes[i]) * stale[i] + changes[i] * pages[i]) for i in range(len(pages))
        ]
        waiting = waiting + sum(by_old * one for one in x) + (by_new - 1.0) * z + arrivals
        pages = [pages[i] + z * first[i] / sum(first) for i in range(len(pages))]
        obsolete.append(stale)
        sizes.append(pages)
        left.append(waiting)
    return obsolete, sizes, left


def poisson(count: int, mean: float) -> float:
    return math.exp(-mean + count * math.log(mean) - math.lgamma(count + 1.0)) if mean > 0.0 else float(count == 0)


def crawl_value(rate: float, recall: float, noise: float, waited: float, signals: int) -> float:
    """GREEDY-NCIS for importance 1, by its definition: the mean time that a copy is current from a visit to the next,
    if each is made when the probability that it is current falls to what it is now, less that probability times the
    mean time between them. Integrals over time, by how many signals have come.
    """
    hidden, every = rate * (1.0 - recall), rate * recall + noise
    spared = noise / every if every > 0.0 else 1.0  # by a signal

    def current(time: float, count: int) -> float:
        return math.exp(-hidden * time) * spared**count

    level = current(waited, signals)
    total = 0.0
    for count in range(400):
        end = waited if count == signals else math.log(current(0.0, count) / level) / hidden
        if end <= 0.0:
            break

        def gain(time: float, count: int = count) -> float:
            return poisson(count, every * time) * (current(time, count) - level)

        total += integrate(gain, end)
    return total


def integrate(function: Callable[[float], float], end: float) -> float:
    """Simpson's rule from 0 to `end`."""
    steps = 2000
    width = end / steps
    inner = sum((4.0 if place % 2 else 2.0) * function(place * width) for place in range(1, steps))
    return (function(0.0) + inner + function(end)) * width / 3.0
