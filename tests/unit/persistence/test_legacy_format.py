"""State of formats that this release no longer writes: it loads, it migrates, and damage is found."""

from __future__ import annotations

import json
import struct
from pathlib import Path
from typing import Any

import numpy as np
import numpy.lib.recfunctions as rfn
import pytest
from crc32c import crc32c

from streamsched import Outcome, Scheduler, SnapshotError
from streamsched.cli import main
from streamsched.persistence import image_format
from streamsched.persistence.format_versions import EDITIONS, widen
from streamsched.persistence.image_format import ImageWriter, read_image
from streamsched.persistence.legacy_format import FORMER_MAGIC, is_former
from streamsched.persistence.recovery import newest_image
from streamsched.records.url_patterns import candidate_space


def made() -> Scheduler:
    scheduler = Scheduler(seed=9, panel=0.2, surges=False, regions=None)  # older formats hold nothing of these
    scheduler.observe([Outcome(f"https://a.example/ä/{i}", float(at), changed=True) for at in (1, 2) for i in range(9)])
    scheduler.next_batch(2, now=9.0)
    scheduler.positions["crawl"] = {"kind": "jsonl", "path": "crawl", "offset": 7, "records": 3}
    return scheduler


def save_as_format_4(scheduler: Scheduler, path: Path) -> None:
    shard = scheduler.pages.arrays
    corpus = shard.corpus[0]
    counts = {
        "corpus": 1,
        "pages": len(scheduler),
        "traces": len(scheduler),
        "lease_until_s": len(scheduler),
        "text": int(corpus["text_end"]),
        "groups": int(corpus["groups"]),
        "names": int(corpus["names_end"]),
        "journal": int(corpus["journaled"]),
        "candidates": candidate_space(len(scheduler)),
    }
    raw = {name: narrow(name, getattr(shard, name)[:count]).tobytes() for name, count in counts.items()}
    arrays = [{"name": name, "count": counts[name], "crc": crc32c(part)} for name, part in raw.items()]
    header = json.dumps({"version": 4, "settings": scheduler.settings(), "arrays": arrays}).encode()
    lengths = struct.pack("<QQ", len(header), crc32c(header))
    path.write_bytes(FORMER_MAGIC + lengths + header + b"".join(raw.values()))


def narrow(name: str, records: Any) -> Any:
    """The records of one array as format 4 and 5 had them."""
    dtype = EDITIONS[5][name]
    return records if records.dtype == dtype else rfn.require_fields(records, dtype)


def save_as_format_5(scheduler: Scheduler, folder: Path) -> Path:
    """What this release saves, with the groups' records as they were, and nothing of rhythms."""
    path = scheduler.save(folder)
    image = read_image(path)
    raw = path.read_bytes()
    with ImageWriter(path) as writer:
        for part in (part for part in image.parts if part.name in EDITIONS[5]):
            records = np.frombuffer(raw[part.offset : part.offset + part.nbytes], part.dtype)
            writer.add(part.name, part.start, np.ascontiguousarray(narrow(part.name, records)))
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(image_format, "FORMAT_VERSION", 5)
            writer.finish({name: value for name, value in image.contents.items() if name not in ("version", "parts")})
    return path


@pytest.fixture
def former(tmp_path: Path) -> Path:
    save_as_format_4(made(), tmp_path / "snapshot-00000003.state")
    return tmp_path / "snapshot-00000003.state"


def test_former_state_loads(former: Path) -> None:
    loaded = Scheduler.load(former.parent)
    assert loaded.digest() == made().digest()
    assert loaded.positions == made().positions
    assert loaded.pages.faults() == []


def test_former_state_migrates(former: Path, capsys: pytest.CaptureFixture[str]) -> None:
    digest = made().digest()
    before = former.read_bytes()
    assert main(["state", "migrate", "--state", str(former.parent)]) == 0
    assert "migrated       True" in capsys.readouterr().out
    path = newest_image(former.parent)
    assert path.name == "snapshot-00000004.state"
    assert not is_former(path)
    assert former.read_bytes() == before
    assert Scheduler.load(former.parent).digest() == digest
    assert main(["state", "migrate", "--state", str(former.parent)]) == 0
    assert "migrated       False" in capsys.readouterr().out
    assert main(["state", "verify", "--state", str(former.parent)]) == 0


def test_state_of_format_5_loads_and_migrates(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = save_as_format_5(made(), tmp_path)
    assert not read_image(path).is_present
    loaded = Scheduler.load(tmp_path)
    assert loaded.digest() == made().digest()
    assert loaded.pages.faults() == []
    assert main(["state", "verify", "--state", str(tmp_path)]) == 0
    for expected in ("True", "False"):
        assert main(["state", "migrate", "--state", str(tmp_path)]) == 0
        assert f"migrated       {expected}" in capsys.readouterr().out
    assert read_image(newest_image(tmp_path)).is_present
    assert Scheduler.load(tmp_path).digest() == made().digest()


def test_changed_groups_of_format_5_are_widened() -> None:
    old = np.zeros(2, EDITIONS[5]["changed_groups"])
    old["number"], old["group"]["mean"] = (3, 8), (0.25, 0.5)
    wide = widen("changed_groups", old)
    assert wide["number"].tolist() == [3, 8]
    assert wide["group"]["mean"].tolist() == [0.25, 0.5]
    assert wide["group"]["open_s"].tolist() == [-np.inf, -np.inf]
    assert widen("changed_groups", wide) is wide


def test_damage_is_found(former: Path) -> None:
    raw = former.read_bytes()
    sketch = len(raw) - candidate_space(9)
    for place in [*range(len(FORMER_MAGIC), sketch, 7), sketch + 5, len(raw) - 1]:
        former.write_bytes(raw[:place] + bytes([raw[place] ^ 0x10]) + raw[place + 1 :])
        with pytest.raises(SnapshotError) as caught:
            Scheduler.load(former.parent)
        assert caught.value.path == str(former)
    for cut in (raw[:20], raw[:40], raw[:-1], raw + b"\0"):
        former.write_bytes(cut)
        with pytest.raises(SnapshotError, match="damaged"):
            Scheduler.load(former.parent)


def test_older_versions_are_refused(former: Path) -> None:
    raw = former.read_bytes()
    (length,) = struct.unpack_from("<Q", raw, len(FORMER_MAGIC))
    start = len(FORMER_MAGIC) + 16
    header = raw[start : start + length].replace(b'"version": 4', b'"version": 3')
    former.write_bytes(FORMER_MAGIC + struct.pack("<QQ", length, crc32c(header)) + header + raw[start + length :])
    with pytest.raises(SnapshotError, match="is of format version 3, expected 4 or newer"):
        Scheduler.load(former.parent)
