"""Arguments of the public interface: a value of a wrong kind that may pass unseen is an error that names them."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import streamsched
from streamsched import (
    DurableScheduler,
    InvalidOutcome,
    Outcome,
    OutcomeBatch,
    Scheduler,
    SettingsError,
    StreamschedError,
    replay,
)
from streamsched.outcomes import STATUSES, StatusWord
from tests.support.wrong_arguments import CASES, COLUMNS, URLS, WRONG, Case, Place


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    folder = tmp_path_factory.mktemp("arguments")
    scheduler = Scheduler()
    scheduler.discover(URLS, now=0.0)
    log = replay.synthesize(replay.SyntheticSettings(pages=9, days=2))
    with DurableScheduler.open(folder / "state") as durable:
        durable.discover(URLS, now=0.0)
        yield Place(scheduler, durable, folder, log)


@pytest.mark.parametrize("one", CASES, ids=str)
def test_wrong_values_are_errors_that_name_the_argument(
    one: Case, place: Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)  # nothing may be written to a path that was made of a wrong value
    for name in [name for name in WRONG if name not in one.valid]:
        with pytest.raises((StreamschedError, TypeError, ValueError)) as caught:
            pytest.fail(f"{name} was accepted: {one.call(place, WRONG[name]())!r}")
        shown = str(caught.value)
        is_formula = isinstance(caught.value, streamsched.FormulaError) and name == "text"
        assert is_formula or one.argument.removesuffix("_s").rstrip("s") in shown, name
    assert list(tmp_path.iterdir()) == []


PUBLIC = [getattr(streamsched, name) for name in streamsched.__all__]
RESULTS = {
    "Batch",
    "Explanation",
    "Granted",
    "HostPage",
    "HostView",
    "Discovered",
    "Noticed",
    "Observed",
    "PageView",
    "Reason",
    "ReasonCode",
    "RulesView",
    "SourceReliability",
    "SurgeView",
    "WeekView",
}  # made by the library
ERRORS = {kind.__name__ for kind in PUBLIC if isinstance(kind, type) and issubclass(kind, Exception)}
UNCHECKED = {
    "core", "end", "feed", "breed", "newest_s",  # of constructors that are not called, and test seams
    "self", "optional", "state", "rows", "kind", "error", "trace", "events", "names",
    "latest_s",  # of streams: a number that the service has checked
    "trigger",  # a Literal, which a type checker checks
    "settings", "plan", "clock", "records", "batch", "observed", "log", "batches", "parts", "columns", "ranges",
    "wait", "full", "positions",  # other objects and flags that it checks
}  # fmt: skip


def test_every_public_argument_has_a_case() -> None:
    """So that a new one is not forgotten."""
    covered = {one.argument for one in CASES}
    missing: list[tuple[str, str, str]] = []
    for kind in PUBLIC:
        if kind.__name__ in RESULTS | ERRORS:
            continue
        members = [
            kind,
            *(member for name, member in inspect.getmembers(kind, callable) if name.islower() and name[0] != "_"),
        ]
        for member in members if isinstance(kind, type) else [kind]:
            names = set(inspect.signature(member).parameters) - UNCHECKED - covered
            missing += [(kind.__name__, getattr(member, "__name__", "?"), name) for name in sorted(names)]
    assert missing == []


@pytest.mark.parametrize(
    ("settings", "named"),
    [
        ({"panel": 0.95}, "new_share"),
        ({"panel": 0.6, "new_share": 0.5}, "new_share"),
    ],
)
def test_shares_are_at_most_the_whole_batch(settings: dict[str, float], named: str) -> None:
    with pytest.raises(SettingsError) as caught:
        Scheduler(**settings)  # type: ignore[arg-type]
    assert caught.value.setting == named
    assert all(name in str(caught.value) for name, share in settings.items() if share)


def test_shares_may_be_the_whole_batch() -> None:
    assert Scheduler(panel=0.9, new_share=0.1).core.panel.share == 0.9


@pytest.mark.parametrize("share", [0.0, 2, -0.5, 1.0000001])
def test_known_cycles_takes_a_share(share: float) -> None:
    with pytest.raises(SettingsError) as caught:
        Scheduler().core.known_cycles(now=0.0, share=share)
    assert caught.value.setting == "share"


@pytest.mark.parametrize(
    "values", [np.array([1.0, 2.0]), [1.0, 2.0], np.array([2.0**60, 3.0]), np.array([True, False])]
)
def test_fingerprints_are_whole_numbers(values: Any) -> None:
    with pytest.raises(InvalidOutcome) as caught:
        OutcomeBatch(URLS, [1.0, 2.0], fingerprint=values)
    assert (caught.value.record, caught.value.field) == (0, "fingerprint")


@pytest.mark.parametrize("field", ["fetched_at", *COLUMNS])
def test_masks_are_not_lost(field: str) -> None:
    masked = np.ma.masked_array([1, 1], [False, True])
    columns: dict[str, Any] = {"fetched_at": [1.0, 2.0]} | {field: masked}
    with pytest.raises(InvalidOutcome) as caught:
        OutcomeBatch(URLS, **columns)
    assert (caught.value.record, caught.value.field) == (1, field)


@pytest.mark.parametrize("word", STATUSES)
def test_codes_of_words_are_for_arrays_only(word: StatusWord) -> None:
    with pytest.raises(InvalidOutcome) as caught:
        Outcome(URLS[0], 1.0, STATUSES[word].code)
    assert caught.value.field == "status"
    batch = OutcomeBatch(URLS, [1.0, 2.0], status=np.array([STATUSES[word].code, 200], np.int32))
    assert [outcome.status for outcome in batch] == [word, 200]
    assert list(OutcomeBatch(URLS, [1.0, 2.0], status=[word, None])) == [
        Outcome(URLS[0], 1.0, word),
        Outcome(URLS[1], 2.0),
    ]
