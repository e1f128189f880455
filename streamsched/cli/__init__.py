"""The command line: ``streamsched COMMAND``; `main` is its entry."""

import gc
from collections.abc import Sequence

__all__ = ["main"]

_INTERRUPTED = 130  # as `cli.exits` has it


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code; `argv` None: that of the process, which is ours."""
    if argv is None:
        gc.disable()  # until the command is imported: see `LazyGroup.get_command`
    try:
        from streamsched.cli.program import run  # noqa: PLC0415  half a second, in which Ctrl-C must work

        return run(argv)
    except KeyboardInterrupt:
        return _INTERRUPTED
