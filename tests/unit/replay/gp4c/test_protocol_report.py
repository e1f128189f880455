"""The experiment's report: one file, well formed, with every figure, that fetches nothing and escapes what it must."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from matplotlib.axes import Axes

from streamsched.numerics.arrays import Floats
from streamsched.replay.gp4c import ProtocolResult
from streamsched.replay.gp4c.protocol_report import render_protocol
from tests.support.gp4c_logs import flat, made_result
from tests.support.html_reader import check_colours, check_self_contained, read_html


@pytest.fixture(scope="module")
def result() -> ProtocolResult:
    return made_result("/logs/<script>&.tsv", GP4C_All=flat(0.6, 0.7, 0.6, 0.6, 0.7), nad=flat(0.5))


@pytest.fixture(scope="module")
def page(result: ProtocolResult) -> str:
    return render_protocol(result)


def test_the_page_is_well_formed_and_holds_every_figure_and_table(page: str) -> None:
    reader = read_html(page)
    assert reader.seen.count("figure") == 2 + 2 + 2 + 1 + 2  # figures 4, 3, 5, 6 and the learning curves
    assert reader.seen.count("table") == 5  # the claim, table 2, table 3 by metric, table 4
    assert len(reader.tables[0]) == 1 + 8  # two methods and metrics against NAD and the posterior
    assert reader.tables[0][1][-1] == "confirmed"


def test_intervals_of_shares_stay_between_0_and_1(monkeypatch: pytest.MonkeyPatch) -> None:
    def note(*given: Any, **_: object) -> None:
        drawn.extend(given[2:4])

    drawn: list[Floats] = []
    monkeypatch.setattr(Axes, "vlines", note)
    render_protocol(made_result(GP4C_All=flat(0.0, 0.0, 1.0, 1.0, 0.0)))
    assert min(float(np.nanmin(one)) for one in drawn) == 0.0
    assert max(float(np.nanmax(one)) for one in drawn) == 1.0


def test_the_page_needs_nothing_else_and_follows_dark_mode(page: str) -> None:
    check_self_contained(page)
    check_colours(page)


def test_names_and_formulas_are_escaped(page: str) -> None:
    assert "&lt;script&gt;&amp;.tsv" in page
    assert "t * X + 4 &lt; &amp;" in page


def test_every_method_of_figure_4_has_a_box_that_hides_its_lines(page: str, result: ProtocolResult) -> None:
    for place, name in enumerate(result.methods()):
        lines = 0 if name in ("rand", "age") else 2
        assert page.count(f'class="p{place}"') == lines
        assert (f'id="show-{place}" checked' in page) == bool(lines)


def test_the_same_result_gives_the_same_bytes(page: str, result: ProtocolResult) -> None:
    assert render_protocol(result) == page
