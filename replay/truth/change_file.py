"""Change logs as files, in the format that `streamsched.connectors.formats.changelog` reads."""

from __future__ import annotations

import zlib
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Final

import numpy as np
import numpy.typing as npt

from streamsched.connectors.formats.writers import replacing
from streamsched.numerics.argument_checks import check_path, check_type
from streamsched.replay.truth.ground_truth import ChangeLog

if TYPE_CHECKING:
    from streamsched.numerics.arrays import Floats, Ints

__all__ = ["write_changes"]

_CHUNK: Final = 65_536  # changes per write: about 4 MB of lines
_LEVEL: Final = 4  # zlib level: level 6 takes twice as long and compresses such lines hardly better
_GZIP: Final = 31  # zlib's code for "gzip header and trailer, largest window"
_WORKERS: Final = 2  # compression threads, which release the GIL: enough to keep up with formatting
_DECIMALS: Final = 9  # of a second, the maximum of the format


def write_changes(log: ChangeLog, path: str | Path, progress: Callable[[int, int], None] | None = None) -> int:
    """Write the changes of `log` to the file `path`, oldest first, gzip if it ends in ``.gz``; return their number.

    Simultaneous changes are in the order of their pages, and pages from before the log appear at its start. Reading the
    file gives an equal log if pages are in order of appearance; times have nanosecond precision, ``importance`` is not
    written. `progress` is called with the number of changes written and the total. The same log gives the same bytes.
    O(m log m), about 2 µs per change. The file is replaced atomically. Raises SourceError if it cannot be written.
    """
    check_type("log", log, ChangeLog, "a ChangeLog")
    path = check_path("path", path)
    page = np.repeat(np.arange(len(log.urls)), np.diff(log.offsets))
    times_s = np.maximum(log.times_s, log.first_s)
    order = np.argsort(times_s, kind="stable")
    chunks = (order[start : start + _CHUNK] for start in range(0, order.size, _CHUNK))
    lines = _format_chunks(log, page, times_s, chunks)
    packed = str(path).endswith(".gz")
    with replacing(path, pack=False) as file:
        done = 0
        for data in _compress(lines) if packed else lines:
            file.write(data)
            done = min(done + _CHUNK, order.size)
            if progress is not None:
                progress(done, order.size)
    return order.size


def _format_chunks(log: ChangeLog, page: Ints, times_s: Floats, chunks: Iterator[Ints]) -> Iterator[bytes]:
    """Return the lines of each of `chunks`, which are indices of changes."""
    text = log.urls.blob.tobytes()
    urls = [text[start:end] for start, end in pairwise(log.urls.offsets.tolist())]
    ops = _name_ops(log)
    for chunk in chunks:
        fields = zip(_format_times(times_s[chunk]), ops[chunk].tolist(), page[chunk].tolist(), strict=True)
        if log.significance is None:
            yield b"".join([b"%b\t%b\t%b\n" % (epoch, op, urls[at]) for epoch, op, at in fields])
        else:
            parts = [np.format_float_positional(part, trim="-").encode() for part in log.significance[chunk]]
            lines = zip(fields, parts, strict=True)
            yield b"".join([b"%b\t%b\t%b\t%b\n" % (epoch, op, urls[at], part) for (epoch, op, at), part in lines])


def _name_ops(log: ChangeLog) -> npt.NDArray[np.bytes_]:
    """Return the op of each change as bytes: ``A`` for a page's first change and for its return."""
    appears = np.append(True, log.gone[:-1])
    appears[log.offsets[:-1][np.diff(log.offsets) > 0]] = True
    return np.where(log.gone, b"D", np.where(appears, b"A", b"M"))


def _format_times(times_s: Floats) -> list[bytes]:
    whole = times_s.astype(np.int64)
    if np.array_equal(whole, times_s):
        return [b"%d" % time_s for time_s in whole.tolist()]
    return [f"{time_s:.{_DECIMALS}f}".rstrip("0").rstrip(".").encode() for time_s in times_s.tolist()]


def _compress(blocks: Iterator[bytes]) -> Iterator[bytes]:
    """Return each block as a gzip member, in order; a few are compressed at a time."""
    pending: deque[Future[bytes]] = deque()
    with ThreadPoolExecutor(_WORKERS) as pool:
        for block in blocks:
            pending.append(pool.submit(_pack, block))
            if len(pending) > _WORKERS:
                yield pending.popleft().result()
        while pending:
            yield pending.popleft().result()


def _pack(block: bytes) -> bytes:
    packer = zlib.compressobj(_LEVEL, zlib.DEFLATED, _GZIP)
    return packer.compress(block) + packer.flush()
