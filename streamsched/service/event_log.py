"""The log of a run: one event a line on standard error, as text or as JSON.

Modules of the service log with `LOG`, a structlog logger: ``LOG.info("saved", file=name, pages=12)``. What library
modules log through `logging`, as ``streamsched.…``, appears in the same form.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any, Final

import structlog
from rich.console import Console
from structlog.dev import Column, ConsoleRenderer, KeyValueColumnFormatter, plain_traceback
from structlog.typing import EventDict, Processor

_LIBRARY: Final = logging.getLogger("streamsched")
LOG: Final[structlog.stdlib.BoundLogger] = structlog.wrap_logger(
    _LIBRARY,
    processors=[structlog.stdlib.filter_by_level, structlog.stdlib.render_to_log_kwargs],
    wrapper_class=structlog.stdlib.BoundLogger,
    cache_logger_on_first_use=True,
)


@contextmanager
def log_to(console: Console, level: str, layout: str) -> Iterator[None]:
    """Print events from `level` on to `console` within the block, with the layout "text" or "json"."""
    handler = _ConsoleHandler(console)
    handler.setFormatter(_make_formatter(_JSON if layout == "json" else _TEXT))
    previous_level, previous_propagate = _LIBRARY.level, _LIBRARY.propagate
    _LIBRARY.addHandler(handler)
    _LIBRARY.setLevel(level.upper())
    _LIBRARY.propagate = False
    try:
        yield
    finally:
        _LIBRARY.removeHandler(handler)
        _LIBRARY.setLevel(previous_level)
        _LIBRARY.propagate = previous_propagate


class _ConsoleHandler(logging.Handler):
    """Prints records above the progress line, if there is one."""

    def __init__(self, console: Console) -> None:
        super().__init__()
        self._console = console

    def emit(self, record: logging.LogRecord) -> None:
        try:
            text = self.format(record)
            self._console.print(text, markup=False, highlight=False, emoji=False, soft_wrap=True)
        except Exception:  # noqa: BLE001  an event that cannot be logged must not stop the run
            self.handleError(record)


def _make_formatter(renderers: Sequence[Processor]) -> logging.Formatter:
    return structlog.stdlib.ProcessorFormatter(
        foreign_pre_chain=[
            structlog.processors.TimeStamper(fmt="iso", utc=True, key="time"),
            structlog.stdlib.add_log_level,
            structlog.stdlib.ExtraAdder(),
        ],
        processors=[
            structlog.stdlib.ProcessorFormatter.remove_processors_meta,
            structlog.processors.format_exc_info,  # without the values of local variables, which may be secrets
            *renderers,
        ],
    )


def _escape(_logger: object, _method: str, event: EventDict) -> EventDict:
    """Escape control characters, so that no value breaks its line or controls a terminal; shorten floats."""
    shown = {name: f"{value:.6g}" if isinstance(value, float) else _printable(value) for name, value in event.items()}
    if "exception" in event:  # a traceback has lines of its own
        shown["exception"] = "\n".join(map(_printable, event["exception"].splitlines()))
    return shown


def _printable(value: Any) -> str:
    text = str(value)
    return text if text.isprintable() else text.encode("unicode_escape").decode()


def _quote(value: object) -> str:
    """Return `value` in quotes if it is empty or contains a space, a quote or an equals sign."""
    text = str(value)
    return json.dumps(text, ensure_ascii=False) if not text or set(text) & set(' "=') else text


_plain: Final = partial(KeyValueColumnFormatter, value_style="", reset_style="")
_TEXT: Final[Sequence[Processor]] = [
    _escape,
    ConsoleRenderer(
        columns=[
            Column("time", _plain(key_style=None, value_repr=str)),
            Column("level", _plain(key_style=None, value_repr=lambda level: f"{str(level).upper():<7}")),
            Column("event", _plain(key_style=None, value_repr=str)),
            Column("", _plain(key_style="", value_repr=_quote)),
        ],
        sort_keys=False,
        exception_formatter=plain_traceback,
    ),
]
_JSON: Final[Sequence[Processor]] = [structlog.processors.JSONRenderer(default=str)]
