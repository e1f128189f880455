"""Parcels: what an evolution in a process of its own is given and gives back, as files that are checked when read.

A parcel is a directory: each array as ``NAME.npy``, and ``parcel.json`` with the CRC-32C of every file and whatever
else is to be known. The JSON is put in place last: a directory without it is no parcel.
"""

from __future__ import annotations

import io
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt
from crc32c import crc32c

from streamsched.errors import SnapshotError
from streamsched.evolution.data.change_history import ChangeHistory
from streamsched.evolution.data.cycle_times import CycleTimes
from streamsched.evolution.findings import DataSpan

__all__ = ["read_exchange", "read_json", "write_exchange", "write_json"]

_CONTENTS: Final = "parcel.json"
_COLUMNS: Final = ("hashes", "prior_mean", "importance", "cost", "groups")
_TIMES: Final = ("profiles", "quarters", "profile")  # of the timing, where there is one


def write_exchange(directory: Path, draws: Sequence[ChangeHistory], data: DataSpan, meta: Mapping[str, Any]) -> None:
    """Write what evolution learns from, and the JSON-able `meta`, to `directory`, which must exist. O(bytes).

    ``draws``: one history, or several of the same pages that differ only in what was drawn. Raises OSError.
    """
    sums = {}
    timing = draws[0].timing
    arrays = {"changed": np.stack([draw.changed for draw in draws])}
    arrays |= {name: getattr(draws[0], name) for name in _COLUMNS}
    if timing is not None:
        arrays |= {name: getattr(timing, name) for name in _TIMES}
    for name, array in arrays.items():
        content = io.BytesIO()
        np.save(content, np.ascontiguousarray(array), allow_pickle=False)
        (directory / f"{name}.npy").write_bytes(content.getbuffer())
        sums[name] = crc32c(content.getbuffer())
    times = None if timing is None else {"start_s": timing.start_s, "cycle_s": timing.cycle_s}
    fields = {"sums": sums, "prior_shape": draws[0].prior_shape, "data": asdict(data), "meta": dict(meta)}
    write_json(directory / _CONTENTS, fields | {"timing": times})


def read_exchange(directory: Path) -> tuple[list[ChangeHistory], DataSpan, dict[str, Any]]:
    """Return the draws of a history in `directory`, what it is made of, and the meta. O(bytes).

    Every byte is checked: raises SnapshotError where a file is missing, damaged or not what was written.
    """
    content = read_json(directory / _CONTENTS)
    try:
        sums = content["sums"]
        columns = {name: _read_array(directory / f"{name}.npy", sums[name]) for name in _COLUMNS}
        changed = _read_array(directory / "changed.npy", sums["changed"])
        timing = None
        if content["timing"] is not None:
            times = {name: _read_array(directory / f"{name}.npy", sums[name]) for name in _TIMES}
            told = content["timing"]
            timing = CycleTimes(told["start_s"], told["cycle_s"], **times)
        shape = content["prior_shape"]
        draws = [ChangeHistory(one, prior_shape=shape, timing=timing, **columns) for one in changed]
        return draws, DataSpan(**content["data"]), content["meta"]
    except OSError as error:
        raise SnapshotError(str(directory), f"cannot be read: {error.strerror or error}") from error
    except (KeyError, TypeError, AttributeError, ValueError) as error:
        raise SnapshotError(str(directory), f"is no parcel: {error}") from error


def _read_array(path: Path, expected: int) -> npt.NDArray[Any]:
    raw = path.read_bytes()
    if crc32c(raw) != expected:
        raise SnapshotError(str(path), "damaged: does not match its checksum")
    array: npt.NDArray[Any] = np.load(io.BytesIO(raw), allow_pickle=False)
    return array


def write_json(path: Path, content: Mapping[str, Any]) -> None:
    """Write `content` with its checksum to `path`, which appears whole or not at all. Raises OSError."""
    text = json.dumps(content, sort_keys=True, allow_nan=False)
    draft = path.with_name(f".{path.name}.draft")
    draft.write_text(json.dumps({"crc": crc32c(text.encode()), "content": text}), encoding="utf-8")
    draft.replace(path)


def read_json(path: Path) -> dict[str, Any]:
    """Return what `write_json` wrote to `path`. Raises SnapshotError where there is nothing or it is damaged."""
    try:
        outer = json.loads(path.read_text(encoding="utf-8"))
        text = outer["content"]
        if crc32c(text.encode()) != outer["crc"]:
            raise SnapshotError(str(path), "damaged: does not match its checksum")
        content: dict[str, Any] = json.loads(text)
    except OSError as error:
        raise SnapshotError(str(path), f"cannot be read: {error.strerror or error}") from error
    except (KeyError, TypeError, AttributeError, ValueError, RecursionError) as error:
        raise SnapshotError(str(path), "damaged: is not what was written") from error
    return content
