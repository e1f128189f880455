"""Findings of a replay, an analysis or GP4C's experiment: a code and its values.

`streamsched.replay.reporting.sentences` turns findings into English; the JSON outputs hold them as they are.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

__all__ = ["Finding", "findings_to_json"]


@dataclass(frozen=True, slots=True)
class Finding:
    """A result in machine-readable form: ``code`` says which kind it is, ``values`` are plain JSON values.

    Times are seconds, shares lie between 0 and 1, and None marks a value that does not exist.
    """

    code: str
    values: Mapping[str, Any] = field(default_factory=dict)


def findings_to_json(findings: Iterable[Finding]) -> list[dict[str, Any]]:
    """Return the findings as JSON objects, the code first. O(findings)."""
    return [{"code": finding.code, **finding.values} for finding in findings]
