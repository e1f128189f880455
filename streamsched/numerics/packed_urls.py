"""Many URLs as one array of bytes with offsets: for producers to send, frames to hold and kernels to read.

Crawlers import this with `streamsched.client`: its one kernel, in `url_bytes`, is imported when it is needed.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from typing import Final

import numpy as np
import numpy.typing as npt

from streamsched.errors import InvalidOutcome
from streamsched.numerics.argument_checks import read_items
from streamsched.numerics.arrays import Bytes, is_masked

MAX_URL_BYTES = 8192  # the longest URL of an outcome
URL_EXPECTED = f"1 to {MAX_URL_BYTES} bytes of UTF-8"


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
            if is_masked(column):
                raise ValueError(f"{name}: expected an array without a mask, found a masked array")
        raw = np.frombuffer(blob, np.uint8) if isinstance(blob, bytes | bytearray | memoryview) else np.asarray(blob)
        if raw.dtype != np.uint8 or raw.ndim != 1:
            raise ValueError(f"blob: expected bytes or uint8[bytes], found {raw.dtype}{list(raw.shape)}")
        ends = np.asarray(offsets)
        if ends.ndim != 1 or ends.size == 0 or ends.dtype.kind not in "iu":
            raise ValueError(f"offsets: expected int[n + 1], found {ends.dtype}{list(ends.shape)}")
        self.blob = np.ascontiguousarray(raw)
        self.offsets = np.ascontiguousarray(ends, np.int64)
        if self.offsets[0] < 0 or self.offsets[-1] > raw.size or (self.offsets[1:] < self.offsets[:-1]).any():
            raise ValueError(f"offsets: expected to ascend within 0 to {raw.size}, the blob's bytes")

    @classmethod
    def pack(cls, urls: Iterable[str]) -> PackedUrls:
        """Return `urls` packed. O(total characters).

        Lone surrogates become bytes that are not UTF-8, which checks of URLs find. Raises InvalidOutcome for the first
        item that is not a str, and TypeError if `urls` is a single str or no sequence.
        """
        if not isinstance(urls, list | tuple):
            urls = read_items("urls", urls, "a sequence of URLs, a single one in a list")
        try:
            joined = "".join(urls)
        except TypeError:
            record, found = next((i, url) for i, url in enumerate(urls) if not isinstance(url, str))
            found = found.item() if isinstance(found, np.generic) else found
            raise InvalidOutcome(record, "url", found, "a text") from None
        if joined.isascii():
            return cls._from_lengths(joined.encode("ascii"), np.fromiter(map(len, urls), np.int64, len(urls)))
        return cls.pack_bytes([url.encode("utf-8", "surrogatepass") for url in urls])

    @classmethod
    def pack_bytes(cls, urls: Sequence[bytes]) -> PackedUrls:
        """Return `urls`, UTF-8 or not, packed. O(bytes).

        >>> list(PackedUrls.pack_bytes([b"https://a.example/", b"https://b.example/"]))
        ['https://a.example/', 'https://b.example/']
        """
        return cls._from_lengths(b"".join(urls), np.fromiter(map(len, urls), np.int64, len(urls)))

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
        first = int(self.offsets[0])
        raw = self.blob[first : int(self.offsets[-1])].tobytes()
        spans = pairwise((self.offsets - first).tolist())
        return (raw[start:end].decode("utf-8", "replace") for start, end in spans)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, PackedUrls) and list(self) == list(other)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"PackedUrls({len(self)} URLs, {int(self.offsets[-1] - self.offsets[0])} bytes)"

    def take(self, rows: npt.NDArray[np.intp]) -> PackedUrls:
        """Return the URLs at `rows`: intp[m], in that order. O(bytes copied)."""
        from streamsched.numerics.url_bytes import gather  # noqa: PLC0415  it needs numba

        offsets = np.zeros(rows.size + 1, np.int64)
        np.cumsum(self.offsets[rows + 1] - self.offsets[rows], out=offsets[1:])
        blob = np.empty(offsets[-1], np.uint8)
        gather(self.blob, self.offsets, rows.astype(np.int64), blob)
        return PackedUrls(blob, offsets)

    @classmethod
    def concatenate(cls, parts: Iterable[PackedUrls]) -> PackedUrls:
        """Return the URLs of `parts`, one part after another. O(bytes). Raises TypeError, SettingsError.

        >>> list(PackedUrls.concatenate([PackedUrls.pack(["a"]), PackedUrls.pack(["b", "c"])]))
        ['a', 'b', 'c']
        """
        columns = read_items("parts", parts, "PackedUrls objects")
        used = [np.empty(0, np.uint8), *(part.blob[part.offsets[0] : part.offsets[-1]] for part in columns)]
        lengths = [np.empty(0, np.int64), *(np.diff(part.offsets) for part in columns)]
        return cls._from_lengths(np.concatenate(used), np.concatenate(lengths))

    def out_of_range(self) -> npt.NDArray[np.intp]:
        """Return the indices of URLs that are empty or too long. O(n)."""
        lengths = self.offsets[1:] - self.offsets[:-1]
        if not lengths.size or (np.minimum.reduce(lengths) > 0 and np.maximum.reduce(lengths) <= MAX_URL_BYTES):
            return np.empty(0, np.intp)
        return np.flatnonzero((lengths < 1) | (lengths > MAX_URL_BYTES))

    def not_utf8(self) -> npt.NDArray[np.intp]:
        """Return the indices of URLs that are not UTF-8. O(bytes), at memory speed if all of them are ASCII."""
        used = self.blob[self.offsets[0] : self.offsets[-1]]
        if used.size == 0 or np.maximum.reduce(used) < 0x80:
            return np.empty(0, np.intp)
        high = np.flatnonzero(self.blob[: self.offsets[-1]] >= 0x80)
        suspects = np.unique(np.searchsorted(self.offsets, high[high >= self.offsets[0]], "right") - 1)
        spans = ((i, self.blob[self.offsets[i] : self.offsets[i + 1]]) for i in suspects)
        return np.array([i for i, span in spans if not _is_utf8(span)], np.intp)


NO_URLS: Final = PackedUrls(b"", [0])
"""The column of a text that no record has."""


def _is_utf8(raw: npt.NDArray[np.uint8]) -> bool:
    try:
        raw.tobytes().decode("utf-8")
    except UnicodeDecodeError:
        return False
    return True
