"""What a run tells whoever watches it later: one event a line, as text or as JSON, on standard error."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any, Final

from rich.console import Console

__all__ = ["LOG", "log_event", "logging_to"]

LOG: Final = logging.getLogger("streamsched")


def log_event(event: str, level: int = logging.INFO, /, **fields: Any) -> None:
    """Log that `event` came about, with what is known of it.

    >>> log_event("saved", file="snapshot-00000001.state", pages=12)
    """
    LOG.log(level, event, extra={"fields": fields})


@contextmanager
def logging_to(console: Console, level: str, layout: str) -> Iterator[None]:
    """Let what the library logs from `level` on appear on `console` in this block, as "text" or "json"."""
    handler = _Lines(console, level.upper(), layout)
    before, spread = LOG.level, LOG.propagate
    LOG.addHandler(handler)
    LOG.setLevel(level.upper())
    LOG.propagate = False
    try:
        yield
    finally:
        LOG.removeHandler(handler)
        LOG.setLevel(before)
        LOG.propagate = spread


class _Lines(logging.Handler):
    """Prints records above the line of progress, where there is one."""

    def __init__(self, console: Console, level: str, layout: str) -> None:
        super().__init__(level)
        self._console = console
        self._write = _as_json if layout == "json" else _as_text

    def emit(self, record: logging.LogRecord) -> None:
        try:
            text = self._write(record)
            self._console.print(text, markup=False, highlight=False, emoji=False, soft_wrap=True)
        except Exception:  # noqa: BLE001  what cannot be told must not stop what it tells of
            self.handleError(record)


def _as_text(record: logging.LogRecord) -> str:
    """Return time, level, event and ``name=value`` for each field, in quotes where a value has spaces."""
    fields = " ".join(f"{name}={_show(value)}" for name, value in _fields(record).items())
    message = _one_line(record.getMessage())
    return f"{_when(record)} {record.levelname:<7} {message}{' ' if fields else ''}{fields}"


def _as_json(record: logging.LogRecord) -> str:
    told = {"time": _when(record), "level": record.levelname.lower(), "event": record.getMessage(), **_fields(record)}
    return json.dumps(told, default=str)


def _fields(record: logging.LogRecord) -> dict[str, Any]:
    fields: dict[str, Any] = getattr(record, "fields", {})
    return fields


def _when(record: logging.LogRecord) -> str:
    return datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _show(value: Any) -> str:
    text = f"{value:.6g}" if isinstance(value, float) else _one_line(str(value))
    return json.dumps(text, ensure_ascii=False) if not text or " " in text or '"' in text or "=" in text else text


def _one_line(text: str) -> str:
    return text.encode("unicode_escape").decode() if not text.isprintable() else text
