"""RSS and Atom in all their versions."""

from __future__ import annotations

import pytest

from streamsched.connectors.signals import DocumentMemory, Reading, read_document

NOON = 1_714_564_800.0  # 2024-05-01T12:00:00Z
URL = "https://feeds.example/blog/feed.xml"
ATOM = 'xmlns="http://www.w3.org/2005/Atom"'


def read(text: str, memory: DocumentMemory | None = None, *, since: float | None = 0.0) -> Reading:
    return read_document(text.encode(), url=URL, read_at=NOON, memory=memory, since=since)


def announced(reading: Reading) -> dict[str, float]:
    assert reading.kind == "feed"
    return {signal.url: signal.at for signal in reading.signals}


def rss(*items: str, head: str = 'version="2.0"') -> str:
    return f"<rss {head}><channel><link>https://a.example/</link>{''.join(items)}</channel></rss>"


def atom(*entries: str, head: str = ATOM) -> str:
    return f"<feed {head}><link href='/'/><updated>2024-04-30T00:00:00Z</updated>{''.join(entries)}</feed>"


def test_rss_2() -> None:
    text = rss(
        "<item><link> https://a.example/1 </link><pubDate>Tue, 30 Apr 2024 12:00:00 GMT</pubDate></item>",
        "<item><link>https://b.example/2</link><pubDate>2024-04-29T12:00:00+02:00</pubDate></item>",
    )
    assert announced(read(text)) == {"https://a.example/1": NOON - 86_400, "https://b.example/2": NOON - 180_000}


@pytest.mark.parametrize("version", ["0.91", "0.92", "0.93", "0.94"])
def test_rss_0_9x(version: str) -> None:
    document = rss("<item><link>https://a.example/1</link></item>", head=f'version="{version}"')
    read(rss(), memory := DocumentMemory())
    assert announced(read(document, memory)) == {"https://a.example/1": NOON}


@pytest.mark.parametrize("namespace", ["http://purl.org/rss/1.0/", "http://my.netscape.com/rdf/simple/0.9/"])
def test_rss_in_rdf(namespace: str) -> None:
    text = f"""<rdf:RDF xmlns:rdf="http://www.w3.org/1999/02/22-rdf-syntax-ns#" xmlns="{namespace}"
        xmlns:dc="http://purl.org/dc/elements/1.1/"><channel rdf:about="https://a.example/"/>
        <item rdf:about="https://a.example/1"><dc:date>2024-04-30T12:00Z</dc:date></item>
        <item rdf:about="urn:2"><link>https://a.example/2</link><dc:date>2024-04-29T12:00Z</dc:date></item></rdf:RDF>"""
    assert announced(read(text)) == {"https://a.example/1": NOON - 86_400, "https://a.example/2": NOON - 172_800}


@pytest.mark.parametrize(
    ("item", "url"),
    [
        ("<link>https://a.example/l</link><guid>https://a.example/g</guid>", "https://a.example/l"),
        ("<guid>https://a.example/g</guid>", "https://a.example/g"),
        ("<link/><guid isPermaLink=' TRUE '>https://a.example/g</guid>", "https://a.example/g"),
        ("<guid isPermaLink='false'>https://a.example/g</guid>", None),
        ("<guid>a name</guid>", None),
        ("<link>/relative</link>", None),
        ("<title>no link</title>", None),
        ("<x:link xmlns:x='http://www.w3.org/2005/Atom' href='https://a.example/self'/>", None),
    ],
)
def test_the_url_of_an_item(item: str, url: str | None) -> None:
    reading = read(rss(f"<item>{item}<pubDate>2024-04-30</pubDate></item>"))
    assert list(announced(reading)) == ([] if url is None else [url])
    assert reading.invalid == (url is None)


def test_atom() -> None:
    links = "<link rel='self' href='/self'/><link rel='alternate' href='2'/><link href='3'/>"
    entries = (
        "<entry><link href='https://b.example/1'/><updated>2024-04-30T12:00:00Z</updated></entry>",
        f"<entry>{links}<published>2024-04-29T12:00:00Z</published></entry>",
    )
    assert announced(read(atom(*entries))) == {
        "https://b.example/1": NOON - 86_400,
        "https://feeds.example/blog/2": NOON - 172_800,
    }


def test_atom_0_3() -> None:
    entry = "<entry><link rel='alternate' href='https://a.example/1'/><modified>2024-04-30T12:00:00Z</modified></entry>"
    text = atom(entry, head='version="0.3" xmlns="http://purl.org/atom/ns#"')
    assert announced(read(text)) == {"https://a.example/1": NOON - 86_400}


@pytest.mark.parametrize(
    ("bases", "href", "url"),
    [
        (("", "", ""), "x", "https://feeds.example/blog/x"),
        (("", "", ""), "/x", "https://feeds.example/x"),
        (("", "", ""), "//c.example/x", "https://c.example/x"),
        (("", "", ""), "", URL),
        (("https://a.example/p/", "", ""), "x", "https://a.example/p/x"),
        (("https://a.example/p/", "q/", ""), "x", "https://a.example/p/q/x"),
        (("https://a.example/p/", "q/", "/r/"), "x", "https://a.example/r/x"),
        (("/p/", "", ""), "../x", "https://feeds.example/x"),
        (("", "", ""), "mailto:a@a.example", None),
        (("", "", ""), "http://[bad/x", None),
        (("", "", ""), "//[bad/x", None),
        (("https://a.example/" + "p" * 9_000, "", ""), "x", None),
    ],
)
def test_references_of_atom_are_resolved(bases: tuple[str, str, str], href: str, url: str | None) -> None:
    root, entry, link = (f"xml:base='{base}'" if base else "" for base in bases)
    text = f"<entry {entry}><link {link} href='{href}'/><updated>2024-04-30</updated></entry>"
    reading = read(atom(text, head=f"{ATOM} {root}"))
    assert list(announced(reading)) == ([] if url is None else [url])


def test_the_newest_time_of_an_entry_counts() -> None:
    times = "<published>2024-04-01T00:00:00Z</published><updated>2024-04-30T12:00:00Z</updated>"
    text = atom(f"<entry><link href='/1'/>{times}</entry>")
    assert list(announced(read(text)).values()) == [NOON - 86_400]


def test_an_edit_without_a_new_time_is_a_change_at_the_reading() -> None:
    def feed(title: str, comments: str) -> str:
        extension = f"<s:comments xmlns:s='urn:s'>{comments}</s:comments>"
        date = "<pubDate>2024-04-01</pubDate>"
        return rss(f"<item><title>{title}</title><link>https://a.example/1</link>{date}{extension}</item>")

    read(feed("a", "1"), memory := DocumentMemory(), since=None)
    assert announced(read(feed("a", "2"), memory)) == {}
    assert announced(read(feed("b", "2"), memory)) == {"https://a.example/1": NOON}


@pytest.mark.parametrize("kind", ["html", "xhtml"])
def test_markup_within_a_content_is_part_of_it(kind: str) -> None:
    def feed(word: str) -> str:
        div = f"<div xmlns='http://www.w3.org/1999/xhtml'><p>some <b>{word}</b></p><entry/><link/></div>"
        content = div if kind == "xhtml" else div.replace("<", "&lt;")
        return atom(f"<entry><content type='{kind}'>{content}</content><link href='/1'/></entry>")

    read(feed("a"), memory := DocumentMemory(), since=None)
    assert (read(feed("a"), memory).unchanged, read(feed("b"), memory).changed) == (1, 1)


def test_a_long_content_is_hashed_whole() -> None:
    def feed(end: str) -> str:
        return rss(f"<item><link>https://a.example/1</link><description>{'text ' * 50_000}{end}</description></item>")

    read(feed("a"), memory := DocumentMemory(), since=None)
    assert (read(feed("a"), memory).unchanged, read(feed("b"), memory).changed) == (1, 1)


def test_entries_that_share_a_page_are_told_apart_by_their_time() -> None:
    def item(title: str, day: int) -> str:
        return f"<item><title>{title}</title><link>https://a.example/log</link><pubDate>2024-04-{day}</pubDate></item>"

    read(rss(item("b", 12), item("a", 11)), memory := DocumentMemory(), since=None)
    assert announced(read(rss(item("b", 12)), memory)) == {}
    assert len(announced(read(rss(item("c", 13), item("b", 12)), memory))) == 1
