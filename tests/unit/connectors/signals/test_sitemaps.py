"""Sitemaps and their indexes."""

from __future__ import annotations

import gzip

import pytest

from streamsched.connectors.signals import DocumentMemory, Reading, read_document
from streamsched.errors import InvalidSignal

DAY = 86_400.0
NOON = 1_714_564_800.0  # 2024-05-01T12:00:00Z
URL = "https://a.example/sitemap.xml"
NAMESPACE = 'xmlns="http://www.sitemaps.org/schemas/sitemap/0.9"'


def write(*rows: str, root: str = "urlset", namespace: str = NAMESPACE) -> bytes:
    return f'<?xml version="1.0" encoding="UTF-8"?>\n<{root} {namespace}>{"".join(rows)}</{root}>'.encode()


def row(path: str, lastmod: str | None = None) -> str:
    time = "" if lastmod is None else f"<lastmod>{lastmod}</lastmod>"
    return f"<url><loc>https://a.example/{path}</loc>{time}<changefreq>daily</changefreq></url>"


def read(document: bytes, memory: DocumentMemory | None = None, **settings: float) -> Reading:
    return read_document(document, url=URL, memory=memory, **{"read_at": NOON, **settings})  # type: ignore[arg-type]


def announced(reading: Reading) -> dict[str, float]:
    return {signal.url.removeprefix("https://a.example/"): signal.at for signal in reading.signals}


def test_a_first_reading_only_remembers() -> None:
    memory = DocumentMemory()
    reading = read(write(row("a", "2024-04-30"), row("b")), memory)
    assert (reading.kind, len(reading.signals), reading.remembered, memory.entries) == ("sitemap", 0, 2, 2)


def test_a_first_reading_since_a_time_announces_what_is_newer() -> None:
    document = write(row("a", "2024-04-28T00:00:00Z"), row("b", "2024-04-30T00:00:00Z"), row("c"))
    reading = read(document, since=NOON - 3 * DAY)
    assert announced(reading) == {"b": NOON - 1.5 * DAY}
    assert (reading.new, reading.remembered, reading.untimed) == (1, 2, 1)


def test_a_second_reading_announces_new_urls_and_newer_times() -> None:
    memory = DocumentMemory()
    read(write(row("a", "2024-04-01"), row("b", "2024-04-30T08:00Z"), row("c"), row("gone")), memory)
    document = write(row("a", "2024-04-30"), row("b", "2024-04-30T07:00Z"), row("c"), row("d"), row("e", "2024-03-01"))
    reading = read(document, memory, read_at=NOON + 60)
    assert announced(reading) == {"a": NOON - DAY / 2 - 1, "d": NOON + 60, "e": NOON - 60.5 * DAY - 1}
    assert (reading.new, reading.changed, reading.unchanged, reading.entries) == (2, 1, 2, 5)


def test_a_day_ends_with_the_reading_if_it_is_today() -> None:
    reading = read(write(row("a", "2024-05-01"), row("b", "2024-05"), row("c", "2023")), since=0.0)
    assert announced(reading) == {"a": NOON, "b": NOON, "c": 1_704_067_199.0}


def test_a_day_may_have_begun_in_an_eastern_zone() -> None:
    reading = read(write(row("a", "2024-05-02"), row("b", "2024-05-03"), row("c", "2024-05-02T00:00Z")), since=0.0)
    assert (announced(reading), reading.future) == ({"a": NOON}, 2)


def test_a_time_in_the_future_says_nothing_until_it_has_come() -> None:
    memory = DocumentMemory()
    read(write(row("a", "2099-01-01T00:00Z"), row("b", "2024-05-02T00:00Z")), memory)
    assert announced(read(write(row("a", "2099-01-02T00:00Z"), row("b", "2024-05-02T00:00Z")), memory)) == {}
    later = read(write(row("a", "2099-01-01"), row("b", "2024-05-02T00:00Z")), memory, read_at=NOON + DAY)
    assert (announced(later), later.future) == ({"b": NOON + DAY / 2}, 1)


def test_a_new_page_with_a_time_in_the_future_is_announced_at_the_reading() -> None:
    memory = DocumentMemory()
    read(write(), memory)
    reading = read(write(row("a", "2099-01-01"), row("b", "2024-04-01")), memory)
    assert announced(reading)["a"] == NOON


def test_times_that_are_all_equal_say_nothing() -> None:
    memory = DocumentMemory()
    read(write(row("a", "2024-04-01"), row("b", "2024-04-01")), memory)
    stamped = write(row("a", "2024-04-30"), row("b", "2024-04-30"), row("new", "2024-04-30"))
    reading = read(stamped, memory)
    assert (reading.one_time, announced(reading)) == (True, {"new": NOON})
    assert read(stamped, since=0.0).new == 0


def test_one_page_alone_has_its_own_time() -> None:
    assert not read(write(row("a", "2024-04-30"))).one_time


def test_the_newest_entry_of_a_url_counts() -> None:
    document = write(row("a", "2024-04-01"), row("a", "2024-04-03T00:00Z"), row("a"), row("b", "2024-04-02"))
    reading = read(document, since=0.0)
    assert (reading.repeated, announced(reading)["a"]) == (2, NOON - 28.5 * DAY)


def test_an_unreadable_time_is_none_and_named() -> None:
    reading = read(write(row("a", "soon"), row("b", ""), row("c", "2024-05-01")))
    assert (reading.untimed, reading.invalid, reading.remembered) == (2, 0, 3)
    assert [str(problem) for problem in reading.problems] == [
        "record 0: lastmod: expected a W3C date or an e-mail date, found 'soon'"
    ]


@pytest.mark.parametrize(
    ("loc", "fate"),
    [
        ("https://a.example", "remembered"),
        ("http://a.example/x", "remembered"),
        ("HTTPS://A.EXAMPLE:443/x", "remembered"),
        ("https://user@a.example/x", "remembered"),
        ("\n  https://a.example/ä?x&amp;y  \n", "remembered"),
        ("<![CDATA[https://a.example/x]]>", "remembered"),
        ("https://www.a.example/x", "other_host"),
        ("https://a.example:8443/x", "other_host"),
        ("http://a.example:443/x", "other_host"),
        ("https://a.example@b.example/x", "other_host"),
        ("https://a.example.b.example/x", "other_host"),
        ("https://b.example\\@a.example/x", "invalid"),
        ("https://a.example\\@b.example/x", "invalid"),
        ("https://a.example[x]/x", "invalid"),
        ("https://[bad/x", "invalid"),
        ("https://[::1]:443/x", "other_host"),
        ("https://user@[::1]/x?y#z", "other_host"),
        ("https://a.example#x", "remembered"),
        ("http\u017f://a.example/x", "invalid"),
        ("/x", "invalid"),
        ("//a.example/x", "invalid"),
        ("ftp://a.example/x", "invalid"),
        ("javascript:alert(1)", "invalid"),
        ("https://", "invalid"),
        ("https://a.example/x y", "invalid"),
        ("https://a.example/\x7f", "invalid"),
        ("https://a.example/\u00a0x", "invalid"),
        ("", "invalid"),
        ("https://a.example/" + "x" * 8174, "remembered"),
        ("https://a.example/" + "x" * 8175, "invalid"),
        ("https://a.example/" + "é" * 5000, "invalid"),
        ("https://a.example/" + "x" * 100_000, "invalid"),
        ("https://a.example/x\n" + "y" * 100_000, "invalid"),
    ],
)
def test_a_sitemap_speaks_of_its_own_host(loc: str, fate: str) -> None:
    reading = read(write(f"<url><loc>{loc}</loc></url>"))
    assert {name: getattr(reading, name) for name in ("remembered", "other_host", "invalid")} == {
        **dict.fromkeys(("remembered", "other_host", "invalid"), 0),
        fate: 1,
    }
    assert [(type(problem), problem.field) for problem in reading.problems] == (
        [] if fate == "remembered" else [(InvalidSignal, "loc")]
    )


def test_an_entry_without_a_url_is_invalid() -> None:
    reading = read(write("<url/>", "<url><lastmod>2024</lastmod></url>", "<url>https://a.example/</url>"))
    assert (reading.entries, reading.invalid) == (3, 3)
    assert str(reading.problems[0]).endswith("at most 8192 bytes, found nothing")


def test_the_first_hundred_problems_are_kept() -> None:
    reading = read(write("<url><loc>x</loc></url>" * 250))
    assert (reading.invalid, len(reading.problems), reading.problems[-1].record) == (250, 100, 99)


@pytest.mark.parametrize(
    "namespace", ["", 'xmlns="http://www.google.com/schemas/sitemap/0.84"', NAMESPACE + ' xmlns:i="urn:images"']
)
def test_entries_are_in_the_namespace_of_the_root(namespace: str) -> None:
    image = "<i:image><i:loc>https://a.example/i</i:loc></i:image><i:loc>x</i:loc>" if "xmlns:i" in namespace else ""
    document = write(f"<url>{image}<loc>https://a.example/x</loc></url>", namespace=namespace)
    assert announced(read(write(namespace=namespace), memory := DocumentMemory())) == {}
    assert announced(read(document, memory)) == {"x": NOON}


def test_names_may_have_a_prefix() -> None:
    document = b"""<s:urlset xmlns:s="http://www.sitemaps.org/schemas/sitemap/0.9">
        <s:url><s:loc>https://a.example/x</s:loc><s:lastmod>2024-04-30</s:lastmod></s:url></s:urlset>"""
    assert announced(read(document, since=0.0)) == {"x": NOON - DAY / 2 - 1}


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "iso-8859-1", "windows-1252"])
@pytest.mark.parametrize("packed", [False, True])
def test_encodings_and_gzip(encoding: str, packed: bool) -> None:
    text = f'<?xml version="1.0" encoding="{encoding.removesuffix("-sig")}"?><urlset {NAMESPACE}>{row("é")}</urlset>'
    document = text.encode(encoding)
    read(write(), memory := DocumentMemory())
    assert announced(read(gzip.compress(document) if packed else document, memory)) == {"é": NOON}


def test_an_index_lists_the_sitemaps_that_changed() -> None:
    def index(**lastmods: str | None) -> bytes:
        rows = (row(name, time).replace("url>", "sitemap>") for name, time in lastmods.items())
        return write(*rows, root="sitemapindex")

    memory = DocumentMemory()
    first = read(index(a="2024-04-01", b="2024-04-02", c=None), memory)
    assert [url[-1] for url in first.documents] == ["a", "b", "c"]
    second = read(index(a="2024-04-01", b="2024-04-03", c=None, d="2024-01-01"), memory)
    assert [url[-1] for url in second.documents] == ["b", "c", "d"]
    assert (len(second.signals), second.new, second.changed, second.unchanged) == (0, 1, 1, 2)
    since = read(index(a="2024-04-01", b="2024-04-03", c=None), since=NOON - 29 * DAY)
    assert [url[-1] for url in since.documents] == ["b", "c"]


def test_an_index_whose_times_are_all_equal_lists_all() -> None:
    rows = [row(name, "2024-04-01").replace("url>", "sitemap>") for name in "ab"]
    document = write(*rows, root="sitemapindex")
    read(document, memory := DocumentMemory())
    assert len(read(document, memory).documents) == 2


def test_an_index_may_not_name_documents_of_others() -> None:
    rows = "<sitemap><loc>https://b.example/s.xml</loc></sitemap>"
    reading = read(write(rows, root="sitemapindex"))
    assert (reading.documents, reading.other_host) == ([], 1)
