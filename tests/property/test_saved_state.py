"""What is saved loads as it was: in the same process or another, after a kill at any moment, and never when damaged."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamsched import HostRule, Outcome, Politeness, Rule, Scheduler, SnapshotError
from streamsched.persistence.image_format import read_image
from streamsched.persistence.image_reader import check_image, load_images
from streamsched.persistence.state_directory import newest_image
from tests.support.cases import examples, how_many
from tests.support.outcome_streams import cut, daily_crawl, streams
from tests.support.paths import ROOT
from tests.support.waiting import pause

pytestmark = pytest.mark.usefixtures("small_tables")

STRIDES = {"candidates": 997, "profiles": 7}  # coprime to the sizes of their records, so every field is met
STEPS = 40  # batches that the process below observes, and states that it saves
SAVING = """
import sys
from streamsched import Scheduler
from streamsched.persistence.state_directory import has_state
from pathlib import Path
from tests.support.outcome_streams import cut, daily_crawl

folder, steps = Path(sys.argv[1]), int(sys.argv[2])
batches = list(cut(list(daily_crawl(pages=400, visits=40 * steps, seed=3)), [40]))
scheduler = Scheduler.load(folder) if has_state(folder) else Scheduler(seed=5)
for step in range(scheduler.positions.get("crawl", 0), steps):
    scheduler.observe(batches[step])
    scheduler.positions["crawl"] = step + 1
    print("observed", step + 1, scheduler.digest(), flush=True)
    scheduler.save(folder)
    print("saved", step + 1, flush=True)
"""


def answers(scheduler: Scheduler, now: float) -> list[object]:
    """What a scheduler says of its state, and what it hands out."""
    ranked = scheduler.rank(20, now=now)
    handed = scheduler.next_batch(7, now=now, lease=60.0)
    result = [scheduler.explain(url, now=now).as_dict() for url in ranked.urls[:3]]
    return [scheduler.digest(), ranked.urls, ranked.scores.tolist(), ranked.hosts, handed.urls, result]


@examples(ordinary=3, whole=10)
@given(streams(), st.integers(0, 400), st.sampled_from(["posterior", "t * X / cost", "1"]), st.none() | st.just(2))
def test_loaded_scheduler_goes_on_as_the_saved_one(
    outcomes: list[Outcome], at: int, formula: str, per_host: int | None
) -> None:
    politeness = Politeness(delay=3, in_flight=4, per_batch=per_host, min_revisit="1h", max_revisit="9d")
    scheduler = Scheduler(cycle="12h", formula=formula, seed=2**70, politeness=politeness, panel=0.4)
    scheduler.set_rules({"a.example": HostRule(delay=9), "*/docs/*": Rule(never=True), "b.example/1": Rule()})
    scheduler.observe(outcomes[:at])
    scheduler.next_batch(5, now=1e5)
    scheduler.next_batch(5, now=1.05e5, lease=7e3)
    scheduler.ask(["https://a.example/docs/1", "https://b.example/1"], now=1e5)
    scheduler.block("b.example", 1.2e5)
    scheduler.positions["crawl"] = {"offset": at}
    with TemporaryDirectory() as folder:
        scheduler.save(folder)
        loaded = Scheduler.load(folder, threads=1)
    assert loaded.core.pages.faults() == []
    assert loaded.positions == scheduler.positions
    assert loaded.politeness == scheduler.politeness
    assert answers(loaded, 1.1e5) == answers(scheduler, 1.1e5)
    both = [one.observe(outcomes[at // 2 :]) for one in (loaded, scheduler)]
    assert repr(both[0]) == repr(both[1])  # errors are equal only to themselves
    assert loaded.core.pages.faults() == []
    assert answers(loaded, 1e6) == answers(scheduler, 1e6)


@pytest.fixture(scope="module")
def uninterrupted() -> dict[int, str]:
    """The digest after each step; and every kernel that the other process needs is compiled by then."""
    scheduler, digests = Scheduler(seed=5), {}
    for step, batch in enumerate(cut(list(daily_crawl(pages=400, visits=40 * STEPS, seed=3)), [40]), 1):
        scheduler.observe(batch)
        digests[step] = scheduler.digest()
    with TemporaryDirectory() as folder:
        scheduler.save(folder)
        assert Scheduler.load(folder).digest() == digests[STEPS]
    return digests


def at_once(_folder: Path, _before: set[str]) -> bool:
    return True


def once_a_draft_stands(folder: Path, _before: set[str]) -> bool:
    return any(folder.glob(".*.draft"))


def once_a_file_is_new(folder: Path, before: set[str]) -> bool:
    return not {path.name for path in folder.iterdir()} <= before


def run_until_killed(folder: Path, last: int, is_time: Callable[[Path, set[str]], bool]) -> tuple[int, dict[int, str]]:
    """Have another process save to `folder`, killed while it saves step `last`; the last it saved, all it observed."""
    saved, digests = 0, {}
    command = [sys.executable, "-c", SAVING, str(folder), str(STEPS)]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        for line in process.stdout:
            word, step, *digest = line.split()
            if word == "saved":
                saved = int(step)
                continue
            digests[int(step)] = digest[0]
            if int(step) >= last:
                before = {path.name for path in folder.iterdir()}
                while not is_time(folder, before) and process.poll() is None:
                    pause()
                process.send_signal(signal.SIGKILL)
        process.wait()
        assert process.returncode == (0 if saved == STEPS else -signal.SIGKILL)
    return saved, digests


def test_killed_while_saving_leaves_a_whole_state(tmp_path: Path, uninterrupted: dict[int, str]) -> None:
    """Killed again and again at moments of the save; the last run goes on to the state of one never killed."""
    moments = [at_once, once_a_draft_stands, once_a_file_is_new]
    for last, is_time in zip((1, 5, 12), moments, strict=True):
        saved, digests = run_until_killed(tmp_path, last, is_time)
        assert digests.items() <= uninterrupted.items()
        if saved or last > 1:
            loaded = Scheduler.load(tmp_path)
            at = loaded.positions["crawl"]
            assert max(saved, last - 1) <= at <= max(digests, default=STEPS)  # a draft may come and go unseen
            assert loaded.digest() == uninterrupted[at]
    saved, _ = run_until_killed(tmp_path, STEPS + 1, at_once)
    assert saved == STEPS
    assert Scheduler.load(tmp_path).digest() == uninterrupted[STEPS]
    assert len(list(tmp_path.iterdir())) == 2  # nothing left over of the killed


@pytest.fixture(scope="module")
def small_state(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("state")
    scheduler = Scheduler()
    scheduler.observe([Outcome(f"https://a.example/{i}", float(at), changed=True) for at in (1, 2) for i in range(3)])
    scheduler.next_batch(1, now=5.0)
    scheduler.save(folder)
    return folder


def places(path: Path) -> list[int]:
    """Every byte of the file, but of its two large parts only some."""
    found = set(range(path.stat().st_size))
    for part in read_image(path).parts:
        whole = range(part.offset, part.offset + part.nbytes)
        found -= set(whole) - set(whole[:: STRIDES.get(part.name, 1)])
    return sorted(found)


@pytest.mark.longer
@pytest.mark.parametrize(("flip", "first"), [(0x01, 0), (0x80, 1), (0xFF, 2)])
def test_damaged_bytes_are_found(small_state: Path, flip: int, first: int) -> None:
    """A third of these bytes is damaged, in one of three ways; in an ordinary run every fifth of those."""
    path = newest_image(small_state)
    whole = bytearray(path.read_bytes())
    try:
        with path.open("r+b", buffering=0) as file:
            for place in places(path)[first :: how_many(45, 9)]:
                file.seek(place)
                file.write(bytes([whole[place] ^ flip]))
                with pytest.raises(SnapshotError) as caught:
                    check_image(path)
                assert caught.value.path == str(path)
                file.seek(place)
                file.write(bytes([whole[place]]))
    finally:
        path.write_bytes(whole)
    assert len(load_images(small_state).pages) == 3


@pytest.mark.longer
def test_every_truncation_and_any_addition_is_found(small_state: Path) -> None:
    path = newest_image(small_state)
    whole = path.read_bytes()
    try:
        sizes = list(reversed(places(path)))[:: how_many(5, 1)]
        path.write_bytes(whole + b"\0")
        for size in [len(whole) + 1, *sizes]:
            with path.open("r+b") as file:
                file.truncate(size)
            with pytest.raises(SnapshotError):
                load_images(small_state)
    finally:
        path.write_bytes(whole)


@examples(ordinary=30, whole=100)
@given(data=st.data())
def test_any_run_of_damaged_bytes_is_found(small_state: Path, data: st.DataObject) -> None:
    path = newest_image(small_state)
    whole = path.read_bytes()
    start = data.draw(st.integers(0, len(whole) - 1))
    junk = data.draw(st.binary(min_size=1, max_size=40).filter(lambda junk: whole[start : start + len(junk)] != junk))
    try:
        path.write_bytes(whole[:start] + junk + whole[start + len(junk) :])
        with pytest.raises(SnapshotError):
            load_images(small_state)
    finally:
        path.write_bytes(whole)


def test_random_states_survive_many_saves(tmp_path: Path) -> None:
    """Each save replaces the one before the last, so the directory stays as large as two states."""
    rng = np.random.default_rng(7)
    scheduler = Scheduler()
    for batch in cut(list(daily_crawl(pages=300, visits=2_000, seed=4)), [int(n) for n in rng.integers(1, 400, 9)]):
        scheduler.observe(batch)
        scheduler.save(tmp_path)
        assert Scheduler.load(tmp_path).digest() == scheduler.digest()
        assert len(list(tmp_path.iterdir())) <= 2
