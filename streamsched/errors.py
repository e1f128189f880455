"""All errors that streamsched raises on purpose.

::

    StreamschedError
    ├── InvalidRecord      a record of a stream breaks its format    .record .field .found .expected
    │   ├── InvalidOutcome a crawl outcome
    │   └── InvalidSignal  a change signal
    ├── FormulaError       a score formula does not parse            .text .column .reason
    ├── UnknownPage        a URL that was never observed             .url
    ├── SettingsError      a setting has an invalid value            .setting .found .expected
    │   └── SettingsErrors several settings have invalid values      .errors
    ├── KeyReusedError     a key in use has other arguments    .key .until_s
    ├── ChangesGone        a position in a change feed is not kept  .after .oldest
    ├── SourceError        an input cannot be opened or read         .path .reason .offset
    ├── DocumentError      a sitemap, feed or notice is refused     .url .reason .offset
    ├── FetchError         a URL cannot be fetched, or may not be    .url .kind .reason
    ├── SnapshotError      saved state is missing or damaged         .path .reason
    │   └── StateInUse     another process is changing it (retriable)
    ├── CatchingUp         a shard reads before it leases (retriable) .partition
    ├── ServiceError       a service refused a request              .request .reason .status .code
    │   ├── AccessDenied   the token is missing, invalid or lacks a scope
    │   └── ServiceUnavailable no answer in time (retriable)
    └── ReplayError        a replay cannot be run

Each message says what was found, what was expected and, if there is something to do, what to do. ``retriable`` is True
if the same call may succeed later without any change.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

_EXCERPT: Final = 100  # characters of a formula that an error shows, around the column it names
_LONGEST_PATH: Final = 1_000  # characters of a path that an error shows; the fields have all of it


class _Nothing:
    """Found in place of a required value that was not given; None may have been given."""

    def __repr__(self) -> str:
        return "nothing"


NOTHING: Final = _Nothing()


class StreamschedError(Exception):
    """The base of all errors: catch it to catch all of them."""

    retriable = False


class InvalidRecord(StreamschedError, ValueError):
    """A record of a stream breaks its format. Names the record, the field, what was found and what was expected."""

    def __init__(self, record: int, field: str, found: object, expected: str) -> None:
        self.record = record
        self.field = field
        self.found = found
        self.expected = expected
        super().__init__(record, field, found, expected)

    def __str__(self) -> str:
        return f"record {self.record}: {self.field}: expected {self.expected}, found {shorten(self.found)}"


class InvalidOutcome(InvalidRecord):
    """A crawl outcome breaks the event format."""


class InvalidSignal(InvalidRecord):
    """A change signal breaks the event format."""


class FormulaError(StreamschedError, ValueError):
    """A score formula does not parse; ``column`` counts characters from 1."""

    def __init__(self, text: str, column: int, reason: str) -> None:
        self.text = text
        self.column = column
        self.reason = reason
        super().__init__(text, column, reason)

    def __str__(self) -> str:
        start = max(0, self.column - 1 - _EXCERPT // 2)
        part = "".join(c if c.isprintable() else " " for c in self.text[start : start + _EXCERPT])
        return f"column {self.column}: {self.reason}\n  {part}\n  {' ' * (self.column - 1 - start)}^"


class UnknownPage(StreamschedError, KeyError):
    """No page with this URL has been observed or discovered."""

    def __init__(self, url: str) -> None:
        self.url = url
        super().__init__(url)

    def __str__(self) -> str:
        return f"unknown page {shorten(self.url, 200)}: observe an outcome of it or discover it first"


class SettingsError(StreamschedError, ValueError):
    """A setting has an invalid value."""

    def __init__(self, setting: str, found: object, expected: str) -> None:
        self.setting = setting
        self.found = found
        self.expected = expected
        super().__init__(setting, found, expected)

    def __str__(self) -> str:
        return f"{self.setting}: expected {self.expected}, found {shorten(self.found)}"


class SettingsErrors(SettingsError):
    """Several settings have invalid values: ``errors`` has all of them."""

    def __init__(self, errors: Sequence[SettingsError]) -> None:
        self.errors = tuple(errors)
        super().__init__(self.errors[0].setting, self.errors[0].found, self.errors[0].expected)

    def __str__(self) -> str:
        if len(self.errors) == 1:
            return str(self.errors[0])
        return "\n".join(
            [f"{len(self.errors)} settings have invalid values:", *(f"  {error}" for error in self.errors)]
        )


class KeyReusedError(StreamschedError, ValueError):
    """An idempotency key was used with other arguments than those of the batch it was used for, before ``until_s``.

    A service does not say until when its key is in use: ``until_s`` is None.
    """

    code = "key_reused"

    def __init__(self, key: str, until_s: float | None) -> None:
        self.key = key
        self.until_s = until_s
        super().__init__(key, until_s)

    def __str__(self) -> str:
        until = "" if self.until_s is None else f"; it is in use until {self.until_s:.17g}"
        return f"key: expected a new one, or the arguments that {shorten(self.key)} was used with{until}"


class ChangesGone(StreamschedError, LookupError):
    """The changes after the position ``after`` are not kept, or belong to another state; ``oldest``: where to go on."""

    code = "changes_gone"

    def __init__(self, after: str, oldest: str) -> None:
        self.after = after
        self.oldest = oldest
        super().__init__(after, oldest)

    def __str__(self) -> str:
        expected = f"a position of this state that is kept, {self.oldest} or later"
        return f"after: expected {expected}, found {shorten(self.after)}"


class SourceError(StreamschedError, OSError):
    """An input cannot be opened or read; ``offset`` is the byte or line of the failure, None at opening."""

    def __init__(self, path: str, reason: str, offset: int | None = None, *, retriable: bool = False) -> None:
        self.path = path
        self.reason = reason
        self.offset = offset
        self.retriable = retriable
        super().__init__(path, reason, offset)

    def __str__(self) -> str:
        path = _shorten_path(self.path)
        where = path if self.offset is None else f"{path}, at {self.offset}"
        return f"{where}: {self.reason}"


class DocumentError(StreamschedError, ValueError):
    """A document of signals is malformed, hostile or too large.

    ``offset``: the byte of the decompressed document at which that was found, None if it has no place.
    """

    def __init__(self, url: str, reason: str, offset: int | None = None) -> None:
        self.url = url
        self.reason = reason
        self.offset = offset
        super().__init__(url, reason, offset)

    def __str__(self) -> str:
        where = _shorten_path(self.url)
        return f"{where}: {self.reason}" if self.offset is None else f"{where}, at byte {self.offset}: {self.reason}"


class FetchError(StreamschedError):
    """A URL could not be fetched, or may not be.

    ``kind``: "url", "port", "name", "address" (not public, nor allowed), "connection", "protocol", "time", "bytes",
    "ratio", "encoding", "redirects" or "robots" (robots.txt forbids it).
    """

    def __init__(self, url: str, kind: str, reason: str) -> None:
        self.url = url
        self.kind = kind
        self.reason = reason
        super().__init__(url, kind, reason)

    def __str__(self) -> str:
        return f"{_shorten_path(self.url)}: {self.reason}"


class SnapshotError(StreamschedError):
    """Saved state is missing, damaged, or of a format version that this release cannot read."""

    def __init__(self, path: str, reason: str) -> None:
        self.path = path
        self.reason = reason
        super().__init__(path, reason)

    def __str__(self) -> str:
        return f"{_shorten_path(self.path)}: {self.reason}"


class StateInUse(SnapshotError):
    """Another process is changing the saved state, and one of the two would overwrite the other."""

    retriable = True


class CatchingUp(StreamschedError):
    """A shard leases nothing before it has reached the end that its ``partition`` had when it was taken over."""

    retriable = True
    code = "catching_up"

    def __init__(self, partition: str) -> None:
        self.partition = partition
        super().__init__(partition)

    def __str__(self) -> str:
        return f"{_shorten_path(self.partition)}: outcomes that were there when it was taken over are being read"


class ServiceError(StreamschedError):
    """A service refused a request, or what answered is no such service.

    ``request``: its method and URL; ``status``: of the answer, None without one; ``code``: of the refusal, as the
    service names it, None if it named none.
    """

    def __init__(self, request: str, reason: str, status: int | None = None, code: str | None = None) -> None:
        self.request = request
        self.reason = reason
        self.status = status
        self.code = code
        super().__init__(request, reason, status, code)

    def __str__(self) -> str:
        answer = "" if self.status is None else f" {self.status}"
        return f"{_shorten_path(self.request)}:{answer} {_shorten_path(self.reason)}"


class AccessDenied(ServiceError):
    """The token is missing, unknown or expired (401), or lacks the scope that the request needs (403)."""


class ServiceUnavailable(ServiceError):
    """A service gave no answer in time, or refused to work for now."""

    retriable = True


class ReplayError(StreamschedError, ValueError):
    """A replay cannot be run: an empty window, an unknown policy, a budget of zero."""


def _shorten_path(path: str) -> str:
    return path if len(path) <= _LONGEST_PATH else f"{path[: _LONGEST_PATH - 1]}…"


def shorten(found: object, limit: int = 80) -> str:
    """Return ``repr(found)`` cut to `limit` characters, so that a long value cannot flood a log."""
    text = repr(found)
    return text if len(text) <= limit else f"{text[: limit - 1]}…"
