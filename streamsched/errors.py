"""Every error that streamsched raises on purpose.

::

    StreamschedError
    ├── InvalidOutcome     a crawl outcome breaks the event format   .record .field .found .expected
    ├── FormulaError       a score formula does not parse            .text .column
    ├── UnknownPage        a URL that was never observed             .url
    ├── SettingsError      a setting has a value that cannot work    .setting .found .expected
    │   └── SettingsErrors several of them, each told               .errors
    ├── SourceError        an input cannot be opened or read         .path .offset
    ├── SnapshotError      saved state is missing or damaged         .path
    │   └── StateInUse     another process is about to change it (retriable)
    └── ReplayError        a replay cannot be run as asked

Each says what was found, what was expected and, where there is something to be done, what to do.
``retriable`` is True where the same call may succeed later without any change.
"""

from __future__ import annotations

from collections.abc import Sequence

__all__ = [
    "FormulaError",
    "InvalidOutcome",
    "ReplayError",
    "SettingsError",
    "SettingsErrors",
    "SnapshotError",
    "SourceError",
    "StateInUse",
    "StreamschedError",
    "UnknownPage",
]


_EXCERPT = 100  # characters of a formula that an error shows, around the column it names


class StreamschedError(Exception):
    """The root of the tree: catch it to catch all of them."""

    retriable = False


class InvalidOutcome(StreamschedError, ValueError):
    """A crawl outcome breaks the event format; names the record, the field, what was found and expected."""

    def __init__(self, record: int, field: str, found: object, expected: str) -> None:
        self.record = record
        self.field = field
        self.found = found
        self.expected = expected
        super().__init__(record, field, found, expected)

    def __str__(self) -> str:
        return f"record {self.record}: {self.field}: expected {self.expected}, found {shorten(self.found)}"


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
    """A URL was asked for that has neither been observed nor discovered."""

    def __init__(self, url: str) -> None:
        self.url = url
        super().__init__(url)

    def __str__(self) -> str:
        return f"unknown page {self.url!r}: observe an outcome of it or discover it first"


class SettingsError(StreamschedError, ValueError):
    """A setting has a value that cannot work."""

    def __init__(self, setting: str, found: object, expected: str) -> None:
        self.setting = setting
        self.found = found
        self.expected = expected
        super().__init__(setting, found, expected)

    def __str__(self) -> str:
        return f"{self.setting}: expected {self.expected}, found {shorten(self.found)}"


class SettingsErrors(SettingsError):
    """Settings that cannot work, all that there are: ``errors``."""

    def __init__(self, errors: Sequence[SettingsError]) -> None:
        self.errors = tuple(errors)
        super().__init__(self.errors[0].setting, self.errors[0].found, self.errors[0].expected)

    def __str__(self) -> str:
        if len(self.errors) == 1:
            return str(self.errors[0])
        return "\n".join([f"{len(self.errors)} settings cannot work:", *(f"  {error}" for error in self.errors)])


class SourceError(StreamschedError, OSError):
    """An input cannot be opened or read; ``offset`` is the byte or line where that showed, None at opening."""

    def __init__(self, path: str, reason: str, offset: int | None = None, *, retriable: bool = False) -> None:
        self.path = path
        self.reason = reason
        self.offset = offset
        self.retriable = retriable
        super().__init__(path, reason, offset)

    def __str__(self) -> str:
        where = self.path if self.offset is None else f"{self.path}, at {self.offset}"
        return f"{where}: {self.reason}"


class SnapshotError(StreamschedError):
    """Saved state is missing, damaged or of a version this release cannot read."""

    def __init__(self, path: str, reason: str) -> None:
        self.path = path
        self.reason = reason
        super().__init__(path, reason)

    def __str__(self) -> str:
        return f"{self.path}: {self.reason}"


class StateInUse(SnapshotError):
    """Another process is about to change the saved state: what it would save, or we, would be lost."""

    retriable = True


class ReplayError(StreamschedError, ValueError):
    """A replay cannot be run as asked: an empty window, an unknown policy, a budget of nothing."""


def shorten(found: object, limit: int = 80) -> str:
    """Return ``repr(found)`` cut to `limit` characters, so that a hostile value cannot flood a log."""
    text = repr(found)
    return text if len(text) <= limit else f"{text[: limit - 1]}…"
