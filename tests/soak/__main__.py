"""The whole hostile test, and whole what ordinary runs shorten: ``python -m tests.soak`` or ``make soak``.

An hour and a half at most on two cores.
"""

from __future__ import annotations

import argparse
import json
import re
import sys

import pytest
from rich.console import Console

from tests.soak.tally import Tally
from tests.support.paths import ROOT


def main(words: list[str] | None = None) -> int:
    """Run all cases; print findings and a table, or JSON; return pytest's exit code."""
    parser = argparse.ArgumentParser(prog="python -m tests.soak", description=__doc__)
    parser.add_argument("--seed", type=int, default=0, help="seed of all cases (default: 0)")
    parser.add_argument("--workers", type=int, default=2, help="processes side by side (default: 2)")
    parser.add_argument("--only", metavar="WORDS", help="attacks whose names hold these words, as pytest's -k")
    parser.add_argument("--json", action="store_true", help="print JSON on standard output")
    given = parser.parse_args(words)
    progress = Tally(Console(stderr=True))
    options = ["-m", "cases or hypothesis or longer or soak", "--soak"]
    options += [
        f"--soak-seed={given.seed}",
        f"--hypothesis-seed={given.seed}",
        f"--numprocesses={given.workers}",
        *attacks(),
        "--dist=worksteal",
        "-p",
        "no:terminal",
        "-o",
        "addopts=--import-mode=importlib",
        *(["-k", given.only] if given.only else []),
    ]
    code = int(pytest.main(options, plugins=[progress]))
    again = f"python -m pytest --soak --soak-seed={given.seed} --hypothesis-seed={given.seed}"
    progress.show(Console(stderr=given.json), again)
    if given.json:
        print(json.dumps(progress.to_json(), indent=2))  # noqa: T201
    return code


def attacks() -> list[str]:
    """Return the files with such tests: to collect all others takes longer than most attacks."""
    files = sorted((ROOT / "tests").glob("**/test_*.py"))
    marked = re.compile(r"pytest\.mark\.(cases|longer|soak)|^from hypothesis import", re.MULTILINE)
    return [str(path) for path in files if marked.search(path.read_text(encoding="utf-8"))]


if __name__ == "__main__":
    sys.exit(main())
