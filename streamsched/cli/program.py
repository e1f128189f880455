"""Parse the command line, run the command, turn errors into one line and an exit code."""

from __future__ import annotations

import gc
import io
import logging
import os
import sys
import traceback
from collections.abc import Sequence
from contextlib import suppress
from importlib import import_module
from typing import Final

import click
from click.shell_completion import CompletionItem, shell_complete

from streamsched import __version__
from streamsched.cli.exits import (
    DEFECT,
    DONE,
    EXIT_HELP,
    INTERRUPTED,
    NO_MEMORY,
    UNREADABLE,
    USAGE,
    exit_code,
    orderly_exit,
)
from streamsched.cli.output import echo_error
from streamsched.errors import StreamschedError
from streamsched.numerics.compilation.notices import FIRST_WORDS, Compilation, on_compile

_NAME: Final = "streamsched"
_COMPLETION: Final = "_STREAMSCHED_COMPLETE"  # the variable that click's completion scripts set
_LONGEST: Final = 400  # characters of an error of the system
_SUMMARIES: Final = {
    "run": "Read crawl outcomes into a saved state.",
    "serve": "Serve a saved state over HTTP.",
    "cluster": "Serve a topic's partitions by several hosts.",
    "token": "Make a token for the HTTP service.",
    "next": "Print the best pages to visit next, and lease them.",
    "explain": "Explain the rank of a page.",
    "changes": "Print the changes of pages that a service has found.",
    "evolutions": "List the evolutions of a state or a service.",
    "rules": "List, set or remove rules of a running service.",
    "signals": "List what change signals proved; fetch sitemaps and feeds.",
    "use": "Set the formula of a state or a service, or a former one.",
    "state": "Show, verify, repair, compact, export or copy a saved state.",
    "warm": "Compile the kernels for this machine ahead of time.",
    "content": "Print a page's text and hashes, or where two copies differ.",
    "experiment": "Rerun the experiments of the papers on optimal crawling.",
    "replay": "Compare crawl policies on a log of page changes.",
    "analyze": "Analyze how often and when pages change.",
    "evolve": "Evolve score formulas on a log and test them.",
    "generate": "Write a synthetic change log for replays and tests.",
    "convert": "Convert outcomes or signals to JSON Lines or msgpack.",
    "publish": "Send outcomes or signals from a file to a Kafka topic.",
}
_MODULES: Final = {
    "changes": "service",
    "convert": "conversion",
    "evolve": "experiment",
    "explain": "next",
    "publish": "conversion",
    "rules": "service",
    "token": "service",
    "use": "evolutions",
}
_EPILOG: Final = f"""
\b
{EXIT_HELP}

\b
Shell completion, for bash (zsh: zsh_source):
  eval "$({_COMPLETION}=bash_source streamsched)"
"""


class LazyGroup(click.Group):
    """The commands of `_SUMMARIES`, whose modules are imported when they run: to import all of them takes a second.

    Command NAME is the object ``NAME_command`` of the module NAME of `streamsched.cli.commands`, or that of `_MODULES`.
    """

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002  click's signature, here and below
        """Return the names of all commands."""
        return [*_SUMMARIES]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        """Import the module of a command; return None if there is no such command."""
        if cmd_name not in _SUMMARIES:
            return None
        module = import_module(f"streamsched.cli.commands.{_MODULES.get(cmd_name, cmd_name)}")
        if not gc.isenabled():  # modules stay: no collection need look at them, nor the last one, which took 0.2 s
            gc.freeze()
            gc.enable()
        command: click.Command = getattr(module, f"{cmd_name}_command")
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002
        """Write the list of commands without importing them."""
        with formatter.section("Commands"):
            formatter.write_dl([*_SUMMARIES.items()])

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """Complete the name of a command without importing any."""
        found = [CompletionItem(name, help=line) for name, line in _SUMMARIES.items() if name.startswith(incomplete)]
        return found + click.Command.shell_complete(self, ctx, incomplete)


def run(argv: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code; see `streamsched.cli.main`."""
    _open_standard_streams()
    code = DONE
    try:
        if instruction := os.environ.get(_COMPLETION):
            return shell_complete(program, {}, _NAME, _COMPLETION, instruction)
        code = _run(sys.argv[1:] if argv is None else argv)
        sys.stdout.flush()
    except BrokenPipeError:  # the reader of our output has closed it, as `head` does
        _drop_output()
    except OSError as error:
        text = str(error)  # with the name of a file, which may be as long as what was typed
        shown = text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…"
        echo_error(f"streamsched: the system refused a read or a write: {shown}")
        _drop_output()
        code = UNREADABLE
    except KeyboardInterrupt:
        code = INTERRUPTED
    return code


def _run(words: Sequence[str]) -> int:
    """Run the command of `words` and return its exit code; the caller handles OSError."""
    try:
        with orderly_exit(), on_compile(_Notice()), program.make_context(_NAME, [*words]) as context:
            code: int = program.invoke(context)
            return code
    except click.exceptions.Exit as leaving:  # click has printed help or the version
        return leaving.exit_code
    except SystemExit as leaving:  # SIGTERM
        return int(leaving.code or DONE)
    except click.UsageError as error:
        echo_error(_describe(error))
        return USAGE
    except StreamschedError as error:
        echo_error(f"streamsched: {error}")
        return exit_code(error)
    except MemoryError as error:
        echo_error(f"streamsched: out of memory: {str(error) or 'the system refused more'}; see `ulimit -v`")
        return NO_MEMORY
    except OSError:
        raise
    except Exception:  # noqa: BLE001  Python's own exit code for it, 1, means that there is nothing to visit
        traceback.print_exc()
        return DEFECT


def _describe(error: click.UsageError) -> str:
    """Return one line: the command, the option or argument, what was found and what was expected."""
    command = error.ctx.command_path if error.ctx else _NAME
    if not isinstance(error, click.BadParameter) or error.param is None:
        return f"{command}: {error.format_message()} (see {command} --help)"
    name = error.param.opts[0] if isinstance(error.param, click.Option) else error.param.human_readable_name
    if isinstance(error, click.MissingParameter):
        return f"{command}: {name} is required (see {command} --help)"
    return f"{command}: {name}: {error.message}"


@click.group(
    cls=LazyGroup,
    epilog=_EPILOG,
    no_args_is_help=False,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100, "show_default": True},
)
@click.version_option(__version__, message="streamsched %(version)s")
def program() -> None:
    """Decide which pages of a crawl to visit again, and when.

    Streamsched learns from every visit how often each page changes, ranks all pages by it, and explains each rank.
    `streamsched COMMAND --help` shows examples.
    """


def _open_standard_streams() -> None:
    """Replace closed streams, and escape characters that the encoding of standard output lacks."""
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:  # closed by the parent process
            setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))  # noqa: PTH123, SIM115  as long as we run
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")


def _drop_output() -> None:
    """Discard what is still buffered, or the interpreter would report an error at exit."""
    with suppress(io.UnsupportedOperation):  # captured by a caller, not a file
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


class _Notice:
    """Says on standard error that kernels are being compiled, and on a terminal how far that is.

    A command that logs, as `run` does, gets a line in its log: machines may read it.
    """

    def __init__(self) -> None:
        self._is_reported = False

    def __call__(self, compilation: Compilation) -> None:
        log = logging.getLogger("streamsched")
        if not self._is_reported:
            self._is_reported = True
            if log.handlers:
                log.warning(FIRST_WORDS)
            else:
                echo_error(f"streamsched: {FIRST_WORDS}")
        elif not log.handlers and sys.stderr.isatty():
            self._redraw(compilation)

    @staticmethod
    def _redraw(compilation: Compilation) -> None:
        """Replace the last line by how far the compilation is, or erase it while nothing is compiled."""
        text = f"  {compilation.count} kernels in {compilation.seconds:.0f} s; {compilation.kernel.lstrip('_')}"
        sys.stderr.write("\r\x1b[2K" + ("" if compilation.done else text))
        sys.stderr.flush()
