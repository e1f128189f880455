"""Training data and results passed to and from an evolution process, or from shard to shard, with checksums.

Training data is a CRC-32C, then NumPy's NPZ format: the arrays, and the other values as JSON. The elites that the next
evolution starts from are in a file beside the records; an evolution also runs without them.
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
from crc32c import crc32c

from streamsched.errors import SnapshotError, StreamschedError
from streamsched.evolution.data.change_history import DEFAULTS, ChangeHistory, CycleTimes
from streamsched.evolution.records import DataSpan, RecordBook
from streamsched.formula.formula import Formula
from streamsched.persistence.files import as_snapshot_errors, read_regular

_EXCHANGE: Final = "exchange.npz"
_FIELDS: Final = "fields"  # the array of JSON
_SUM: Final = 4  # bytes of the checksum
_TIMING_ARRAYS: Final = ("profiles", "quarters", "profile")  # if the history has timing
ARCHIVE_NAME: Final = "elites.json"


def pack_exchange(imputations: Sequence[ChangeHistory], data: DataSpan, meta: Mapping[str, Any]) -> bytes:
    """Return training data and the JSON-serialisable `meta` as bytes. O(bytes).

    ``imputations``: one history, or several of the same pages that differ only in imputed cycles.
    """
    first = imputations[0]
    timing = first.timing
    arrays: dict[str, Any] = {"changed": np.stack([imputation.changed for imputation in imputations])}
    arrays |= {"hashes": first.hashes, "groups": first.groups, **first.columns}
    if timing is not None:
        arrays |= {name: getattr(timing, name) for name in _TIMING_ARRAYS}
    fields = {
        "prior_shape": first.prior_shape,
        "half_life": first.half_life if math.isfinite(first.half_life) else None,
        "timing": None if timing is None else {"start_s": timing.start_s, "cycle_s": timing.cycle_s},
        "data": asdict(data),
        "meta": dict(meta),
    }
    content = io.BytesIO()
    arrays[_FIELDS] = np.frombuffer(json.dumps(fields).encode(), np.uint8)
    np.savez(content, **arrays)
    packed = content.getvalue()
    return crc32c(packed).to_bytes(_SUM, "little") + packed


def unpack_exchange(packed: bytes, place: str) -> tuple[list[ChangeHistory], DataSpan, dict[str, Any]]:
    """Return the imputations of `pack_exchange`, their origin, and the meta. O(bytes).

    Raises SnapshotError, which names `place`, if `packed` is damaged or invalid.
    """
    if crc32c(packed[_SUM:]) != int.from_bytes(packed[:_SUM], "little"):
        raise SnapshotError(place, "damaged: does not match its checksum")
    try:
        with np.load(io.BytesIO(packed[_SUM:]), allow_pickle=False) as arrays:
            fields = json.loads(arrays[_FIELDS].tobytes())
            columns = {name: arrays[name] for name in DEFAULTS}
            clock = fields["timing"]
            timing = clock if clock is None else CycleTimes(**clock, **{name: arrays[name] for name in _TIMING_ARRAYS})
            half_life = math.inf if fields["half_life"] is None else fields["half_life"]
            own = (arrays["hashes"], arrays["groups"], fields["prior_shape"], columns, timing, half_life)
            imputations = [ChangeHistory(item, *own) for item in arrays["changed"]]
        return imputations, DataSpan(**fields["data"]), fields["meta"]
    except Exception as error:  # NumPy and zipfile raise a dozen kinds
        raise SnapshotError(place, f"is no training data: {error}") from error


def write_exchange(
    directory: Path, imputations: Sequence[ChangeHistory], data: DataSpan, meta: Mapping[str, Any]
) -> None:
    """Write what `pack_exchange` returns to `directory`, which must exist. O(bytes). Raises OSError."""
    (directory / _EXCHANGE).write_bytes(pack_exchange(imputations, data, meta))


def read_exchange(directory: Path) -> tuple[list[ChangeHistory], DataSpan, dict[str, Any]]:
    """Return what `write_exchange` wrote to `directory`. O(bytes).

    Raises SnapshotError if the file is missing, damaged or invalid.
    """
    path = directory / _EXCHANGE
    with as_snapshot_errors(path, "cannot be read"):
        packed = path.read_bytes()
    return unpack_exchange(packed, str(path))


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
