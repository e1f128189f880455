"""Many URLs as one array of bytes with offsets: for producers to send, frames to hold and kernels to read."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from streamsched.errors import InvalidOutcome
from streamsched.numerics.argument_checks import check_type, read_items
from streamsched.numerics.compilation.machine_operations import fold_multiply, load_word, prefetch
from streamsched.numerics.jit import bare_kernel, kernel

if TYPE_CHECKING:
    from streamsched.numerics.arrays import Bools, Bytes, Hashes, Ints

__all__ = ["MAX_URL_BYTES", "URL_EXPECTED", "PackedUrls", "decode_spans", "hash_bytes", "same_bytes"]

MAX_URL_BYTES = 8192  # the longest URL of an outcome
URL_EXPECTED = f"1 to {MAX_URL_BYTES} bytes of UTF-8"

_PREFETCH_AHEAD = 8  # texts
_LINE_FEED = 10
_K0 = np.uint64(0xA0761D6478BD642F)
_K1 = np.uint64(0xE7037ED1A0B428DB)
_K2 = np.uint64(0x8EBC6AF09C88C6E3)


class PackedUrls:
    """n URLs as ``blob``: uint8[bytes], UTF-8, and ``offsets``: int64[n + 1].

    URL i is ``blob[offsets[i]:offsets[i + 1]]``. Constructed from columns that a producer packed, or by `pack` from a
    list of str. Immutable by convention.
    """

    __slots__ = ("blob", "offsets")

    def __init__(self, blob: npt.ArrayLike | bytes, offsets: npt.ArrayLike) -> None:
        """Use the columns without a copy if their dtypes match; O(n) to check the offsets.

        Raises ValueError if the offsets are not ascending positions within the blob.
        """
        for name, column in (("blob", blob), ("offsets", offsets)):
            if isinstance(column, np.ma.MaskedArray):
                raise ValueError(f"{name}: expected an array without a mask, found a masked array")
        raw = np.frombuffer(blob, np.uint8) if isinstance(blob, bytes | bytearray | memoryview) else np.asarray(blob)
        if raw.dtype != np.uint8 or raw.ndim != 1:
            raise ValueError(f"blob: expected bytes or uint8[bytes], found {raw.dtype}{list(raw.shape)}")
        ends = np.asarray(offsets)
        if ends.ndim != 1 or ends.size == 0 or ends.dtype.kind not in "iu":
            raise ValueError(f"offsets: expected int[n + 1], found {ends.dtype}{list(ends.shape)}")
        self.blob = np.ascontiguousarray(raw)
        self.offsets = np.ascontiguousarray(ends, np.int64)
        if self.offsets[0] < 0 or self.offsets[-1] > raw.size or np.any(self.offsets[1:] < self.offsets[:-1]):
            raise ValueError(f"offsets: expected to ascend within 0 to {raw.size}, the blob's bytes")

    @classmethod
    def pack(cls, urls: Iterable[str]) -> PackedUrls:
        """Return `urls` packed. O(total characters).

        Raises InvalidOutcome for the first item that is not a str or that UTF-8 cannot encode, and TypeError if `urls`
        is a single str or no sequence.
        """
        if not isinstance(urls, list | tuple):
            urls = read_items("urls", urls, "a sequence of URLs, a single one in a list")
        try:
            joined = "".join(urls)
        except TypeError:
            record, found = next((i, url) for i, url in enumerate(urls) if not isinstance(url, str))
            raise InvalidOutcome(record, "url", found, "str") from None
        if joined.isascii():
            return cls._from_lengths(joined.encode("ascii"), np.fromiter(map(len, urls), np.int64, len(urls)))
        encoded = []
        for record, url in enumerate(urls):
            try:
                encoded.append(url.encode("utf-8"))
            except UnicodeEncodeError:
                raise InvalidOutcome(
                    record, "url", url, "text that UTF-8 can encode, without lone surrogates"
                ) from None
        return cls._from_lengths(b"".join(encoded), np.fromiter(map(len, encoded), np.int64, len(encoded)))

    @classmethod
    def _from_lengths(cls, blob: bytes | Bytes, lengths: npt.NDArray[np.int64]) -> PackedUrls:
        offsets = np.zeros(lengths.size + 1, np.int64)
        np.cumsum(lengths, out=offsets[1:])
        return cls(blob, offsets)

    def __len__(self) -> int:
        return self.offsets.size - 1

    def __getitem__(self, index: int) -> str:
        """Return URL `index` as text; bytes that are not UTF-8 come out as U+FFFD. O(length)."""
        if not -len(self) <= index < len(self):
            raise IndexError(f"URL {index} of {len(self)}")
        index %= len(self)
        return self.blob[self.offsets[index] : self.offsets[index + 1]].tobytes().decode("utf-8", "replace")

    def __iter__(self) -> Iterator[str]:
        return (self[index] for index in range(len(self)))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, PackedUrls) and list(self) == list(other)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"PackedUrls({len(self)} URLs, {int(self.offsets[-1] - self.offsets[0])} bytes)"

    def take(self, rows: npt.NDArray[np.intp]) -> PackedUrls:
        """Return the URLs at `rows`: intp[m], in that order. O(bytes copied)."""
        offsets = np.zeros(rows.size + 1, np.int64)
        np.cumsum(self.offsets[rows + 1] - self.offsets[rows], out=offsets[1:])
        blob = np.empty(offsets[-1], np.uint8)
        _gather(self.blob, self.offsets, rows.astype(np.int64), blob)
        return PackedUrls(blob, offsets)

    @classmethod
    def concatenate(cls, parts: Iterable[PackedUrls]) -> PackedUrls:
        """Return the URLs of `parts`, one part after another. O(bytes). Raises TypeError, SettingsError.

        >>> list(PackedUrls.concatenate([PackedUrls.pack(["a"]), PackedUrls.pack(["b", "c"])]))
        ['a', 'b', 'c']
        """
        columns = read_items("parts", parts, "PackedUrls objects")
        for part in columns:
            check_type("parts", part, PackedUrls, "PackedUrls objects")
        used = [np.empty(0, np.uint8), *(part.blob[part.offsets[0] : part.offsets[-1]] for part in columns)]
        lengths = [np.empty(0, np.int64), *(np.diff(part.offsets) for part in columns)]
        return cls._from_lengths(np.concatenate(used), np.concatenate(lengths))

    def out_of_range(self) -> npt.NDArray[np.intp]:
        """Return the indices of URLs that are empty or too long. O(n)."""
        lengths = np.diff(self.offsets)
        return np.flatnonzero((lengths < 1) | (lengths > MAX_URL_BYTES))

    def not_utf8(self) -> npt.NDArray[np.intp]:
        """Return the indices of URLs that are not UTF-8. O(bytes), at memory speed if all of them are ASCII."""
        used = self.blob[self.offsets[0] : self.offsets[-1]]
        if used.size == 0 or used.max() < 0x80:
            return np.empty(0, np.intp)
        suspects = np.flatnonzero(_has_high_byte(self.blob, self.offsets))
        spans = ((i, self.blob[self.offsets[i] : self.offsets[i + 1]]) for i in suspects)
        return np.array([i for i, span in spans if not _is_utf8(span)], np.intp)


def _is_utf8(raw: npt.NDArray[np.uint8]) -> bool:
    try:
        raw.tobytes().decode("utf-8")
    except UnicodeDecodeError:
        return False
    return True


@bare_kernel
def hash_bytes(blob: Bytes, start: int, stop: int) -> np.uint64:
    """Return the 64-bit hash of ``blob[start:stop]``: 16 bytes a step, each folded through a 128-bit product.

    Not cryptographic: anybody who chooses URLs can construct collisions, so equal hashes never prove equal URLs.
    O(bytes).
    """
    length = stop - start
    state = _K0 ^ np.uint64(length)
    position = start
    while stop - position >= 16:
        state = fold_multiply(load_word(blob, position) ^ _K1, load_word(blob, position + 8) ^ state)
        position += 16
    if length >= 16:
        head, tail = load_word(blob, stop - 16), load_word(blob, stop - 8)
    elif length >= 8:
        head, tail = load_word(blob, start), load_word(blob, stop - 8)
    else:
        head, tail = np.uint64(0), np.uint64(0)
        for i in range(start, stop):
            head = (head << np.uint64(8)) | np.uint64(blob[i])
    return fold_multiply(fold_multiply(head ^ _K1, tail ^ state) ^ _K2, np.uint64(length) ^ _K1)


@bare_kernel
def same_bytes(left: Bytes, left_start: int, right: Bytes, right_start: int, length: int) -> bool:
    """Return whether `length` bytes of `left` from `left_start` equal those of `right` at `right_start`. O(length)."""
    if length < 8:
        for i in range(length):
            if left[left_start + i] != right[right_start + i]:
                return False
        return True
    for i in range(0, length - 8, 8):
        if load_word(left, left_start + i) != load_word(right, right_start + i):
            return False
    return bool(load_word(left, left_start + length - 8) == load_word(right, right_start + length - 8))


def decode_spans(text: Bytes, spans: Hashes) -> list[str]:
    """Return the texts at `spans`: uint64[m], each its start in `text` << 16 | its length. O(total length).

    >>> decode_spans(np.frombuffer(b"onetwo", np.uint8), np.array([3 << 16 | 3, 3], np.uint64))
    ['two', 'one']
    """
    ends = np.cumsum((spans & np.uint64(0xFFFF)).astype(np.int64) + 1)  # each with a separator
    blob = np.empty(int(ends[-1]) if spans.size else 0, np.uint8)
    _copy_spans(text, np.ascontiguousarray(spans), blob)
    raw = blob.tobytes()
    if raw.isascii():
        texts = raw.decode("ascii").split("\n")
        if len(texts) == spans.size + 1:  # none contains the separator
            return texts[:-1]
    begins = [0, *ends.tolist()]
    return [raw[begin : end - 1].decode("utf-8", "replace") for begin, end in itertools.pairwise(begins)]


@bare_kernel
def _copy_spans(text: Bytes, spans: Hashes, out: Bytes) -> None:
    """Copy the texts at `spans` to `out`, each followed by a line feed."""
    at = 0
    for i in range(spans.size):
        if i + _PREFETCH_AHEAD < spans.size:
            ahead = np.int64(spans[i + _PREFETCH_AHEAD] >> np.uint64(16))
            prefetch(text, ahead)
            prefetch(text, ahead + 64)
        begin = np.int64(spans[i] >> np.uint64(16))
        for j in range(begin, begin + np.int64(spans[i] & np.uint64(0xFFFF))):
            out[at] = text[j]
            at += 1
        out[at] = _LINE_FEED
        at += 1


@kernel
def _gather(blob: Bytes, offsets: Ints, rows: Ints, out: Bytes) -> None:
    at = 0
    for row in rows:
        for i in range(offsets[row], offsets[row + 1]):
            out[at] = blob[i]
            at += 1


@kernel
def _has_high_byte(blob: Bytes, offsets: Ints) -> Bools:
    found = np.zeros(offsets.size - 1, np.bool_)
    for row in range(offsets.size - 1):
        for i in range(offsets[row], offsets[row + 1]):
            if blob[i] >= 0x80:
                found[row] = True
                break
    return found
