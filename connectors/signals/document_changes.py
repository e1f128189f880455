"""What a document says now that it did not say when it was last read."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from streamsched.connectors.signals.document_memory import RememberedDocument

if TYPE_CHECKING:
    from streamsched.connectors.signals.entry_columns import Entries
    from streamsched.numerics.arrays import Bools, Floats, Rows

__all__ = ["Changes", "find_changes", "find_documents", "has_one_time", "keep_newest", "to_remembered"]


class Changes(NamedTuple):
    """Which of n entries are announced, and when.

    ``new``: bool[n], not known before; ``changed``: bool[n], known as another; ``at``: float64[n], UTC epoch seconds,
    the time that a signal of the entry has; ``telling``: bool[n], whether the entry's own time says something.
    """

    new: Bools
    changed: Bools
    at: Floats
    telling: Bools


def keep_newest(entries: Entries) -> Entries:
    """Return the newest entry of each URL, of equally new ones the first; in the document's order. O(n log n)."""
    order = np.lexsort((-entries.times, ~entries.timed, entries.keys))  # stable
    keys = entries.keys[order]
    first = np.ones(keys.size, np.bool_)
    first[1:] = keys[1:] != keys[:-1]
    if first.all():
        return entries
    return entries.take(np.sort(order[first]))


def has_one_time(entries: Entries) -> bool:
    """Return whether at least two entries all have the same time: then it is the document's time, not theirs. O(n)."""
    return len(entries) > 1 and bool(entries.timed.all()) and bool(np.all(entries.times == entries.times[0]))


def find_changes(
    entries: Entries, remembered: RememberedDocument | None, read_at: float, since: float | None
) -> Changes:
    """Return which entries of a document read at `read_at`, each of another URL, are announced by it.

    Of a document known before: URLs that it did not have, times newer than those it had, other contents. Of one read
    for the first time: entries with a time after `since`. A time that is not ``timed``, or that all entries have, says
    nothing. An entry whose content changed, but not its time, changed at `read_at`. O(n log n).
    """
    none = np.zeros(len(entries), np.bool_)
    telling = none if has_one_time(entries) else entries.timed
    at = np.where(telling, entries.at, read_at)
    if remembered is None:
        return Changes(telling & (at > since) if since is not None else none, none, at, telling)
    known, last = _look_up(remembered, entries)
    newer, edited = none.copy(), none.copy()
    newer[known] = telling[known] & (entries.times[known] > remembered.times[last])
    edited[known] = entries.contents[known] != remembered.contents[last]
    return Changes(~known, newer | edited, np.where(edited & ~newer, read_at, at), telling)


def find_documents(changes: Changes, *, first: bool, since: float | None) -> Bools:
    """Return which entries of a sitemap index are to be read: bool[n].

    Those that are announced, those whose time says nothing, and all of them at a first reading without `since`. O(n).
    """
    if first and since is None:
        return np.ones_like(changes.new)
    return changes.new | changes.changed | ~changes.telling


def _look_up(remembered: RememberedDocument, entries: Entries) -> tuple[Bools, Rows]:
    """Return which entries are remembered, bool[n], and the rows of those that are."""
    rows = np.searchsorted(remembered.keys, entries.keys)
    known = np.zeros(len(entries), np.bool_)
    inside = np.flatnonzero(rows < len(remembered))
    known[inside] = remembered.keys[rows[inside]] == entries.keys[inside]
    return known, rows[known]


def to_remembered(entries: Entries, read_at: float) -> RememberedDocument:
    """Return what to remember of a document's entries, each of another URL. O(n log n)."""
    order = np.argsort(entries.keys)
    return RememberedDocument(read_at, entries.keys[order], entries.times[order], entries.contents[order])
