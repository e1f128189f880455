"""Hashes of texts: the same on every Python and machine, and without what differs at each visit."""

from __future__ import annotations

import subprocess
import sys

import pytest

from streamsched import SettingsError
from streamsched.content import PageText, content_hash, page_text, remove_noise, simhash

PAGE = "<html><body><nav>menu</nav><main><h1>Title</h1><p>Price: 5.99 &euro;, 東京</p></main></body></html>"


def test_hashes_are_the_same_everywhere() -> None:
    """Literal values: another one would be a change of every page after an upgrade, unless the version is raised."""
    assert content_hash("") == 0xC0E7E57929A815DD
    assert content_hash("Price 5") == 0xC0E7E57ED818508A
    assert content_hash(page_text(PAGE)) == 0xC0E7AAC515F71478
    assert simhash(page_text(PAGE)) == 0x0A490614230A0231
    assert simhash("") == 0


@pytest.mark.parametrize(
    "noise",
    [
        *("5 minutes ago", "an hour ago", "3 days ago", "A few seconds ago", "1 min ago", "3h ago", "just now"),
        *("10:15", "10:15:30.123", "10:15 pm", "9:05 a.m.", "10:15 UTC", "10:15:30 +0100", "2026-11-27"),
        *("2026-11-27T10:15:00Z", "2026-11-27 10:15", "2026/11/27", "27/11/2026", "27.11.2026"),
        *("27 November 2026", "27th Nov 2026", "Nov 27, 2026", "November 27th 2026", "1 may 1999"),
    ],
)
def test_times_and_dates_are_noise(noise: str) -> None:
    assert remove_noise(f"By A, {noise} | x") == "By A, | x"
    assert remove_noise(noise) == ""


@pytest.mark.parametrize(
    "content",
    [
        *("5.99", "$5", "12 minutes", "10 days", "1.2.3", "v1.2.2024", "12:300", "1:0", "version 2026", "3 ago", "ago"),
        *("12345 minutes ago", "call 555-1234", "May", "may 5", "2026-1-1-1", "192.168.10.2024", "a:10:15:1", "x10:15"),
    ],
)
def test_other_numbers_are_content(content: str) -> None:
    assert remove_noise(content) == content


def test_versions_of_extractors_make_other_hashes_of_the_same_text() -> None:
    assert len({content_hash(PageText.of("a", by)) for by in ("", "selectolax 1", "trafilatura 2.3.1")}) == 3


@pytest.mark.parametrize("hashed", [content_hash, simhash])
def test_what_is_no_text_is_refused(hashed: object) -> None:
    with pytest.raises(SettingsError, match="str"):
        hashed(b"bytes")  # type: ignore[operator]


def test_a_crawler_imports_neither_numpy_nor_the_compiler() -> None:
    program = (
        "import sys; from streamsched.content import page_text, content_hash, simhash, IgnoreRules\n"
        "text = page_text('<p>a b c</p>', 'https://a.example/', ignore=IgnoreRules({'*': ['x', 'css:.y']}))\n"
        "content_hash(text), simhash(text)\n"
        "print(sorted({'numpy', 'numba', 'streamsched.scheduler'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"
