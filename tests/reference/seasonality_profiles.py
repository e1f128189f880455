"""Slow reference implementation of a shard's seasonality: profiles, and what visits and sweeps do to them."""

from __future__ import annotations

import math
from collections.abc import Callable

from streamsched.estimation.seasonality import group_profiles, page_schedules, profile_fit
from streamsched.estimation.seasonality.regions import REGIONS
from tests.reference.seasonality import (
    ANYONE,
    DAY,
    HOUR,
    NAT,
    Link,
    Profile,
    Published,
    Schedule,
    by_rate,
    first_sets,
    hour_weights,
    learn_schedule,
    local_hours,
    note_change,
    pieces,
    region_of,
    set_weights,
    terminals,
    weight_of,
    weighted,
)


def expected_changes(mean: float) -> float:
    """The mean of a Poisson variable of that mean, given that it is not 0."""
    mean = min(mean, 50.0)
    return 1.0 if mean < 1e-9 else max(mean / -math.expm1(-mean), 1.0)


def shrink(seen: list[float], mean: list[float], cell_of: Callable[[int], int]) -> list[float]:
    """The factor of each hour's cell, by the variance of cells beyond chance."""
    hours_of: dict[int, list[int]] = {}
    for hour in range(168):
        hours_of.setdefault(cell_of(hour), []).append(hour)
    c = {cell: math.fsum(seen[hour] for hour in hours) for cell, hours in hours_of.items()}
    m = {cell: math.fsum(mean[hour] for hour in hours) for cell, hours in hours_of.items()}
    squares = math.fsum(one * one for one in m.values())
    beyond = math.fsum((c[cell] - m[cell]) ** 2 - m[cell] for cell in hours_of) - math.sqrt(2.0 * squares)
    if squares == 0.0 or beyond <= 0.0:
        return [1.0] * 168
    loose = beyond / squares
    return [(c[cell_of(hour)] * loose + 1.0) / (m[cell_of(hour)] * loose + 1.0) for hour in range(168)]


def publish(above: Published | None, changes: list[float], exposure: list[float]) -> list[int]:
    """The weights of the hours: those above, with factors of days, of hours of the day, and of single hours."""
    factors = [w * 168.0 / sum(above.weights) for w in above.weights] if above else [1.0] * 168
    weighed = math.fsum(e * f for e, f in zip(exposure, factors, strict=True))
    rate = sum(changes) / weighed if weighed > 0.0 else 0.0
    splits: list[Callable[[int], int]] = [lambda hour: hour // 24, lambda hour: hour % 24, lambda hour: hour]
    for cell_of in splits:
        mean = [rate * e * f for e, f in zip(exposure, factors, strict=True)]
        factors = [f * more for f, more in zip(factors, shrink(changes, mean, cell_of), strict=True)]
    total = math.fsum(factors)
    return [int(max(65_536.0 * 168.0 * f / total + 0.5, 16.0)) for f in factors]


def blend(above: list[int], sums: list[float]) -> list[int]:
    """The rarity of each among pages; those above count as eight pages."""
    weights = [weight_of(one) for one in above]
    mixed = [8.0 * w / sum(weights) + more for w, more in zip(weights, sums, strict=True)]
    return [int(min(0.5 - NAT * math.log(max(one / max(mixed), 1e-9)), 128.0)) for one in mixed]


class Seasonality:
    """The seasonality of a whole shard."""

    def __init__(self, cycle_s: float) -> None:
        self.cycle_s = cycle_s
        self.profiles: dict[tuple[str, ...], Profile] = {(name,): Profile(ANYONE, name) for name in ("", *REGIONS)}
        self.newest_s = self.published_s = -math.inf
        self.schedules = 0

    def find(self, group: tuple[str, ...]) -> Profile:
        """The profile of a group or of the nearest ancestor that has one, else of its region."""
        for size in range(len(group), 0, -1):
            if ("of", *group[:size]) in self.profiles:
                return self.profiles["of", *group[:size]]
        return self.profiles[(region_of(group[0]),)]

    def above(self, profile: Profile) -> Profile | None:
        """The profile towards which a profile is shrunk."""
        if profile.group == ANYONE:
            return self.profiles[("",)] if profile.region else None
        return self.find(profile.group[:-1]) if len(profile.group) > 1 else self.profiles[(profile.region,)]

    def learn(
        self,
        link: Link,
        gamma: tuple[float, float],
        span: tuple[float, float],
        changed: bool,
        counts: tuple[int, ...],
        hit: float,
    ) -> float | None:
        """Update by a visit; return the probability of a change if there is a schedule.

        `hit`: the probability that a surge had come.
        """
        (since_s, at_s), (visits, changes, pages) = span, counts
        self.newest_s = max(self.newest_s, at_s)
        published = link.profile.published[link.version]
        start, end = local_hours(since_s), local_hours(at_s)
        rate = gamma[0] / gamma[1]
        if 0.0 < end - start <= 168.0:
            cycles = min(weighted(published, start, end) * HOUR / self.cycle_s, 1e15)
            link.profile.fresh.append((start, end, expected_changes(rate * cycles) if changed else 0.0))
        earns = changes >= 2 and rate * DAY / self.cycle_s >= 1 / 28
        room = self.schedules < page_schedules.FEWEST_SCHEDULES + pages * 3 // 64
        if link.schedule is None and changed and earns and room:
            link.schedule = Schedule()
            self.schedules += 1
        due = None
        if link.schedule is not None:
            due = terminals(link, gamma, since_s, at_s, self.cycle_s)["due"]
            predicted = by_rate(*gamma, weighted(published, start, end) * HOUR / self.cycle_s)
            predicted = 1.0 - (1.0 - predicted) * (1.0 - hit)
            learn_schedule(link.schedule, published, (start, end), changed, predicted, (visits, changes))
            if changed:
                note_change(link.schedule, at_s, end - start)
        return due

    def sum_up(self, link: Link, row: int, sweep: int) -> None:
        """Add a page to the sums of the sweep."""
        if link.schedule is None:
            return
        published = link.profile.published[link.version]
        odds = published.odds * math.exp(link.schedule.log_odds)
        link.profile.scheduled.append(odds / (1.0 + odds))
        if (row + sweep) % 4 == 0:
            sets, hours = set_weights(link.schedule, published), hour_weights(link.schedule, published)
            shares = [w / sum(sets) for w in sets], [w / sum(hours) for w in hours]
            link.profile.beliefs.append((4.0 * odds / (1.0 + odds), *shares))

    def publish(self, groups: dict[tuple[str, ...], int], sweep: int, pages: int) -> None:
        """Publish all profiles from the sweep's counts; `groups`: the changes seen of each group's pages."""
        passed = self.newest_s - self.published_s
        kept = math.exp(-min(max(passed, 0.0), 56 * DAY) / (56 * DAY)) if math.isfinite(passed) else 1.0
        self.published_s = self.newest_s
        for profile in self.profiles.values():
            self.settle(profile, kept, sweep & 1)
        pooled = {name: self.pool(profile) for name, profile in self.profiles.items()}
        names: list[tuple[str, ...]] = [name for name in self.profiles if len(name) == 1]
        names += [("of", *group) for group in groups if ("of", *group) in self.profiles]
        for name in names:
            self.publish_profile(self.profiles[name], pooled[name], sweep + 1 & 1)
        for profile in self.profiles.values():
            profile.scheduled, profile.beliefs = [], []
        most = len(REGIONS) + 1 + group_profiles.FEWEST_PROFILES + pages // 2_048
        for group, changes in groups.items():
            if (
                changes >= profile_fit.EARN_CHANGES
                and ("of", *group) not in self.profiles
                and len(self.profiles) < most
            ):
                above = self.find(group)
                published = [
                    Published(list(one.weights), one.odds, list(one.sets), list(one.hours)) for one in above.published
                ]
                self.profiles["of", *group] = Profile(group, above.region, published=published)

    def settle(self, profile: Profile, kept: float, version: int) -> None:
        """Spread this sweep's changes over their hours, and let all counts decay."""
        weights = profile.published[version].weights
        for start, end, changes in profile.fresh:
            whole = math.fsum(weights[hour] * part for hour, part in pieces(start, end))
            for hour, part in pieces(start, end):
                profile.exposure[hour] += part
                profile.changes[hour] += changes * weights[hour] * part / whole
        profile.fresh = []
        profile.changes = [one * kept for one in profile.changes]
        profile.exposure = [one * kept for one in profile.exposure]

    def pool(self, profile: Profile) -> list[Profile]:
        """The profile and all below it."""
        if profile.group == ANYONE:
            return [one for one in self.profiles.values() if profile.region in ("", one.region)]
        size = len(profile.group)
        return [one for one in self.profiles.values() if one.group[:size] == profile.group]

    def publish_profile(self, profile: Profile, pooled: list[Profile], version: int) -> None:
        """Publish the version that pages use from the next sweep on."""
        above = self.above(profile)
        higher = above.published[version] if above else None
        changes = [math.fsum(one.changes[hour] for one in pooled) for hour in range(168)]
        exposure = [math.fsum(one.exposure[hour] for one in pooled) for hour in range(168)]
        share = higher.odds / (1.0 + higher.odds) if higher else 0.1
        seen = [probability for one in pooled for probability in one.scheduled]
        share = min(max((8.0 * share + sum(seen)) / (8.0 + len(seen)), 0.02), 0.98)
        beliefs = [belief for one in pooled for belief in one.beliefs]
        sets = [math.fsum(probability * own[i] for probability, own, _ in beliefs) for i in range(128)]
        hours = [math.fsum(probability * own[i] for probability, _, own in beliefs) for i in range(24)]
        profile.published[version] = Published(
            publish(higher, changes, exposure),
            share / (1.0 - share),
            [255, *blend(higher.sets if higher else first_sets(), sets)[1:]],
            blend(higher.hours if higher else [0] * 24, hours),
        )
