"""The book of documents, the gate of hosts, and files of signals."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from streamsched import SignalBatch
from streamsched.errors import SettingsError, SnapshotError, SourceError
from streamsched.fetching import document_book
from streamsched.fetching.document_book import Document, DocumentBook
from streamsched.fetching.host_gate import HostGate, HostRests
from streamsched.fetching.signal_files import SignalFile
from streamsched.fetching.visits import host_name, read_max_age, read_retry_after
from streamsched.web.robots import Robots

MAP = "https://a.example/in/map.xml"


def make_book() -> DocumentBook:
    book = DocumentBook()
    book.add(Document(MAP, "sitemap", etag='"1"'))
    book.add(Document("https://a.example/in/1.xml", "sitemap", MAP))
    book.add(Document("https://b.example/", "site"))
    book.add(Document("https://c.example/feed", "feed", "https://b.example/"))
    return book


def test_a_book_is_saved_whole(tmp_path: Path) -> None:
    book = make_book()
    book.vouch("b.example", [MAP])
    book.keep_robots("https://a.example/robots.txt", Robots("x", 1.0))
    book.denied[MAP], book.allowance = 2.0, 0.5
    book.save(tmp_path / "book", 3.0)
    again = DocumentBook.load(tmp_path / "book")
    assert [*again] == [*book]
    assert (again.robots, again.denied, again.allowance, again.saved_at) == (book.robots, {MAP: 2.0}, 0.5, 3.0)
    again.vouch("b.example", [])
    assert again.find(MAP) == Document(MAP, "sitemap", children=1)


def test_a_run_asks_again_for_a_robots_txt_that_the_last_one_could_not_have(tmp_path: Path) -> None:
    book = make_book()
    book.keep_robots("http://c.example:8080/robots.txt", Robots("", 1.0, reachable=False, reason="a port"))
    book.save(tmp_path / "book", 3.0)
    assert not DocumentBook.load(tmp_path / "book").robots


def test_damaged_books_are_refused(tmp_path: Path) -> None:
    make_book().save(tmp_path / "book", 3.0)
    raw = (tmp_path / "book").read_bytes()
    for place in range(0, len(raw), 7):
        (tmp_path / "book").write_bytes(raw[:place] + bytes([raw[place] ^ 1]) + raw[place + 1 :])
        with pytest.raises(SnapshotError):
            DocumentBook.load(tmp_path / "book")
    assert len(DocumentBook.load(tmp_path / "none")) == 0


def test_scopes() -> None:
    book = make_book()
    document, child, _, feed = book
    assert not book.scope(child).covers("a.example", "/out")
    assert book.scope(child).covers("a.example", "/in/deep/x?/../y")
    assert not book.scope(document).covers("b.example", "/in/x")
    book.vouch("b.example", [MAP])
    assert document.etag == "", "it is read again, as it may say more"
    assert book.scope(child).covers("b.example", "/any"), "what its index may announce, it may too"
    assert [book.scope(feed).covers(host, "/x") for host in ("b.example", "c.example", "a.example")] == [
        True,
        True,
        False,
    ]
    assert book.scope(Document("https://d.example/feed", "feed")).covers("a.example", "/x")


def test_books_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(document_book, "MOST_DOCUMENTS", 6)
    monkeypatch.setattr(document_book, "MOST_CHILDREN", 2)
    monkeypatch.setattr(document_book, "MOST_ROBOTS_CHARS", 10)
    book = make_book()
    added = [book.add(Document(f"https://a.example/{n}", "sitemap", MAP)) for n in range(3)]
    assert (added, book.refused) == ([True, False, False], 2)
    assert [book.add(Document(f"https://a.example/x{n}", "feed")) for n in range(2)] == [True, False]
    for n in range(4):
        book.keep_robots(f"https://{n}.example/robots.txt", Robots("x" * 4, 1.0))
    assert list(book.robots) == ["https://2.example/robots.txt", "https://3.example/robots.txt"]


def test_the_gate_spaces_requests() -> None:
    now = 0.0
    events: list[tuple[str, float]] = []

    async def use() -> None:
        gate = HostGate(2.0, lambda: now)
        gate.slow("b", 50.0)

        async def sleep(seconds: float) -> None:
            nonlocal now
            now += seconds

        async def ask(host: str) -> None:
            async with gate.passing(host):
                events.append((host, now))

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("streamsched.fetching.host_gate.asyncio.sleep", sleep)
            for host in "aaab":
                await ask(host)
        with pytest.raises(HostRests) as caught:
            async with gate.passing("b", 30.0):
                pass
        assert caught.value.seconds == 50.0

    asyncio.run(use())
    assert events == [("a", 0.0), ("a", 2.0), ("a", 4.0), ("b", 4.0)]


def test_signals_are_appended_and_a_torn_line_is_cut(tmp_path: Path) -> None:
    path = tmp_path / "signals.jsonl"
    batch = SignalBatch(["https://a.example/1", "https://a.example/2"], [1.0, 2.0], "feed")
    with SignalFile(path) as file:
        file.append(batch)
    whole = path.read_bytes()
    assert whole.count(b"\n") == 2
    path.write_bytes(whole + b'{"url": "x' + b"y" * 100_000)
    with SignalFile(path) as file:
        file.append(batch)
    assert path.read_bytes() == whole * 2
    with pytest.raises(SettingsError):
        SignalFile(tmp_path / "signals.csv")
    with pytest.raises(SourceError):
        SignalFile(tmp_path / "none" / "signals.jsonl")


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("0", 0.0),
        ("9" * 40, 366 * 86_400.0),
        ("-1", None),
        ("", None),
        ("\u0661", None),
        ("Fri, 31 Dec 1999 23:59:59 GMT", 0.0),
    ],
)
def test_retry_after(text: str, seconds: float | None) -> None:
    assert read_retry_after(text, 1e9) == seconds


@pytest.mark.parametrize(
    ("control", "seconds"),
    [
        ("max-age=60", 60.0),
        ('MAX-AGE="60"', 60.0),
        ("s-maxage=60", 0.0),
        ("max-age=60, no-store", 0.0),
        ("max-age=-1", 0.0),
        ("private,max-age=60", 60.0),
        ("max-age=" + "9" * 30, 86_400.0),
        ("", 0.0),
    ],
)
def test_max_age(control: str, seconds: float) -> None:
    assert read_max_age({"cache-control": control}) == seconds


def test_names_of_hosts() -> None:
    urls = ["http://A.example:8080/x", "https://[2001:db8::1]:444/", "https://[2001:db8::1]/", "http://a.example"]
    assert [host_name(url) for url in urls] == ["a.example", "[2001:db8::1]", "[2001:db8::1]", "a.example"]
