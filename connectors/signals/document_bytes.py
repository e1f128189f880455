"""The bytes of a document, decompressed in blocks and bounded."""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from io import BytesIO
from typing import Final

from streamsched.connectors.reading.byte_stream import GZIP_MAGIC, Inflater
from streamsched.errors import DocumentError

__all__ = ["MAX_DOCUMENT_BYTES", "read_blocks"]

MAX_DOCUMENT_BYTES: Final = 50 << 20  # decompressed, the limit of sitemaps.org; a gzip bomb stops here
_BLOCK_BYTES: Final = 1 << 16  # small beside the limits that are checked after each block


def read_blocks(document: bytes, url: str) -> Iterator[bytes]:
    """Yield the bytes of `document` in blocks; gzip is detected by its first bytes. Holds one block.

    Raises DocumentError beyond `MAX_DOCUMENT_BYTES`, and if gzip is damaged or cut off.
    """
    if len(document) > MAX_DOCUMENT_BYTES:
        raise _too_large(url)
    if not document.startswith(GZIP_MAGIC):
        for start in range(0, len(document), _BLOCK_BYTES):
            yield document[start : start + _BLOCK_BYTES]
        return
    inflater, size = Inflater(BytesIO(document)), 0
    while block := _inflate(inflater, url, size):
        size += len(block)
        if size > MAX_DOCUMENT_BYTES:
            raise _too_large(url)
        yield block


def _inflate(inflater: Inflater, url: str, offset: int) -> bytes:
    try:
        return inflater.read(_BLOCK_BYTES)
    except EOFError as error:
        raise DocumentError(url, str(error), offset) from error
    except zlib.error as error:
        raise DocumentError(url, f"damaged gzip: {error}; fetch it again", offset) from error


def _too_large(url: str) -> DocumentError:
    return DocumentError(url, f"expected at most {MAX_DOCUMENT_BYTES} bytes, decompressed", MAX_DOCUMENT_BYTES)
