"""Every format of every source, plain and gzip, keeps the contract of `streamsched.connectors.Source`."""

from __future__ import annotations

import gzip
import json
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path

import msgspec
import pytest

from streamsched.connectors import (
    Delivery,
    Position,
    Source,
    encode_frame,
    open_source,
    write_jsonl,
    write_msgpack,
    write_sample,
)
from streamsched.errors import SourceError
from streamsched.outcomes import Outcome, OutcomeBatch
from tests.support.crawl_outcomes import make_outcomes, put, read_out

OUTCOMES = make_outcomes(23)
BATCHES = [OutcomeBatch.from_outcomes(OUTCOMES[i : i + 4]) for i in range(0, len(OUTCOMES), 4)]


@dataclass(frozen=True)
class Case:
    """A format's sample: its records, each as bytes, the outcomes they make, and records that break the format."""

    kind: str
    name: str
    records: list[bytes]
    outcomes: list[Outcome]
    malformed: list[bytes]
    companions: list[tuple[str, bytes]]


def jsonl(folder: Path) -> Case:
    write_jsonl(BATCHES, folder / "a.jsonl")
    lines = (folder / "a.jsonl").read_bytes().splitlines(keepends=True)
    return Case("jsonl", "a.jsonl", lines, OUTCOMES, [b"{\n", b'{"url":"u","fetched_at":null}\n', b"\xff\n"], [])


def changes(_folder: Path) -> Case:
    rows = [(1_692_662_400 + i // 2, "AMD"[i % 3], f"https://a.example/é{i % 5}") for i in range(20)]
    outcome = {"A": (200, None), "M": (200, True), "D": (404, True)}
    return Case(
        "changes",
        "log.tsv",
        [f"{epoch}\t{op}\t{url}\n".encode() for epoch, op, url in rows],
        [Outcome(url, epoch, outcome[op][0], changed=outcome[op][1]) for epoch, op, url in rows],
        [b"12\tX\thttps://a.example/\n", b"soon\tM\thttps://a.example/\n", b"nothing\n"],
        [],
    )


def maps(folder: Path) -> Case:
    write_msgpack(BATCHES, folder / "a.mp", frames=False)
    data = (folder / "a.mp").read_bytes()
    lengths = [len(msgspec.msgpack.encode(msgspec.json.decode(line))) for line in jsonl(folder).records]
    starts = [sum(lengths[:i]) for i in range(len(lengths) + 1)]
    records = [data[start:end] for start, end in pairwise(starts)]
    return Case("msgpack", "a.msgpack", records, OUTCOMES, [b"\xc1", b"\x81\xa3url\xa1u", b"\x81\xa3url\xc4\x00"], [])


def frames(folder: Path) -> Case:
    case = maps(folder)
    return replace(case, name="frames.msgpack", records=[encode_frame(batch) for batch in BATCHES])


def mixed(folder: Path) -> Case:
    case = maps(folder)
    records = [*case.records[:4], *(encode_frame(batch) for batch in BATCHES[1:3]), *case.records[12:]]
    return replace(case, name="mixed.msgpack", records=records)


def microsoft(folder: Path) -> Case:
    history = write_sample(folder / "sample", pages=12, seed=3, days=9)
    with open_source(history) as source:
        known = read_out(source)
    names = ("url_urlid_hostid.txt", "urlid_imp.txt")
    return Case(
        "microsoft",
        history.name,
        history.read_bytes().splitlines(keepends=True),
        known,
        [b"5\t1.0\n", b"99\t0.5\t[[1.0, 1]]\n", b"1\t0.5\t[[1.0, 2]]\n"],
        [(name, (history.parent / name).read_bytes()) for name in names],
    )


MAKERS: list[Callable[[Path], Case]] = [jsonl, changes, maps, frames, mixed, microsoft]


@pytest.fixture(params=MAKERS, ids=lambda make: make.__name__)
def case(request: pytest.FixtureRequest, tmp_path: Path) -> Case:
    made: Case = request.param(tmp_path)
    return made


@pytest.fixture(params=["", ".gz"], ids=["plain", "gzip"])
def suffix(request: pytest.FixtureRequest) -> str:
    ending: str = request.param
    return ending


def lay(folder: Path, case: Case, suffix: str, data: bytes) -> Path:
    """Write `data` as the case's file in a folder of its own, with its companions."""
    folder = folder / "laid"
    folder.mkdir(exist_ok=True)
    for name, content in case.companions:
        put(folder / f"{name}{suffix}", content)
    return put(folder / f"{case.name}{suffix}", data)


@pytest.fixture
def clean(tmp_path: Path, case: Case, suffix: str) -> Path:
    return lay(tmp_path, case, suffix, b"".join(case.records))


@pytest.fixture
def spoiled(tmp_path: Path, case: Case, suffix: str) -> Path:
    """The case's file with a malformed record after each of the first three records, and all of them at the end."""
    parts = []
    for i, record in enumerate(case.records):
        parts += [record, case.malformed[i]] if i < len(case.malformed) else [record]
    return lay(tmp_path, case, suffix, b"".join(parts + case.malformed))


def test_it_is_a_source(clean: Path) -> None:
    with open_source(clean) as source:
        assert isinstance(source, Source)


def test_outcomes_come_as_they_were_written(clean: Path, case: Case) -> None:
    with open_source(clean) as source:
        assert read_out(source) == case.outcomes
        assert source.rejected == 0
        assert source.rejections == ()
        assert source.format == case.kind


@pytest.mark.parametrize("batch", [1, 2, 7, 10**9])
def test_batch_changes_the_cuts_and_nothing_else(spoiled: Path, case: Case, batch: int) -> None:
    with open_source(spoiled, batch=batch) as source:
        assert read_out(source) == case.outcomes
        assert source.rejected == 6


def test_malformed_records_are_counted_named_and_passed_over(spoiled: Path, case: Case) -> None:
    with open_source(spoiled) as source:
        assert read_out(source) == case.outcomes
        assert source.rejected == 6
        offsets = [rejection.offset for rejection in source.rejections]
        assert offsets == sorted(offsets)
        for rejection in source.rejections:
            assert rejection.path == str(spoiled)
            assert rejection.unit == ("byte" if case.kind == "msgpack" else "line")
            assert "expected" in str(rejection) or "cannot be read" in str(rejection)
            assert "found" in str(rejection)


def test_dead_letters_hold_every_rejection_and_its_record(spoiled: Path, case: Case, tmp_path: Path) -> None:
    letters = tmp_path / "dead.jsonl"
    with open_source(spoiled, dead_letters=letters) as source:
        read_out(source)
        rejections = source.rejections
    entries = [json.loads(line) for line in letters.read_text().splitlines()]
    assert len(entries) == 6
    for entry, rejection in zip(entries, rejections, strict=True):
        assert {field: entry[field] for field in ("path", "unit", "offset", "field", "reason", "found")} == {
            field: getattr(rejection, field) for field in ("path", "unit", "offset", "field", "reason", "found")
        }
        assert ("raw" in entry) != ("raw_base64" in entry)
    raws = [entry["raw"] for entry in entries if "raw" in entry and case.kind != "msgpack"]
    assert all(f"{raw}\n".encode() in case.malformed for raw in raws)


@pytest.mark.parametrize("batch", [1, 3, 10**6])
def test_resuming_after_any_delivery_gives_the_rest(spoiled: Path, batch: int) -> None:
    with open_source(spoiled, batch=batch) as source:
        steps = [(delivery, source.rejected) for delivery in source]
        total = source.rejected
    for i, (delivery, rejected) in enumerate(steps):
        position = Position.from_json(json.loads(json.dumps(delivery.position.to_json())))
        rest = [outcome for later, _ in steps[i + 1 :] for outcome in later.records]
        with open_source(spoiled, position=position, batch=batch) as again:
            assert read_out(again) == rest
            assert again.rejected + rejected == total
            assert all(r.offset > position.records or r.unit == "byte" for r in again.rejections)


def test_seeking_in_an_open_source(clean: Path, case: Case) -> None:
    with open_source(clean, batch=2) as source:
        first = next(source)
        rest = read_out(source)
        source.seek(first.position)
        assert read_out(source) == rest
        assert list(first.records) + rest == case.outcomes


def test_iterating_again_goes_on(clean: Path, case: Case) -> None:
    with open_source(clean, batch=3) as source:
        taken: list[Outcome] = []
        for delivery in source:
            taken += delivery.records
            break
        assert taken + read_out(source) == case.outcomes
        assert list(source) == []


def test_empty_input_delivers_nothing(tmp_path: Path, case: Case, suffix: str) -> None:
    with open_source(lay(tmp_path, case, suffix, b"")) as source:
        assert list(source) == []
        assert source.rejected == 0


def test_input_of_nothing_but_malformed_records_delivers_nothing(tmp_path: Path, case: Case, suffix: str) -> None:
    path = lay(tmp_path, case, suffix, b"".join(case.malformed))
    with open_source(path, format=case.kind) as source:
        assert list(source) == []
        assert source.rejected == 3


def test_position_beyond_the_end_is_refused(clean: Path) -> None:
    with open_source(clean) as source:
        position = list(source)[-1].position
    with pytest.raises(SourceError, match="beyond the end"):
        open_source(clean, position=replace(position, offset=position.offset + 1))
    with open_source(clean, position=position) as at_end:
        assert list(at_end) == []


def test_position_of_another_file_or_format_is_refused(clean: Path, tmp_path: Path) -> None:
    with open_source(clean) as source:
        position = next(source).position
        other = replace(position, path=str(tmp_path / "other"))
        with pytest.raises(SourceError, match="belongs to"):
            source.seek(other)
        with pytest.raises(SourceError, match="belongs to"):
            source.seek(replace(position, kind="kafka"))


def test_closed_source_says_so(clean: Path) -> None:
    source = open_source(clean)
    position = next(source).position
    source.close()
    source.close()
    with pytest.raises(SourceError, match="closed"):
        next(source)
    with pytest.raises(SourceError, match="closed"):
        source.seek(position)


def test_truncated_gzip_is_read_up_to_there(tmp_path: Path, case: Case) -> None:
    packed = gzip.compress(b"".join(case.records), compresslevel=0)
    path = lay(tmp_path, case, ".gz", b"")
    path.write_bytes(packed[: len(packed) * 2 // 3])
    with open_source(path) as source:
        deliveries: list[Delivery[OutcomeBatch]] = []
        with pytest.raises(SourceError, match="truncated gzip") as raised:
            deliveries.extend(iter(source))
        got = read_out(deliveries)
        assert 0 < len(got) < len(case.outcomes)
        assert got == case.outcomes[: len(got)]
        assert source.rejected == 1
        assert "truncated gzip" in source.rejections[0].reason
        assert raised.value.path == str(path)
        assert raised.value.offset is not None
        assert list(source) == []


@pytest.fixture
def stdin(clean: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    with clean.open() as file:
        monkeypatch.setattr(sys, "stdin", file)
        yield


@pytest.mark.usefixtures("stdin")
def test_standard_input_is_read_and_cannot_be_resumed(case: Case) -> None:
    with open_source("-") as source:
        assert source.format == case.kind
        deliveries = list(source)
        # What stands beside a file is out of reach here, so a crawl history has neither URLs nor importances.
        seen = [(outcome.fetched_at, outcome.status, outcome.changed) for outcome in read_out(deliveries)]
        assert seen == [(outcome.fetched_at, outcome.status, outcome.changed) for outcome in case.outcomes]
        assert {delivery.position.path for delivery in deliveries} == {"-"}
        with pytest.raises(SourceError, match="cannot be resumed"):
            source.seek(deliveries[0].position)
