"""Records of evolutions, and the archive of elites."""

from __future__ import annotations

import errno
import json
import os
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import pytest

from streamsched.api.answers import EvolutionView
from streamsched.api.views import TrialEvidence, TrialView
from streamsched.errors import SnapshotError
from streamsched.evolution.exchange_files import ARCHIVE_NAME, Elites, mend_evolution_times, read_elites, write_elites
from streamsched.evolution.records import Candidate, DataSpan, EvolutionRecord, EvolutionResult, RecordBook
from streamsched.formula import Formula
from streamsched.formula.champion import BY_EVOLUTION, BY_HAND, Champion
from tests.support.cases import grouped
from tests.support.fake_evolutions import make_result

FIRST = Champion(Formula.parse("posterior"))
EVIDENCE = TrialEvidence("better", 0.1, 0.02, 25.0, 0.1, (330.0, 2_700.0), (1_000.0, 9_000.0))
TRIAL = TrialView(challenger="t * X", since_s=1e9, evidence=EVIDENCE)


def record(number: int = 1, **changes: Any) -> EvolutionRecord:
    result = make_result("posterior + 0.01 * t", 0.1, 3)
    risen = Champion(Formula.parse("posterior + 0.01 * t"), BY_EVOLUTION, number, 1e9, 0.1, "ndcg")
    whole = EvolutionRecord(
        number,
        1e9,
        "schedule",
        "promoted",
        "it is better",
        FIRST,
        risen,
        settings={"every": 7, "settings": {"population": 75, "constants": [0.1, 1.0]}},
        seed=3,
        data=DataSpan(0.0, 19, 50_000, 0.41, 1_000, 12),
        candidates=result.candidates,
        challenger=result.challenger,
        metric="ndcg",
        verdict=result.verdict,
        seconds=8.5,
    )
    return replace(whole, **changes)


BAD = msgspec.to_builtins(EVIDENCE) | {"finds": [1.0, 2.0, 3.0]}


def written(folder: Path, count: int) -> RecordBook:
    book = RecordBook(folder)
    for number in range(1, count + 1):
        book.append(record(number))
    return book


def test_a_record_survives_an_answer() -> None:
    champions: dict[str, Any] = {
        "champion_before": FIRST.view(),
        "champion_after": record().champion_after.view(),
        "trial": None,
    }
    view = EvolutionView(**record().to_json() | champions)
    for codec in (msgspec.json, msgspec.msgpack):
        found = codec.decode(codec.encode(view), type=EvolutionView)
        fields = msgspec.to_builtins(found)
        for name in ("champion_before", "champion_after"):
            del fields[name]["text"]
        assert EvolutionRecord.from_json(fields) == record()


def test_a_trial_survives_the_file(tmp_path: Path) -> None:
    book = RecordBook(tmp_path)
    ended = book.append(record(1, trigger="trial", decision="rolled_back", verdict=None, trial=TRIAL))
    assert book.read() == ([ended], [])
    assert ended.trial == TRIAL
    assert str(EVIDENCE) == "gain +10.0 % ± 2.0 % at equal cost, e-values 25 for better, 0.1 for worse"


def test_records_survive_the_file(tmp_path: Path) -> None:
    book = RecordBook(tmp_path / "state")
    assert (book.read(), book.next_number(), book.find(1)) == (([], []), 1, None)
    by_hand = EvolutionRecord(2, 2e9, "asked", "set", "asked", FIRST, Champion(Formula.parse("t"), BY_HAND, 2, 2e9))
    for one in (record(), by_hand, record(3, decision="failed", verdict=None, challenger=None, data=None)):
        book.append(one)
    read, faults = book.read()
    assert faults == []
    assert read == [record(), by_hand, record(3, decision="failed", verdict=None, challenger=None, data=None)]
    assert read[0].seconds == 8.5
    assert (book.next_number(), book.find(2)) == (4, by_hand)
    assert [json.loads(line)["number"] for line in book.path.read_text().splitlines()] == [1, 2, 3]


def test_a_number_used_by_another_writer_is_not_reused(tmp_path: Path) -> None:
    book = written(tmp_path, 2)
    promoted = book.append(record(2))
    assert (promoted.number, promoted.champion_after.record) == (3, 3)
    kept = book.append(record(1, decision="kept", champion_after=record(1).champion_after))
    assert (kept.number, kept.champion_after.record) == (4, 1)
    assert book.append(record(9)).number == 9
    assert [one.number for one in book.read()[0]] == [1, 2, 3, 4, 9]
    assert book.find(3) == promoted


def test_concurrent_writers_get_distinct_numbers(tmp_path: Path) -> None:
    with ThreadPoolExecutor(4) as pool:
        given = list(pool.map(lambda _: RecordBook(tmp_path).append(record(1)).number, range(24)))
    assert sorted(given) == list(range(1, 25))
    assert [one.number for one in RecordBook(tmp_path).read()[0]] == list(range(1, 25))


def test_equal_runs_leave_equal_records() -> None:
    assert record(seconds=1.0) == record(seconds=2.0)
    assert record(seed=4) != record()


@pytest.mark.parametrize("cut", [1, 2, 40, 500])
def test_a_torn_last_line_affects_no_other(tmp_path: Path, cut: int) -> None:
    book = written(tmp_path, 3)
    whole = book.path.read_bytes()
    book.path.write_bytes(whole[:-cut])
    read, faults = book.read()
    if cut == 1:  # all but the line break: the record is complete
        assert (len(read), faults) == (3, [])
    else:
        assert [one.number for one in read] == [1, 2]
        assert [(fault.line, fault.torn) for fault in faults] == [(3, True)]
        assert str(faults[0]) == "line 3: was only partly written"
    number = book.next_number()
    assert number == 4
    book.append(record(number))
    read, faults = book.read()
    assert [one.number for one in read] == ([1, 2, 3, 4] if cut == 1 else [1, 2, 4])
    assert [(fault.line, fault.torn) for fault in faults] == ([] if cut == 1 else [(3, False)])
    assert book.path.read_bytes().startswith(whole[:-cut] + b"\n")


@grouped(
    ("reason", "line"),
    {
        "is not a record": [b"\xff\xfe", b"[" * 100_000, json.dumps(record(2).to_json() | {"candidates": 3}).encode()],
        "Expected `object`, got `int`": [b"7"],
        "missing": [b"{}"],
        "Invalid enum value 'maybe'": [json.dumps(record(2).to_json() | {"decision": "maybe"}).encode()],
        "unknown field 'surprise'": [json.dumps(record(2).to_json() | {"surprise": 1}).encode()],
        "Expected `int`, got `str`": [json.dumps(record(2).to_json() | {"number": "two"}).encode()],
        "Object missing required field `evidence`": [
            json.dumps(record(2).to_json() | {"trial": {"challenger": "t", "since_s": 1.0}}).encode()
        ],
        "Expected `array` of length 2": [
            json.dumps(
                record(2, trial=TRIAL).to_json() | {"trial": msgspec.to_builtins(TRIAL) | {"evidence": BAD}}
            ).encode()
        ],
        "column 4": [json.dumps(record(2).to_json() | {"champion_after": {"formula": "1 +"}}).encode()],
        "champion": [
            *[json.dumps(record(2).to_json() | {"champion_after": {"origin": "first"}}).encode()],
            *[json.dumps(record(2).to_json() | {"champion_after": None}).encode()],
        ],
    },
)
def test_a_damaged_line_is_reported_and_affects_no_other(tmp_path: Path, line: bytes, reason: str) -> None:
    book = written(tmp_path, 3)
    lines = book.path.read_bytes().splitlines()
    book.path.write_bytes(b"\n".join([lines[0], line, lines[2]]) + b"\n")
    read, faults = book.read()
    assert [one.number for one in read] == [1, 3]
    assert [fault.line for fault in faults] == [2]
    assert reason in str(faults[0])
    assert "\n" not in str(faults[0])
    assert book.next_number() == 4


def test_a_write_that_fails_leaves_the_file_as_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    book = written(tmp_path, 2)
    before = book.path.read_bytes()

    def full_after_some(handle: int, line: bytes) -> int:
        if len(line) > 100:
            return real(handle, line[:100])
        raise OSError(errno.ENOSPC, "No space left on device")

    real = os.write
    monkeypatch.setattr(os, "write", lambda handle, line: full_after_some(handle, line[:150]))
    with pytest.raises(SnapshotError, match="cannot be written: No space left on device"):
        book.append(record(3))
    monkeypatch.undo()
    assert book.path.read_bytes() == before
    book.append(record(3))
    assert [one.number for one in book.read()[0]] == [1, 2, 3]


def test_a_directory_that_cannot_be_used_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(SnapshotError, match=r"file/evolutions\.jsonl: cannot be"):
        RecordBook(tmp_path / "file").append(record())
    (tmp_path / "evolutions.jsonl").mkdir()
    with pytest.raises(SnapshotError, match=r"evolutions\.jsonl: is a directory"):
        RecordBook(tmp_path).read()


def test_results_survive_json_and_are_validated() -> None:
    for result in (
        make_result("posterior * t", 0.1, 3),
        replace(make_result("t", -0.1, 3), data=DataSpan(0.0, 19, 5)),
        EvolutionResult(None, None),
        EvolutionResult(None, None, (Candidate("t", float("nan"), None, 0.5),)),
    ):
        read = EvolutionResult.from_json(json.loads(json.dumps(result.to_json(), allow_nan=False)))
        assert read.to_json() == result.to_json()
    good = make_result("t", 0.1, 3).to_json()
    wrong: tuple[object, ...] = (
        [],
        {"challenger": None},
        good | {"challenger": None},
        good | {"challenger": 3},
        good | {"archive": [3]},
        good | {"candidates": [{"train": 0.1}]},
        good | {"verdict": good["verdict"] | {"noise": 1.0}},
        good | {"verdict": 3},
        *(good | {"verdict": good["verdict"] | {name: value}} for name, value in (("gain", "much"), ("promote", 1))),
    )
    for bad in wrong:
        with pytest.raises(ValueError, match=r"[Ee]xpected|missing|verdict"):
            EvolutionResult.from_json(bad)


def test_data_spans_describe_their_content() -> None:
    assert str(DataSpan(0.0, 19, 50_000, 0.405)) == "50,000 pages × 19 cycles, 40.5 % seen, the rest completed"
    assert str(DataSpan(0.0, 19, 50_000)) == "50,000 pages × 19 cycles, 100.0 % seen"
    assert str(DataSpan(0.0, 1, 1)) == "1 page × 1 cycle, 100.0 % seen"


def test_what_is_written_is_read(tmp_path: Path) -> None:
    elites = Elites(("NAD * t", "CG"), 17)
    write_elites(tmp_path / "made", elites, number=3)
    assert read_elites(tmp_path / "made", 4) == elites


def test_elites_of_a_record_that_was_never_written(tmp_path: Path) -> None:
    write_elites(tmp_path, Elites(("NAD * t",)), number=3, before=["CG"])
    assert read_elites(tmp_path, 3) == Elites(("CG",))


@pytest.mark.parametrize("content", ["{", "[]", '{"content": "{}", "crc": 1}'])
def test_a_file_that_cannot_be_read_has_no_elites(tmp_path: Path, content: str) -> None:
    assert read_elites(tmp_path, 1) == Elites()
    (tmp_path / ARCHIVE_NAME).write_text(content)
    assert read_elites(tmp_path, 1) == Elites()


def test_a_directory_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / ARCHIVE_NAME).mkdir()
    with pytest.raises(SnapshotError) as caught:
        write_elites(tmp_path, Elites())
    assert caught.value.path == str(tmp_path)


def test_a_first_cycle_in_the_future_is_mended(tmp_path: Path) -> None:
    assert mend_evolution_times(tmp_path, 10.0, 100.0, 95.0) == 0  # neither file exists
    write_elites(tmp_path, Elites(("CG",), 10))
    assert mend_evolution_times(tmp_path, 10.0, 100.0, 95.0) == 0
    write_elites(tmp_path, Elites(("CG",), 11))
    assert mend_evolution_times(tmp_path, 10.0, 100.0, 95.0) == 1
    assert read_elites(tmp_path, 1) == Elites(("CG",), 9)
