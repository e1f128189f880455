"""Signals: what a record may hold, columns, and what is wrong with those that break the format."""

from __future__ import annotations

import math

import numpy as np
import pytest

from streamsched.errors import InvalidSignal
from streamsched.signals import Signal, SignalBatch


def test_columns_hold_what_signals_hold() -> None:
    signals = [Signal("https://a.example/", 1.0, "sitemap"), Signal("https://b.example/", 2.5, "feed", 0.25)]
    batch = SignalBatch.from_signals(signals)
    assert list(batch) == signals
    assert batch.names == ("sitemap", "feed")
    assert list(batch.take(np.array([1]))) == signals[1:]


def test_names_with_positions_and_one_name_for_all() -> None:
    urls = ["https://a.example/", "https://a.example/b"]
    by_position = SignalBatch(urls, [1.0, 2.0], np.array([1, 0], np.uint8), names=["feed", "sitemap"])
    assert [signal.source for signal in by_position] == ["sitemap", "feed"]
    assert [signal.source for signal in SignalBatch(urls, [1.0, 2.0], "feed")] == ["feed", "feed"]


@pytest.mark.parametrize(
    ("field", "values"),
    [
        ("url", ("", 1.0, "feed", None)),
        ("url", ("x" * 8193, 1.0, "feed", None)),
        ("at", ("https://a.example/", math.nan, "feed", None)),
        ("source", ("https://a.example/", 1.0, "", None)),
        ("source", ("https://a.example/", 1.0, "f" * 65, None)),
        ("source", ("https://a.example/", 1.0, "a\nb", None)),
        ("source", ("https://a.example/", 1.0, "\ud800", None)),
        ("significance", ("https://a.example/", 1.0, "feed", 1.5)),
        ("significance", ("https://a.example/", 1.0, "feed", math.nan)),
    ],
)
def test_a_signal_that_breaks_the_format_is_refused_by_name(
    field: str, values: tuple[str, float, str, float | None]
) -> None:
    with pytest.raises(InvalidSignal) as error:
        Signal(*values)
    assert (error.value.record, error.value.field) == (0, field)


def test_problems_names_each_faulty_signal_once_in_order() -> None:
    urls = ["https://a.example/", "", "https://c.example/", "https://d.example/"]
    batch = SignalBatch(urls, [1.0, math.inf, math.nan, 1e12], "feed", [None, 2.0, None, None])
    assert [(problem.record, problem.field) for problem in batch.problems()] == [(1, "url"), (2, "at"), (3, "at")]


def test_columns_that_do_not_fit_together_are_refused() -> None:
    with pytest.raises(InvalidSignal) as error:
        SignalBatch([3], [1.0], "feed")  # type: ignore[list-item]
    assert error.value.field == "url"
    with pytest.raises(ValueError, match="source"):
        SignalBatch(["https://a.example/"], [1.0], ["feed", "feed"])
    with pytest.raises(ValueError, match="source"):
        SignalBatch(["https://a.example/"], [1.0], np.array([1], np.uint8), names=["feed"])
    with pytest.raises(InvalidSignal) as error:
        SignalBatch(["https://a.example/"], [None], "feed")  # type: ignore[arg-type]
    assert error.value.field == "at"
    with pytest.raises(ValueError, match="source"):
        SignalBatch(["https://a.example/"], [1.0], np.array([-1]), names=["feed"])
