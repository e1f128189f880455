"""ETag and Last-Modified of outcomes are kept and come back with the page, until its content is another."""

from __future__ import annotations

from pathlib import Path

import pytest
from msgspec import json

from streamsched import DurableScheduler, Outcome, OutcomeBatch, Scheduler
from streamsched.api.answers import LeasedPage
from streamsched.http.endpoints.crawling import _show_batch
from streamsched.outcomes import StatusWord

DAY = 86_400.0
URL = "https://a.example/"
DATE = "Wed, 21 Oct 2015 07:28:00 GMT"
OLD = ('"old"', DATE)


def validators(scheduler: Scheduler, now: float) -> dict[str, tuple[str | None, str | None]]:
    batch = scheduler.rank(100, now=now)
    return dict(zip(batch.urls, zip(batch.etags, batch.last_modified, strict=True), strict=True))


@pytest.mark.parametrize(
    ("status", "changed", "etag", "modified", "expected"),
    [
        (304, None, None, None, OLD),
        (304, None, '"new"', None, ('"new"', DATE)),
        (200, False, None, "Thu", ('"old"', "Thu")),
        (200, False, "", None, (None, DATE)),
        (200, False, "x" * 256, None, (None, DATE)),
        (200, False, "x" * 255, "y" * 64, ("x" * 255, "y" * 64)),
        (200, False, None, "y" * 65, ('"old"', None)),
        (200, False, "a\r\nHost: b.example", None, (None, DATE)),
        (200, False, 'W/"ä"', None, (None, DATE)),  # as a header httpx would not send it
        (200, False, '"\u2028"', None, (None, DATE)),
        (200, True, '"new"', None, ('"new"', None)),
        (200, True, None, None, (None, None)),
        (200, None, '"new"', None, ('"new"', None)),
        (200, None, None, None, (None, None)),
        (404, None, '"gone"', None, (None, None)),
        (410, False, None, None, (None, None)),
        (503, None, '"error"', None, OLD),
        (0, None, None, None, OLD),
        ("robots_denied", None, '"none"', None, OLD),
        ("not_attempted", None, '"none"', None, OLD),
    ],
)
def test_what_is_kept_follows_the_content(
    status: int | StatusWord,
    changed: bool | None,
    etag: str | None,
    modified: str | None,
    expected: tuple[str | None, str | None],
) -> None:
    scheduler = Scheduler(max_ahead=None)
    scheduler.observe([Outcome(URL, 1.0, etag=OLD[0], last_modified=OLD[1])])
    scheduler.observe([Outcome(URL, DAY, status, changed=changed, etag=etag, last_modified=modified)])
    scheduler.ask([URL], now=2 * DAY)
    assert validators(scheduler, 40 * DAY) == {URL: expected}
    assert scheduler.core.pages.faults() == []


def test_a_late_outcome_leaves_them() -> None:
    scheduler = Scheduler(max_ahead=None)
    scheduler.observe([Outcome(URL, DAY, etag='"1"')])
    assert scheduler.observe([Outcome(URL, DAY, etag='"2"'), Outcome(URL, 1.0, etag='"3"')]).applied == 0
    assert validators(scheduler, 2 * DAY) == {URL: ('"1"', None)}


def test_pages_of_a_batch_have_them() -> None:
    scheduler = Scheduler(max_ahead=None)
    other = "https://b.example/"
    scheduler.observe([Outcome(URL, 1.0, etag='"1"', last_modified=DATE), Outcome(other, 1.0)])
    batch = scheduler.next_batch(2, now=DAY, key="k")
    pages = {page.url: page for page in batch if isinstance(page, LeasedPage)}
    assert (pages[URL].etag, pages[URL].last_modified) == ('"1"', DATE)
    assert (pages[other].etag, pages[other].last_modified) == (None, None)
    again = scheduler.next_batch(2, now=DAY, key="k")
    assert again.repeated
    assert (again.etags, again.last_modified) == (batch.etags, batch.last_modified)
    answer = {page["url"]: page for page in json.decode(json.encode(_show_batch(batch)))["pages"]}
    assert (answer[URL]["etag"], answer[URL]["last_modified"]) == ('"1"', DATE)
    assert (answer[other]["etag"], answer[other]["last_modified"]) == (None, None)
    assert batch.to_table()["etag"] == batch.etags


def test_what_is_known_of_a_page_has_them() -> None:
    scheduler = Scheduler(max_ahead=None)
    scheduler.observe([Outcome(URL, 1.0, etag='"1"', last_modified=DATE), Outcome("https://b.example/", 1.0)])
    found = [scheduler.page(url, now=DAY) for url in (URL, "https://b.example/")]
    assert [page and (page.etag, page.last_modified) for page in found] == [('"1"', DATE), (None, None)]


def test_they_are_part_of_the_digest() -> None:
    one, other, none = (Scheduler(max_ahead=None, seed=1) for _ in range(3))
    for scheduler, etags in ((one, ('"1"', '"2"')), (other, ('"1"', '"3"')), (none, ('"1"', None))):
        for day, etag in enumerate(etags):
            scheduler.observe([Outcome(URL, day * DAY + 1.0, changed=False, etag=etag)])
    assert len({scheduler.digest() for scheduler in (one, other, none)}) == 3
    none.observe([Outcome(URL, 2 * DAY, changed=False, etag='"2"')])
    one.observe([Outcome(URL, 2 * DAY, changed=False)])
    assert none.digest() == one.digest()


def test_forgotten_pages_have_none(tmp_path: Path) -> None:
    scheduler = Scheduler(max_ahead=None)
    scheduler.observe([Outcome(URL, 1.0, etag="e" * 200), Outcome("https://b.example/", 1.0, etag='"b"')])
    scheduler.forget([URL])
    scheduler.discover([URL], now=DAY)
    for one in (scheduler, _saved(scheduler, tmp_path)):
        assert validators(one, 2 * DAY) == {URL: (None, None), "https://b.example/": ('"b"', None)}
        assert one.core.pages.faults() == []


def _saved(scheduler: Scheduler, folder: Path) -> Scheduler:
    scheduler.save(folder)
    return Scheduler.load(folder)


def test_they_survive_increments_and_a_kill(tmp_path: Path) -> None:
    """Blocks that pages gave to each other between an image, increments and calls that only the log has."""
    urls = [f"https://a.example/{i}" for i in range(50)]
    with DurableScheduler.open(tmp_path, settings={"max_ahead": None}) as scheduler:
        for day in range(6):
            some = urls[day * 3 : 30 + day * 4]
            etags = [f'"{day}-{i}"' * (1 + (i + day) % 9) if (i + day) % 5 else None for i in range(len(some))]
            times = [day * DAY + 1.0] * len(some)
            scheduler.observe(OutcomeBatch(some, times, changed=[True] * len(some), etag=etags))
            if day < 4:
                scheduler.snapshot()
        expected, digest = validators(scheduler, 7 * DAY), scheduler.digest()
        copied = tmp_path.with_name("copied")
        copied.mkdir()
        for file in tmp_path.iterdir():  # as a killed process leaves it: nothing is saved at the end
            if file.suffix != ".lock":
                (copied / file.name).write_bytes(file.read_bytes())
    with DurableScheduler.open(copied) as loaded:
        assert validators(loaded, 7 * DAY) == expected
        assert loaded.digest() == digest
        assert loaded.core.pages.faults() == []


def test_a_page_without_them_costs_nothing_but_its_number() -> None:
    scheduler = Scheduler(max_ahead=None)
    scheduler.observe([Outcome(f"https://a.example/{i}", 1.0, changed=True) for i in range(100)])
    assert scheduler.core.pages.arrays.validators.state["blocks"][0] == 0
