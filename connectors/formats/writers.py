"""Outcomes into files that `open_source` reads: JSON Lines and msgpack, gzip if the name ends in ``.gz``.

A file appears under its name only once it is whole. The same batches give the same bytes.
"""

from __future__ import annotations

import gzip
import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, Final, cast

import msgspec
import numpy as np

from streamsched.connectors.formats.columns import to_events
from streamsched.connectors.formats.msgpack_frames import encode_frame
from streamsched.errors import SettingsError, SourceError, StreamschedError
from streamsched.numerics.argument_checks import check_flag, check_path, check_type
from streamsched.outcomes import OutcomeBatch

__all__ = ["replacing", "write_jsonl", "write_msgpack"]

_FRAME_ROWS: Final = 4096  # decoding costs 40 µs a frame and 5 ns a row: more rows gain little
_GZIP_LEVEL: Final = 6


def write_jsonl(batches: Iterable[OutcomeBatch], path: str | Path) -> int:
    """Write the outcomes of `batches` as JSON Lines and return how many; some 2 µs each.

    Raises InvalidOutcome if one breaks the event format; the file is then not written.
    """
    encoder = msgspec.json.Encoder()
    return _write(batches, path, lambda batch: [encoder.encode_lines(to_events(batch))])


def write_msgpack(batches: Iterable[OutcomeBatch], path: str | Path, *, frames: bool = True) -> int:
    """Write the outcomes of `batches` as msgpack and return how many: columnar frames, or a map for each event.

    Raises InvalidOutcome if one breaks the event format; the file is then not written.
    """
    check_flag("frames", frames)
    encoder = msgspec.msgpack.Encoder()
    return _write(batches, path, _frame if frames else lambda batch: map(encoder.encode, to_events(batch)))


def _write(batches: Iterable[OutcomeBatch], path: str | Path, encode: Callable[[OutcomeBatch], Iterable[bytes]]) -> int:
    path, count = check_path("path", path), 0
    try:
        each = iter(batches)
    except TypeError:
        raise SettingsError("batches", batches, "OutcomeBatch objects in a list or another iterable") from None
    with replacing(path, pack=path.suffix == ".gz") as file:
        for batch in each:
            check_type("batches", batch, OutcomeBatch, "OutcomeBatch objects")
            for problem in batch.problems():
                raise problem
            file.writelines(encode(batch))
            count += len(batch)
    return count


def _frame(batch: OutcomeBatch) -> Iterator[bytes]:
    """Return `batch` as frames of at most 4,096 outcomes: 32 MiB if every URL has the maximum length."""
    for start in range(0, len(batch), _FRAME_ROWS):
        yield encode_frame(batch.take(np.arange(start, min(start + _FRAME_ROWS, len(batch)))))


@contextmanager
def replacing(path: Path, *, pack: bool) -> Iterator[BinaryIO]:
    """Open a file that takes the name `path` when the block ends, and is removed if the block raises; gzip with `pack`.

    Raises SourceError if it cannot be written.
    """
    partial = path.with_name(f".{path.name}.{os.getpid()}.partial")
    try:
        with partial.open("wb") as file:
            if pack:
                with gzip.GzipFile("", "wb", _GZIP_LEVEL, file, mtime=0) as packed:
                    yield cast(BinaryIO, packed)
            else:
                yield file
            file.flush()
            os.fsync(file.fileno())
        partial.replace(path)
    except OSError as error:
        if isinstance(error, StreamschedError):
            raise
        raise SourceError(str(path), f"cannot be written: {error.strerror or error}") from error
    finally:
        partial.unlink(missing_ok=True)
