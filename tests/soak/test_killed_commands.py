"""kill -9 of the commands that open a state: pages that one printed are printed by no other, and the state is sound."""

from __future__ import annotations

import random
from collections.abc import Iterator
from multiprocessing.context import ForkServerContext
from pathlib import Path

import pytest

from tests.soak.orderly import call
from tests.support.cases import how_many
from tests.support.child_processes import warm_forkserver
from tests.support.command_line import NOW, crawl, write
from tests.support.killed_run import kill_after

KILLS = how_many(4, 12)
FORMULAS = ["t", "posterior", "rate * t", "1"]


@pytest.fixture(scope="module")
def processes() -> Iterator[ForkServerContext]:
    with warm_forkserver("tests.support.killed_run") as context:
        yield context


class Chain:
    """Commands on one state, most of them killed."""

    def __init__(self, processes: ForkServerContext, folder: Path) -> None:
        self.processes = processes
        self.folder = folder
        self.source = write(folder / "outcomes.jsonl", crawl(200, 4))
        self.printed: list[str] = []
        self.formulas = [FORMULAS[0]]  # the last one that was acknowledged, and those that may have come after it

    def do(self, rng: random.Random) -> bool:
        """Run a command and perhaps kill it; return whether it was killed."""
        formula = rng.choice(FORMULAS)
        name = rng.choice(["next", "next", "next", "use", "export", "verify", "run"])
        words = {
            "next": ["next", "-k", "5", "--lease", "99d", "--now", str(NOW)],
            "use": ["use", formula],
            "export": ["state", "export", "--to", str(self.folder / "pages.arrow")],
            "verify": ["state", "verify"],
            "run": ["run", "--source", str(self.source), "--set", "save.every=1ms"],
        }[name]
        result = self.folder / "result"
        ended = kill_after(self.processes, [*words, "--state", str(self.folder / "state")], result, rng.random() * 0.2)
        said = result.read_text() if result.exists() else ""
        if name == "next":
            self.printed += [line for line in said.splitlines(keepends=True) if line.endswith("\n")]
        if name == "use":
            self.formulas = [formula] if ended == 0 else [*self.formulas, formula]
        assert ended in (None, 0), result.with_suffix(".err").read_text()
        return ended is None


@pytest.mark.cases(ordinary=1, whole=21)
def test_killed_a_dozen_times(processes: ForkServerContext, tmp_path: Path, rng: random.Random) -> None:
    chain = Chain(processes, tmp_path)
    state = tmp_path / "state"
    assert call("run", "--source", chain.source, "--state", state, "--formula", FORMULAS[0]).code == 0
    killed = 0
    while killed < KILLS:
        killed += chain.do(rng)
    assert len(set(chain.printed)) == len(chain.printed)
    assert call("state", "verify", "--state", state).code == 0
    assert call("state", "show", "--state", state, "--json").json["formula"] in chain.formulas
    rest = call("next", "--state", state, "-k", "999", "--now", str(NOW)).lines
    assert not set(rest) & {line.rstrip("\n") for line in chain.printed}
