"""Times and dates in texts: what differs at each visit though the content is the same."""

from __future__ import annotations

import re
from typing import Final

NOISE_VERSION: Final = 1  # of what is taken out: part of each hash, to be raised with any change below

_MONTH: Final = (
    r"(?:jan(?:uary)?|feb(?:ruary)?|mar(?:ch)?|apr(?:il)?|may|june?|july?|aug(?:ust)?|sept?(?:ember)?|oct(?:ober)?"
    r"|nov(?:ember)?|dec(?:ember)?)\.?"
)
_UNIT: Final = r"(?:seconds?|secs?|minutes?|mins?|hours?|hrs?|days?|weeks?|months?|years?)"
_TIME: Final = r":\d\d(?::\d\d(?:[.,]\d{1,9})?)?(?: ?[ap]\.?m\b\.?)?(?: ?(?:(?:utc|gmt|z)\b|[+-]\d\d:?\d\d))?"
_AFTER_DIGIT: Final = (
    rf"\d{{3}}-\d\d-\d\d(?:[t ]\d\d{_TIME})?",  # 2026-11-27T10:15:00Z
    r"\d{3}/\d\d/\d\d",
    r"\d?/\d{1,2}/\d{4}",
    r"\d?\.\d{1,2}\.\d{4}",
    rf"\d?(?:st|nd|rd|th)? {_MONTH},? \d{{4}}",  # 27 November 2026
    rf"\d?{_TIME}",
    rf"\d{{0,3}} {_UNIT} ago",
    r"\d{0,3}[smhdw] ago",
)
_FLAGS: Final = re.IGNORECASE | re.ASCII
# Each begins with a digit, which the engine finds fast; that it begins a word is looked at afterwards.
_NUMERIC: Final = re.compile(rf"[0-9](?<![\w.:/-].)(?:{'|'.join(_AFTER_DIGIT)})(?![\w/-]) ?", _FLAGS)
_MONTH_FIRST: Final = re.compile(rf"\b{_MONTH} \d{{1,2}}(?:st|nd|rd|th)?,? \d{{4}}(?!\w) ?", _FLAGS)
_IN_WORDS: Final = re.compile(rf"\b(?:(?:an?|one|a few) {_UNIT} ago|just now)\b ?", _FLAGS)


def remove_noise(text: str) -> str:
    """Return a text without times, dates and "5 minutes ago", with single spaces. O(characters).

    >>> remove_noise("Posted 5 minutes ago, on 2026-11-27 10:15.  Price: 5.99")
    'Posted , on . Price: 5.99'
    """
    text = _NUMERIC.sub("", " ".join(text.split()))
    if " 19" in text or " 20" in text:
        text = _MONTH_FIRST.sub("", text)
    small = text.lower()
    if " ago" in small or "just now" in small:
        text = _IN_WORDS.sub("", text)
    return text.rstrip(" ")
