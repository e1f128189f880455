"""``streamsched warm``: compile the kernels ahead of time."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from typing import Final

import click
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

from streamsched.cli.exits import DONE
from streamsched.cli.output import echo, echo_json
from streamsched.scheduler.warm import WarmProgress, warm

_EPILOG: Final = """
\b
Examples:
  streamsched warm
  streamsched warm --json
"""


@click.command("warm", epilog=_EPILOG)
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def warm_command(as_json: bool) -> int:
    """Compile the kernels for this machine ahead of time.

    Later commands and programs load them from a cache and start at once. A second run compiles nothing.
    NUMBA_CACHE_DIR names the folder of the cache, such as one that an image keeps.
    """
    with _show_progress(Console(stderr=True)) as progress:
        warmed = warm(progress)
    if as_json:
        echo_json(asdict(warmed))
    else:
        size = f"{warmed.cache_bytes / 1e6:.1f} MB in {len(warmed.folders)} folders"
        echo(f"compiled {warmed.compiled} kernels in {warmed.seconds:.1f} s; the cache has {size}")
    return DONE


@contextmanager
def _show_progress(console: Console) -> Iterator[Callable[[WarmProgress], None] | None]:
    """Show a progress bar if `console` is a terminal; yields the callback for `warm`."""
    if not console.is_terminal:
        yield None
        return
    columns = (TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True) as bar:
        task = bar.add_task("Compiling", total=None)

        def show(progress: WarmProgress) -> None:
            text = f"{progress.workload}: {progress.compiled} compiled{f', {progress.kernel}' * bool(progress.kernel)}"
            bar.update(task, completed=progress.number - 1, total=progress.workloads, description=text)

        yield show
