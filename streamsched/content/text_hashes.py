"""Hashes of one text in plain Python: exact, without times and dates, and similar (SimHash).

An exact hash has a mark, the version of how it was made, and bits of the text. Hashes of different versions are not
compared: a new release of an extractor is no change of all pages. The mark tells these numbers from the hashes of
crawlers that make their own, which are compared in all their 64 bits.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache
from hashlib import blake2b
from typing import Final

from streamsched.content.page_text import PageText
from streamsched.errors import SettingsError
from streamsched.numerics.text_words import SHINGLE_WORDS, fingerprint_text, fold_text

HASH_BITS: Final = 38  # of 64: two texts share them once in 3e11 pairs
VERSION_BITS: Final = 10
KIND_SHIFT: Final = HASH_BITS  # the mark and the version are the bits from here on
MARK_SHIFT: Final = HASH_BITS + VERSION_BITS
MARK: Final = 0xC0E7  # in the 16 highest bits; another crawler's hash has it once in 65,536

_NOISE_VERSION: Final = 2  # of what is taken out: part of each hash, to be raised with any change below

_SPACES: Final = "\t\n\v\f\r\x1c\x1d\x1e\x1f"  # all white space of ASCII
_DENSE: Final = 60  # characters for each digit
_TO_ZEROS: Final = bytes.maketrans(b"123456789", 9 * b"0")
_MONTH: Final = (
    r"(?:jan(?:uary)?|feb(?:ruary)?|mar(?:ch)?|apr(?:il)?|may|june?|july?|aug(?:ust)?|sept?(?:ember)?|oct(?:ober)?"
    r"|nov(?:ember)?|dec(?:ember)?)\.?"
)
_UNIT: Final = r"(?:seconds?|secs?|minutes?|mins?|hours?|hrs?|days?|weeks?|months?|years?)"
_ZONE: Final = (
    r"(?: ?(?:utc|gmt|z|[aecmp][sd]t|cest|[cew]et|bst)(?![a-z]))?"
    r"(?: ?[+-]\d\d:?\d\d(?: \([^()\d]{3,40}\))?)?"  # GMT+0100 (Central European Time), as browsers write it
)
_TIME: Final = rf":\d\d(?::\d\d(?:[.,]\d{{1,9}})?)?(?: ?[ap]\.?m\b\.?)?{_ZONE}"
_AFTER_DIGIT: Final = (
    rf"\d{{3}}-\d\d-\d\d(?:[t ]\d\d{_TIME})?",  # 2026-11-27T10:15:00Z
    r"\d{3}/\d\d/\d\d",
    r"\d?/\d{1,2}/\d{4}",
    r"\d?\.\d{1,2}\.\d{4}",
    rf"\d?(?:st|nd|rd|th)? {_MONTH},? \d{{4}}",  # 27 November 2026
    rf"\d?{_TIME}",
    rf"\d{{0,3}} {_UNIT} ago",
    r"\d{0,3}[smhdw] ago",
    r"\d{0,3}(?:\.\d{1,4}){1,3}[a-z\d.]{0,8}(?= (?:documentation|docs|reference|manual|api)\b)",  # 1.3.5 docs
)
_FLAGS: Final = re.IGNORECASE | re.ASCII
# Each begins with a digit, which the engine finds fast; that it begins a word is looked at afterwards.
_DAY_AND_YEAR: Final = rf"(\d?(?:st|nd|rd|th)?,?(?: \d\d{_TIME},?)? (?:19|20)\d\d)"  # after a month: Nov 27, 2026
_NUMERIC: Final = re.compile(rf"[0-9](?<![\w.:/-].)(?:{'|'.join(_AFTER_DIGIT)}|{_DAY_AND_YEAR})(?![\w/-]) ?", _FLAGS)
_ZERO: Final = re.compile(rb"0(?<![\w.:/-].)")  # the beginning of that
_MONTH_BEFORE: Final = re.compile(rf"\b{_MONTH} \Z", _FLAGS)
_WEEKDAY: Final = re.compile(r"\b(?:mon|tues?|wed(?:nes)?|thu(?:rs?)?|fri|sat(?:ur)?|sun)(?:day)?\.?,? ?\Z", _FLAGS)
_LONGEST_NAME: Final = 12  # "Wednesday, " and what is before it
_AGO_OR_NOW: Final = re.compile(
    r"[AaNn](?:[Gg][Oo]|[Oo][Ww])\b ?", re.ASCII
)  # a set is found faster than letters of both cases
_IN_WORDS: Final = re.compile(rf"\b(?:(?:an?|one|a few) {_UNIT} ago ?|just now ?)\Z", _FLAGS)
_LONGEST_IN_WORDS: Final = len("a few seconds ago ")
_RIGHTS: Final = re.compile(
    r"(?:\bcopyright )?(?:\xa9|\(c\)|\bcopyright\b).{0,80}?\ball rights reserved\b[ .]*", _FLAGS
)
_YEARS: Final = re.compile(
    r"((?:\xa9|\(c\)|\bcopyright\b)\D{0,40}?)\b(?:19|20)\d\d(?: ?[,\u2013-] ?(?:(?:19|20)\d\d|present))*(?!\w) ?",
    _FLAGS,
)
_MADE_BY: Final = re.compile(
    r"\b((?:generated|created|built|powered) (?:by|using|with) (?:[a-z][\w-]{0,30} ){1,3})v?\d+(?:\.\d+){1,3}(?!\w) ?",
    _FLAGS,
)


def remove_noise(text: str) -> str:
    """Return a text without times, dates, years of copyright and "5 minutes ago", with single spaces. O(characters).

    >>> remove_noise("Posted 5 minutes ago, on 2026-11-27 10:15.  Price: 5.99")
    'Posted , on . Price: 5.99'
    """
    text = _remove_dates(_fold_spaces(text))
    small = text.lower()
    if " ago" in small or "just now" in small:
        text = _remove_ages(text)
    if "\xa9" in small or "copyright" in small or "(c)" in small:
        text = _YEARS.sub(r"\1", _RIGHTS.sub("", text))
    if "generated " in small or "created " in small or "built " in small or "powered " in small:
        text = _MADE_BY.sub(r"\1", text)
    return text.rstrip(" ")


def _fold_spaces(text: str) -> str:
    """Return ``" ".join(text.split())``, in a quarter of its time for the lines of a page in ASCII."""
    if text.isascii():
        for space in _SPACES:
            text = text.replace(space, " ")
        text = text.strip(" ")
        if "  " not in text:
            return text
    return " ".join(text.split())


def _remove_dates(text: str) -> str:
    """Return a text without times and dates, with the months and days of the week before them."""
    pieces, at = [], 0
    for found in _find_numeric(text):
        begin = found.start()
        if found.lastindex:
            month = _MONTH_BEFORE.search(text, max(begin - _LONGEST_NAME, at), begin)
            if month is None:
                continue
            begin = month.start()
        day = _WEEKDAY.search(text, max(begin - _LONGEST_NAME, at), begin)
        pieces.append(text[at : day.start() if day else begin])
        at = found.end()
    return "".join([*pieces, text[at:]])


def _find_numeric(text: str) -> Iterator[re.Match[str]]:
    """Yield what `_NUMERIC.finditer` does. Where digits are few, they are found faster once all of them are zeros."""
    zeros = text.encode().translate(_TO_ZEROS) if text.isascii() else b""
    if not zeros or _DENSE * zeros.count(b"0") > len(zeros):
        yield from _NUMERIC.finditer(text)
        return
    end = 0
    for begin in _ZERO.finditer(zeros):
        if begin.start() >= end and (found := _NUMERIC.match(text, begin.start())):
            end = found.end()
            yield found


def _remove_ages(text: str) -> str:
    """Return a text without "an hour ago" and the like. What ends them is rare, and is looked for first."""
    pieces, at = [], 0
    for found in _AGO_OR_NOW.finditer(text):
        end = found.end()
        age = _IN_WORDS.search(text, max(end - _LONGEST_IN_WORDS, at), end)
        if age:
            pieces.append(text[at : age.start()])
            at = end
    return "".join([*pieces, text[at:]])


def content_hash(text: str) -> int:
    r"""Return the exact hash of a text for ``Outcome(content=)``: 64 bits. O(characters).

    White space and colons after words do not count, as markup moves them about, nor does what `remove_noise` takes out.
    The version of that, and of what `page_text` made the text by, is part of the hash: hashes of different versions are
    not compared. Equal on every Python and machine. Raises SettingsError if `text` is no str.

    >>> content_hash("Price 5, updated 3 minutes ago") == content_hash("Price  5,\nupdated an hour ago")
    True
    >>> content_hash("Price 5") == content_hash("Price 6")
    False
    """
    if not isinstance(text, str):
        raise SettingsError("text", text, "a text as str")
    by = text.by if isinstance(text, PageText) else ""
    text = f"{remove_noise(text)} ".replace(": ", " ")  # some themes draw their colons
    letters = text.encode("utf-8", "surrogatepass").translate(None, b" ")
    digest = blake2b(letters, digest_size=8).digest()
    return _kind(by) | int.from_bytes(digest, "big") >> (64 - HASH_BITS)


def simhash(text: str) -> int:
    """Return the SimHash of a text for ``Outcome(fingerprint=)``: 64 bits, as `streamsched.simhash` does. O(words).

    Compiles nothing: some 5 µs a word. Raises SettingsError if `text` is no str.

    >>> simhash("Red green blue.") == simhash("red, GREEN (blue)")
    True
    """
    return fingerprint_text(fold_text(text), SHINGLE_WORDS)


@lru_cache(64)
def _kind(by: str) -> int:
    """Return the mark and the version in their places."""
    digest = blake2b(f"{_NOISE_VERSION} {by}".encode(), digest_size=2).digest()
    return MARK << MARK_SHIFT | (int.from_bytes(digest, "big") >> (16 - VERSION_BITS)) << KIND_SHIFT
