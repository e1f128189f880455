"""Inputs of every format, damaged at random: what is wrong is counted, named and kept aside; the stream goes on."""

from __future__ import annotations

import json
import random
import re
from pathlib import Path

import pytest

from tests.conformance.test_sources import MAKERS, Case, lay
from tests.soak.mutations import damage_gzip, mutate
from tests.soak.orderly import call
from tests.support.command_line import Answer

UNREADABLE = 3
FIELDS = {"path", "unit", "offset", "field", "reason", "found"}


@pytest.fixture
def fuzzed(tmp_path: Path, rng: random.Random, case: int) -> tuple[Case, Path]:
    """A damaged file, beside the case that it was."""
    whole = MAKERS[case % len(MAKERS)](tmp_path)
    data = mutate(whole.records, whole.malformed, rng)
    if rng.random() < 0.7:
        return whole, lay(tmp_path, whole, "", data)
    path = lay(tmp_path, whole, ".gz", b"")  # its companions are whole
    path.write_bytes(damage_gzip(data, rng))
    return whole, path


@pytest.mark.cases(ordinary=18, whole=757)
def test_damaged_input(fuzzed: tuple[Case, Path], tmp_path: Path) -> None:
    whole, source = fuzzed
    first, again = (run(source, tmp_path / name) for name in ("one", "two"))
    assert first == again
    code, counts, digest, letters = first
    if counts is not None:
        assert len(letters) == counts["rejected"]
        if code == 0 and whole.kind in ("jsonl", "changes") and not source.name.endswith(".gz"):
            assert outcomes_in(counts) + counts["rejected"] == records_in(source)
    check_converted(source, tmp_path, code, counts, digest)
    period = ("--from", "2023-08-22", "--to", "2023-08-24")  # a wrong digit may add thousands of years
    replayed = call("replay", source, *period, "--policy", "age", "--workers", "1", "--json", "-")
    assert replayed.code <= UNREADABLE


def run(source: Path, folder: Path) -> tuple[int, dict[str, int] | None, str, list[str]]:
    """Read `source` into a new state; return exit code, counts, the state's digest and the dead letters."""
    folder.mkdir()
    letters = folder / "dead.jsonl"
    words: list[str | Path] = [
        "run",
        "--source",
        source,
        "--state",
        folder / "state",
        "--dead-letters",
        letters,
        "--json",
    ]
    answer = call(*words)
    assert answer.code in (0, UNREADABLE), answer
    if not answer.out:
        assert answer.code == UNREADABLE
        return answer.code, None, "", []
    counts = answer.json
    del counts["state"]
    assert call("state", "verify", "--state", folder / "state").code == 0
    digest = call("state", "digest", "--state", folder / "state").out
    return answer.code, counts, digest, read_letters(letters)


def read_letters(path: Path) -> list[str]:
    """The dead letters, each of which names a field and says what was expected."""
    lines = path.read_text().splitlines()
    for letter in map(json.loads, lines):
        assert letter.keys() >= FIELDS
        assert letter["reason"]
        assert ("raw" in letter) != ("raw_base64" in letter)
    return lines


def outcomes_in(counts: dict[str, int]) -> int:
    return sum(counts[name] for name in ("applied", "duplicates", "late", "refused"))


def records_in(source: Path) -> int:
    """The lines of a file that are not blank."""
    return len([line for line in source.read_bytes().split(b"\n") if line.strip()])


def check_converted(source: Path, folder: Path, code: int, counts: dict[str, int] | None, digest: str) -> None:
    """`convert` reads the same outcomes as `run` did, and `run` makes the same state of what it wrote.

    It keeps outcomes that `run` rejects for their times: these are rejected again.
    """
    output = folder / "converted.msgpack"
    converted = call("convert", source, output)
    if code != 0 or counts is None:
        assert converted.code == code
        return
    wrote, rejected = (
        int(number.replace(",", "")) for number in re.findall(r"(?:wrote|rejected) ([\d,]+)", said(converted))
    )
    assert converted.code == (0 if wrote or not rejected else 3)
    ahead = counts["rejected"] - rejected
    assert ahead >= 0
    assert wrote == outcomes_in(counts) + ahead
    if wrote:
        assert run(output, folder / "three")[1:3] == (counts | {"rejected": ahead}, digest)


def said(answer: Answer) -> str:
    return answer.lines[-1]
