"""Documents that were made to crash, to hang, to fill the memory or to fetch something, or that are merely broken."""

from __future__ import annotations

import gzip
import random
import tracemalloc
from collections.abc import Callable, Iterator

import pytest

from streamsched.connectors.signals import MAX_DOCUMENT_BYTES, DocumentMemory, Reading, read_document
from streamsched.connectors.signals.entry_columns import MAX_ENTRIES
from streamsched.connectors.signals.xml_entries import MAX_DEPTH, MAX_NAMES, MAX_NAMESPACE_CHARS, MAX_TOKEN_BYTES
from streamsched.errors import DocumentError
from tests.reference.document_changes import DatedEntry
from tests.support.cases import how_many
from tests.support.signal_documents import HOST, WRITERS, index_now, sitemap_index

URL = "https://a.example/list"
START = 1_700_000_000
ROW = b"<url><loc>https://a.example/1</loc></url>"
MUTANTS = how_many(500, 2_000)
PIECES = [
    *(
        b"<",
        b">",
        b"&",
        b"]]>",
        b"<![CDATA[",
        b"<!--",
        b"&#0;",
        b"<!DOCTYPE a [",
        b"xmlns=''",
        b"<entry xml:base='//['>",
    ),
    *(b'"', b"{", b"}", b"[", b"\\u", b"1e999", b"null", b"<url>", b"</url>", b"<item>", b"lastmod", b"9999-99-99"),
    *(b"\0", b"\xff", b"\xfe\xff", b"\xf0\x9f\x98\x80", b"\x1f\x8b\x08", b"https://[::1/"),
]
FATES = ("new", "changed", "unchanged", "remembered", "repeated", "other_host", "invalid")


def read(document: bytes, memory: DocumentMemory | None = None) -> Reading:
    return read_document(document, url=URL, read_at=START, memory=memory)


def urlset(inner: bytes, head: bytes = b"") -> bytes:
    return head + b"<urlset>" + inner + b"</urlset>"


def nested(depth: int, inner: bytes = b"") -> bytes:
    return b"<a>" * depth + inner + b"</a>" * depth


LAUGHS = b"".join(b'<!ENTITY l%d "%s">' % (i, b"&l%d;" % (i - 1) * 10) for i in range(1, 10))
REFUSED: dict[str, tuple[bytes | Callable[[], bytes], str]] = {  # large ones are made by the test: each worker collects
    "billion laughs": (urlset(b"&l9;", b'<!DOCTYPE x [<!ENTITY l0 "ha">' + LAUGHS + b"]>"), "DOCTYPE"),
    "quadratic blow-up": (
        lambda: urlset(b"&a;" * 50_000, b'<!DOCTYPE x [<!ENTITY a "' + b"x" * 50_000 + b'">]>'),
        "DOCTYPE",
    ),
    "external entity": (urlset(b"&a;", b'<!DOCTYPE x [<!ENTITY a SYSTEM "file:///etc/passwd">]>'), "DOCTYPE"),
    "external subset": (urlset(ROW, b'<!DOCTYPE x SYSTEM "https://a.example/x.dtd">'), "DOCTYPE"),
    "parameter entity": (urlset(b"", b'<!DOCTYPE x [<!ENTITY % a SYSTEM "https://a.example/"> %a;]>'), "DOCTYPE"),
    "RSS 0.91's own": (b'<!DOCTYPE rss PUBLIC "-//Netscape" "http://my.netscape.com/rss-0.91.dtd"><rss/>', "DOCTYPE"),
    "HTML": (b"<!doctype html><html></html>", "not well-formed"),
    "XHTML": (b"<html xmlns='http://www.w3.org/1999/xhtml'/>", "root: expected urlset"),
    "entity without definition": (urlset(b"&nbsp;"), "undefined entity"),
    "deep": (urlset(nested(MAX_DEPTH)), "nested at most"),
    "very deep": (lambda: urlset(nested(2_000_000)), "nested at most"),
    "deep in an entry": (urlset(b"<url><loc>" + nested(MAX_DEPTH)), "nested at most"),
    "huge attribute": (lambda: urlset(b'<a b="' + b"x" * 10_000_000 + b'"/>'), "tags and comments of at most"),
    "many attributes": (
        lambda: urlset(b"<a " + b"".join(b'a%d="" ' % i for i in range(500_000)) + b"/>"),
        "tags and comments",
    ),
    "attributes twice": (urlset(b'<a b="" b=""/>'), "duplicate attribute"),
    "huge comment": (lambda: urlset(b"<!--" + b"x" * 10_000_000 + b"-->"), "tags and comments of at most"),
    "huge instruction": (lambda: urlset(b"<?a " + b"x" * 10_000_000 + b"?>"), "tags and comments of at most"),
    "endless name": (lambda: urlset(b"<" + b"x" * 10_000_000), "tags and comments of at most"),
    "long namespace": (lambda: urlset(b'<a xmlns="' + b"x" * 1_000 + b'">' + b"<b/>" * 100_000 + b"</a>"), "namespace"),
    "many names": (lambda: urlset(b"".join(b"<x%x/>" % i for i in range(200_000))), "different names"),
    "unbound prefix": (urlset(b"<a:b/>"), "unbound prefix"),
    "two roots": (urlset(ROW) * 2, "junk after document element"),
    "cut off": (urlset(ROW)[:-20], "not well-formed"),
    "no root": (b"<?xml version='1.0'?>", "no element found"),
    "space first": (b" " + urlset(ROW, b"<?xml version='1.0'?>"), "declaration not at start"),
    "NUL": (urlset(b"\0"), "not well-formed"),
    "NULs": (lambda: bytes(100_000), "not well-formed"),
    "control character": (urlset(b"&#1;"), "invalid character number"),
    "surrogate": (urlset(b"&#xD800;"), "invalid character number"),
    "encoded surrogate": (urlset(b"\xed\xa0\x80"), "not well-formed"),
    "not UTF-8": (urlset(b"<url><loc>https://a.example/\xff</loc></url>"), "not well-formed"),
    "UTF-16 declared, not used": (urlset(ROW, b"<?xml version='1.0' encoding='utf-16'?>"), "encoding"),
    "UTF-16 with a lone surrogate": (b"\xff\xfe" + "<urlset>\udc00</urlset>".encode("utf-16-le", "surrogatepass"), ""),
    "UTF-16 cut within a character": (b"\xff\xfe" + "<urlset/>".encode("utf-16-le") + b"x", "not well-formed"),
    **{
        f"encoding {name}": (urlset(ROW, b"<?xml version='1.0' encoding='%s'?>" % name.encode()), reason)
        for name, reason in {
            "utf-7": "encoding: expected",
            "hex": "encoding: expected",
            "rot13": "encoding: expected",
            "idna": "encoding: expected",
            "shift_jis": "encoding: expected",
            "x" * 1_000: "encoding: expected",
            "iso-8859-99": "cannot be decoded",
            "windows-1259": "cannot be decoded",
        }.items()
    },
    "nothing": (b"", "no element found"),
    "white space": (lambda: b" \n" * 100_000, "no element found"),
    "text": (b"https://a.example/1\nhttps://a.example/2\n", "not well-formed"),
    "array": (b"[]", "not well-formed"),
    "many entries": (lambda: urlset(b"<url/>" * (MAX_ENTRIES + 1)), f"at most {MAX_ENTRIES} entries"),
    "large": (lambda: urlset(b" " * MAX_DOCUMENT_BYTES), f"at most {MAX_DOCUMENT_BYTES} bytes"),
    "gzip bomb": (
        lambda: gzip.compress(urlset(b" " * (MAX_DOCUMENT_BYTES * 2)), 1),
        f"at most {MAX_DOCUMENT_BYTES} bytes",
    ),
    "gzip of a JSON bomb": (lambda: gzip.compress(b"{" + b" " * MAX_DOCUMENT_BYTES * 2, 1), "bytes of JSON"),
    "gzip cut off": (gzip.compress(urlset(ROW))[:-9], "truncated gzip"),
    "gzip head": (b"\x1f\x8b\x08", "truncated gzip"),
    "gzip damaged": (gzip.compress(urlset(ROW))[:12] + bytes(30), "gzip"),
    "gzip of another sum": (gzip.compress(urlset(ROW))[:-8] + bytes(8), "damaged gzip"),
    "gzip and more": (gzip.compress(urlset(ROW)) + b"more", "damaged gzip"),
    "gzip of gzip": (gzip.compress(gzip.compress(urlset(ROW))), "not well-formed"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_a_hostile_document_is_refused(name: str) -> None:
    made, reason = REFUSED[name]
    document = made if isinstance(made, bytes) else made()
    memory = DocumentMemory()
    with pytest.raises(DocumentError) as caught:
        read(document, memory)
    assert reason in caught.value.reason
    assert caught.value.url == URL
    assert caught.value.offset is None or 0 <= caught.value.offset <= MAX_DOCUMENT_BYTES
    assert len(str(caught.value)) < 500
    assert len(memory) == 0


def test_a_refused_document_leaves_its_last_reading() -> None:
    memory = DocumentMemory()
    read(urlset(ROW), memory)
    with pytest.raises(DocumentError):
        read(urlset(ROW + b"<url><loc>https://a.example/2</loc></url>")[:-1], memory)
    assert read(urlset(ROW), memory).unchanged == 1


def test_within_the_limits_documents_are_read() -> None:
    inner = (
        nested(MAX_DEPTH - 1)
        + b"<!--" + b"x" * (MAX_TOKEN_BYTES - 100_000) + b"-->"
        + b'<a xmlns="' + b"x" * MAX_NAMESPACE_CHARS + b'"/>'
        + b"".join(b"<x%x/>" % i for i in range(MAX_NAMES - 100))
        + b"<![CDATA[" + b"x" * 10_000_000 + b"]]>"
        + b"&lt;&#65;" * 100_000
    )  # fmt: skip
    assert read(urlset(inner + ROW)).remembered == 1


def test_short_references_do_not_grow_beyond_bounds() -> None:
    base = b"https://a.example/" + b"x" * 8_000 + b"/"
    entries = b"".join(b'<entry><link href="%x"/></entry>' % i for i in range(10_000))
    feed = b'<feed xmlns="http://www.w3.org/2005/Atom" xml:base="' + base + b'">' + entries + b"</feed>"
    with pytest.raises(DocumentError, match="expected URLs of at most"):
        read(feed)


@pytest.mark.longer
def test_fifty_megabytes_are_read_in_bounded_memory() -> None:
    entries = how_many(9_000, 85_000)
    filling = b" " * (MAX_DOCUMENT_BYTES // entries - 117)
    rows = [
        b"<url><loc>https://a.example/section/an-article-with-a-title/%d</loc><lastmod>2023-%02d-%02d</lastmod>%s</url>"
        % (i, i % 12 + 1, i % 28 + 1, filling)
        for i in range(entries)
    ]
    plain = urlset(b"".join(rows))
    document = gzip.compress(plain, 1)
    assert 0.97 * MAX_DOCUMENT_BYTES < len(plain) <= MAX_DOCUMENT_BYTES
    del rows, plain
    memory = DocumentMemory()
    tracemalloc.start()
    try:
        assert read(document, memory).remembered == entries
        assert tracemalloc.get_traced_memory()[1] < 32 << 20  # 200 bytes an entry, and their URLs
    finally:
        tracemalloc.stop()
    assert read(document, memory).unchanged == entries


def malformed(seed: int) -> Iterator[bytes]:
    """Yield documents of every format with bytes changed, cut out, doubled, or put in where they hurt."""
    draw = random.Random(seed)
    entries = [
        DatedEntry(f"{HOST}/{i}?a&b=é", START - i * 7_777 if i % 3 else None, i % 2 > 0, f"<{i}>") for i in range(9)
    ]
    sound = [write(entries) for write in (*WRITERS.values(), sitemap_index, index_now)]
    for _ in range(MUTANTS):
        document = bytearray(draw.choice(sound))
        for _ in range(draw.choice((1, 1, 1, 2, 5, 20))):
            start = draw.randrange(len(document) + 1)
            stop = start + draw.choice((0, 1, 4, 30, 200))
            part = (draw.choice(PIECES), b"", bytes(document[start:stop]) * 2, draw.randbytes(stop - start))
            document[start:stop] = draw.choice(part)
        packed = gzip.compress(bytes(document), 1)
        yield draw.choice((bytes(document),) * 9 + (packed[: draw.randrange(len(packed))],))


@pytest.mark.longer
def test_of_thousands_of_malformed_documents_none_crashes_and_all_are_counted() -> None:
    fates = [_fate_of(document) for document in malformed(18)]
    assert len(fates) == MUTANTS
    assert min(fates.count("read"), fates.count("refused")) > MUTANTS // 10


def _fate_of(document: bytes) -> str:
    memory = DocumentMemory()
    try:
        reading = read_document(document, url=URL, read_at=START, memory=memory, since=0.0)
    except DocumentError as error:
        return "refused" if error.url == URL and len(memory) == 0 else "remembered"
    assert reading.entries == sum(getattr(reading, fate) for fate in FATES)
    assert len(reading.signals) in (0, reading.new + reading.changed)  # none of an index
    assert reading.signals.problems() == []
    assert len(reading.problems) <= 100
    return "read"
