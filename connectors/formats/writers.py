"""Outcomes or signals into files that `open_source` and `open_signals` read: JSON Lines
and msgpack, gzip if the name ends in ``.gz``.

A file appears under its name only once it is whole. The same batches give the same bytes.
"""

from __future__ import annotations

import gzip
import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO, Final, TypeAlias, cast

import msgspec
import numpy as np

from streamsched.errors import SettingsError, SourceError, StreamschedError
from streamsched.frames import encode_frame
from streamsched.numerics.argument_checks import check_flag, check_path, check_type
from streamsched.outcomes import OutcomeBatch
from streamsched.signals import SignalBatch

_FRAME_ROWS: Final = 4096  # decoding costs 40 µs a frame and 5 ns a row: more rows gain little
_GZIP_LEVEL: Final = 6

_Batches: TypeAlias = Iterable[OutcomeBatch] | Iterable[SignalBatch]


def write_jsonl(batches: _Batches, path: str | Path) -> int:
    """Write the records of `batches` as JSON Lines and return how many; some 2 µs each.

    A file holds outcomes or signals, not both. Raises InvalidOutcome or InvalidSignal if one breaks the event format;
    the file is then not written.
    """
    encoder = msgspec.json.Encoder()
    return _write(batches, path, lambda batch: [encoder.encode_lines(list(batch.to_events()))])


def write_msgpack(batches: _Batches, path: str | Path, *, frames: bool = True) -> int:
    """Write the records of `batches` as msgpack and return how many: columnar frames, or a map for each event.

    A file holds outcomes or signals, not both. Raises InvalidOutcome or InvalidSignal if one breaks the event format;
    the file is then not written.
    """
    check_flag("frames", frames)
    encoder = msgspec.msgpack.Encoder()
    return _write(batches, path, _frame if frames else lambda batch: map(encoder.encode, batch.to_events()))


def _write(batches: _Batches, path: str | Path, encode: Callable[[Any], Iterable[bytes]]) -> int:
    path, count = check_path("path", path), 0
    try:
        each: Iterator[OutcomeBatch | SignalBatch] = iter(batches)
    except TypeError:
        raise SettingsError(
            "batches", batches, "OutcomeBatch or SignalBatch objects in a list or another iterable"
        ) from None
    with replacing(path, pack=path.suffix == ".gz") as file:
        kind: type[OutcomeBatch | SignalBatch] | None = None  # the first batch decides
        for batch in each:
            kind = kind or (SignalBatch if isinstance(batch, SignalBatch) else OutcomeBatch)
            check_type("batches", batch, kind, f"{kind.__name__} objects")
            for problem in batch.problems():
                raise problem
            file.writelines(encode(batch))
            count += len(batch)
    return count


def _frame(batch: Any) -> Iterator[bytes]:
    """Return `batch` as frames of at most 4,096 records: 32 MiB if every URL has the maximum length."""
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
