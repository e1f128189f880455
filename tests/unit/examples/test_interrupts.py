"""Ctrl-C ends an example at any moment, also while it imports, without a traceback."""

import signal
import subprocess
import sys

import pytest


@pytest.mark.parametrize(
    ("error", "code", "printed"), [("KeyboardInterrupt", -signal.SIGINT, ""), ("OSError", 1, "OSError\n")]
)
def test_only_ctrl_c_is_not_printed(error: str, code: int, printed: str) -> None:
    done = subprocess.run([sys.executable, "-c", f"import examples\nraise {error}"], capture_output=True, check=False)
    assert done.returncode == code
    assert done.stderr.decode().endswith(printed)
    assert bool(done.stderr) == bool(printed)
