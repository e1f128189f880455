"""Which URLs a scheduler takes from crawlers: absolute ones of some schemes, as `Scheduler(schemes=)` says.

`streamsched.fields` checks what no URL may be, wherever records come from. A change log that is replayed may call its
pages as it likes; of a page that a crawler is to fetch, scheme and host must be known.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from streamsched.errors import InvalidOutcome, SettingsError
from streamsched.fields import URL, RecordColumns
from streamsched.numerics.arrays import Floats, Ints, frozen
from streamsched.numerics.packed_urls import PackedUrls
from streamsched.numerics.url_syntax import UrlStarts, count_wrong
from streamsched.outcomes import OutcomeBatch

SCHEMES: Final = "http https"
ANY_SCHEME: Final = "any"
_SCHEME: Final = re.compile(r"[a-z][a-z0-9+.-]*")
_SCHEMES_EXPECTED: Final = f"schemes such as {SCHEMES!r}, {ANY_SCHEME!r}, or None for texts that are no URLs"


def parse_schemes(schemes: str | None) -> str | None:
    """Return the setting `schemes` in small letters, with single spaces. Raises SettingsError.

    >>> parse_schemes("HTTPS, ftp")
    'https ftp'
    """
    if schemes is None:
        return None
    names = dict.fromkeys(re.split(r"[\s,]+", schemes.strip().lower())) if isinstance(schemes, str) else {}
    if not names or not all(map(_SCHEME.fullmatch, names)) or (ANY_SCHEME in names and len(names) > 1):
        raise SettingsError("schemes", schemes, _SCHEMES_EXPECTED)
    return " ".join(names)


class UrlRule:
    """Finds URLs that are not absolute, with one of `schemes`, a host, and no white space or control characters.

    `schemes`: as `parse_schemes` returns them; None finds none. ``starts``: the rule for kernels.
    """

    def __init__(self, schemes: str | None) -> None:
        names = [] if schemes in (None, ANY_SCHEME) else str(schemes).split()
        starts = [f"{name}://" for name in sorted(names, key=len, reverse=True)]  # most pages have https://
        texts = np.frombuffer("".join(starts).encode() + bytes(8), np.uint8)  # a word can be read anywhere
        ends = np.cumsum([len(start) for start in starts], dtype=np.int64)
        self.starts = UrlStarts(texts, frozen(ends), schemes is None)
        begins = " or ".join(starts) or "a scheme, ://"
        self.expected = f"an absolute URL: {begins} and a host, no white space or control characters"

    def wrong(self, urls: PackedUrls) -> Ints:
        """Return the indices of wrong ones of `urls`, UTF-8: int64[m], ascending. O(bytes), some 25 ns a URL."""
        out = np.empty(len(urls), np.int64)
        return out[: count_wrong(urls.blob, urls.offsets, self.starts, out)]

    def check(self, records: RecordColumns, problems: Sequence[Any]) -> list[Any]:
        """Return `problems` of `records` and those of other records whose URLs are wrong, in record order. O(bytes)."""
        found = {problem.record: problem for problem in problems}
        for field in records.FIELDS:
            if field.kind is not URL:
                continue
            column: PackedUrls = getattr(records, field.column)
            rows = self.wrong(column)
            for row in (rows[(records.given[rows] & field.bit) != 0] if field.bit else rows).tolist():
                if row not in found:
                    found[row] = records.ERROR(row, field.name, column[row], self.expected)
        return [found[row] for row in sorted(found)] if len(found) > len(problems) else list(problems)

    def admit(
        self, urls: PackedUrls, weights: Floats | None = None
    ) -> tuple[PackedUrls, Floats | None, list[InvalidOutcome]]:
        """Return the valid ones of `urls`, with their `weights` (float64[n]), and what is wrong with the others. O(n).

        Raises InvalidOutcome for an invalid weight: those come from the caller, URLs from strangers.
        """
        batch = OutcomeBatch(urls, np.ones(len(urls)), importance=weights)
        problems = self.check(batch, batch.problems())
        for problem in problems:
            if problem.field == "importance":
                raise problem
        if not problems:
            return urls, weights, problems
        right = np.delete(np.arange(len(urls)), [problem.record for problem in problems])
        return urls.take(right), None if weights is None else weights[right], problems


ANY_TEXT: Final = UrlRule(None).starts
