"""The audit log: whole lines, or an error."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from streamsched.errors import SnapshotError
from streamsched.http.gate import AuditLog


def test_a_line_that_the_system_takes_in_pieces_is_written_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write = os.write
    monkeypatch.setattr(os, "write", lambda handle, raw: write(handle, bytes(raw)[:10]))
    with AuditLog(tmp_path / "audit.jsonl", lambda: 5.0) as log:
        log.end(log.begin("root", "127.0.0.1", "PUT", "/v1/rules", b"{}"), 200)
    call, answer = map(json.loads, (tmp_path / "audit.jsonl").read_text().splitlines())
    assert (call["call"], call["body"], answer["status"]) == (answer["call"], "{}", 200)


def test_a_line_that_is_not_written_whole_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write, room = os.write, [10]

    def write_until_full(handle: int, raw: bytes) -> int:
        if not room[0]:
            raise OSError(28, "No space left on device")
        room[0] -= (written := write(handle, bytes(raw)[: room[0]]))
        return written

    with AuditLog(tmp_path / "audit.jsonl", lambda: 5.0) as log:
        monkeypatch.setattr(os, "write", write_until_full)
        with pytest.raises(SnapshotError, match="No space left"):
            log.begin("root", "127.0.0.1", "PUT", "/v1/rules", b"{}")
    assert (tmp_path / "audit.jsonl").read_bytes() == b""
