"""The audit log: a line of JSON for every call of an administrator, before it is done and after."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from itertools import count
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

import msgspec

from streamsched.persistence.files import append_whole, as_snapshot_errors, open_regular

__all__ = ["AUDIT_NAME", "AuditLog"]

AUDIT_NAME: Final = "audit.jsonl"
_MOST_BODY: Final = 4_096  # bytes of a request's body in a line
_FAILED: Final = "cannot be written"


class AuditLog:
    """Appends to the file at `path`; a context manager. `clock`: UTC epoch seconds. For several threads.

    A line is on disk when `begin` or `end` returns. Raises SnapshotError if it cannot be written whole.
    """

    def __init__(self, path: Path, clock: Callable[[], float]) -> None:
        self._path = path
        self._clock = clock
        self._lock = threading.Lock()
        self._calls = count(1)
        self._process = os.getpid()
        with as_snapshot_errors(path, _FAILED):
            self._handle = open_regular(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)

    def begin(self, caller: str, address: str, method: str, path: str, body: bytes) -> str:
        """Note a call that is about to be checked and done; return its name, for `end`."""
        name = f"{self._process}-{next(self._calls)}"
        text = body[:_MOST_BODY].decode(errors="backslashreplace")
        cut = {"cut_bytes": len(body) - _MOST_BODY} if len(body) > _MOST_BODY else {}
        fields = {"caller": caller, "address": address, "method": method, "path": path, "body": text, **cut}
        self._write({"event": "call", "call": name} | fields)
        return name

    def end(self, name: str, status: int) -> None:
        """Note the status that the call was answered with."""
        self._write({"event": "answer", "call": name, "status": status})

    def _write(self, fields: dict[str, Any]) -> None:
        line = msgspec.json.encode({"time_s": self._clock()} | fields) + b"\n"
        with self._lock, as_snapshot_errors(self._path, _FAILED):
            append_whole(self._handle, line, os.fstat(self._handle).st_size)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        os.close(self._handle)
