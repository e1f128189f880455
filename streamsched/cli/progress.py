"""Progress bars on standard error, for the commands that take a while."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any, TypeAlias

from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, Progress, ProgressColumn, TaskProgressColumn, TextColumn, TimeRemainingColumn

Update: TypeAlias = Callable[..., None]
"""Changes the bar: ``description``, ``completed`` and ``total``, None for a length that is not known."""


@contextmanager
def show_bar(first: str, *more: ProgressColumn, console: Console | None = None) -> Iterator[Update | None]:
    """Show a progress bar during this block, described as `first`; yield what updates it, None without a terminal.

    ``more``: columns behind the bar, by default the share that is done and the time that is left.
    """
    console = console or Console(stderr=True)
    if not console.is_terminal:
        yield None
        return
    columns = more or (TaskProgressColumn(), TimeRemainingColumn())
    with Progress(TextColumn("{task.description}"), BarColumn(), *columns, console=console, transient=True) as bar:
        update: Callable[..., Any] = partial(bar.update, bar.add_task(first, total=None))
        yield update


@contextmanager
def show_progress(
    action: str, first: str = "Reading the log", console: Console | None = None
) -> Iterator[Callable[[int, int, str], None] | None]:
    """Show what a replay or an experiment is doing: `first`, then `action` and a policy; yield its callback or None."""
    with show_bar(first, console=console) as update:
        if update is None:
            yield None
            return

        def advance(done: int, total: int, policy: str) -> None:
            update(completed=done, total=total, description=f"{action} {escape(policy)}")

        yield advance
