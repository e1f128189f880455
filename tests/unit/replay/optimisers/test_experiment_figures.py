"""Figures of experiments: bands, curves without a label, bars of infinite length."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from matplotlib.axes import Axes

from streamsched.replay.confidence_intervals import band_over_runs, over_seeds
from streamsched.replay.palette import LineStyle
from streamsched.replay.reporting.curves import Axis, Bar, Curve, draw_bars, draw_curves

SOLID = LineStyle("blue")


def test_bands_are_the_intervals_of_each_point(monkeypatch: pytest.MonkeyPatch) -> None:
    drawn: list[Any] = []
    monkeypatch.setattr(Axes, "fill_between", lambda *given, **_: drawn.extend(given[1:4]))
    runs = np.array([[1.0, 5.0], [2.0, 5.5], [3.0, 9.0]])
    mean, half_width = band_over_runs(runs)
    for point in range(2):
        estimate = over_seeds(runs[:, point].tolist())
        assert (mean[point], half_width[point]) == pytest.approx((estimate.value, estimate.half_width))
    x = np.array([0.0, 1.0])
    draw_curves("a", "A", Axis("x", "y"), [Curve("one", SOLID, x, mean, half_width), Curve("", SOLID, x, mean)])
    assert [one.tolist() for one in drawn] == [x.tolist(), (mean - half_width).tolist(), (mean + half_width).tolist()]


def test_a_single_run_has_no_band_and_a_curve_without_label_no_legend() -> None:
    mean, half_width = band_over_runs(np.array([[1.0, 2.0]]))
    assert mean.tolist() == [1.0, 2.0]
    assert np.isnan(half_width).all()
    drawn = draw_curves(
        "a", "A", Axis("x", "y"), [Curve("one", SOLID, mean, mean, half_width), Curve("", SOLID, mean, mean)]
    )
    assert "fill-opacity: 0.2" not in drawn
    assert "y by x: one." in drawn


def test_an_infinite_bar_is_longer_than_the_others_and_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    lengths: list[float] = []
    original = Axes.barh

    def note(axes: Axes, place: float, length: float, **more: Any) -> Any:
        lengths.append(length)
        return original(axes, place, length, **more)

    monkeypatch.setattr(Axes, "barh", note)
    drawn = draw_bars("a", "A", Axis("cost", ""), [Bar("one", 2.0, "sky"), Bar("two", np.inf, "sky")])
    assert lengths[0] == 2.0
    assert np.isfinite(lengths[1])
    assert lengths[1] > 2.0
    assert ">infinite<" in drawn
