"""The command line: ``streamsched COMMAND``; `main` is its entry."""

from streamsched.cli.main import main

__all__ = ["main"]
