"""Commands called in this process under a deadline, and what each of them keeps to whatever it is given."""

from __future__ import annotations

import faulthandler
import io
import logging
import signal
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, redirect_stderr, redirect_stdout
from importlib import import_module
from pathlib import Path
from types import FrameType
from typing import NoReturn
from unittest.mock import patch

from streamsched.cli import main
from streamsched.cli.exits import DEFECT
from tests.support.command_line import Answer

PATIENCE_S = 600.0  # in which everything here ends, or it hangs


class Stuck(BaseException):
    """A call did not end. Not an Exception, so that no handler of the product takes it for its own."""


@contextmanager
def patience(seconds: float = PATIENCE_S) -> Iterator[None]:
    """Raise Stuck if this block takes longer; end the process if it does not react to that either."""

    def give_up(_number: int, _frame: FrameType | None) -> NoReturn:
        raise Stuck(f"no end after {seconds:g} seconds")

    before = signal.signal(signal.SIGALRM, give_up)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    faulthandler.dump_traceback_later(2 * seconds, exit=True)
    try:
        yield
    finally:
        faulthandler.cancel_dump_traceback_later()
        signal.setitimer(signal.ITIMER_REAL, 0.0)
        signal.signal(signal.SIGALRM, before)


def call(*words: str | Path) -> Answer:
    """Call the command line; it must end with an exit code of its own, without a traceback."""
    out, err = io.StringIO(), io.StringIO()
    quiet = patch.object(import_module("streamsched.cli.program"), "_Notice", lambda: lambda _compilation: None)
    plain: AbstractContextManager[object] = patch.object(
        logging.getLogger(), "handlers", []
    )  # pytest's would take warnings from standard error
    with patience(), quiet, plain, redirect_stdout(out), redirect_stderr(err):
        code = main([str(word) for word in words])
    answer = Answer(code, out.getvalue(), err.getvalue())
    check_orderly(answer)
    return answer


def check_orderly(answer: Answer) -> None:
    """Fail unless a command succeeded, or said why not."""
    assert "Traceback" not in answer.err, answer.err
    assert 0 <= answer.code < DEFECT, answer
    if answer.code > 1:
        assert any(line.startswith("streamsched") for line in answer.err.splitlines()), answer.err
