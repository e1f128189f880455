"""A state directory as a crawl leaves it when it is killed, and what every command answers to it."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from streamsched.connectors import Position, open_source
from streamsched.evolution import pipeline
from streamsched.persistence.call_log import CallLog
from streamsched.persistence.image_writer import SavePlan
from streamsched.scheduler.durable import DurableScheduler
from tests.soak.orderly import call
from tests.support import fake_evolutions
from tests.support.command_line import DAY, NOW, Answer, crawl, write

SEGMENT_BYTES = 1 << 11  # so that few calls fill several segments
READING: dict[str, Sequence[str]] = {
    "verify": ["state", "verify", "--json"],
    "show": ["state", "show", "--json"],
    "digest": ["state", "digest"],
    "explain": ["explain", "https://h0.example/p0", "--now", str(NOW), "--json"],
    "peek": ["next", "--peek", "-k", "20", "--now", str(NOW), "--json"],
    "evolutions": ["evolutions", "--json"],
    "signals": ["signals", "--json"],
    "export": ["state", "export", "--to", "{export}", "--json"],
}
CHANGING: dict[str, Sequence[str]] = {
    "next": ["next", "-k", "20", "--now", str(NOW), "--json"],
    "run": ["run", "--source", "{source}", "--until-end", "--json"],
}
OF_THE_FILES = {
    "file",
    "images",
    "state_bytes",
    "bytes_a_page",
    "exported",
    "state",
}  # fields that depend on more than the state


@dataclass(frozen=True)
class SavedCrawl:
    """`folder`: as the process left it; `earlier`: as before its last call, which a torn log may lose.

    `digests`: after every step, the last one is `whole_digest`. The answers are those to `folder` and to `earlier`.
    """

    folder: Path
    earlier: Path
    source: Path
    digests: frozenset[str]
    whole_digest: str
    answers: dict[str, object]
    earlier_answers: dict[str, object]


@contextmanager
def quick_and_small() -> Iterator[None]:
    """Segments of the log are small in this block, nothing waits for a disk, and evolutions end at once."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(CallLog.__init__, "__defaults__", (SEGMENT_BYTES,))
        patch.setattr(pipeline, "run_evolution", fake_evolutions.win)
        for sync in ("fsync", "fdatasync"):
            patch.setattr(os, sync, lambda _handle: None)
        yield


def make_saved_crawl(home: Path) -> SavedCrawl:
    """A crawl of 120 pages: a run with evolutions, then a process with calls, images and increments; killed."""
    lines = crawl(120, 12)
    source, live = write(home / "outcomes.jsonl", lines[:600]), home / "live"
    words: list[str | Path] = [
        "run",
        "--source",
        source,
        "--state",
        live,
        "--evolve-every",
        "2",
        "--set",
        "scheduler.panel=0.2",
    ]
    assert call(*words).code == 0
    write(source, lines[600:1200], append=True)
    digests = _go_on(home, live, source)
    write(source, lines[1200:], append=True)
    folder, earlier = home / "killed", home / "earlier"
    return SavedCrawl(
        folder,
        earlier,
        source,
        frozenset(digests),
        digests[-1],
        all_answers(home, folder, source),
        all_answers(home, earlier, source),
    )


def _go_on(home: Path, live: Path, source: Path) -> list[str]:
    """Take the rest of the stream, with calls between; return the digests of all steps."""
    plan = SavePlan(every=1e9, increments=9, share=1e9, kept=2)
    digests: list[str] = []
    with open_source(source, batch=60) as stream, DurableScheduler.open(live, plan=plan, threads=1) as scheduler:
        for position in scheduler.positions.values():
            stream.seek(Position.from_json(position))
        for number, delivery in enumerate(stream):
            scheduler.take(delivery.records, delivery.position.path, delivery.position.to_json())
            digests.append(scheduler.digest())
            if number in (1, 3, 5, 7, 9):
                scheduler.snapshot(full=number == 3)
            for step in range(6):
                if number == 9 and step == 5:
                    shutil.copytree(live, home / "earlier")
                _call(scheduler, number, step)
                digests.append(scheduler.digest())
        shutil.copytree(live, home / "killed")
        scheduler.close(save=False)
    return digests


def _call(scheduler: DurableScheduler, number: int, step: int) -> None:
    now = NOW - DAY * (5 - number / 2) + 60.0 * step
    if step % 2:
        scheduler.next_batch(6, now=now, lease="9d" if step == 5 else "3h")
    else:
        scheduler.discover([f"https://h{step}.example/new-{number}-{i}" for i in range(4)], now=now)


def all_answers(home: Path, folder: Path, source: Path) -> dict[str, object]:
    """What each command answers to `folder`, each changing one to a copy of its own."""
    answers: dict[str, object] = {}
    for name in READING:
        answers[name] = content_of(answer_of(name, folder, source, home))
    for name in CHANGING:
        copy = Path(shutil.copytree(folder, home / "copy"))
        answers[name] = content_of(answer_of(name, copy, source, home))
        if name == "run":
            answers["final"] = call("state", "digest", "--state", copy).out
        shutil.rmtree(copy)
    return answers


def answer_of(name: str, folder: Path, source: Path, home: Path) -> Answer:
    """Call the command `name` on the state in `folder`."""
    places = {"source": str(source), "export": str(home / "pages.arrow")}
    words = [word.format_map(places) for word in (READING | CHANGING)[name]]
    return call(*words, "--state", folder)


def content_of(answer: Answer) -> object:
    """What a command printed, without what depends on files more than on the state; the exit code of a failure."""
    if answer.code > 1:
        return answer.code
    try:
        content: Any = answer.json
    except ValueError:
        return answer.out
    if isinstance(content, dict):
        return {name: value for name, value in content.items() if name not in OF_THE_FILES}
    return content
