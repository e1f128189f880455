"""Hashes of generated pages: other noise leaves them as they are, a small change of the content does not."""

from __future__ import annotations

import random
import re

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from streamsched.content import PageText, bounded_markup, content_hash, page_text, remove_noise, simhash, text_hashes
from streamsched.content.page_difference import find_differing
from streamsched.content.page_text import decode_page
from streamsched.estimation.simhash import simhash as simhash_of_texts
from tests.support.generated_pages import KINDS, Noise, make_page

kinds, seeds = st.sampled_from(KINDS), st.integers(0, 2**32)
tags = (
    "div",
    "p",
    "nav",
    "header",
    "main",
    "form",
    "b",
    "svg",
    "template",
    "title",
    "textarea",
    "body",
    "script",
    "li",
)
markup = st.lists(
    st.one_of(
        st.sampled_from([f"<{slash}{name}>" for name in tags for slash in ("", "/")]),
        st.sampled_from(["<!--", "-->", "<", ">", "&amp;", "<a href='", '"', "\0", "<![CDATA[", "<main class=x>", "é"]),
        st.text(max_size=5),
    ),
    max_size=60,
).map("".join)


@given(kinds, seeds, seeds)
def test_noise_leaves_the_hash_and_content_changes_it(kind: str, seed: int, noise: int) -> None:
    rng, version = random.Random(noise), make_page(kind, seed)
    pages = [version(Noise.draw(rng), changed) for changed in (False, False, True)]
    before, same, other = (content_hash(page_text(page, "https://a.example/")) for page in pages)
    assert before == same
    assert before != other


@given(markup)
@example("<body><form><form></body><main><nav>")
@example("<nav><header><nav>a</nav></header></nav>b")
@example("<frameset></frameset>x")
def test_any_markup_has_a_text(html: str) -> None:
    text = page_text(html, "https://a.example/")
    assert content_hash(text) == content_hash(page_text(html.encode("utf-8", "replace").decode(), "x"))
    assert simhash(text) == simhash_of_texts(text)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(bounded_markup, "SMALL", 0)
        rewritten = bounded_markup.bound_markup(html)
        assert bounded_markup.bound_markup(rewritten).count("<") <= html.count("<")
        assert isinstance(page_text(html), PageText)


@given(
    st.binary(max_size=200), st.sampled_from(["", "utf-16", "latin-1", "cp1252", "big5", "hex", "rot13", "idna", "x"])
)
def test_any_bytes_have_a_text(raw: bytes, charset: str) -> None:
    page = (f"<meta charset={charset}>".encode() if charset else b"") + raw
    assert isinstance(decode_page(page), str)
    assert isinstance(page_text(page), PageText)


@given(
    st.text()
    | st.lists(st.sampled_from(["5", " minutes", " ago", ":", "2026-", "11-27", " ", "May ", "\n"])).map("".join)
)
def test_texts_without_noise_have_none(text: str) -> None:
    cleaned = remove_noise(text)
    assert cleaned == " ".join(cleaned.split())
    assert content_hash(text) == content_hash(f"  {text}\n")


@given(st.text(st.sampled_from("ab5 \t\n\v\f\r\x1c\x1d\x1e\x1f\x85\xa0\u2028\u3000")))
def test_all_white_space_is_folded(text: str) -> None:
    assert remove_noise(text) == " ".join(text.split())


_AGES = re.compile(r"\b(?:(?:an?|one|a few) (?:minutes?|days?|weeks?) ago|just now)\b ?", re.IGNORECASE | re.ASCII)
_AGE_WORDS = [
    "a",
    "an",
    "one",
    "a few",
    "minutes",
    "day",
    "weeks",
    "ago",
    "just",
    "now",
    "Ago",
    "aGO",
    "NOW",
    "x",
    "\u0130",
]


@given(st.lists(st.sampled_from(_AGE_WORDS)), st.sampled_from([" ", " a", "-"]))
def test_ages_in_words_are_those_of_one_expression(words: list[str], between: str) -> None:
    text = between.join(words) + between.rstrip(" ")
    assert remove_noise(text) == " ".join(_AGES.sub("", " ".join(text.split())).split())


@given(
    st.lists(st.sampled_from(["a", "b", "1 day ago", "2 days ago"])), st.lists(st.sampled_from(["a", "b", "1 day ago"]))
)
def test_differing_lines_are_the_difference_of_both(one: list[str], other: list[str]) -> None:
    first, second = find_differing("\n".join(one), "\n".join(other))
    left, right = [line.text for line in first], [line.text for line in second]
    assert sorted(one + right) == sorted(other + left)
    assert not set(left) & set(right)
    assert sum(line.removed for line in first) == sum(line.removed for line in second)


@given(st.text(), st.text(min_size=1, max_size=3))
def test_the_extractor_is_part_of_the_hash_not_of_the_text(text: str, by: str) -> None:
    made = content_hash(PageText.of(text, by))
    assert made >> 48 == content_hash(text) >> 48 == 0xC0E7
    assert made & ((1 << 38) - 1) == content_hash(text) & ((1 << 38) - 1)


@given(st.lists(st.sampled_from(("5", "2026-11-27", "10:15", "Nov ", " ", ":", ".", "x", "3 days ago", 50 * "w", "é"))))
def test_numbers_are_found_wherever_digits_are_few(pieces: list[str]) -> None:
    text = "".join(pieces)
    found = [(one.span(), one.lastindex) for one in text_hashes._find_numeric(text)]
    assert found == [(one.span(), one.lastindex) for one in text_hashes._NUMERIC.finditer(text)]
