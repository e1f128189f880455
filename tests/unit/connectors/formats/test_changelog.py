"""Change logs: what each op becomes, and every way in which a line can be malformed."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamsched.connectors import Rejection, open_source
from streamsched.estimation.change_detection import verdict
from streamsched.outcomes import Outcome
from tests.support.cases import examples
from tests.support.crawl_outcomes import read_out
from tests.support.paths import LOGS

GOOD = b"1692662400\tM\thttps://a.example/\n"
OUTCOME = Outcome("https://a.example/", 1_692_662_400.0, status=200, changed=True)


def read(folder: Path, data: bytes, batch: int = 1000) -> tuple[list[Outcome], list[Rejection]]:
    path = folder / "log.tsv"
    path.write_bytes(data)
    with open_source(path, format="changes", batch=batch) as source:
        got = read_out(source)
        assert source.rejected == len(source.rejections)
        return got, list(source.rejections)


def test_ops_become_outcomes(tmp_path: Path) -> None:
    log = b"10\tA\tu\n20\tM\tu\n30\tD\tu\n40\tA\tu\n"
    got, rejections = read(tmp_path, log)
    assert rejections == []
    assert got == [
        Outcome("u", 10.0, status=200),
        Outcome("u", 20.0, status=200, changed=True),
        Outcome("u", 30.0, status=404, changed=True),
        Outcome("u", 40.0, status=200),
    ]
    before = [None, *got[:-1]]
    assert [verdict(a, b) for a, b in zip(before, got, strict=True)] == ["first", "change", "change", "change"]


@pytest.mark.parametrize(
    "line",
    [b"5\tA\tu", b"99999999999\tA\tu", b"1.25\tA\tu", b"1692662400\tA\thttps://a/b c?d=\xc3\xa9"],
)
@pytest.mark.parametrize("end", [b"", b"\n", b"\r\n", b"\n\n", b"\r\n\r\n"])
def test_epochs_urls_and_line_ends(tmp_path: Path, line: bytes, end: bytes) -> None:
    got, rejections = read(tmp_path, line + end)
    assert rejections == []
    epoch, _, url = line.split(b"\t")
    assert [(outcome.fetched_at, outcome.url.encode()) for outcome in got] == [(float(epoch), url)]


@pytest.mark.parametrize("first", [b"10\tA\tu\t0\n", b"10\tA\tu\n"])  # lines of one length, or of two
def test_fourth_field_is_the_significance(tmp_path: Path, first: bytes) -> None:
    got, rejections = read(tmp_path, first + b"20\tM\tu\t0.25\n30\tD\tu\t1\n")
    assert rejections == []
    listed = [outcome.significance for outcome in got]
    assert listed == [0.0 if first.endswith(b"0\n") else None, 0.25, 1.0]


MALFORMED = [
    (b"1692662400 M https://a.example/", "record", "tab", "'1692662400 M"),
    (b"1692662400\tM", "record", "tab", "'1692662400\\tM'"),
    (b"1692662400\tM\tu\textra", "significance", "number from 0 to 1", "'extra'"),
    (b"1692662400\tM\tu\t1.5", "significance", "number from 0 to 1", "'1.5'"),
    (b"1692662400\tM\tu\t", "significance", "number from 0 to 1", "''"),
    (b"1692662400\tM\tu\t0.5\t", "record", "tab", "'1692662400"),
    (b"\xff\xfe\x00", "record", "tab", "'\N{REPLACEMENT CHARACTER}"),
    (b"soon\tM\tu", "fetched_at", "epoch seconds", "'soon'"),
    (b"\tM\tu", "fetched_at", "epoch seconds", "''"),
    (b"nan\tM\tu", "fetched_at", "epoch seconds", "'nan'"),
    (b"inf\tM\tu", "fetched_at", "epoch seconds", "'inf'"),
    (b"1_0\tM\tu", "fetched_at", "epoch seconds", "'1_0'"),
    (b" 10\tM\tu", "fetched_at", "epoch seconds", "' 10'"),
    (b"1e3\tM\tu", "fetched_at", "epoch seconds", "'1e3'"),
    (b"1" * 16 + b"\tM\tu", "fetched_at", "epoch seconds", "'1111"),
    ("١٢\tM\tu".encode(), "fetched_at", "epoch seconds", "'١٢'"),
    (b"10\tX\tu", "op", "A, M or D", "'X'"),
    (b"10\tm\tu", "op", "A, M or D", "'m'"),
    (b"10\t\tu", "op", "A, M or D", "''"),
    (b"10\tAM\tu", "op", "A, M or D", "'AM'"),
    (b"10\tM\t", "url", "1 to 8192 bytes", "''"),
    (b"10\tM\t" + b"x" * 8193, "url", "1 to 8192 bytes", "'xxx"),
    (b"10\tM\t\xff", "url", "UTF-8", "'\N{REPLACEMENT CHARACTER}'"),
]


@pytest.mark.parametrize("alone", [True, False], ids=["alone", "amid"])
@pytest.mark.parametrize(("line", "field", "reason", "found"), MALFORMED, ids=range(len(MALFORMED)))
def test_malformed_lines_are_named(
    tmp_path: Path, line: bytes, field: str, reason: str, found: str, alone: bool
) -> None:
    around = b"" if alone else GOOD
    got, rejections = read(tmp_path, around + line + b"\n" + around)
    assert got == ([] if alone else [OUTCOME, OUTCOME])
    assert [(r.unit, r.offset, r.field) for r in rejections] == [("line", 1 if alone else 2, field)]
    assert reason in rejections[0].reason
    assert rejections[0].found.startswith(found)


@pytest.mark.parametrize(
    ("name", "ops"),
    [("openwrt", 8_872), ("powershell-docs", 16_475), ("scoop-extras", 45_099)],
)
def test_the_logs_that_ship_with_the_project_are_clean(name: str, ops: int) -> None:
    path = LOGS / f"{name}.tsv.gz"
    with open_source(path) as source:
        assert sum(len(delivery.records) for delivery in source) == ops
        assert source.rejected == 0


valid = st.sampled_from([GOOD, b"1.5\tA\tu\n", b"2\tD\tu\r\n", b"\n"])
broken = st.sampled_from([b"\t", b"\n", b"\r", b"1", b"M", b"\tM\t", b"x\ty\tz\n", b"1\tA\tu\t", b"\xff"])


@examples(ordinary=30, whole=100)
@given(parts=st.lists(valid | broken, max_size=10), batch=st.sampled_from([1, 2, 100]))
def test_whatever_comes_every_line_is_accounted_for(
    tmp_path_factory: pytest.TempPathFactory, parts: list[bytes], batch: int
) -> None:
    data = b"".join(parts)
    got, rejections = read(tmp_path_factory.getbasetemp(), data, batch)
    assert len(got) + len(rejections) == sum(bool(line.strip()) for line in data.split(b"\n"))
    whole, again = read(tmp_path_factory.getbasetemp(), data, 10**6)
    assert (got, rejections) == (whole, again)
