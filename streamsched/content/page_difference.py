"""Which lines differ between two texts of a page, and which of these `content_hash` takes out itself."""

from __future__ import annotations

from collections import Counter
from typing import NamedTuple

from streamsched.content.text_hashes import remove_noise


class DifferingLine(NamedTuple):
    """A line that only one text has; ``removed``: whether the texts are alike in it without times and dates."""

    text: str
    removed: bool


def find_differing(one: str, other: str) -> tuple[list[DifferingLine], list[DifferingLine]]:
    r"""Return the lines that only `one` has, and those that only `other` has, in their order. O(characters).

    A line that occurs more often in one text counts as often as that.

    >>> find_differing("a\nseen 2 minutes ago", "a\nseen 3 minutes ago")[0]
    [DifferingLine(text='seen 2 minutes ago', removed=True)]
    """
    lines = one.splitlines(), other.splitlines()
    found = [_beyond(lines[i], Counter(lines[1 - i])) for i in (0, 1)]
    plain = [Counter(map(remove_noise, each)) for each in found]
    first, second = (
        [DifferingLine(line, _take(remove_noise(line), plain[1 - i])) for line in found[i]] for i in (0, 1)
    )
    return first, second


def _beyond(lines: list[str], others: Counter[str]) -> list[str]:
    return [line for line in lines if not _take(line, others)]


def _take(line: str, others: Counter[str]) -> bool:
    """Take one of `line` out of `others`; return whether there was one."""
    if others[line] <= 0:
        return False
    others[line] -= 1
    return True
