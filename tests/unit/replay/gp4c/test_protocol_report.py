"""The experiment's report: which lines can be hidden, intervals of shares, and formulas as they are."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from matplotlib.axes import Axes

from streamsched.numerics.arrays import Floats
from streamsched.replay import render_report
from streamsched.replay.gp4c import ProtocolResult, report_protocol
from tests.support.gp4c_logs import flat, made_result
from tests.support.html_reader import read_html


@pytest.fixture(scope="module")
def result() -> ProtocolResult:
    return made_result("/logs/<script>&.tsv", GP4C_All=flat(0.6, 0.7, 0.6, 0.6, 0.7), nad=flat(0.5))


@pytest.fixture(scope="module")
def page(result: ProtocolResult) -> str:
    return render_report(report_protocol(result))


def test_intervals_of_shares_stay_between_0_and_1(monkeypatch: pytest.MonkeyPatch) -> None:
    def note(*given: Any, **_: object) -> None:
        drawn.extend(given[2:4])

    drawn: list[Floats] = []
    monkeypatch.setattr(Axes, "vlines", note)
    render_report(report_protocol(made_result(GP4C_All=flat(0.0, 0.0, 1.0, 1.0, 0.0))))
    assert min(float(np.nanmin(one)) for one in drawn) == 0.0
    assert max(float(np.nanmax(one)) for one in drawn) == 1.0


def test_the_claims_are_first_and_formulas_are_escaped(page: str) -> None:
    claims = read_html(page).tables[0]
    assert len(claims) == 1 + 8  # two methods and metrics against NAD and the posterior
    assert claims[1][-1] == "confirmed"
    assert "t * X + 4 &lt; &amp;" in page
