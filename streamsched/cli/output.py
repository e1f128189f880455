"""Printing, and writing of result files."""

from __future__ import annotations

import json
import math
import os
import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote

from streamsched.errors import SourceError

if TYPE_CHECKING:
    from streamsched.replay.reporting.report import Report

STDOUT: Final = "-"

_NAMED: Final = 10  # rejections printed to standard error; a dead-letter file has all of them
_CONTROLS: Final = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029]")


def echo(text: str) -> None:
    """Print `text` to standard output."""
    print(text)  # noqa: T201


def echo_json(content: object) -> None:
    """Print `content` to standard output as JSON, with null for numbers that are not finite."""
    echo(json.dumps(_finite(content), indent=2, allow_nan=False))


def echo_error(text: str) -> None:
    """Print `text` to standard error, control characters as `plain` does: the name of a file may hold any."""
    print("\n".join(map(plain, text.split("\n"))), file=sys.stderr, flush=True)  # noqa: T201


def plain(text: str) -> str:
    r"""Return `text` with control characters percent-encoded: a URL must not break its line or control a terminal.

    >>> plain("https://a.example/ä\n\x1b[2J")
    'https://a.example/ä%0A%1B[2J'
    """
    return _CONTROLS.sub(lambda found: quote(found[0]), text)


def name_rejections(rejections: Sequence[object], count: int) -> None:
    """Print the first of `rejections` to standard error, and how many of all `count` are left out."""
    for rejection in rejections[:_NAMED]:
        echo_error(f"rejected: {plain(str(rejection))}")
    if count > _NAMED:
        echo_error(f"rejected: {count - _NAMED} more")


def check_writable(*paths: str | Path | None, log: str | None = None) -> None:
    """Create the directories of `paths`; raise SourceError if a file cannot be written or is the `log` that is read.

    Also if two of them are one file. Commands call it before long work. None and ``-``, standard output, are left out.
    """
    files = [Path(path) for path in paths if path is not None and path != STDOUT]
    for number, path in enumerate(files):
        _check_writable(path, log)
        if path.resolve() in {other.resolve() for other in files[:number]}:
            raise SourceError(str(path), "is named twice: expected another file for each output")


def _check_writable(path: Path, log: str | None) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        is_new = not path.exists()
        if log is not None and not is_new and Path(log).exists() and path.samefile(log):
            raise SourceError(str(path), "is the log that is read: expected the name of another file to write to")
        if path.is_dir() or not os.access(path.parent if is_new else path, os.W_OK):
            raise SourceError(str(path), "cannot be written: expected the name of a file in a directory that can be")
        if is_new:  # access() reports some directories as writable that are not: /proc
            path.touch(exist_ok=False)
            path.unlink()
    except SourceError:
        raise
    except OSError as error:
        raise _unwritable(path, error) from error


def show_report(report: Report, figures: str | None, page: Path | None) -> None:
    """Print `report`, and write its JSON to the file `figures` and its HTML to `page`; ``-``: print the JSON only."""
    from streamsched.replay.reporting.report import to_json  # noqa: PLC0415  here and below: slow to import

    if figures == STDOUT:
        echo(to_json(report).rstrip("\n"))
    else:
        from streamsched.replay.reporting.terminal import print_report  # noqa: PLC0415

        print_report(report)
    if figures is not None and figures != STDOUT:
        write_file(Path(figures), to_json(report))
    if page is not None:
        from streamsched.replay.reporting.page import render_report  # noqa: PLC0415

        write_file(page, render_report(report))
        note_output(f"report: {page}", figures)


def note_output(line: str, figures: str | None) -> None:
    """Print which file was written, to standard error if JSON is on standard output (`figures` is ``-``)."""
    (echo_error if figures == STDOUT else echo)(line)


def write_file(path: Path, text: str) -> None:
    """Write `text` to the file `path`. Raises SourceError if it cannot be written."""
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise _unwritable(path, error) from error


def _unwritable(path: Path, error: OSError) -> SourceError:
    return SourceError(str(path), f"cannot be written: {error.strerror or error}")


def _finite(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _finite(one) for name, one in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(one) for one in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
