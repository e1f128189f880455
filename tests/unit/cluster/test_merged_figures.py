"""Figures of shards against those of one service that has done the same."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamsched.api.answers import CalibrationView, Sample, SignalSources
from streamsched.api.views import SourceReliability
from streamsched.cluster.merged_figures import LOOK_BACK, merge_calibrations, merge_samples, merge_sources
from streamsched.http.endpoints.reading import MOST_SOURCES, show_calibration
from streamsched.scheduler.monitoring import Reliability

EVERY_S = 5.0
FORECASTS = st.lists(st.tuples(st.floats(0.0, 1.0), st.booleans()), max_size=60)


def calibration(forecasts: list[tuple[float, bool]]) -> CalibrationView:
    probabilities, changed = [one for one, _ in forecasts], [one for _, one in forecasts]
    return show_calibration(Reliability.of(np.array(probabilities, np.float64), np.array(changed, np.bool_)))


@given(st.lists(FORECASTS, min_size=1, max_size=4))
def test_a_calibration_is_that_of_all_visits(shards: list[list[tuple[float, bool]]]) -> None:
    merged = merge_calibrations([calibration(one) for one in shards]).as_dict()
    whole = calibration([one for shard in shards for one in shard]).as_dict()
    assert merged.pop("bins") == [pytest.approx(one) for one in whole.pop("bins")]
    assert merged == pytest.approx(whole)


def sample(at_s: float, **fields: Any) -> Sample:
    values: dict[str, Any] = dict.fromkeys(Sample.__struct_fields__, 0)
    values |= dict.fromkeys(("lag", "outcomes_per_s", "hit_rate", "freshness", "calibration_error", "drifted"))
    values |= {"fetches": {}, "at_s": at_s, **fields}
    return Sample(**values)


@given(
    st.lists(st.tuples(st.floats(0.0, 100.0), st.lists(st.floats(5.0, 6.0), min_size=60, max_size=60)), min_size=1),
    st.integers(0, 400),
)
def test_samples_asked_for_in_parts_are_those_of_the_whole(shards: Any, since_s: int) -> None:
    taken = [
        [sample(at, applied=round(at), served=round(at), hits=3) for at in np.cumsum([start, *steps]).tolist()]
        for start, steps in shards
    ]
    whole = merge_samples(taken, EVERY_S, 0.0)
    newer = [[one for one in shard if one.at_s > since_s - LOOK_BACK * EVERY_S] for shard in taken]
    assert merge_samples(newer, EVERY_S, since_s) == [one for one in whole if one.at_s > since_s]
    first, last = max(one[0].at_s for one in taken), min(one[-1].at_s for one in taken)
    grid = np.arange(EVERY_S, 600.0, EVERY_S)
    assert [one.at_s for one in whole] == grid[(grid >= first) & (grid <= last)].tolist()
    for one in whole:
        assert one.applied == sum(max(each.applied for each in shard if each.at_s <= one.at_s) for shard in taken)


def test_a_merged_sample() -> None:
    """Counts are added up, freshness is that of the pages, and what one shard does not know is not known."""
    one = [
        sample(4.0, pages=30, served=4, hits=1, freshness=0.5, lag=3, outcomes_per_s=1.5, drifted=False),
        sample(8.0, pages=30, served=8, hits=2, freshness=0.5, lag=1, outcomes_per_s=1.5, image_age_s=9.0),
        sample(11.0, pages=40),
    ]
    other = [
        sample(3.0, lag=1, fetches={"gone": 1}),
        sample(9.0, pages=10, served=2, hits=1, freshness=0.9, lag=4, fetches={"gone": 3}, outcomes_per_s=2.0),
        sample(14.0, pages=99),
    ]
    first = sample(5.0, pages=30, served=4, hits=1, freshness=0.5, lag=4, fetches={"gone": 1}, drifted=False)
    rates = {"outcomes_per_s": 3.5, "hit_rate": 2 / 6, "freshness": pytest.approx(0.6)}
    last = sample(10.0, pages=40, served=10, hits=3, lag=5, fetches={"gone": 3}, image_age_s=9.0, **rates)
    assert merge_samples([one, other], EVERY_S, 0.0) == [first, last]
    assert merge_samples([one, []], EVERY_S, 0.0) == []


def source(kind: str, host: str | None, **fields: Any) -> SourceReliability:
    values: dict[str, Any] = dict.fromkeys(("signals", "pages", "checked", "changes"), 0)
    values |= {"precision": None, "recall": None, "lateness_s": 86_400.0, **fields}
    return SourceReliability(kind=kind, host=host, **values)


def test_sources_are_merged_by_name_and_shares_weighed_by_what_they_rest_on() -> None:
    one = [
        source("feed", None, signals=5, pages=2, precision=1.0, checked=2.0, recall=0.5, changes=8.0, lateness_s=60.0),
        source("feed", "a.example", signals=5),
        source("new", None),
    ]
    other = [
        source("sitemap", None, signals=1),
        source("feed", None, signals=9, pages=3, precision=0.5, checked=6.0, recall=1.0, changes=4.0, lateness_s=120.0),
        source("feed", "b.example", signals=9),
    ]
    merged = merge_sources([SignalSources(sources=one), SignalSources(sources=other)]).sources
    assert merged == [
        source(
            "feed", None, signals=14, pages=5, precision=0.625, checked=8.0, recall=2 / 3, changes=12.0, lateness_s=90.0
        ),
        source("feed", "b.example", signals=9),
        source("feed", "a.example", signals=5),
        source("new", None),
        source("sitemap", None, signals=1),
    ]


def test_the_sources_of_one_shard_stay_as_they_are() -> None:
    hosts = [source("feed", f"h{number}.example", signals=MOST_SOURCES - number) for number in range(MOST_SOURCES)]
    listed = SignalSources(sources=[source("feed", None, signals=9_000), *hosts])
    assert merge_sources([listed]) == listed
    more = SignalSources(sources=[source("feed", None), source("feed", "many.example", signals=10_000)])
    names = [one.host for one in merge_sources([listed, more]).sources]
    assert names == [None, "many.example", *(one.host for one in hosts[:-1])]
