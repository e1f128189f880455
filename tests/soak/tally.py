"""Counts the cases of each attack while they run: progress on a terminal, a table at the end, or JSON."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.table import Table


@dataclass
class Attack:
    """What became of one attack: cases tried, seconds in all, and a text for each case that found something."""

    tried: int = 0
    seconds: float = 0.0
    findings: dict[str, str] = field(default_factory=dict)


class Tally:
    """A plugin of pytest, for the process that starts the workers. ``attacks``: by the test's name, with blanks."""

    def __init__(self, console: Console) -> None:
        self.attacks: defaultdict[str, Attack] = defaultdict(Attack)
        self.errors: list[str] = []
        self.seconds = 0.0
        self._started = time.monotonic()
        columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
        self._progress = Progress(*columns, TimeRemainingColumn(), console=console)
        self._task = self._progress.add_task("collecting", total=None)

    @pytest.hookimpl(optionalhook=True)
    def pytest_xdist_node_collection_finished(self, ids: Sequence[str]) -> None:
        self._progress.start()
        self._progress.update(self._task, total=len(ids))

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        if report.failed:
            self.errors = list(dict.fromkeys([*self.errors, report.longreprtext]))  # each worker collects

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        name = name_of(report.nodeid)
        attack = self.attacks[name]
        attack.seconds += report.duration
        if report.when == "call" or report.failed:
            attack.tried += report.nodeid not in attack.findings
            self._progress.update(self._task, description=name, advance=1)
        if report.failed:
            attack.findings[report.nodeid] = report.longreprtext

    def pytest_sessionfinish(self) -> None:
        self.seconds = time.monotonic() - self._started
        self._progress.stop()

    def to_json(self) -> dict[str, Any]:
        """Return the attacks, their findings and the seconds as JSON values."""
        rows = [
            {"attack": name, "tried": one.tried, "findings": sorted(one.findings), "seconds": round(one.seconds, 1)}
            for name, one in sorted(self.attacks.items())
        ]
        return {"attacks": rows, "errors": self.errors, "seconds": round(self.seconds, 1)}

    def show(self, console: Console, again: str) -> None:
        """Print each finding and how to repeat it (`again`, before the case), then the table."""
        for text in self.errors:
            console.print(text, markup=False, highlight=False, soft_wrap=True)
        for attack in self.attacks.values():
            for case, text in attack.findings.items():
                console.rule(case)
                shown = f"{text}\nto repeat it: {again} '{case}'"
                console.print(shown, markup=False, highlight=False, soft_wrap=True)
        table = Table("attack", "tried", "findings", "seconds", title=None)
        for column in table.columns[1:]:
            column.justify = "right"
        for name, one in sorted(self.attacks.items()):
            table.add_row(name, f"{one.tried:,}", f"{len(one.findings):,}", f"{one.seconds:,.0f}")
        table.add_section()
        tried = sum(one.tried for one in self.attacks.values())
        found = sum(len(one.findings) for one in self.attacks.values())
        table.add_row("all", f"{tried:,}", f"{found:,}", f"{self.seconds:,.0f} elapsed")
        console.print(table)


def name_of(nodeid: str) -> str:
    """Return the name of a test, with blanks.

    >>> name_of("tests/soak/test_damaged_files.py::test_flipped_byte[7]")
    'flipped byte'
    """
    return nodeid.rpartition("::")[2].partition("[")[0].removeprefix("test_").replace("_", " ")
