"""The first programs of a fresh installation: nothing is compiled, two start at once, and `warm` compiles ahead."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from streamsched.numerics.compilation.notices import FIRST_WORDS
from tests.support.command_line import finish, start
from tests.support.paths import ROOT

PROGRAM = """
import streamsched.scheduler.scheduler
from streamsched.numerics.compilation.notices import on_compile
from streamsched import OutcomeBatch, Scheduler

reports = []
with on_compile(reports.append):
    s = Scheduler(cycle="1d")
    s.discover(["https://a.example/", "https://b.example/news", "https://b.example/about"], now=1_700_000_000)
    batch = s.next_batch(k=2, now=1_700_086_400, lease="10m")
    s.observe(OutcomeBatch(batch.urls, fetched_at=[1_700_086_460, 1_700_086_461], fingerprint=[17, 42]))
    print(s.explain("https://b.example/about", now=1_700_172_800))
print(sum(report.done for report in reports))
"""


def program(cache: Path, processes: int) -> subprocess.Popen[str]:
    environment = os.environ | {
        "NUMBA_CACHE_DIR": str(cache),
        "PYTHONPATH": str(ROOT),
        "STREAMSCHED_COMPILE_PROCESSES": str(processes),
    }
    command = [sys.executable, "-c", PROGRAM]
    return subprocess.Popen(command, env=environment, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE)


def results(process: subprocess.Popen[str]) -> tuple[str, int]:
    """Return what the program printed, and how many kernels it compiled."""
    out, err = process.communicate()
    assert (process.returncode, err) == (0, "")
    text, _, count = out.rstrip().rpartition("\n")
    return text, int(count)


@pytest.fixture
def cache(tmp_path: Path) -> Path:
    """A cache with all that `warm` compiles but the kernels of records: those alone take seconds, not minutes.

    The kernels come from the cache of this test run, which `warm` fills first, so nothing is compiled for this alone.
    """
    finish(start("warm", "--json"))
    filled, folder = Path(os.environ["NUMBA_CACHE_DIR"]), tmp_path / "kernels"
    for kind in ("nbi", "nbc"):  # indexes first: other workers add kernels meanwhile
        for path in filled.glob(f"*/*.{kind}"):
            if not path.parent.name.startswith("streamsched.records."):
                (folder / path.parent.name).mkdir(parents=True, exist_ok=True)
                shutil.copy(path, folder / path.parent.name)
    return folder


@pytest.mark.cases(ordinary=0, whole=1)
@pytest.mark.usefixtures("rng")
def test_two_first_programs_at_once_share_one_cache_with_helpers_and_warm_ends_what_they_left(
    tmp_path: Path, cache: Path
) -> None:
    first = [program(cache, processes) for processes in (1, 2)]
    (text, count), (other, more) = map(results, first)
    assert text == other
    assert count + more > 0
    assert results(program(cache, 2)) == (text, 0)
    warmed, again = (json.loads(finish(start("warm", "--json", NUMBA_CACHE_DIR=str(cache))).out) for _ in range(2))
    assert warmed["compiled"] > 0
    assert again["compiled"] == 0
    assert all(folder.startswith(str(cache)) for folder in warmed["folders"])
    assert results(program(cache, 1)) == (text, 0)
    state, outcomes, signals = (tmp_path / name for name in ("state", "outcomes.jsonl", "signals.jsonl"))
    outcomes.write_text(
        "".join(f'{{"url": "https://a.example/{i % 9}", "fetched_at": {1.7e9 + i}}}\n' for i in range(30))
    )
    signals.write_text('{"url": "https://a.example/3", "at": 1700000500, "source": "sitemap"}\n')
    reading = ("--source", outcomes, "--signals", signals, "--until-end", "--log-level", "error")
    for words in (("run", *reading), ("next",), ("signals",), ("state", "verify")):
        answer = finish(start(*words, "--state", state, NUMBA_CACHE_DIR=str(cache)))
        assert (answer.code, answer.err) == (0, ""), words  # not a word of compiling


def test_warm_names_a_folder_that_cannot_be_written(tmp_path: Path) -> None:
    file = tmp_path / "kernels"
    file.write_text("no folder")
    answer = finish(start("warm", NUMBA_CACHE_DIR=str(file)))
    assert answer.code == 2
    assert "NUMBA_CACHE_DIR" in answer.err


@pytest.mark.cases(ordinary=0, whole=1)
@pytest.mark.usefixtures("rng")
def test_a_service_that_compiles_says_so_in_its_log(tmp_path: Path, cache: Path) -> None:
    words = ("serve", "--state", tmp_path / "state", "--http", "127.0.0.1:0", "--log-format", "json")
    process = start(*words, NUMBA_CACHE_DIR=str(cache))
    assert process.stderr is not None
    try:
        assert FIRST_WORDS in (json.loads(line)["event"] for line in process.stderr)  # up to it, all is JSON
    finally:
        process.kill()
        finish(process)
