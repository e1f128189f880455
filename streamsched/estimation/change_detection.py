"""What counts as a change: rules over status codes, the crawler's own verdict, content hashes and SimHash distance.

A visit is compared with the page's last informative visit, its content with that of its last change. The first rule
that applies decides:

1. **Failure.** 0 (no answer), 429 and 500 upwards say nothing about the content. Such a visit changes neither n, X nor
   the interval being observed, even if the crawler says `changed`: it has seen an error page, not the page.
2. **First.** The first informative visit of a page has nothing to compare with, whatever `changed` says.
3. **The crawler's verdict**, `changed`, if given.
4. **304** is no change.
5. **Success against 4xx**, in either order, is a change: the page vanished or returned.
6. **4xx again** is no change; the hashes of the error page are ignored.
7. **Both succeeded and both have `content`**: a change if the hashes differ. Hashes that `streamsched.content` made by
   different versions are not compared: rule 8 or 9 decides.
8. **Both succeeded and both have a fingerprint**: a change if `threshold` bits or more differ.
9. **Both succeeded, without two hashes to compare**: no evidence. The page was fetched, so the time since its
   last visit begins again, but its rate and everything else that is learned from intervals stays as it was. A crawler
   that reports only status codes teaches nothing but that pages vanish and come back.

With ``changes="similar"`` rule 8 comes before rule 7: small differences are no change where fingerprints can tell.

A success is every status below 400 but 0: redirects (3xx) are compared by their hashes like any other answer, and
so are the 1xx that a crawler should not report. An absent status is 200. Of an informative visit the page stores
whether it was a success, and the fingerprint of the content at its last change, or of the content first seen: of the
visits that `shows_content`, those without a change leave it as it was. So a page that drifts by less than the threshold
from visit to visit changes once the drift has added up. A 304 or a 4xx leaves the fingerprint as it was too; a success
that is a change without a fingerprint removes it, because its content is gone. So does a visit without evidence,
because the next interval begins with it. The page's `content` is stored and removed likewise, but each visit that has
one stores it: that of the newest visit is compared.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from streamsched.content.text_hashes import KIND_SHIFT, MARK, MARK_SHIFT
from streamsched.errors import SettingsError
from streamsched.numerics.arrays import Record, Records
from streamsched.numerics.jit import inlined_kernel, kernel
from streamsched.outcomes import CHANGED, CONTENT, FINGERPRINT, STATUS, STATUSES, Outcome

EVIDENCE_MEMORY: Final = 1_000.0  # visits after which the oldest fade from the share without evidence
EVIDENCE_LEAST: Final = 100.0  # visits below which that share says nothing
UNPROVEN_MOST: Final = 0.5  # of these visits; above it, users are warned
CHANGE_BITS: Final = 6  # of 64 bits: least distance of SimHashes of two contents (Grimes & O'Brien, section 3)

FAILURE: Final = 0  # not informative
FIRST: Final = 1  # informative, the first of its page
SAME: Final = 2
CHANGE: Final = 3
NO_EVIDENCE: Final = 4
VERDICTS: Final = ("failure", "first", "same", "change", "no_evidence")

EXACT: Final = "exact"
SIMILAR: Final = "similar"
CHANGES: Final = (EXACT, SIMILAR)  # the setting: which hashes decide if a visit and its page have both

NOT_COMPARED: Final = 0  # a visit or its page has no `content`
EQUAL: Final = 1
OTHER: Final = 2
NO_CONTENT: Final = np.uint64(0)  # in place of what `pack_content` returns

_KIND_SHIFT: Final = np.uint64(KIND_SHIFT)
_MARK_SHIFT: Final = np.uint64(MARK_SHIFT)
_MARK: Final = np.uint64(MARK)
_NOT_MODIFIED: Final = 304
NOT_FOUND: Final = 404
GONE: Final = 410
_TOO_MANY_REQUESTS: Final = 429


@kernel
def is_failure(status: int) -> bool:
    """Return whether `status` says nothing about the page: 0, 429, or 500 upwards. O(1).

    >>> [is_failure(status) for status in (0, 200, 404, 429, 503)]
    [True, False, False, True, True]
    """
    return status <= 0 or status == _TOO_MANY_REQUESTS or status >= 500


@kernel
def is_success(status: int) -> bool:
    """Return whether `status` is an answer below 400, 304 and redirects included. O(1).

    >>> [is_success(status) for status in (0, 200, 304, 404, 503)]
    [False, True, True, False, False]
    """
    return 0 < status < 400


@kernel
def is_gone(status: int) -> bool:
    """Return whether `status` says that there is no such page: 404 or 410. O(1).

    >>> [is_gone(status) for status in (200, 403, 404, 410, 503)]
    [False, False, True, True, False]
    """
    return status in (NOT_FOUND, GONE)


@kernel
def shows_content(given: int, status: int, field: int) -> bool:
    """Return whether the visit has a hash of the page's content, to be stored; `field`: FINGERPRINT or CONTENT. O(1).

    `given`: bits of `streamsched.outcomes`. Successes do, except 304, which has no content of its own.

    >>> shows_content(FINGERPRINT, 0, FINGERPRINT), shows_content(CONTENT | STATUS, 404, CONTENT)
    (True, False)
    """
    if not given & field:
        return False
    return not given & STATUS or (is_success(status) and status != _NOT_MODIFIED)


@kernel
def pack_content(content: np.uint64) -> np.uint64:
    """Return how a page's `content` is stored: plus 1, as 0 is none; the largest number as the one below it. O(1).

    >>> int(pack_content(np.uint64(0))), int(pack_content(np.uint64(2**64 - 1))) == 2**64 - 1
    (1, True)
    """
    packed = content + np.uint64(1)
    return content if packed == NO_CONTENT else packed


@kernel
def compare_content(given: int, content: np.uint64, kept: np.uint64) -> int:
    """Return EQUAL, OTHER or NOT_COMPARED; `kept`: the page's, as `pack_content` returned it, or NO_CONTENT. O(1).

    Hashes of `streamsched.content` that were made in different ways are not compared.
    """
    if not given & CONTENT or kept == NO_CONTENT:
        return NOT_COMPARED
    if pack_content(content) == kept:
        return EQUAL
    return OTHER if content_kind(content) == content_kind(kept - np.uint64(1)) else NOT_COMPARED


@kernel
def content_kind(content: np.uint64) -> np.uint64:
    """Return what says how a hash was made: mark and version of `content_hash`, 0 for one of another origin. O(1)."""
    return content >> _KIND_SHIFT if content >> _MARK_SHIFT == _MARK else np.uint64(0)


class ChangeRule(NamedTuple):
    """How hashes decide: the least distance of fingerprints that differ, and whether `content` decides before them."""

    bits: int = CHANGE_BITS
    exact: bool = True


class PageBefore(NamedTuple):
    """A page before a visit.

    Whether it had an informative visit, whether the last of these succeeded, whether it has a fingerprint, and which;
    ``contents``: what `compare_content` returned for the visit.
    """

    seen: bool
    success: bool
    has_fingerprint: bool
    fingerprint: np.uint64
    contents: int


@kernel
def detect_change(  # noqa: PLR0911  one return for each rule; the visit's scalars stay in registers
    given: int, status: int, fingerprint: np.uint64, changed: bool, page: PageBefore, rule: ChangeRule
) -> int:
    """Return FAILURE, FIRST, SAME, CHANGE or NO_EVIDENCE for one visit, by the rules of this module in order. O(1).

    `given`: bits of `streamsched.outcomes`; fields that it does not name are ignored.
    """
    answer = status if given & STATUS else 200
    if is_failure(answer):
        return FAILURE
    if not page.seen:
        return FIRST
    if given & CHANGED:
        return CHANGE if changed else SAME
    if answer == _NOT_MODIFIED:
        return SAME
    if is_success(answer) != page.success:
        return CHANGE
    if not page.success:
        return SAME
    similar = page.has_fingerprint and given & FINGERPRINT != 0
    if page.contents != NOT_COMPARED and (rule.exact or not similar):
        return CHANGE if page.contents == OTHER else SAME
    if similar:
        return CHANGE if popcount(fingerprint ^ page.fingerprint) >= rule.bits else SAME
    return NO_EVIDENCE


@inlined_kernel
def count_evidence(corpus: Record, verdict: int) -> None:
    """Count a visit with SAME, CHANGE or NO_EVIDENCE in the share of visits without evidence. O(1)."""
    corpus.compared = min(corpus.compared + 1.0, EVIDENCE_MEMORY)
    corpus.unproven += ((verdict == NO_EVIDENCE) - corpus.unproven) / corpus.compared


def unproven_share(corpus: Records) -> float | None:
    """Return the share of recent visits without evidence, None before `EVIDENCE_LEAST` visits; ``corpus``: CORPUS[1].

    Above `UNPROVEN_MOST` the crawler teaches little: it should report `changed`, a fingerprint or 304.
    """
    return float(corpus["unproven"][0]) if corpus["compared"][0] >= EVIDENCE_LEAST else None


def parse_changes(changes: str) -> str:
    """Return the setting `changes`, "exact" or "similar". Raises SettingsError for another."""
    if not isinstance(changes, str) or changes not in CHANGES:
        raise SettingsError("changes", changes, " or ".join(map(repr, CHANGES)))
    return changes


def verdict(before: Outcome | None, now: Outcome, threshold: int = CHANGE_BITS, changes: str = EXACT) -> str:
    """Return the verdict on the visit `now`, as one of VERDICTS, after the informative visit `before`. O(1).

    `before`: None if there was no informative visit; a failure counts as none. `changes`: "exact" or "similar".
    Raises SettingsError if it is neither.

    >>> verdict(Outcome("https://a.example/", 1.0, status=200), Outcome("https://a.example/", 2.0, status=404))
    'change'
    """
    seen = before is not None and not is_failure(_status(before))
    page = before if before is not None and seen else now
    known = shows_content(_given(page), _status(page), FINGERPRINT)
    kept = NO_CONTENT
    if seen and shows_content(_given(page), _status(page), CONTENT):
        kept = np.uint64(pack_content(np.uint64(page.content or 0)))
    code = detect_change(
        _given(now),
        _status(now),
        np.uint64(now.fingerprint or 0),
        bool(now.changed),
        PageBefore(
            seen,
            is_success(_status(page)),
            known,
            np.uint64(page.fingerprint or 0),
            compare_content(_given(now), np.uint64(now.content or 0), kept),
        ),
        ChangeRule(threshold, parse_changes(changes) == EXACT),
    )
    return VERDICTS[code]


@kernel
def popcount(word: np.uint64) -> int:
    """Return how many bits of `word` are set. O(1), one instruction if the processor has it.

    >>> popcount(np.uint64(0b1011))
    3
    """
    bits = word - ((word >> np.uint64(1)) & np.uint64(0x5555555555555555))
    bits = (bits & np.uint64(0x3333333333333333)) + ((bits >> np.uint64(2)) & np.uint64(0x3333333333333333))
    bits = (bits + (bits >> np.uint64(4))) & np.uint64(0x0F0F0F0F0F0F0F0F)
    return int((bits * np.uint64(0x0101010101010101)) >> np.uint64(56))


def hamming(left: npt.ArrayLike, right: npt.ArrayLike) -> npt.NDArray[np.uint8]:
    """Return in how many of 64 bits the fingerprints differ: uint8[n], or of the shape both broadcast to. O(n).

    Contents differ if this is `CHANGE_BITS` or more. Takes whole numbers from 0 to 2**64 - 1. Raises SettingsError for
    other values, and for shapes that do not fit together.

    >>> hamming([0, 7, 2**64 - 1], [0, 0, 0]).tolist()
    [0, 3, 64]
    """
    one, other = _read_fingerprints("left", left), _read_fingerprints("right", right)
    try:
        return np.asarray(np.bitwise_count(np.bitwise_xor(one, other)))
    except ValueError:
        raise SettingsError("right", f"shape {other.shape}", f"a shape that fits that of left, {one.shape}") from None


def _read_fingerprints(name: str, values: npt.ArrayLike) -> npt.NDArray[np.uint64]:
    """Return fingerprints as an array of their own dtype; raises SettingsError if that would alter one."""
    error = SettingsError(name, values, "whole numbers from 0 to 2**64 - 1")
    try:
        found = np.asarray(values)
        if found.dtype.kind == "f" and not isinstance(values, np.ndarray):  # small and large numbers in one list
            found = np.asarray(values, object)
    except ValueError:  # lists of unequal lengths
        raise error from None
    if found.dtype.kind == "O":
        fits = all(
            isinstance(one, int | np.integer) and not isinstance(one, bool) and 0 <= one < 1 << 64 for one in found.flat
        )
    else:
        fits = found.size == 0 or (found.dtype.kind in "iu" and not np.any(found < 0))
    if isinstance(values, np.ma.MaskedArray) or not fits:
        raise error
    return found.astype(np.uint64)


def _status(outcome: Outcome) -> int:
    status = outcome.status
    if isinstance(status, str):
        return STATUSES[status].code  # no visit either, as a failure
    return 200 if status is None else status


def _given(outcome: Outcome) -> int:
    hashes = (FINGERPRINT, outcome.fingerprint), (CONTENT, outcome.content)
    bits = ((STATUS, outcome.status), (CHANGED, outcome.changed), *hashes)
    return sum(bit for bit, value in bits if value is not None)
