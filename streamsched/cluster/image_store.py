"""Where the images of shards are kept: a shared folder, or object storage (S3, GCS, Azure).

Names are used once, so no lock and no conditional write is needed: an image counts once the log names its files.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Final

import msgspec
from crc32c import crc32c

from streamsched.errors import NOTHING, SettingsError, SnapshotError
from streamsched.persistence.files import draft_of, put_in_place, sync_directory

if TYPE_CHECKING:
    from obstore.store import ObjectStore, RetryConfig

_CHUNK: Final = 1 << 23  # bytes that are read, sent and checked at a time
_RETRIES: Final[RetryConfig] = {"max_retries": 5, "retry_timeout": timedelta(seconds=20)}
_EXPECTED: Final = "a folder, or s3://BUCKET/PREFIX, gs://BUCKET/PREFIX or az://CONTAINER/PREFIX"


class StoredFile(msgspec.Struct, frozen=True):
    """A file in the store: its key, its name in a directory of state, its size, and its CRC-32C."""

    key: str
    name: str
    nbytes: int
    crc: int


class ImageStore:
    """The store at `url`; `make`: make a folder that is missing. For several threads at once.

    What S3, GCS and Azure need beside the URL is read from the variables that their own tools use, such as
    AWS_ENDPOINT. Raises SettingsError if there can be no store. Methods raise SnapshotError if it does not do what is
    asked.
    """

    def __init__(self, url: str, *, make: bool = True) -> None:
        try:
            from obstore.store import LocalStore, from_url  # noqa: PLC0415  an extra
        except ImportError as error:
            raise SettingsError(
                "obstore", NOTHING, "an installed package: pip install 'streamsched[cluster]'"
            ) from error
        self.url = url
        self._folder = None if "://" in url and not url.startswith("file://") else Path(url.removeprefix("file://"))
        try:
            local = None if self._folder is None else LocalStore(self._folder.resolve(), mkdir=make)
            self._store: ObjectStore = local or from_url(url, retry_config=_RETRIES)
        except Exception as error:  # the library raises many kinds
            raise SettingsError("cluster.images", url, f"{_EXPECTED} ({_first_line(error)})") from error

    def put(self, path: Path, key: str) -> StoredFile:
        """Store the file at `path` under `key`; it is durable when this returns. O(bytes)."""
        import obstore  # noqa: PLC0415  an extra

        crc = 0
        with self._translated(key):
            with path.open("rb") as file:
                nbytes = os.fstat(file.fileno()).st_size
                while chunk := file.read(_CHUNK):
                    crc = crc32c(chunk, crc)
                file.seek(0)
                obstore.put(self._store, key, file, chunk_size=_CHUNK)
            if self._folder is not None:
                _sync(self._folder / key)
        return StoredFile(key, path.name, nbytes, crc)

    def fetch(self, stored: StoredFile, directory: Path) -> Path:
        """Write the stored file to `directory`, under its name; every byte is checked. O(bytes)."""
        import obstore  # noqa: PLC0415  an extra

        path = directory / stored.name
        nbytes = crc = 0
        with self._translated(stored.key):
            with draft_of(path).open("wb") as file:
                for chunk in obstore.get(self._store, stored.key).stream(min_chunk_size=_CHUNK):
                    piece = memoryview(chunk)
                    nbytes, crc = nbytes + len(piece), crc32c(piece, crc)
                    file.write(piece)
            if (nbytes, crc) != (stored.nbytes, stored.crc):
                found, expected = f"{nbytes} bytes, CRC {crc:08x}", f"{stored.nbytes} bytes, CRC {stored.crc:08x}"
                raise SnapshotError(self._place(stored.key), f"damaged: found {found}, expected {expected}")
            put_in_place(draft_of(path), path)
        return path

    def keys(self, prefix: str) -> list[str]:
        """Return the keys below `prefix`. O(keys)."""
        import obstore  # noqa: PLC0415  an extra

        with self._translated(prefix):
            return [found["path"] for found in obstore.list(self._store, prefix).collect()]

    def delete(self, keys: list[str]) -> None:
        """Delete the files under `keys`; those that are not there do not matter."""
        import obstore  # noqa: PLC0415  an extra

        for key in keys:
            with self._translated(key), suppress(FileNotFoundError):
                obstore.delete(self._store, key)

    def _place(self, key: str) -> str:
        return f"{self.url.rstrip('/')}/{key}"

    @contextmanager
    def _translated(self, key: str) -> Iterator[None]:
        """Raise the errors of the store, and of files, as SnapshotError about `key`."""
        from obstore.exceptions import BaseError  # noqa: PLC0415  an extra

        try:
            yield
        except FileNotFoundError as error:
            raise SnapshotError(self._place(key), "is missing in the store, and the log names it") from error
        except (BaseError, OSError, ValueError, RuntimeError) as error:
            raise SnapshotError(self._place(key), f"cannot be read or written: {_first_line(error)}") from error


def _first_line(error: BaseException) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0][:300]


def _sync(path: Path) -> None:
    """Write the file at `path` and its entry in the folder to disk."""
    with path.open("rb") as file:
        os.fsync(file.fileno())
    sync_directory(path.parent)
