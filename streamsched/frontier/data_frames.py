"""Joins DATA frames before h2 reads them: clients send one for each message, and h2 takes 20 µs for each frame.

The body of a stream is bytes, wherever frames cut it, so h2 sees the same stream in fewer frames.
"""

from __future__ import annotations

import struct
from typing import Final

from h2.exceptions import FrameTooLargeError

_HEAD: Final = struct.Struct(">BHBBI")  # length in two parts, kind, flags, stream
_PREFACE: Final = 24  # bytes of a client before its first frame
_DATA: Final = 0  # a kind, and flags: without padding, and not the last
_MOST: Final = 1 << 14  # bytes of a frame that h2 accepts


class FrameJoiner:
    r"""What a client has sent and h2 has not been given yet, which is less than a frame.

    >>> one = bytes([0, 0, 1, 0, 0, 0, 0, 0, 1])
    >>> FrameJoiner().join(bytes(24) + one + b"a" + one + b"b")[24:]
    b'\x00\x00\x02\x00\x00\x00\x00\x00\x01ab'
    """

    def __init__(self) -> None:
        self._rest = b""
        self._skip = _PREFACE  # bytes that are no frames

    def join(self, data: bytes) -> bytes:
        """Return the whole frames of what has arrived, DATA frames that follow each other joined. O(bytes).

        Raises FrameTooLargeError for a frame that h2 would refuse once it is whole.
        """
        data = self._rest + data if self._rest else data
        at = min(self._skip, len(data))
        self._skip -= at
        out = [data[:at]]
        size, run, run_size, run_stream = len(data), list[bytes](), 0, 0
        while size - at >= _HEAD.size:
            high, low, kind, flags, stream = _HEAD.unpack_from(data, at)
            length = high << 16 | low
            if length > _MOST:
                raise FrameTooLargeError(f"expected frames of at most {_MOST} bytes")
            end = at + _HEAD.size + length
            if end > size:
                break
            is_data = kind == _DATA and flags == 0
            if run and not (is_data and stream == run_stream and run_size + length <= _MOST):
                out += _close(run, run_size, run_stream)
                run, run_size = [], 0
            if is_data:
                run.append(data[at + _HEAD.size : end])
                run_size, run_stream = run_size + length, stream
            else:
                out.append(data[at:end])
            at = end
        out += _close(run, run_size, run_stream)
        self._rest = data[at:]
        return b"".join(out)


def _close(run: list[bytes], size: int, stream: int) -> list[bytes]:
    """Return the parts of one frame with the bytes of a run of frames."""
    return [_HEAD.pack(size >> 16, size & 0xFFFF, _DATA, 0, stream), *run] if run else []
