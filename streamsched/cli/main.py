"""Parse the command line, run the command, turn errors into one line and an exit code."""

from __future__ import annotations

import argparse
import io
import logging
import os
import sys
import traceback
from collections.abc import Sequence
from contextlib import suppress
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from typing import Final

from streamsched.cli.arguments import shield_formulas
from streamsched.cli.exits import DEFECT, DONE, EXIT_HELP, INTERRUPTED, UNREADABLE, exit_code
from streamsched.cli.interruption import orderly_exit
from streamsched.cli.output import echo_error
from streamsched.errors import StreamschedError
from streamsched.numerics.jit import on_compile

__all__ = ["build_parser", "main"]

_COMMANDS: Final = {  # each a module of this package, with an `add_arguments`
    "replay": "compare policies on a log of what really changed",
    "analyze": "say how the pages of a log change: how often, how regularly, and when in the week",
    "evolve": "evolve score functions on a log and test them as their paper did",
    "run": "read crawl outcomes to their end and save the state they lead to",
    "next": "print the pages to visit next, best first, and lease them",
    "explain": "say why a page is ranked where it is",
    "evolutions": "list what evolution found and decided, and why",
    "use": "rank by another formula from now on, or go back to the champion of a record",
    "state": "show, verify, digest or export a saved state",
    "generate": "write a synthetic change log of any size, for replays and tests",
    "convert": "rewrite crawl outcomes as JSON Lines or msgpack frames",
    "publish": "send a log of crawl outcomes to a Kafka topic",
}


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code."""
    _open_standard_streams()
    code = DONE
    try:
        code = _obey(sys.argv[1:] if argv is None else list(argv))
        sys.stdout.flush()
    except BrokenPipeError:  # whoever read our output has seen enough
        _drop_output()
    except OSError as error:
        echo_error(f"streamsched: the system refused a read or a write: {error}")
        _drop_output()
        code = UNREADABLE
    except KeyboardInterrupt:
        code = INTERRUPTED
    return code


def build_parser(words: Sequence[str]) -> argparse.ArgumentParser:
    """Return the parser of the command line `words`: all commands, those that `words` name with their arguments."""
    parser = argparse.ArgumentParser(
        prog="streamsched",
        description="Which pages of a crawl have changed? Learns from every visit, ranks all pages, says why.",
        epilog=f"Examples: streamsched COMMAND --help\n\n{EXIT_HELP}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,  # what a script abbreviates, the next option could make ambiguous
    )
    parser.add_argument("--version", action="version", version=f"streamsched {_version()}")
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    for name, help_line in _COMMANDS.items():
        command = commands.add_parser(
            name,
            help=help_line,
            description=help_line[0].upper() + help_line[1:] + ".",
            formatter_class=argparse.RawDescriptionHelpFormatter,
            allow_abbrev=False,
        )
        # Imported only where it is asked for: what `replay` needs takes as long to import as `next` takes to run.
        if name in words:
            import_module(f"streamsched.cli.commands.{name}").add_arguments(command)
    return parser


def _obey(words: Sequence[str]) -> int:
    """Run the command of `words` and return its exit code; errors of the system's are left to the caller."""
    try:
        with orderly_exit(), on_compile(_Notice()):
            arguments = build_parser(words).parse_args(shield_formulas(words))
            code: int = arguments.run(arguments)
    except SystemExit as leaving:  # argparse has printed help or a usage error; or SIGTERM
        return int(leaving.code or DONE)
    except StreamschedError as error:
        echo_error(f"streamsched: {error}")
        return exit_code(error)
    except OSError:
        raise
    except Exception:  # noqa: BLE001  a defect is told apart from "nothing to hand out", Python's own code for it
        traceback.print_exc()
        return DEFECT
    return code


def _version() -> str:
    try:
        return version("streamsched")
    except PackageNotFoundError:
        return "of a checkout that is not installed"


def _open_standard_streams() -> None:
    """See to it that there is something to print to, and that no name or URL is beyond its encoding."""
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:  # closed by whoever started us
            setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))  # noqa: PTH123, SIM115  as long as we run
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")


def _drop_output() -> None:
    """Let what is still to be printed vanish, or the interpreter would complain at its end."""
    with suppress(io.UnsupportedOperation):  # captured by a caller, in the place of a file
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


class _Notice:
    """Says once that kernels are being compiled, which the first run on a machine waits for."""

    def __init__(self) -> None:
        self._said = False

    def __call__(self, kernel: str) -> None:
        if not self._said:
            self._said = True
            told = f"compiling kernels for this machine ({kernel.lstrip('_')} and others), once; later runs find them"
            log = logging.getLogger("streamsched")
            if log.handlers:  # `run` has one: what it tells may be read by machines
                log.warning(told)
            else:
                echo_error(f"streamsched: {told}")
