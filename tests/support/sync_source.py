"""Makes the modules of `streamsched.client` for threads out of those for asyncio: ``make client``."""

from __future__ import annotations

import re
import subprocess
import sys
from typing import Final

from tests.support.paths import ROOT

__all__ = ["CLIENT", "MODULES", "to_sync"]

CLIENT: Final = ROOT / "streamsched" / "client"
MODULES: Final = {"async_client": "sync_client", "async_sender": "sync_sender"}
_REPLACEMENTS: Final = (
    (r"import asyncio\n", ""),
    (r"asyncio\.sleep", "time.sleep"),
    (r"\basync_(client|sender)\b", r"sync_\1"),
    (r"\bAsync([A-Z]\w+)", r"\1"),
    (r"\b(async|await) ", ""),
    (r"__a(enter|exit)__", r"__\1__"),
    (r"\ba(close|iter_bytes)\b", r"\1"),
    (r"\bfor asyncio\b", "for threads"),
    (r"\ban asynchronous context manager", "a context manager"),
    (r"\bnumber of tasks\b", "number of threads"),
)
_RUFF: Final = (sys.executable, "-m", "ruff")
_FROM_STDIN: Final = ("--quiet", "--stdin-filename", str(CLIENT / "sync.py"), "-")


def to_sync(name: str) -> str:
    """Return the source for threads of the module `name` for asyncio, as ruff formats it."""
    source = (CLIENT / f"{name}.py").read_text()
    for pattern, replacement in _REPLACEMENTS:
        source = re.sub(pattern, replacement, source)
    source = re.sub(r"# \w+\.py is made of this file by", f"# Made of {name}.py by", source)
    for command in (("check", "--select", "I", "--fix"), ("format",)):
        done = subprocess.run(
            (*_RUFF, *command, *_FROM_STDIN), input=source, text=True, capture_output=True, check=True, cwd=ROOT
        )
        source = done.stdout
    return source


def write_modules() -> None:
    """Write the modules for threads."""
    for name, made in MODULES.items():
        (CLIENT / f"{made}.py").write_text(to_sync(name))


if __name__ == "__main__":
    write_modules()
