"""``streamsched convert``: crawl outcomes or change signals in another format."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import click

from streamsched.cli.exits import DONE
from streamsched.cli.options import output_file
from streamsched.cli.output import echo, name_rejections
from streamsched.connectors.formats.detection import FORMATS
from streamsched.connectors.formats.writers import write_jsonl, write_msgpack
from streamsched.connectors.open_source import open_signals, open_source

__all__ = ["command"]

_WRITERS: Final = {".jsonl": write_jsonl, ".ndjson": write_jsonl, ".msgpack": write_msgpack, ".mp": write_msgpack}
_EPILOG: Final = """
\b
Examples:
  streamsched convert outcomes.jsonl outcomes.msgpack.gz    # columnar frames: the fastest to read
  streamsched convert history/urlid_offset_history.txt outcomes.jsonl
"""


@click.command("convert", epilog=_EPILOG)
@click.argument("source_name", metavar="IN")
@click.argument("output", metavar="OUT", type=output_file(*_WRITERS))
@click.option(
    "--format",
    "format_name",
    type=click.Choice(FORMATS),
    show_default="detected by name and content",
    help="Format of IN.",
)
@click.option("--signals", is_flag=True, help="IN holds change signals, not outcomes.")
def command(source_name: str, output: Path, format_name: str | None, *, signals: bool) -> int:
    """Convert outcomes or signals to JSON Lines or msgpack.

    IN is a file, or - for standard input. OUT is a file whose name ends in .jsonl or .msgpack, or in .jsonl.gz or
    .msgpack.gz to compress it.
    """
    write = _WRITERS[Path(output.name.removesuffix(".gz")).suffix]
    open_either, kind = (open_signals, "signals") if signals else (open_source, "outcomes")
    with open_either(source_name, format=format_name) as source:
        batches: Any = (delivery.records for delivery in source)
        count = write(batches, output)
        name_rejections(source.rejections, source.rejected)
        echo(f"wrote {count:,} {kind} to {output}; rejected {source.rejected:,} records")
    return DONE
