"""Hashes are the same on every Python; ``python tests/unit/content/test_equal_hashes.py`` needs no pytest.

Another value would be a change of every page after an upgrade, unless the version of how hashes are made is raised.
"""

from __future__ import annotations

from streamsched.content import PageText, content_hash, page_text, remove_noise, simhash

PAGE = "<html><body><nav>menu</nav><main><h1>Title</h1><p>Price: 5.99 &euro;, 東京</p></main></body></html>"
EVERY = "".join(map(chr, range(0x110000)))  # each code point, assigned or not, as the tables of Pythons differ
CONTENTS = {
    "": 0xC0E761F929A815DD,
    "Price 5": 0xC0E761F9787EF09D,
    EVERY: 0xC0E761E268A28B99,
    page_text(PAGE): 0xC0E7CA034CDD04B7,
}
NOISE = "Wed, 25 Nov 2026 10:15:30 GMT+0100 (Mitteleuropäische Zeit) © 2020–2026 A | Built with Sphinx 7.2.6. İ x"


def test_hashes_are_the_same_everywhere() -> None:
    assert {text: content_hash(text) for text in CONTENTS} == CONTENTS
    assert content_hash(PageText.of("Price 5", "trafilatura 2.0.0")) == 0xC0E709F9787EF09D
    assert simhash("") == 0
    assert simhash(page_text(PAGE)) == 0x0A490614230A0231
    assert simhash(" ".join(EVERY[at : at + 7] for at in range(0, len(EVERY), 7))) == 0x1377734AE9968580
    assert remove_noise(NOISE) == "© A | Built with Sphinx . İ x"


if __name__ == "__main__":
    test_hashes_are_the_same_everywhere()
