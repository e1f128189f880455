"""Idempotency keys: the same call returns the same batch until its leases expire."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from streamsched import Batch, DurableScheduler, KeyReusedError, Outcome, SavePlan, Scheduler, SettingsError
from streamsched.reasons import ReasonCode
from streamsched.scheduler.batches import batch_requests
from streamsched.scheduler.batches.batch_requests import BatchKeys, KeptBatch
from tests.support.handout import drawing

NEVER = SavePlan(every=1e9)
URLS = [f"https://{'abc'[i % 3]}.example/{i}" for i in range(12)]
NOW = 1_000.0


def fill(scheduler: Scheduler) -> None:
    scheduler.observe([Outcome(url, float(i), importance=float(i % 5 + 1)) for i, url in enumerate(URLS)])


def plain(batch: Batch) -> tuple[object, ...]:
    columns = (batch.scores.tolist(), batch.tiers.tolist(), batch.probabilities.tolist(), batch.rows.tolist())
    return (batch.urls, *columns, batch.hosts, batch.reasons, batch.now, batch.lease_until_s, batch.panel)


def kept(arguments: str, until_s: float, pages: int = 1, now: float = 0.0) -> KeptBatch:
    zeros = np.zeros(pages, np.uint8)
    columns = (np.arange(pages), np.ones(pages), zeros, np.zeros(pages), zeros)
    return KeptBatch(arguments, now, until_s, 0, ("in_batch_by_score",), *columns)


def test_same_key_returns_the_same_batch() -> None:
    scheduler = drawing(0.1, Scheduler(panel=0.2, new_share=0.1))
    fill(scheduler)
    first = scheduler.next_batch(4, now=NOW, lease=60.0, key="k", per_host=2)
    digest = scheduler.digest()
    scheduler.observe([Outcome(first.urls[0], NOW + 1.0, changed=True)])
    again = scheduler.next_batch(4, now=NOW + 59.0, lease="60s", key="k", per_host=2)
    assert (first.repeated, again.repeated) == (False, True)
    assert plain(again) == plain(first)
    assert scheduler.digest() != digest  # by the outcome
    others = scheduler.next_batch(100, now=NOW + 59.0)
    assert set(others.urls).isdisjoint(first.urls[1:])


def test_a_repeated_batch_changes_nothing() -> None:
    scheduler = Scheduler()
    fill(scheduler)
    scheduler.next_batch(4, now=NOW, key="k")
    digest = scheduler.digest()
    scheduler.next_batch(4, now=NOW + 300.0, key="k")
    assert scheduler.digest() == digest


@pytest.mark.parametrize(
    "other", [{"k": 5}, {"lease": 61.0}, {"hosts": ["a.example"]}, {"hosts": []}, {"per_host": 3}, {"per_host": None}]
)
def test_same_key_with_other_arguments_is_refused(other: dict[str, object]) -> None:
    scheduler = Scheduler()
    fill(scheduler)
    asked: dict[str, object] = {"k": 4, "lease": 60.0, "per_host": 2, "key": "k"}
    scheduler.next_batch(now=NOW, **asked)  # type: ignore[arg-type]
    digest = scheduler.digest()
    with pytest.raises(KeyReusedError) as caught:
        scheduler.next_batch(now=NOW + 1.0, **asked | other)  # type: ignore[arg-type]
    assert (caught.value.key, caught.value.until_s, caught.value.code) == ("k", NOW + 60.0, "key_reused")
    assert scheduler.digest() == digest
    assert len(scheduler.next_batch(now=NOW + 60.0, **asked | other)) <= 5  # type: ignore[arg-type]


def test_hosts_are_the_same_however_they_are_written() -> None:
    scheduler = Scheduler()
    fill(scheduler)
    first = scheduler.next_batch(4, now=NOW, hosts=["B.example", "a.example"], key="k")
    again = scheduler.next_batch(4, now=NOW, hosts=("a.example", "b.example", "a.example"), key="k")
    assert again.repeated
    assert again.urls == first.urls


def test_an_expired_key_is_forgotten() -> None:
    scheduler = Scheduler()
    fill(scheduler)
    first = scheduler.next_batch(4, now=NOW, lease=60.0, key="k")
    again = scheduler.next_batch(4, now=NOW + 60.0, lease=60.0, key="k")
    assert not again.repeated
    assert again.lease_until_s == NOW + 120.0
    scheduler.next_batch(0, now=NOW + 120.0)
    assert scheduler.core.keys.to_json() == []
    assert first.lease_until_s == NOW + 60.0


def test_an_empty_batch_has_its_key_too() -> None:
    scheduler = Scheduler()
    assert scheduler.next_batch(4, now=NOW, lease=60.0, key="k").urls == []
    fill(scheduler)
    assert scheduler.next_batch(4, now=NOW + 1.0, lease=60.0, key="k").urls == []
    assert len(scheduler.next_batch(4, now=NOW + 1.0, lease=60.0, key="other")) == 4


@pytest.mark.parametrize("key", ["", "k" * 129, "a\nb", "\x7f", "\ud800"])
def test_keys_are_short_and_printable(key: object) -> None:
    with pytest.raises(SettingsError) as caught:
        Scheduler().next_batch(1, now=NOW, key=key)  # type: ignore[arg-type]
    assert caught.value.setting == "key"


def test_a_batch_is_the_same_after_a_crash_and_after_a_save(tmp_path: Path) -> None:
    with DurableScheduler.open(tmp_path, plan=NEVER) as scheduler:
        fill(scheduler)
        first = scheduler.next_batch(4, now=NOW, lease="1h", key="k", hosts=["*.example"])
        scheduler.next_batch(2, now=NOW + 1.0, lease="1s", key="short")
        digest = scheduler.digest()
        scheduler.close(save=False)
    for save in (True, False):
        with DurableScheduler.open(tmp_path, plan=NEVER) as scheduler:
            assert scheduler.digest() == digest
            again = scheduler.next_batch(4, now=NOW + 600.0, lease="1h", key="k", hosts=["*.example"])
            assert plain(again) == plain(first)
            with pytest.raises(KeyReusedError):
                scheduler.next_batch(5, now=NOW + 600.0, lease="1h", key="k", hosts=["*.example"])
            scheduler.close(save=save)


def test_a_repeated_batch_is_not_logged(tmp_path: Path) -> None:
    with DurableScheduler.open(tmp_path, plan=NEVER) as scheduler:
        fill(scheduler)
        scheduler.next_batch(4, now=NOW, key="k")
        number = scheduler._log.sequence
        scheduler.next_batch(4, now=NOW, key="k")
        assert scheduler._log.sequence == number


def test_the_oldest_keys_beyond_the_bound_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batch_requests, "_MOST_KEYS", 3)
    monkeypatch.setattr(batch_requests, "_MOST_PAGES", 10)
    keys = BatchKeys()

    def names() -> list[str]:
        return [one["key"] for one in keys.to_json()]

    for number, until_s in enumerate([9.0, 5.0, 7.0, 8.0]):
        keys.keep(str(number), kept("", until_s))
    assert names() == ["1", "2", "3"]
    keys.keep("large", kept("", 6.0, pages=9))
    assert names() == ["3", "large"]
    keys.keep("0", kept("", 20.0))
    assert names() == ["large", "0"]
    keys.forget(9.0)  # when the first batch of this key would have expired
    assert names() == ["0"]
    keys.keep("huge", kept("", 10.0, pages=11))
    assert names() == ["huge"]  # one is always kept


def test_keys_of_the_future_are_mended() -> None:
    keys = BatchKeys()
    keys.keep("early", kept("", 50.0, now=10.0))
    keys.keep("late", kept("", 90.0, now=60.0))
    assert keys.forget_later(30.0) == 1
    assert keys.find("late", "", 0.0) is None
    assert keys.find("early", "", 0.0) is not None
    keys.forget(50.0)
    assert keys.to_json() == []


def test_a_kept_batch_is_restored_as_it_was() -> None:
    keys, again = BatchKeys(), BatchKeys()
    keys.keep("k", kept("digest", 50.0, pages=3))
    again.restore(keys.to_json())
    found = again.find("k", "digest", 0.0)
    assert found is not None
    assert found.reasons == [ReasonCode.IN_BATCH_BY_SCORE] * 3
    assert again.to_json() == keys.to_json()
