"""``streamsched convert``: rewrite crawl outcomes in another format."""

from __future__ import annotations

import argparse
from pathlib import Path

from streamsched.cli.arguments import add_examples
from streamsched.cli.exits import DONE
from streamsched.cli.output import echo, name_rejections
from streamsched.connectors import open_source, write_jsonl, write_msgpack
from streamsched.connectors.formats.detection import FORMATS

__all__ = ["add_arguments"]

_EXAMPLES = """\
  streamsched convert outcomes.jsonl outcomes.msgpack.gz     # columnar frames: the fastest to read
  streamsched convert history/urlid_offset_history.txt outcomes.jsonl
"""
_WRITERS = {".jsonl": write_jsonl, ".ndjson": write_jsonl, ".msgpack": write_msgpack, ".mp": write_msgpack}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of ``convert``."""
    add_examples(parser, _EXAMPLES)
    parser.add_argument("input", metavar="IN", help="a file, or - for standard input")
    parser.add_argument("output", type=_output, metavar="OUT", help="a file: .jsonl or .msgpack, with .gz for gzip")
    parser.add_argument("--format", choices=FORMATS, help="of IN; told by name and content if left out")
    parser.set_defaults(run=_convert)


def _convert(arguments: argparse.Namespace) -> int:
    write = _WRITERS[_suffix(arguments.output)]
    with open_source(arguments.input, format=arguments.format) as source:
        count = write((delivery.outcomes for delivery in source), arguments.output)
        name_rejections(source.rejections, source.rejected)
        echo(f"wrote {count:,} outcomes to {arguments.output}; rejected {source.rejected:,} records")
    return DONE


def _output(text: str) -> Path:
    if _suffix(Path(text)) not in _WRITERS:
        expected = "a name that ends in .jsonl or .msgpack, with .gz or without"
        raise argparse.ArgumentTypeError(f"expected {expected}, found {text!r}")
    return Path(text)


def _suffix(path: Path) -> str:
    return (path.with_suffix("") if path.suffix == ".gz" else path).suffix
