"""A service on a state directory, as a process beside a crawler; crawlers of one process share that of one directory.

The process has a session of its own, so that Ctrl-C ends the crawler first, which then gives its pages back. It ends by
itself when its standard input does: with the crawler, however that dies.
"""

from __future__ import annotations

import json
import logging
import subprocess
import sys
import threading
from collections import Counter, deque
from collections.abc import Sequence
from contextlib import suppress
from typing import IO, Final

from streamsched.errors import ServiceError

_LOG: Final = logging.getLogger("streamsched.service")
_LEVELS: Final = {"warning": logging.WARNING, "error": logging.ERROR, "critical": logging.CRITICAL}
_STOP_S: Final = 30.0  # most time of a stop, which saves the state
_KEPT_LINES: Final = 5  # of its log, for the error that says why it has ended
_PROGRAM: Final = """
import os, runpy, signal, threading
def end_with_parent():
    while os.read(0, 4096):  # not sys.stdin, whose lock an interpreter that ends would miss
        pass
    os.kill(os.getpid(), signal.SIGTERM)
threading.Thread(target=end_with_parent, daemon=True).start()
runpy.run_module("streamsched", run_name="__main__", alter_sys=True)
"""


class LocalService:
    """A running service; `open` starts or shares it, `close` ends it with its last user."""

    _running: Final[dict[str, LocalService]] = {}
    _starting: Final[dict[str, LocalService]] = {}
    _users: Final[Counter[str]] = Counter()
    _lock: Final = threading.Lock()

    def __init__(self, state: str, settings: Sequence[str] = ()) -> None:
        self.state = state
        self.url = ""
        self._lines: deque[str] = deque(maxlen=_KEPT_LINES)
        words = [sys.executable, "-c", _PROGRAM, "serve", "--state", state, "--http", "127.0.0.1:0"]
        words += ["--log-format", "json", "--log-level", "info", *settings]
        self._process = subprocess.Popen(
            words,
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )

    @classmethod
    def open(cls, state: str, settings: Sequence[str] = ()) -> LocalService:
        """Return the service on the directory `state`, once it serves. Raises ServiceError if it does not.

        A first start on a machine compiles kernels, which takes minutes. `settings`: options of ``serve``.
        """
        with cls._lock:  # the second user waits until the first knows the address
            if state not in cls._running:
                made = cls._starting[state] = cls(state, settings)
                try:
                    made.url = made._find_url()
                finally:
                    del cls._starting[state]
                cls._running[state] = made
            cls._users[state] += 1
            return cls._running[state]

    @classmethod
    def abandon(cls, state: str) -> None:
        """End the start of the service on `state`, if it has one: its `open` raises."""
        if (starting := cls._starting.get(state)) is not None:  # without the lock, which `open` holds
            starting._process.terminate()  # noqa: SLF001  of this class

    def close(self) -> None:
        """Stop the service if nobody else uses it, and wait until it has saved its state."""
        with self._lock:
            self._users[self.state] -= 1
            if self._users[self.state] > 0:
                return
            self._running.pop(self.state, None)
            self._stop()  # within the lock: the next one finds the state free

    def _stop(self) -> None:
        assert self._process.stdin is not None
        with suppress(OSError):
            self._process.stdin.close()
        try:
            self._process.wait(_STOP_S)
        except subprocess.TimeoutExpired:
            _LOG.error("the service on %s did not end within %.0f s and was killed", self.state, _STOP_S)
            self._process.kill()
            self._process.wait()

    def _find_url(self) -> str:
        """Return where the service is, once it serves."""
        assert self._process.stderr is not None
        for line in self._process.stderr:
            event = self._note(line)
            if event.get("event") == "serving http":
                threading.Thread(target=self._drain, args=(self._process.stderr,), daemon=True).start()
                return f"http://{event['address']}"
        with self._process:  # closes its pipes
            code = self._process.wait()
        said = " / ".join(self._lines)
        raise ServiceError(f"serve --state {self.state}", f"ended with exit code {code}: {said}")

    def _drain(self, lines: IO[str]) -> None:
        for line in lines:
            self._note(line)
        code = self._process.wait()
        if code:
            _LOG.error("the service on %s ended with exit code %s: %s", self.state, code, " / ".join(self._lines))

    def _note(self, line: str) -> dict[str, str]:
        """Keep a line of the log, pass it on to Python's logging, and return its event."""
        self._lines.append(line.strip())
        try:
            event = json.loads(line)
        except ValueError:
            event = None
        if not isinstance(event, dict):  # of the interpreter, such as a traceback
            _LOG.warning("%s", line.rstrip())
            return {}
        _LOG.log(_LEVELS.get(event.get("level", ""), logging.DEBUG), "%s", line.strip())
        return event
