"""The bytes of a logged call: plain values as JSON, and arrays."""

from __future__ import annotations

import json
import struct
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from streamsched.errors import SnapshotError
from streamsched.numerics.packed_urls import NO_URLS, PackedUrls
from streamsched.outcomes import OutcomeBatch
from streamsched.politeness.politeness_settings import HostRule, Rule
from streamsched.signals import SignalBatch

Rereader = Callable[[str, dict[str, Any] | None], Iterable[OutcomeBatch | SignalBatch]]
"""Reads a stream again: takes its path and a position as JSON, None for its beginning; returns its records."""

_LENGTH: Final = struct.Struct("<I")


class StreamNeeded(SnapshotError):
    """A call depends on records of ``stream`` that must be read again, but no reader was given."""

    def __init__(self, path: str, stream: str, number: int) -> None:
        self.stream = stream
        self.number = number
        reason = (
            f"call {number} depends on records of {stream} that are not in the saved state; "
            f"start `streamsched run` to re-read {stream}"
        )
        super().__init__(path, reason)


def encode_call(fields: dict[str, Any], arrays: Mapping[str, npt.NDArray[Any]] | None = None) -> bytes:
    """Return a call's fields and arrays as bytes. O(bytes)."""
    packed = {name: np.ascontiguousarray(array) for name, array in (arrays or {}).items()}
    listed = [[name, array.dtype.str, array.size] for name, array in packed.items()]
    head = json.dumps(fields | {"arrays": listed}).encode()
    return b"".join([_LENGTH.pack(len(head)), head, *(array.tobytes() for array in packed.values())])


def decode_call(payload: bytes) -> tuple[dict[str, Any], dict[str, npt.NDArray[Any]]]:
    """Return the fields and arrays that `encode_call` encoded as `payload`.

    >>> decode_call(encode_call({"call": "ask"}, {"rows": np.arange(2)}))[1]["rows"].tolist()
    [0, 1]
    """
    (length,) = _LENGTH.unpack_from(payload)
    offset = _LENGTH.size + length
    fields: dict[str, Any] = json.loads(payload[_LENGTH.size : offset])
    arrays: dict[str, npt.NDArray[Any]] = {}
    for name, dtype, count in fields.pop("arrays"):
        arrays[name] = np.frombuffer(payload, dtype, count, offset)
        offset += arrays[name].nbytes
    return fields, arrays


def pack_urls(urls: PackedUrls, name: str = "urls") -> dict[str, npt.NDArray[Any]]:
    """Return the arrays of `urls`, without text of others that share its buffer."""
    start, stop = urls.offsets[0], urls.offsets[-1]
    return {f"{name}_blob": urls.blob[start:stop], f"{name}_offsets": urls.offsets - start}


def unpack_urls(arrays: Mapping[str, npt.NDArray[Any]], name: str = "urls") -> PackedUrls:
    """Return the URLs that `pack_urls` packed."""
    return PackedUrls(arrays[f"{name}_blob"], arrays[f"{name}_offsets"])


def pack_batch(batch: OutcomeBatch | SignalBatch) -> dict[str, npt.NDArray[Any]]:
    """Return the arrays of `batch`, of a SignalBatch without its names. Absent columns are left out."""
    arrays = {"given": batch.given}
    for field in batch.FIELDS:
        column = getattr(batch, field.column)
        if len(column):
            arrays |= pack_urls(column, field.column) if isinstance(column, PackedUrls) else {field.column: column}
    return arrays


def unpack_batch(arrays: Mapping[str, npt.NDArray[Any]], names: Sequence[str] | None = None) -> Any:
    """Return the batch that `pack_batch` packed: a SignalBatch of these `names`, without them an OutcomeBatch."""
    kind = OutcomeBatch if names is None else SignalBatch
    batch: Any = kind.__new__(kind)
    batch.given = arrays["given"]
    for field in kind.FIELDS:
        column: Any = NO_URLS
        if field.kind.dtype is not None:
            column = arrays.get(field.column, np.empty(0, field.kind.dtype))
        elif f"{field.column}_blob" in arrays:
            column = unpack_urls(arrays, field.column)
        setattr(batch, field.column, column)
    if names is not None:
        batch.names = tuple(names)
    return batch


def pack_rules(rules: Mapping[str, Rule | HostRule | None]) -> list[list[Any]]:
    """Return `rules` as JSON: target, whether it is a HostRule (None if the rule is removed), and its fields."""
    return [
        [target, None if rule is None else isinstance(rule, HostRule), None if rule is None else rule.to_json()]
        for target, rule in rules.items()
    ]


def unpack_rules(packed: list[list[Any]]) -> dict[str, Rule | HostRule | None]:
    """Return the rules that `pack_rules` packed."""
    return {target: _unpack_rule(is_host_rule, fields) for target, is_host_rule, fields in packed}


def _unpack_rule(is_host_rule: bool | None, fields: dict[str, Any]) -> Rule | HostRule | None:
    if is_host_rule is None:
        return None
    return HostRule.from_json(fields) if is_host_rule else Rule.from_json(fields)
