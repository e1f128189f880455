"""Patterns of the texts in fields, and what errors say in place of them: few people read patterns."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

__all__ = ["DURATION", "DURATION_OR_ZERO", "EXPECTED_TEXTS", "FINGERPRINT", "KEY"]

DURATION: Final = r"^(0*[1-9][0-9]{0,8}(\.[0-9]{1,6})?|[0-9]{1,9}\.[0-9]{0,5}[1-9]0*)(ms|s|m|h|d|w)$"
DURATION_OR_ZERO: Final = r"^[0-9]{1,9}(\.[0-9]{1,6})?(ms|s|m|h|d|w)$"
FINGERPRINT: Final = "^[0-9a-fA-F]{16}$"
KEY: Final = "^[!-~]{1,128}$"
_WITH_UNIT: Final = "with a unit, such as 500ms, 90s, 10m, 1h, 1d or 1w, or seconds as a number"
EXPECTED_TEXTS: Final[Mapping[str, str]] = MappingProxyType(
    {
        DURATION: f"a number above 0 {_WITH_UNIT}",
        DURATION_OR_ZERO: f"a number {_WITH_UNIT}",
        FINGERPRINT: "a whole number from 0 to 2**64 - 1 or 16 hexadecimal digits",
        KEY: "1 to 128 visible ASCII characters",
    }
)
"""What a field is expected to hold, by its pattern."""
