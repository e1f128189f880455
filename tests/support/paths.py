"""Where the checkout is, and the change logs that ship with it."""

from __future__ import annotations

from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
LOGS = ROOT / "data"
