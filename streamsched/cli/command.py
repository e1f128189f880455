"""Commands and groups of the command line: help with examples, modules imported when a command runs."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import Any

import click
from click.shell_completion import CompletionItem

__all__ = ["Command", "Group", "LazyGroup", "describe_usage_error"]


class Command(click.Command):
    """A command whose help ends with `examples`, one command per line, and `notes`, both printed as they are."""

    def __init__(self, *arguments: Any, examples: str = "", notes: str = "", **settings: Any) -> None:
        super().__init__(*arguments, **settings)
        self._examples = examples
        self._notes = notes

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write examples and notes; click would join their lines into paragraphs."""
        if self._examples:
            formatter.write(f"\nExamples:\n{self._examples}")
        if self._notes:
            formatter.write(f"\n{self._notes}")


class Group(Command, click.Group):
    """A command that consists of commands. It is a usage error to name none of them."""

    command_class = Command

    def __init__(self, *arguments: Any, **settings: Any) -> None:
        super().__init__(*arguments, no_args_is_help=False, **settings)


class LazyGroup(Group):
    """A group whose commands are modules, each imported when it is run: importing all of them takes a second.

    ``summaries``: one line of help for each command. Command NAME is ``command`` of the module ``package.NAME``.
    """

    def __init__(self, *arguments: Any, package: str, summaries: Mapping[str, str], **settings: Any) -> None:
        super().__init__(*arguments, **settings)
        self._package = package
        self._summaries = summaries

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names of all commands."""
        return [*self._summaries]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import a command's module; None if there is no such command."""
        if cmd_name not in self._summaries:
            return None
        command: click.Command = import_module(f"{self._package}.{cmd_name}").command
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """List the commands without importing them."""
        with formatter.section("Commands"):
            formatter.write_dl([*self._summaries.items()])

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """Complete the name of a command without importing any."""
        names = [
            CompletionItem(name, help=line) for name, line in self._summaries.items() if name.startswith(incomplete)
        ]
        return names + click.Command.shell_complete(self, ctx, incomplete)


def describe_usage_error(error: click.UsageError) -> str:
    """Return one line: the command, the option or argument, what was found and what was expected."""
    command = error.ctx.command_path if error.ctx else "streamsched"
    see = f" (see {command} --help)"
    if not isinstance(error, click.BadParameter) or error.param is None:
        return f"{command}: {error.format_message()}{see}"
    is_option = isinstance(error.param, click.Option)
    name = error.param.opts[0] if is_option else error.param.human_readable_name
    return (
        f"{command}: {name} is required{see}"
        if isinstance(error, click.MissingParameter)
        else f"{command}: {name}: {error.message}"
    )
