"""The experiment's report: one file, well formed, with every figure, that fetches nothing and escapes what it must."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from typing import Any

import numpy as np
import pytest
from matplotlib.axes import Axes

from streamsched.numerics.arrays import Floats
from streamsched.replay.gp4c import ProtocolResult
from streamsched.replay.gp4c.protocol_report import render_protocol
from tests.support.gp4c_logs import flat, made_result

VOID = {"meta", "input", "br", "wbr"}


@pytest.fixture(scope="module")
def result() -> ProtocolResult:
    return made_result("/logs/<script>&.tsv", GP4C_All=flat(0.6, 0.7, 0.6, 0.6, 0.7), nad=flat(0.5))


@pytest.fixture(scope="module")
def page(result: ProtocolResult) -> str:
    return render_protocol(result)


class Reader(HTMLParser):
    """Collects tags; fails where they do not close in the order they opened."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.seen: list[str] = []
        self.attributes: list[tuple[str, str | None]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_startendtag(tag, attrs)
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen.append(tag)
        self.attributes += attrs

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag, tag


def test_the_page_is_well_formed_and_holds_every_figure_and_table(page: str) -> None:
    reader = Reader()
    reader.feed(page)
    assert reader.open == []
    assert reader.seen.count("figure") == 2 + 2 + 2 + 1 + 2  # figures 4, 3, 5, 6 and the learning curves
    assert reader.seen.count("table") == 5  # the claim, table 2, table 3 by metric, table 4
    assert "script" not in reader.seen
    assert not any(name.startswith("on") for name, _ in reader.attributes)
    assert page.count("The claim that GP4C_All beats NAD holds on this log") == 1


def test_intervals_of_shares_stay_between_0_and_1(monkeypatch: pytest.MonkeyPatch) -> None:
    def note(*given: Any, **_: object) -> None:
        drawn.extend(given[2:4])

    drawn: list[Floats] = []
    monkeypatch.setattr(Axes, "vlines", note)
    render_protocol(made_result(GP4C_All=flat(0.0, 0.0, 1.0, 1.0, 0.0)))
    assert min(float(np.nanmin(one)) for one in drawn) == 0.0
    assert max(float(np.nanmax(one)) for one in drawn) == 1.0


def test_nothing_is_fetched_from_anywhere(page: str) -> None:
    assert "//" not in page.replace("<!DOCTYPE html>", "")
    assert all(target.startswith("#") for target in re.findall(r"url\(([^)]*)\)", page))
    assert all(target.startswith("#") for target in re.findall(r'(?:href|src)="([^"]*)"', page))


def test_every_reference_within_the_page_has_one_target(page: str) -> None:
    names = re.findall(r' id="([^"]*)"', page)
    assert len(names) == len(set(names))
    wanted = set(re.findall(r'href="#([^"]*)"', page)) | set(re.findall(r"url\(#([^)]*)\)", page))
    assert wanted <= set(names)


def test_names_and_formulas_are_escaped(page: str) -> None:
    assert "&lt;script&gt;&amp;.tsv" in page
    assert "t * X + 4 &lt; &amp;" in page


def test_every_method_of_figure_4_has_a_box_that_hides_its_lines(page: str, result: ProtocolResult) -> None:
    for place, name in enumerate(result.methods()):
        lines = 0 if name in ("rand", "age") else 2
        assert page.count(f'class="p{place}"') == lines
        assert (f'id="show-{place}" checked' in page) == bool(lines)


def test_no_colour_is_left_that_dark_mode_could_not_change(page: str) -> None:
    figures = "".join(re.findall(r"<figure>.*?</figure>", page, re.DOTALL))
    assert re.findall(r"#[0-9a-fA-F]{6}\b", re.sub(r'(href="|url\()#\w+', "", figures)) == []


def test_the_same_result_gives_the_same_bytes(page: str, result: ProtocolResult) -> None:
    assert render_protocol(result) == page
