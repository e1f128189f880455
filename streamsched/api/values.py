"""The values of requests: their types, with bounds as OpenAPI has them and a decoder checks them.

They are apart from the requests because the politeness settings have some of these bounds, and with them the kernels
that read these settings: each change of a module that a kernel imports compiles it again.
"""

from __future__ import annotations

from typing import Annotated, Final, TypeAlias

from msgspec import Meta

MOST_RECORDS: Final = 10_000  # of a request; the scheduler applies them in some 5 ms
MOST_OF_A_HOST: Final = 0xFFFE  # pages in flight or in a batch that a host's rule can allow: its record holds 16 bits
MOST_PAGES: Final = 1 << 32  # more than a shard holds
MOST_ANSWERS: Final = 255  # of one kind in a row: the records of pages and hosts count them in a byte
DURATION: Final = r"^(0*[1-9][0-9]{0,8}(\.[0-9]{1,6})?|[0-9]{1,9}\.[0-9]{0,5}[1-9]0*)(ms|s|m|h|d|w)$"
DURATION_OR_ZERO: Final = r"^[0-9]{1,9}(\.[0-9]{1,6})?(ms|s|m|h|d|w)$"
KEY: Final = "^[!-~]{1,128}$"
CURSOR: Final = "^(oldest|newest|[0-9a-f]{8}-[0-9]{1,18})$"
LONGEST_WAIT_S: Final = 60.0  # of a request for something to happen
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
Wait: TypeAlias = Annotated[
    str, Meta(pattern=DURATION_OR_ZERO, description="a number with a unit, such as 500ms or 30s; at most 60s")
]
Count: TypeAlias = Annotated[int, Meta(ge=1, le=MOST_RECORDS)]
Pages: TypeAlias = Annotated[int, Meta(ge=1, le=MOST_PAGES)]
InARow: TypeAlias = Annotated[int, Meta(ge=1, le=MOST_ANSWERS)]
Urls: TypeAlias = Annotated[list[str], Meta(max_length=MOST_RECORDS)]
Host: TypeAlias = Annotated[str, Meta(min_length=1, max_length=300, description="a host, with its port if it has one")]
