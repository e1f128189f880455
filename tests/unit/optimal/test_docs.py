"""The examples of docs/optimal.md."""

from __future__ import annotations

import doctest

from tests.support.paths import ROOT


def test_examples_of_the_page() -> None:
    result = doctest.testfile(str(ROOT / "docs" / "optimal.md"), module_relative=False)
    assert result.attempted > 20
    assert result.failed == 0
