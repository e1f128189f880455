"""The figures of the README are those of docs/benchmarks.md, which `make bench` writes."""

from __future__ import annotations

import re

import pytest

from benchmarks import demo_table
from benchmarks.report import MOST_HEADLINES, PAGE, README, Row, durations, quote, replace_quote, replace_section, table

_NAMES = ("first", "second")


def test_the_readme_quotes_the_page_of_benchmarks_and_no_more() -> None:
    readme, page = README.read_text(encoding="utf-8"), PAGE.read_text(encoding="utf-8")
    assert replace_quote(readme, page) == readme
    assert 1 <= quote(page).count("\n") - 2 <= MOST_HEADLINES
    section = readme[readme.index("## Benchmarks") :].partition("\n## ")[0].replace(quote(page), "")
    assert re.findall(r"\d", section) == [], "figures beside those of the page"
    assert readme.count("\n") <= 200


def test_a_section_is_replaced_in_the_order_of_the_table() -> None:
    page = replace_section("", "second", table([Row("b", "2", headline=True)]), _NAMES)
    page = replace_section(page, "first", table([durations("a", 0.001, 0.5)]), _NAMES)
    assert replace_section(page, "second", table([Row("b", "2", headline=True)]), _NAMES) == page
    assert re.findall(r"^## (.*)$", page, re.MULTILINE) == list(_NAMES)
    assert "| a | 1 ms | 500 ms | 500× |\n" in page
    assert quote(page).endswith("| --- |\n| b | 2 | – | – |\n")


def test_a_readme_without_the_markers_is_refused() -> None:
    with pytest.raises(ValueError, match="put them around"):
        replace_quote("# streamsched\n", "")


def test_the_table_of_the_demo_is_replaced() -> None:
    figures = {name: {"value": 7.25, "low": 6.0, "high": 8.0} for name, _ in demo_table._FIGURES}
    table = demo_table.make_table({name: {"figures": figures} for name in demo_table._POLICIES})
    readme = demo_table.replace_table(README.read_text(encoding="utf-8"), table)
    assert "oracle    7.250 ±1.000 7.250 ±1.000 7.250 ±1.000  7.2 ±1.0   7.2 ±1.0\n```" in readme
    assert readme.count("\n") == README.read_text(encoding="utf-8").count("\n")
    with pytest.raises(ValueError, match="one table"):
        demo_table.replace_table("# streamsched\n", table)
