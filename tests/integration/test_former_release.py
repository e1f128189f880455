"""A directory that the release before surges and rhythms wrote (format 5) opens, migrates and goes on.

`tests/data/state-of-format-5.tar.gz` was made by that release's own commands, ten days of 24 pages: `run` on the first
190 outcomes, `next -k 2`, `run` on the other 50, `next -k 3` at 1704931200: an image, its increments and logs of calls.
"""

from __future__ import annotations

import json
import tarfile
from pathlib import Path

import pytest

from streamsched import Outcome, Scheduler
from streamsched.estimation.seasonality.regions import REGIONS
from streamsched.persistence.image_format import read_image
from streamsched.persistence.recovery import newest_image
from streamsched.scheduler.durable import DurableScheduler
from tests.support.command_line import Command

DATA = Path(__file__).parent.parent / "data" / "state-of-format-5.tar.gz"
NOW = 1_704_931_260.0
HOUR = 3_600.0
DAY = 86_400.0
BEST = {  # what that release ranked at `NOW`, three pages being leased
    "https://b.example/docs/0": 0.8900979940841811,
    "https://a.jp/docs/5": 0.8883847486625156,
    "https://b.example/docs/9": 0.23939752443475698,
    "https://a.jp/docs/1": 0.23856093054392982,
    "https://a.jp/docs/2": 0.238560374065438,
}


@pytest.fixture
def former(tmp_path: Path) -> Path:
    with tarfile.open(DATA) as archive:
        archive.extractall(tmp_path, filter="data")
    return tmp_path / "state-of-format-5"


def check_knowledge(scheduler: Scheduler) -> None:
    """All of what the former release knew, and nothing of what it could not."""
    assert len(scheduler) == 24
    assert str(scheduler.formula) == "posterior"
    batch = scheduler.rank(5, now=NOW)
    assert dict(zip(batch.urls, batch.scores.tolist(), strict=True)) == BEST
    assert scheduler.pages.faults() == []
    told = scheduler.explain("https://a.jp/docs/1", now=NOW).terminals
    assert (told["n"], told["X"], told["surge"], told["rhythm"]) == (9.0, 2.0, 0.0, 1.0)
    assert told["tau"] == pytest.approx(told["t"])
    assert scheduler.pages.seasonality.regions == REGIONS


def test_it_loads_as_it_was_left(former: Path) -> None:
    before = {path.name: path.read_bytes() for path in former.iterdir()}
    assert not read_image(newest_image(former)).is_present
    check_knowledge(Scheduler.load(former))
    assert {path.name: path.read_bytes() for path in former.iterdir()} == before


def test_it_opens_and_learns_on(former: Path) -> None:
    with DurableScheduler.open(former) as scheduler:
        check_knowledge(scheduler)
        for i in range(12):
            changed = [Outcome(f"https://a.jp/docs/{n}", NOW + i * DAY, changed=True) for n in (1, 2)]
            scheduler.observe(changed)
        assert scheduler.pages.arrays.seasonality.state["schedules"][0] == 2
        assert set(scheduler.pages.arrays.seasonality.links["profile"][:24].tolist()) == {0, 1}  # a.jp is of CJK
        digest = scheduler.digest()
    assert read_image(newest_image(former)).is_present
    assert Scheduler.load(former).digest() == digest


def test_it_migrates_once(former: Path, streamsched: Command) -> None:
    digest = Scheduler.load(former).digest()
    assert streamsched("state", "verify", "--state", former).code == 0
    for expected in ("True", "False"):
        assert f"migrated       {expected}" in streamsched("state", "migrate", "--state", former).out
        assert streamsched("state", "verify", "--state", former).code == 0
    assert read_image(newest_image(former)).is_present
    loaded = Scheduler.load(former)
    check_knowledge(loaded)
    assert loaded.digest() == digest


def test_commands_go_on_with_it(former: Path, tmp_path: Path, streamsched: Command) -> None:
    assert streamsched("next", "--state", former, "-k", "2", "--now", f"{NOW:.0f}").lines == list(BEST)[:2]
    log = tmp_path / "more.jsonl"
    log.write_text(json.dumps({"url": "https://b.example/docs/0", "fetched_at": NOW + HOUR, "changed": True}) + "\n")
    assert streamsched("run", "--source", log, "--state", former, "--json").json["applied"] == 1


def test_damage_is_named(former: Path, streamsched: Command) -> None:
    path = former / "snapshot-00000002.state"
    raw = path.read_bytes()
    path.write_bytes(raw[:5_000] + bytes([raw[5_000] ^ 1]) + raw[5_001:])
    answer = streamsched("state", "verify", "--state", former)
    assert answer.code != 0
    assert path.name in answer.out + answer.err
