"""What commands print, and the files they write."""

from __future__ import annotations

import json
import math
import os
import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

from streamsched.errors import SourceError

__all__ = ["check_writable", "echo", "echo_error", "echo_json", "name_rejections", "plain", "write_file"]

_NAMED: Final = 10  # rejections on standard error; a dead-letter file has all
_CONTROLS: Final = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029]")


def echo(text: str) -> None:
    """Print `text` to standard output."""
    print(text)  # noqa: T201


def echo_json(content: object) -> None:
    """Print `content` to standard output as JSON; numbers that are not finite are null."""
    echo(json.dumps(_finite(content), indent=2, allow_nan=False))


def echo_error(text: str) -> None:
    """Print `text` to standard error."""
    print(text, file=sys.stderr, flush=True)  # noqa: T201


def plain(text: str) -> str:
    r"""Return `text` with control characters percent-encoded: a URL must not break its line nor steer a terminal.

    >>> plain("https://a.example/ä\n\x1b[2J")
    'https://a.example/ä%0A%1B[2J'
    """
    return _CONTROLS.sub(lambda found: quote(found[0]), text)


def name_rejections(rejections: Sequence[object], count: int) -> None:
    """Name the first of `rejections` on standard error, and how many of `count` are not named."""
    for rejection in rejections[:_NAMED]:
        echo_error(f"rejected: {plain(str(rejection))}")
    if count > _NAMED:
        echo_error(f"rejected: {count - _NAMED} more")


def check_writable(path: Path, log: str | None = None) -> None:
    """Raise SourceError where the file `path` cannot be written, its directory made if need be, or is the `log` read.

    For what is written after long work, so that the work is not lost.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise _unwritable(path, error) from error
    if log is not None and path.exists() and Path(log).exists() and path.samefile(log):
        raise SourceError(str(path), "is the log that is read: expected the name of another file to write to")
    if path.is_dir() or not os.access(path if path.exists() else path.parent, os.W_OK):
        raise SourceError(str(path), "cannot be written: expected the name of a file in a directory that can be")
    if not path.exists():  # some directories promise more than they keep
        try:
            path.touch(exist_ok=False)
            path.unlink()
        except OSError as error:
            raise _unwritable(path, error) from error


def write_file(path: Path, text: str) -> None:
    """Write `text` to the file `path`. Raises SourceError where it cannot be written."""
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
