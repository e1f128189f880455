"""A group of commands that are imported when they run."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import Any

import click
from click.shell_completion import CompletionItem

from streamsched.cli.startup import leave_at_once

__all__ = ["LazyGroup"]


class LazyGroup(click.Group):
    """A group whose commands are modules, each imported when it runs: to import all of them takes a second.

    ``packages``: for each package one line of help per command. Command NAME is the object ``command`` of the module
    ``package.NAME``.
    """

    def __init__(self, *arguments: Any, packages: Mapping[str, Mapping[str, str]], **settings: Any) -> None:
        super().__init__(*arguments, **settings)
        self._modules = {name: f"{package}.{name}" for package, commands in packages.items() for name in commands}
        self._summaries = {name: line for commands in packages.values() for name, line in commands.items()}

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002  click's signature, here and below
        """Return the names of all commands."""
        return [*self._summaries]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        """Import the module of a command; return None if there is no such command."""
        if cmd_name not in self._summaries:
            return None
        with leave_at_once():
            command: click.Command = import_module(self._modules[cmd_name]).command
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002
        """Write the list of commands without importing them."""
        with formatter.section("Commands"):
            formatter.write_dl([*self._summaries.items()])

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """Complete the name of a command without importing any."""
        found = [
            CompletionItem(name, help=line) for name, line in self._summaries.items() if name.startswith(incomplete)
        ]
        return found + click.Command.shell_complete(self, ctx, incomplete)
