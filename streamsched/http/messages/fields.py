"""Types of fields that several messages have."""

from __future__ import annotations

from typing import Annotated, Final, TypeAlias

import msgspec
from msgspec import Meta

from streamsched.http.protocol.bodies import MOST_RECORDS
from streamsched.http.protocol.patterns import DURATION, DURATION_OR_ZERO

__all__ = ["Count", "Duration", "DurationOrZero", "Host", "Message", "Urls"]

_LONGEST_S: Final = 1e9
_DESCRIPTION: Final = "a number with a unit, such as 500ms, 90s, 10m, 1h, 1d or 1w"

Duration: TypeAlias = (
    Annotated[str, Meta(pattern=DURATION, description=_DESCRIPTION)]
    | Annotated[float, Meta(gt=0.0, le=_LONGEST_S, description="seconds")]
)
DurationOrZero: TypeAlias = (
    Annotated[str, Meta(pattern=DURATION_OR_ZERO, description=_DESCRIPTION)]
    | Annotated[float, Meta(ge=0.0, le=_LONGEST_S, description="seconds")]
)
Count: TypeAlias = Annotated[int, Meta(ge=1, le=MOST_RECORDS)]
Urls: TypeAlias = Annotated[list[str], Meta(max_length=MOST_RECORDS)]
Host: TypeAlias = Annotated[str, Meta(min_length=1, max_length=300, description="a host, with its port if it has one")]


class Message(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """A body of a request or an answer: fields that it does not have are refused."""
