"""Signals appended to a file of JSON Lines."""

from __future__ import annotations

import os
from pathlib import Path
from types import TracebackType
from typing import Final, Self

import msgspec

from streamsched.errors import SettingsError, SourceError
from streamsched.signals import SignalBatch

SUFFIXES: Final = (".jsonl", ".ndjson")
_TAIL_BYTES: Final = 1 << 16  # read at a time to find the end of the last whole line
_encode: Final = msgspec.json.Encoder().encode_lines


class SignalFile:
    """Appends signals to the file at `path`, each on a line; a context manager.

    A last line without an end, which a killed process has left, is removed. Raises SourceError if the file cannot be
    written, SettingsError if its name does not end in .jsonl or .ndjson.
    """

    def __init__(self, path: Path) -> None:
        if path.suffix not in SUFFIXES:
            raise SettingsError("--to", str(path), f"a URL, or a file whose name ends in {' or '.join(SUFFIXES)}")
        self._path = path
        try:
            self._file = path.open("r+b" if path.exists() else "w+b")
            self._end = self._cut_torn_line()
        except OSError as error:
            raise self._unwritable(error) from error

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._file.close()

    def append(self, signals: SignalBatch) -> None:
        """Write `signals` and return once they are on disk; nothing of them is left if that fails. O(bytes)."""
        try:
            self._file.seek(self._end)
            self._file.write(_encode(list(signals.to_events())))
            self._file.flush()
            os.fsync(self._file.fileno())
            self._end = self._file.tell()
        except OSError as error:
            self._file.truncate(self._end)
            raise self._unwritable(error) from error

    def _cut_torn_line(self) -> int:
        """Remove what follows the last end of a line; return where that is."""
        end = size = self._file.seek(0, os.SEEK_END)
        while end:
            start = max(end - _TAIL_BYTES, 0)
            self._file.seek(start)
            newline = self._file.read(end - start).rfind(b"\n")
            if newline >= 0:
                end = start + newline + 1
                break
            end = start
        if end < size:
            self._file.truncate(end)
        return end

    def _unwritable(self, error: OSError) -> SourceError:
        return SourceError(str(self._path), f"cannot be written: {error.strerror or error}")
