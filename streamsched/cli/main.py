"""Parse the command line, run the command, turn errors into one line and an exit code."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from importlib.metadata import PackageNotFoundError, version

from streamsched.cli import convert, pages, replay, run, state
from streamsched.cli.exits import EXIT_HELP, exit_code
from streamsched.errors import StreamschedError
from streamsched.jit import on_compile

__all__ = ["build_parser", "main"]

_INTERRUPTED = 130  # 128 + SIGINT, as shells say


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code."""
    arguments = build_parser().parse_args(argv)
    try:
        with on_compile(_Notice()):
            code: int = arguments.run(arguments)
        sys.stdout.flush()
    except StreamschedError as error:
        print(f"streamsched: {error}", file=sys.stderr)  # noqa: T201
        return exit_code(error)
    except BrokenPipeError:  # whoever read our output has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except KeyboardInterrupt:
        return _INTERRUPTED
    return code


def build_parser() -> argparse.ArgumentParser:
    """Return the parser of the whole command line."""
    parser = argparse.ArgumentParser(
        prog="streamsched",
        description="Which pages of a crawl have changed? Learns from every visit, ranks all pages, says why.",
        epilog=EXIT_HELP,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"streamsched {_version()}")
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    for module in (replay, run, pages, state, convert):
        module.add_commands(commands)
    return parser


def _version() -> str:
    try:
        return version("streamsched")
    except PackageNotFoundError:
        return "of a checkout that is not installed"


class _Notice:
    """Says once that kernels are being compiled, which the first run on a machine waits for."""

    def __init__(self) -> None:
        self._said = False

    def __call__(self, kernel: str) -> None:
        if not self._said:
            self._said = True
            text = f"streamsched: compiling kernels for this machine ({kernel} and others), once; later runs find them"
            print(text, file=sys.stderr, flush=True)  # noqa: T201
