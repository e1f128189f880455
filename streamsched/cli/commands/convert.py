"""``streamsched convert``: crawl outcomes in another format."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import click

from streamsched.cli.exits import DONE
from streamsched.cli.output import echo, name_rejections
from streamsched.cli.parameters import Parsed
from streamsched.connectors import open_source, write_jsonl, write_msgpack
from streamsched.connectors.formats.detection import FORMATS
from streamsched.errors import SettingsError

__all__ = ["command"]

_WRITERS: Final = {".jsonl": write_jsonl, ".ndjson": write_jsonl, ".msgpack": write_msgpack, ".mp": write_msgpack}
_EPILOG: Final = """
\b
Examples:
  streamsched convert outcomes.jsonl outcomes.msgpack.gz    # columnar frames: the fastest to read
  streamsched convert history/urlid_offset_history.txt outcomes.jsonl
"""


def _suffix(path: Path) -> str:
    return (path.with_suffix("") if path.suffix == ".gz" else path).suffix


def _parse_output(text: str) -> Path:
    if _suffix(Path(text)) not in _WRITERS:
        raise SettingsError("OUT", text, "a name that ends in .jsonl or .msgpack, with .gz or without")
    return Path(text)


@click.command("convert", epilog=_EPILOG)
@click.argument("source_name", metavar="IN")
@click.argument("output", metavar="OUT", type=Parsed("FILE", _parse_output))
@click.option(
    "--format",
    "format_name",
    type=click.Choice(FORMATS),
    show_default="detected by name and content",
    help="Format of IN.",
)
def command(source_name: str, output: Path, format_name: str | None) -> int:
    """Convert crawl outcomes to JSON Lines or msgpack.

    IN is a file, or - for standard input. OUT is a file whose name ends in .jsonl or .msgpack, or in .jsonl.gz or
    .msgpack.gz to compress it.
    """
    write = _WRITERS[_suffix(output)]
    with open_source(source_name, format=format_name) as source:
        count = write((delivery.outcomes for delivery in source), output)
        name_rejections(source.rejections, source.rejected)
        echo(f"wrote {count:,} outcomes to {output}; rejected {source.rejected:,} records")
    return DONE
