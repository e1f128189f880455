"""Commands in processes to be killed, forked from one that has every kernel at hand, and quick evolutions."""

from __future__ import annotations

import os
from multiprocessing.context import ForkServerContext
from pathlib import Path
from tempfile import TemporaryDirectory

from streamsched.cli import main
from streamsched.evolution import pipeline
from tests.support import fake_evolutions
from tests.support.command_line import crawl, write
from tests.support.guarded_memory import small_reserve


def run(words: list[str], result: Path) -> None:
    """Call the command line; its output goes to the file `result`, its errors to ``<result>.err``."""
    for place, path in ((1, result), (2, result.with_suffix(".err"))):
        os.dup2(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC), place)
    os.environ.pop("STREAMSCHED_WARM_UP", None)
    with small_reserve():
        raise SystemExit(main(words))


def kill_after(context: ForkServerContext, words: list[str], result: Path, seconds: float) -> int | None:
    """Run a command for `seconds` at most, then kill it; return the exit code where it came to its end before."""
    process = context.Process(target=run, args=(words, result))
    process.start()
    process.join(seconds)
    ended = process.exitcode
    process.kill()
    process.join()
    return ended


def _warm_up() -> None:
    setattr(pipeline, "run_evolution", fake_evolutions.win)  # noqa: B010  what it finds does not matter here, that it is the same does
    with small_reserve(), TemporaryDirectory() as name:
        folder = Path(name)
        source = write(folder / "outcomes.jsonl", crawl(days=9))
        words = ["run", "--source", str(source), "--state", str(folder / "state"), "--json"]
        for _ in range(2):
            assert main([*words, "--evolve-every", "3", "--set", "save.every=1ms"]) == 0


if os.environ.get("STREAMSCHED_WARM_UP"):
    _warm_up()
