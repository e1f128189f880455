"""The command line: ``streamsched COMMAND``; `main` is its entry."""

from collections.abc import Sequence

from streamsched.cli.startup import ignore_interrupts, leave_at_once

__all__ = ["main"]


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code; `argv` None: that of the process, which ends after it."""
    with leave_at_once():
        from streamsched.cli.program import run  # noqa: PLC0415  half a second, in which Ctrl-C must work
    code = run(argv)
    if argv is None:
        ignore_interrupts()
    return code
