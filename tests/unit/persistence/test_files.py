"""Large new files: what is put is what the file holds, past the cache or through it."""

from __future__ import annotations

import errno
import fcntl
import os
from pathlib import Path
from typing import Any

import pytest

from streamsched.persistence import files
from streamsched.persistence.files import NewFile

SIZES = [(), (1,), (4096,), (5000, 3), ((1 << 20) - 1, 1), ((1 << 20) + 1,), (3 << 20, 17, 0, 1 << 19)]


def write(path: Path, sizes: tuple[int, ...]) -> bytes:
    parts = [bytes([number % 251]) * size for number, size in enumerate(sizes, 1)]
    file = NewFile(path)
    for part in parts:
        file.put(part)
    file.finish()
    assert file.size == sum(sizes)
    file.close()
    return b"".join(parts)


@pytest.mark.parametrize("sizes", SIZES)
def test_what_is_put_is_what_the_file_holds(tmp_path: Path, sizes: tuple[int, ...]) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"what was there before" * 1_000_000)
    assert write(path, sizes) == path.read_bytes()


@pytest.mark.parametrize("sizes", SIZES)
def test_a_file_system_without_direct_writes(
    tmp_path: Path, sizes: tuple[int, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    opened = os.open

    def refuse(path: Any, flags: int, *rest: int) -> int:
        if flags & files._DIRECT:
            raise OSError(errno.EINVAL, "Invalid argument")
        return opened(path, flags, *rest)

    monkeypatch.setattr(files, "_DIRECT", getattr(os, "O_DIRECT", 1 << 30))
    monkeypatch.setattr(files, "_SYNC_BYTES", 1 << 20)
    monkeypatch.setattr(os, "open", refuse)
    assert write(tmp_path / "file", sizes) == (tmp_path / "file").read_bytes()


@pytest.mark.skipif(not hasattr(os, "O_DIRECT"), reason="this system writes through its cache only")
@pytest.mark.parametrize("sizes", SIZES)
def test_a_disk_with_another_alignment(tmp_path: Path, sizes: tuple[int, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    whole = files.write_whole
    refused: list[int] = []

    def refuse(handle: int, raw: bytes | memoryview) -> None:
        if fcntl.fcntl(handle, fcntl.F_GETFL) & os.O_DIRECT:
            refused.append(handle)
            raise OSError(errno.EINVAL, "Invalid argument")
        whole(handle, raw)

    monkeypatch.setattr(files, "write_whole", refuse)
    assert write(tmp_path / "file", sizes) == (tmp_path / "file").read_bytes()
    assert len(refused) == (sum(sizes) > 0)


def test_what_cannot_be_opened_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        NewFile(tmp_path / "none" / "file")
