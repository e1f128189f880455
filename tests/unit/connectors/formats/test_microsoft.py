"""Microsoft's crawl history: how a line becomes outcomes, what stands beside it, and what can be malformed."""

from __future__ import annotations

import math
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamsched.connectors import Rejection, open_source, write_sample
from streamsched.connectors.formats.microsoft import ORIGIN_S, read_page_histories
from streamsched.connectors.reading.rejections import Rejections
from streamsched.errors import SettingsError, SourceError
from streamsched.outcomes import Outcome
from tests.support.crawl_outcomes import put, read_out

DAY_S = 86_400.0
HISTORY = b"5\t0.5\t[[1.0, 0], [0.25, 1]]\n7 2.0 []\n"
URLS = b"https://a.example/5\t5\t1\nhttps://b.example/7\t7\t2\r\n"
IMPORTANCES = b"7\t0.125\n5\t3e-2\n"


def lay(folder: Path, history: bytes, urls: bytes | None = URLS, importances: bytes | None = IMPORTANCES) -> Path:
    for name, content in (("url_urlid_hostid.txt", urls), ("urlid_imp.txt", importances)):
        if content is not None:
            put(folder / name, content)
    return put(folder / "urlid_offset_history.txt", history)


def read(path: Path, **options: Any) -> tuple[list[Outcome], list[Rejection]]:
    with open_source(path, **options) as source:
        got = read_out(source)
        assert source.rejected == len(source.rejections)
        return got, list(source.rejections)


def test_a_line_becomes_the_first_crawl_and_one_outcome_a_pair(tmp_path: Path) -> None:
    got, rejections = read(lay(tmp_path, HISTORY), origin_s=1000.0)
    assert rejections == []
    assert got == [
        Outcome("https://a.example/5", 1000.0 + 0.5 * DAY_S, importance=0.03),
        Outcome("https://a.example/5", 1000.0 + 1.5 * DAY_S, changed=False, importance=0.03),
        Outcome("https://a.example/5", 1000.0 + 1.75 * DAY_S, changed=True, importance=0.03),
        Outcome("https://b.example/7", 1000.0 + 2.0 * DAY_S, importance=0.125),
    ]


def test_the_row_that_the_publication_shows(tmp_path: Path) -> None:
    row = b"5 5.5143055555555556 [[1.10396990740741, 0], [1.47311342592593, 1]]"
    got, _ = read(lay(tmp_path, row, None, None))
    assert [outcome.changed for outcome in got] == [None, False, True]
    days = [(outcome.fetched_at - ORIGIN_S) / DAY_S for outcome in got]
    assert days == pytest.approx([5.5143055555555556, 6.6182754629629656, 8.0913888888888956])


def test_without_companions_urls_are_made_up_and_importance_is_absent(tmp_path: Path) -> None:
    got, rejections = read(lay(tmp_path, HISTORY, None, None))
    assert rejections == []
    assert [(o.url, o.importance) for o in got] == [("http://unknown.invalid/urlid/5", None)] * 3 + [
        ("http://unknown.invalid/urlid/7", None)
    ]


def test_an_importance_may_be_missing_for_some(tmp_path: Path) -> None:
    got, rejections = read(lay(tmp_path, HISTORY, importances=b"7\t0.125\n"))
    assert rejections == []
    assert [outcome.importance for outcome in got] == [None, None, None, 0.125]


@pytest.mark.parametrize("importances", [b"", b"\n"])
def test_empty_companions(tmp_path: Path, importances: bytes) -> None:
    got, rejections = read(lay(tmp_path, HISTORY, b"", importances))
    assert got == []
    assert [(r.offset, r.field, r.found) for r in rejections] == [(1, "url_id", "5"), (2, "url_id", "7")]


def test_a_page_without_url_is_rejected(tmp_path: Path) -> None:
    got, rejections = read(lay(tmp_path, b"9\t1.0\t[]\n" + HISTORY + b"6\t1.0\t[]\n"))
    assert len(got) == 4
    assert [(r.offset, r.field, r.found) for r in rejections] == [(1, "url_id", "9"), (4, "url_id", "6")]


def test_the_first_row_of_an_id_counts(tmp_path: Path) -> None:
    urls = URLS + b"https://late.example/\t5\t1\n"
    got, _ = read(lay(tmp_path, b"5\t1.0\t[]\n", urls, IMPORTANCES + b"5\t9\n"))
    assert [(outcome.url, outcome.importance) for outcome in got] == [("https://a.example/5", 0.03)]


@pytest.mark.parametrize(
    ("line", "field", "found"),
    [
        (b"5", "record", "'5'"),
        (b"5\t1.0", "record", "'5\\t1.0'"),
        (b"x\t1.0\t[]", "url_id", "'x'"),
        (b"-5\t1.0\t[]", "url_id", "'-5'"),
        (b"5.0\t1.0\t[]", "url_id", "'5.0'"),
        (b"1234567890123456789\t1.0\t[]", "url_id", "'1234567890123456789'"),
        (b"5\tnan\t[]", "first_crawl", "'nan'"),
        (b"5\t-1\t[]", "first_crawl", "'-1'"),
        (b"5\t1e99\t[]", "first_crawl", "'1e99'"),
        (b"5\tsoon\t[]", "first_crawl", "'soon'"),
        (b"5\t1.0\t[", "history", "'['"),
        (b"5\t1.0\t[[1.0, 0]", "history", "'[[1.0, 0]'"),
        (b"5\t1.0\t{}", "history", "'{}'"),
        (b"5\t1.0\t[1.0, 0]", "history", "'[1.0, 0]'"),
        (b"5\t1.0\t[[1.0]]", "history", "'[[1.0]]'"),
        (b"5\t1.0\t[[1.0, 0, 0]]", "history", "'[[1.0, 0, 0]]'"),
        (b"5\t1.0\t[[1.0, 2]]", "history", "'[[1.0, 2]]'"),
        (b"5\t1.0\t[[1.0, true]]", "history", "'[[1.0, true]]'"),
        (b"5\t1.0\t[[1.0, 0.5]]", "history", "'[[1.0, 0.5]]'"),
        (b"5\t1.0\t[[-1.0, 0]]", "history", "'[[-1.0, 0]]'"),
        (b"5\t1.0\t[[1e7, 0]]", "history", "'[[1e7, 0]]'"),
        (b'5\t1.0\t[["1", 0]]', "history", "'[[\"1\", 0]]'"),
        (b"5\t1.0\t[[1.0, 0]] more", "history", "'[[1.0, 0]] more'"),
        (b"5\t1.0\t\xff", "history", "'\N{REPLACEMENT CHARACTER}'"),
    ],
)
def test_malformed_lines_are_named(tmp_path: Path, line: bytes, field: str, found: str) -> None:
    got, rejections = read(lay(tmp_path, HISTORY + line + b"\n" + HISTORY))
    assert len(got) == 8
    assert [(r.unit, r.offset, r.field, r.found) for r in rejections] == [("line", 3, field, found)]
    assert "expected" in rejections[0].reason


def test_histories_of_pages_have_times_since_their_first_visit(tmp_path: Path) -> None:
    path = lay(tmp_path, HISTORY + b"bad\n6\t1.0\t[[2.0, 1]]\n", None)
    put(tmp_path / "urlid_chrate_compl_obs_hist.txt", b"7\t0.5\nx\t1\n")
    rejections = Rejections()
    (found,) = read_page_histories(str(path), rejections)
    assert (found.times.tolist(), found.changed.tolist()) == ([1.0, 1.25, 2.0], [False, True, True])
    assert found.offsets.tolist() == [0, 2, 2, 3]
    assert str(found.importance.tolist()) == "[0.03, 0.125, nan]"
    assert str(found.change_rate.tolist()) == "[nan, 0.5, nan]"
    assert [(Path(r.path).name, r.offset, r.field) for r in rejections.last] == [
        ("urlid_chrate_compl_obs_hist.txt", 2, "url_id"),
        (path.name, 3, "record"),
    ]


@pytest.mark.parametrize(
    ("name", "line", "field"),
    [
        ("urls", b"https://c.example/", "record"),
        ("urls", b"https://c.example/ 6 1", "record"),
        ("urls", b"u\t6\t1\t1", "record"),
        ("urls", b"\t6\t1", "url"),
        ("urls", b"x" * 8193 + b"\t6\t1", "url"),
        ("urls", b"\xff\t6\t1", "url"),
        ("urls", b"u\tsix\t1", "url_id"),
        ("importances", b"6", "record"),
        ("importances", b"6\t1\t1", "record"),
        ("importances", b"six\t1", "url_id"),
        ("importances", b"6\t-1", "importance"),
        ("importances", b"6\tnan", "importance"),
        ("importances", b"6\t1e60", "importance"),
    ],
)
def test_malformed_companion_rows_are_named_and_the_others_count(
    tmp_path: Path, name: str, line: bytes, field: str
) -> None:
    content = {"urls": URLS, "importances": IMPORTANCES}
    content[name] = line + b"\n" + content[name]
    got, rejections = read(lay(tmp_path, HISTORY, **content))
    assert [outcome.importance for outcome in got] == [0.03, 0.03, 0.03, 0.125]
    assert [(r.offset, r.field) for r in rejections] == [(1, field)]
    assert Path(rejections[0].path).name == {"urls": "url_urlid_hostid.txt", "importances": "urlid_imp.txt"}[name]


def test_companions_are_read_once(tmp_path: Path) -> None:
    path = lay(tmp_path, HISTORY, URLS + b"bad\n")
    with open_source(path, batch=1) as source:
        first = next(source)
        source.seek(first.position)
        assert len(read_out(source)) == 1
        assert source.rejected == 1


def test_a_truncated_companion_is_an_error(tmp_path: Path) -> None:
    path = lay(tmp_path, HISTORY, None)
    packed = put(tmp_path / "url_urlid_hostid.txt.gz", URLS)
    packed.write_bytes(packed.read_bytes()[:-9])
    with open_source(path) as source, pytest.raises(SourceError, match=r"url_urlid_hostid.*truncated gzip"):
        next(source)


@pytest.mark.parametrize("origin_s", [math.nan, math.inf])
def test_the_origin_must_be_a_time(tmp_path: Path, origin_s: float) -> None:
    with pytest.raises(SettingsError, match="origin_s"):
        open_source(lay(tmp_path, HISTORY), origin_s=origin_s)


NAMES = [
    "host_hostid_isconstrained.txt",
    "url_urlid_hostid.txt",
    "urlid_chrate_compl_obs_hist.txt",
    "urlid_imp.txt",
    "urlid_offset_history.txt",
]


def test_a_sample_is_what_was_published(tmp_path: Path) -> None:
    history = write_sample(tmp_path / "sample", pages=50, seed=1, days=30)
    assert sorted(path.name for path in history.parent.iterdir()) == NAMES
    got, rejections = read(history)
    assert rejections == []
    by_url: dict[str, list[Outcome]] = {}
    for outcome in got:
        by_url.setdefault(outcome.url, []).append(outcome)
    assert len(by_url) == 50
    assert len({url.split("/")[2] for url in by_url}) == 3
    for visits in by_url.values():
        times = [visit.fetched_at for visit in visits]
        assert all(earlier < later for earlier, later in pairwise(times))
        assert 0 <= times[0] - ORIGIN_S <= times[-1] - ORIGIN_S <= 31 * DAY_S
        assert visits[0].changed is None
        assert any(visit.changed for visit in visits)
        assert len({visit.importance for visit in visits}) == 1
    assert 20 * 50 < len(got) <= 30 * 50


@given(st.integers(1, 30), st.integers(0, 3), st.integers(1, 6))
def test_a_sample_of_any_size_is_valid(
    tmp_path_factory: pytest.TempPathFactory, pages: int, seed: int, days: int
) -> None:
    folder = tmp_path_factory.getbasetemp() / "samples"
    got, rejections = read(write_sample(folder, pages, seed, days))
    assert rejections == []
    assert len({outcome.url for outcome in got}) == pages


def test_the_same_seed_gives_the_same_bytes(tmp_path: Path) -> None:
    for name, seed in (("a", 5), ("b", 5), ("c", 6)):
        write_sample(tmp_path / name, pages=30, seed=seed)
    a, b, c = ([(tmp_path / folder / name).read_bytes() for name in NAMES] for folder in "abc")
    assert a == b
    assert a != c
