"""What a loop does that waits for another process or thread: it leaves the processor to what it waits for."""

from __future__ import annotations

import time
from typing import Final

LOOK_S: Final = 0.0003
CALL_S: Final = 0.02  # between two calls of a service or a broker, which take a hundred times as long as a look


def pause(seconds: float = LOOK_S) -> None:
    """Sleep until it is time to look again."""
    time.sleep(seconds)
