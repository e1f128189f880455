"""``streamsched convert``: rewrite crawl outcomes in another format."""

from __future__ import annotations

import argparse
from pathlib import Path

from streamsched.cli.arguments import Commands, add_command
from streamsched.cli.exits import DONE
from streamsched.connectors import open_source, write_jsonl, write_msgpack
from streamsched.connectors.recognition import FORMATS
from streamsched.errors import SettingsError

__all__ = ["add_commands"]

_EXAMPLES = """\
  streamsched convert outcomes.jsonl outcomes.msgpack.gz     # columnar frames: the fastest to read
  streamsched convert history/urlid_offset_history.txt outcomes.jsonl
"""


def add_commands(commands: Commands) -> None:
    """Add ``convert``."""
    parser = add_command(commands, "convert", "rewrite crawl outcomes as JSON Lines or msgpack frames", _EXAMPLES)
    parser.add_argument("input", metavar="IN", help="a file, or - for standard input")
    parser.add_argument("output", type=Path, metavar="OUT", help="a file: .jsonl or .msgpack, with .gz for gzip")
    parser.add_argument("--format", choices=FORMATS, help="of IN; told by name and content if left out")
    parser.set_defaults(run=_convert)


def _convert(arguments: argparse.Namespace) -> int:
    suffixes = [suffix for suffix in arguments.output.suffixes if suffix != ".gz"]
    kind = suffixes[-1] if suffixes else ""
    if kind not in (".jsonl", ".ndjson", ".msgpack", ".mp"):
        raise SettingsError("OUT", str(arguments.output), "a name that ends in .jsonl or .msgpack, with .gz or without")
    with open_source(arguments.input, format=arguments.format) as source:
        batches = (delivery.outcomes for delivery in source)
        if kind in (".jsonl", ".ndjson"):
            write_jsonl(batches, arguments.output)
        else:
            write_msgpack(batches, arguments.output)
        print(f"rejected {source.rejected} records")  # noqa: T201
    return DONE
