"""Pages as tables: columns, times, what is null, and errors."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest
from pyarrow import feather, parquet

from streamsched import Outcome, Scheduler, SettingsError, SnapshotError
from streamsched.errors import NOTHING
from streamsched.persistence import export
from streamsched.persistence.export import COLUMNS, export_pages


@pytest.fixture
def scheduler() -> Scheduler:
    scheduler = Scheduler()
    day = 86_400.0
    scheduler.observe([Outcome("https://a.example/x/1", (at + 1) * day, changed=at == 2) for at in range(4)])
    scheduler.observe(Outcome("https://a.example/gone", day, status=404))
    scheduler.discover(["https://b.example/ä"], now=-9.9e10)
    scheduler.discover(["https://b.example/new"], now=5 * day, importance=2.5)
    scheduler.next_batch(1, now=6 * day, lease="1h")
    scheduler.ask(["https://b.example/new"], now=6 * day)
    return scheduler


@pytest.mark.parametrize("name", ["pages.parquet", "pages.arrow", "pages.feather"])
def test_every_page_is_a_row(scheduler: Scheduler, tmp_path: Path, name: str) -> None:
    assert export_pages(scheduler.core.pages, tmp_path / name) == 4
    table = parquet.read_table(tmp_path / name) if name.endswith("t") else feather.read_table(tmp_path / name)
    assert table.column_names == [column for column, *_ in COLUMNS]
    rows = {row["url"]: row for row in table.to_pylist()}
    first = rows["https://a.example/x/1"]
    assert (first["host"], first["pattern"]) == ("a.example", "a.example")
    assert (first["visits"], first["changes"], first["NAD"]) == (3, 1, pytest.approx(1 / 3))
    assert first["last_visit"] == datetime(1970, 1, 5, tzinfo=UTC)
    assert first["known_since"] is None
    assert first["rate"] == pytest.approx(first["posterior_shape"] / first["posterior_exposure"])
    assert rows["https://a.example/gone"]["gone"] == 1
    assert rows["https://a.example/gone"]["succeeded"] is False
    assert rows["https://b.example/ä"]["known_since"] is None  # no calendar holds it
    new = rows["https://b.example/new"]
    assert (new["importance"], new["asked_for"], new["last_visit"]) == (2.5, True, None)
    assert new["known_since"] == datetime(1970, 1, 6, tzinfo=UTC)
    leased = [row["leased_until"] for row in rows.values() if row["leased_until"] is not None]
    assert leased == [datetime(1970, 1, 7, 1, tzinfo=UTC)]
    assert table.schema.field("rate").metadata[b"about"].startswith(b"posterior mean")


def test_contents_are_as_they_were_given(scheduler: Scheduler, tmp_path: Path) -> None:
    export_pages(scheduler.core.pages, tmp_path / "none.parquet")
    assert set(parquet.read_table(tmp_path / "none.parquet")["content"].to_pylist()) == {None}
    given = [0, 1, 0xC0E761F929A815DD]
    urls = [f"https://c.example/{content}" for content in given]
    scheduler.observe([Outcome(url, 8e5, content=content) for url, content in zip(urls, given, strict=True)])
    export_pages(scheduler.core.pages, tmp_path / "pages.parquet")
    rows = {row["url"]: row["content"] for row in parquet.read_table(tmp_path / "pages.parquet").to_pylist()}
    assert [rows[url] for url in urls] == given
    assert rows["https://a.example/x/1"] is None


def test_chunks_follow_one_another(scheduler: Scheduler, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    export_pages(scheduler.core.pages, tmp_path / "whole.parquet")
    monkeypatch.setattr(export, "_ROWS", 3)
    export_pages(scheduler.core.pages, tmp_path / "cut.parquet")
    assert parquet.read_table(tmp_path / "cut.parquet") == parquet.read_table(tmp_path / "whole.parquet")


def test_no_pages(tmp_path: Path) -> None:
    assert export_pages(Scheduler().core.pages, tmp_path / "none.parquet") == 0
    assert parquet.read_table(tmp_path / "none.parquet").num_rows == 0


def test_errors(scheduler: Scheduler, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(SettingsError, match=r"a file name that ends in \.parquet, "):
        export_pages(scheduler.core.pages, tmp_path / "pages.csv")
    with pytest.raises(SnapshotError, match=r"none/pages\.parquet: cannot be written: No such file"):
        export_pages(scheduler.core.pages, tmp_path / "none" / "pages.parquet")

    def missing(_name: str) -> None:
        raise ImportError

    monkeypatch.setattr(export, "import_module", missing)
    with pytest.raises(SettingsError, match=r"pip install 'streamsched\[export\]'") as caught:
        export_pages(scheduler.core.pages, tmp_path / "pages.parquet")
    assert (caught.value.setting, caught.value.found) == ("pyarrow", NOTHING)
    assert not list(tmp_path.iterdir())
