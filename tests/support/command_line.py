"""The command line, called in this process or started as another one, and crawls for it to read."""

from __future__ import annotations

import gzip
import json
import os
import subprocess
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from operator import itemgetter
from pathlib import Path
from typing import IO, Any, Protocol

from tests.support.paths import ROOT

DAY = 86_400.0
NOW = 1_755_820_800.0  # 2025-08-22


@dataclass(frozen=True)
class Answer:
    """Exit code and output of a command."""

    code: int
    out: str
    err: str

    @property
    def lines(self) -> list[str]:
        return self.out.splitlines()

    @property
    def json(self) -> Any:
        return json.loads(self.out, parse_constant=_refuse)

    def check_refused(self, code: int, *reasons: str) -> None:
        """It ended with `code` and printed only one line, which begins with the program and has the `reasons`.

        The column of a wrong formula is shown below.
        """
        assert (self.code, self.out) == (code, "")
        assert self.err.startswith("streamsched"), self.err
        assert self.err.count("\n") == (3 if self.err.endswith("^\n") else 1), self.err
        assert not [reason for reason in reasons if reason not in self.err], self.err


class Command(Protocol):
    """Calls `main` in this process; returns its exit code and output."""

    def __call__(self, *words: str | Path) -> Answer: ...


def start(
    *words: str | Path,
    stdin: int | IO[str] = subprocess.PIPE,
    stdout: int | IO[str] = subprocess.PIPE,
    stderr: int | IO[str] = subprocess.PIPE,
    **environment: str,
) -> subprocess.Popen[str]:
    """Start ``python -m streamsched`` in another process, with this environment and more in `environment`."""
    command = [sys.executable, "-m", "streamsched", *map(str, words)]
    env = {**os.environ, **environment}
    return subprocess.Popen(command, cwd=ROOT, text=True, stdin=stdin, stdout=stdout, stderr=stderr, env=env)


def finish(process: subprocess.Popen[str], *, says: str = "") -> Answer:
    """Write `says` to the standard input of `process`, close it and wait for the end of the process."""
    out, err = process.communicate(says)
    return Answer(process.returncode, out, err)


def outcome(page: int, day: float, **fields: object) -> str:
    """An outcome as a JSON line: a page on one of three hosts, visited on a day before NOW."""
    event = {"url": f"https://h{page % 3}.example/p{page}", "fetched_at": NOW - DAY * (10 - day), **fields}
    return json.dumps(event)


def crawl(pages: int = 12, days: int = 6) -> list[str]:
    """Outcomes of every page on every day; pages with higher numbers change more often."""
    return [outcome(page, day, changed=page * (day + 1) % 12 > 5) for day in range(days) for page in range(pages)]


def write(path: Path, lines: Iterable[str], *, append: bool = False) -> Path:
    """Write `lines` to `path`, compressed if it ends in .gz; return `path`."""
    data = "".join(f"{line}\n" for line in lines).encode()
    with path.open("ab" if append else "wb") as file:
        file.write(gzip.compress(data) if path.suffix == ".gz" else data)
    return path


def change_log(path: Path, pages: int = 20, days: int = 40) -> Path:
    """Write a change log that ends at NOW: page p changes every p + 1 days."""
    start_s = NOW - days * DAY
    lines = [(start_s, "A", page) for page in range(pages)]
    lines += [(start_s + day * DAY + 60.0, "M", page) for page in range(pages) for day in range(1, days, page + 1)]
    return write(path, [f"{at:.0f}\t{operation}\thttps://h.example/p{page}" for at, operation, page in sorted(lines)])


def files(folder: Path) -> Sequence[str]:
    """The sorted names of the files in `folder`, without hidden ones."""
    return sorted(path.name for path in folder.iterdir() if not path.name.startswith("."))


def _refuse(constant: str) -> None:
    raise ValueError(f"{constant} is not JSON")


def signal(page: int, day: float, source: str = "sitemap", **fields: object) -> str:
    """A signal as a JSON line, of a page as `outcome` names it."""
    event = {"url": f"https://h{page % 3}.example/p{page}", "at": NOW - DAY * (10 - day), "source": source, **fields}
    return json.dumps(event)


_ANNOUNCEMENTS: Sequence[tuple[float, str, float | None]] = (  # days before a visit, source, significance
    (-0.3, "sitemap", None),
    (-0.3, "sitemap", 0.5),
    (-0.1, "feed", 0.25),
)


def spread_crawl(pages: int, days: int) -> list[str]:
    """Outcomes as of `crawl`, a minute between two of them at least."""
    return [
        outcome(page, day + page / (2 * pages), changed=page * (day + 1) % 12 > 5)
        for day in range(days)
        for page in range(pages)
    ]


def announce(pages: int, days: int) -> list[str]:
    """Signals between the visits of `spread_crawl`, by two sources, some of them twice or of pages nobody visits."""
    rows = [
        (day + shift + page / (2 * pages), page, source, significance)
        for day in range(days)
        for page in range(0, pages + 3, 2)
        for shift, source, significance in _ANNOUNCEMENTS
    ]
    return [
        signal(page, at, source, significance=significance)
        for at, page, source, significance in sorted(rows, key=itemgetter(0))
    ]
