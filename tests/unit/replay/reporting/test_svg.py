"""Figures as parts of an HTML page: what is stripped and shortened, and what stays as drawn."""

from __future__ import annotations

import re

import matplotlib as mpl
from matplotlib.figure import Figure

from streamsched.replay.reporting.svg import RC_PARAMS, to_svg


def test_coordinates_are_shortened_and_labels_are_not() -> None:
    with mpl.rc_context(RC_PARAMS):
        figure = Figure(figsize=(3, 2))
        axes = figure.subplots()
        axes.plot([0, 1, 2], [0.6912345, 0.695, 0.6987654])
        axes.set_yticks([0.6925, 0.695], ["0.6925", "0.6950"])
        svg = to_svg(figure, "a")
    assert ">0.6925<" in svg
    assert ">0.6950<" in svg
    assert re.search(r'd="[^"]*\d\.\d\d\b', svg)
    assert not re.search(r'd="[^"]*\d\.\d{3,}', svg)


def test_ticks_close_together_show_what_they_stand_for() -> None:
    with mpl.rc_context(RC_PARAMS):
        figure = Figure(figsize=(3, 2))
        axes = figure.subplots()
        axes.plot([0, 1], [1000.001, 1000.004])
        svg = to_svg(figure, "a")
    assert len(re.findall(r">1000\.00\d+<", svg)) >= 3
    assert ">+1" not in svg
