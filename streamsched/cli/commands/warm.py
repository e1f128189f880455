"""``streamsched warm``: compile the kernels ahead of time."""

from __future__ import annotations

from dataclasses import asdict
from typing import Final

import click
from rich.progress import TimeElapsedColumn

from streamsched.cli.exits import DONE
from streamsched.cli.output import echo, echo_json
from streamsched.cli.progress import show_bar
from streamsched.scheduler.warm import WarmProgress, warm

_EPILOG: Final = """
\b
Examples:
  streamsched warm
  streamsched warm --json
  streamsched warm --native  # although the installed wheel holds machine code
"""


@click.command("warm", epilog=_EPILOG)
@click.option("--native", is_flag=True, help="Compile for this very processor what a wheel has for a common one.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def warm_command(native: bool, as_json: bool) -> int:
    """Compile the kernels for this machine ahead of time.

    Later commands and programs load them from a cache and start at once. A second run compiles nothing.
    NUMBA_CACHE_DIR names the folder of the cache, such as one that an image keeps.
    """
    with show_bar("Compiling", TimeElapsedColumn()) as update:

        def show(progress: WarmProgress) -> None:
            text = f"{progress.workload}: {progress.compiled} compiled{f', {progress.kernel}' * bool(progress.kernel)}"
            if update is not None:
                update(completed=progress.number - 1, total=progress.workloads, description=text)

        warmed = warm(show, native=native)
    if as_json:
        echo_json(asdict(warmed))
    else:
        size = f"{warmed.cache_bytes / 1e6:.1f} MB in {len(warmed.folders)} folders"
        echo(f"compiled {warmed.compiled} kernels in {warmed.seconds:.1f} s; the cache has {size}")
    return DONE
