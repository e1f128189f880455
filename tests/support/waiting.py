"""What a loop does that waits for another process or thread: it leaves the processor to what it waits for."""

from __future__ import annotations

import time
from typing import Final

LOOK_S: Final = 0.0003


def pause() -> None:
    """Sleep until it is time to look again."""
    time.sleep(LOOK_S)
