"""Exchange files: training data and results passed to and from an evolution process, with checksums.

An exchange directory has each array as ``NAME.npy``, and ``exchange.json`` with the CRC-32C of every file and the other
values. The JSON file is written last: a directory without it is incomplete. The elites that the next evolution starts
from are in a file beside the records; an evolution also runs without them.
"""

from __future__ import annotations

import io
import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt
from crc32c import crc32c

from streamsched.errors import SnapshotError, StreamschedError
from streamsched.evolution.data.change_history import DEFAULTS, ChangeHistory, CycleTimes
from streamsched.evolution.records import DataSpan, RecordBook
from streamsched.formula.formula import Formula
from streamsched.persistence.files import as_snapshot_errors, read_regular

_MANIFEST: Final = "exchange.json"
_TIMING_ARRAYS: Final = ("profiles", "quarters", "profile")  # if the history has timing
ARCHIVE_NAME: Final = "elites.json"


def write_exchange(
    directory: Path, imputations: Sequence[ChangeHistory], data: DataSpan, meta: Mapping[str, Any]
) -> None:
    """Write training data and the JSON-serialisable `meta` to `directory`, which must exist. O(bytes).

    ``imputations``: one history, or several of the same pages that differ only in imputed cycles. Raises OSError.
    """
    checksums = {}
    timing = imputations[0].timing
    arrays: dict[str, npt.NDArray[Any]] = {"changed": np.stack([imputation.changed for imputation in imputations])}
    arrays |= {"hashes": imputations[0].hashes, "groups": imputations[0].groups, **imputations[0].columns}
    if timing is not None:
        arrays |= {name: getattr(timing, name) for name in _TIMING_ARRAYS}
    for name, array in arrays.items():
        content = io.BytesIO()
        np.save(content, np.ascontiguousarray(array), allow_pickle=False)
        (directory / f"{name}.npy").write_bytes(content.getbuffer())
        checksums[name] = crc32c(content.getbuffer())
    times = None if timing is None else {"start_s": timing.start_s, "cycle_s": timing.cycle_s}
    fields = {"sums": checksums, "prior_shape": imputations[0].prior_shape, "data": asdict(data), "meta": dict(meta)}
    half_life = imputations[0].half_life if math.isfinite(imputations[0].half_life) else None
    write_json(directory / _MANIFEST, fields | {"timing": times, "half_life": half_life})


def read_exchange(directory: Path) -> tuple[list[ChangeHistory], DataSpan, dict[str, Any]]:
    """Return the imputations in `directory`, their origin, and the meta. O(bytes).

    All checksums are verified. Raises SnapshotError if a file is missing, damaged or invalid.
    """
    content = read_json(directory / _MANIFEST)
    try:
        checksums = content["sums"]
        names = ("hashes", "groups", *DEFAULTS)
        hashes, groups, *numbers = (_read_array(directory / f"{name}.npy", checksums[name]) for name in names)
        columns = dict(zip(DEFAULTS, numbers, strict=True))
        changed = _read_array(directory / "changed.npy", checksums["changed"])
        timing = None
        if content["timing"] is not None:
            times = {name: _read_array(directory / f"{name}.npy", checksums[name]) for name in _TIMING_ARRAYS}
            clock = content["timing"]
            timing = CycleTimes(clock["start_s"], clock["cycle_s"], **times)
        shape = content["prior_shape"]
        half_life = math.inf if content["half_life"] is None else content["half_life"]
        imputations = [ChangeHistory(item, hashes, groups, shape, columns, timing, half_life) for item in changed]
        return imputations, DataSpan(**content["data"]), content["meta"]
    except OSError as error:
        raise SnapshotError(str(directory), f"cannot be read: {error.strerror or error}") from error
    except (KeyError, TypeError, AttributeError, ValueError) as error:
        raise SnapshotError(str(directory), f"is not a complete exchange directory: {error}") from error


def _read_array(path: Path, expected: int) -> npt.NDArray[Any]:
    raw = path.read_bytes()
    if crc32c(raw) != expected:
        raise SnapshotError(str(path), "damaged: does not match its checksum")
    array: npt.NDArray[Any] = np.load(io.BytesIO(raw), allow_pickle=False)
    return array


def write_json(path: Path, content: Mapping[str, Any]) -> None:
    """Write `content` with its checksum to `path`, atomically. Raises OSError."""
    text = json.dumps(content, sort_keys=True, allow_nan=False)
    temporary = path.with_name(f".{path.name}.draft")
    temporary.write_text(json.dumps({"crc": crc32c(text.encode()), "content": text}), encoding="utf-8")
    temporary.replace(path)


def read_json(path: Path) -> dict[str, Any]:
    """Return what `write_json` wrote to `path`. Raises SnapshotError if the file is missing or damaged."""
    try:
        envelope = json.loads(read_regular(path))
        text = envelope["content"]
        if crc32c(text.encode()) != envelope["crc"]:
            raise SnapshotError(str(path), "damaged: does not match its checksum")
        content: dict[str, Any] = json.loads(text)
    except OSError as error:
        raise SnapshotError(str(path), f"cannot be read: {error.strerror or error}") from error
    except (KeyError, TypeError, AttributeError, ValueError, RecursionError) as error:
        raise SnapshotError(str(path), "damaged: not valid JSON with a checksum") from error
    return content


@dataclass(frozen=True, slots=True)
class Elites:
    """Formulas, the newest first; ``since_cycle``: the cycle from which the first evolution is counted, if known."""

    formulas: tuple[str, ...] = ()
    since_cycle: int | None = None


def write_elites(directory: Path, elites: Elites, number: int = 0, before: Iterable[str] = ()) -> None:
    """Write the elites of record `number`, and those `before` it, which apply if that record was never written.

    Raises SnapshotError if the file cannot be written.
    """
    content = {
        "formulas": list(elites.formulas),
        "record": number,
        "before": list(before),
        "since_cycle": elites.since_cycle,
    }
    with as_snapshot_errors(directory, "cannot be written"):
        directory.mkdir(parents=True, exist_ok=True)
        write_json(directory / ARCHIVE_NAME, content)


def read_elites(directory: Path, next_number: int) -> Elites:
    """Return the elites in `directory`, none if they cannot be read. `next_number`: that of the next record."""
    try:
        kept = read_json(directory / ARCHIVE_NAME)
        is_recorded = kept.get("record", 0) < next_number
        formulas = tuple(Formula.parse(text).text for text in kept["formulas" if is_recorded else "before"])
        since = kept.get("since_cycle")
    except (StreamschedError, KeyError, TypeError):
        return Elites()
    return Elites(formulas, since if isinstance(since, int) else None)


def mend_evolution_times(directory: Path, cycle_s: float, latest_s: float, present_s: float) -> int:
    """Write `present_s` wherever the evolutions in `directory` are later than `latest_s`; return how many. O(bytes).

    Otherwise none would be due before that time. Raises SnapshotError if a file cannot be written.
    """
    mended = RecordBook(directory).mend_times(latest_s, present_s)
    try:
        kept = read_json(directory / ARCHIVE_NAME)
    except SnapshotError:
        return mended  # no elites
    since = kept.get("since_cycle")
    if not isinstance(since, int) or since * cycle_s <= latest_s:
        return mended
    with as_snapshot_errors(directory, "cannot be written"):
        write_json(directory / ARCHIVE_NAME, kept | {"since_cycle": math.floor(present_s / cycle_s)})
    return mended + 1
