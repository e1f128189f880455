"""``streamsched publish``: send a log of crawl outcomes to a Kafka topic."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

from streamsched.cli.arguments import add_examples, whole
from streamsched.cli.exits import DONE
from streamsched.cli.output import echo, echo_json, name_rejections
from streamsched.connectors import open_sink, open_source
from streamsched.connectors.formats.detection import FORMATS
from streamsched.connectors.kafka import SCHEME
from streamsched.connectors.kafka.sink import FORMATS as SHAPES
from streamsched.connectors.kafka.sink import FRAME_ROWS
from streamsched.connectors.source import Position, Source

__all__ = ["add_arguments"]

_EXAMPLES = """\
  streamsched publish outcomes.jsonl.gz --to kafka://localhost:9092/outcomes
  streamsched publish log.tsv --to kafka://localhost:9092/outcomes --partitions 12 --as msgpack
  streamsched publish day.msgpack --to 'kafka://broker:9093/outcomes?security.protocol=SSL' --json

All outcomes of a host go to one partition, in the order of the log. Frames, the fastest to read, hold the outcomes of
one partition's hosts; a single message has its host as key. What is rejected is named and not sent.
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of ``publish``."""
    add_examples(parser, _EXAMPLES)
    parser.add_argument("input", metavar="LOG", help="a file, or - for standard input")
    parser.add_argument(
        "--to", required=True, type=_topic, metavar="URL", help="kafka://HOST:PORT[,…]/TOPIC[?SETTINGS]"
    )
    parser.add_argument("--format", choices=FORMATS, help="of LOG; told by name and content if left out")
    parser.add_argument("--as", dest="shape", choices=SHAPES, default=SHAPES[0], help="what a message is (frames)")
    parser.add_argument(
        "--rows", type=whole(1), default=FRAME_ROWS, metavar="N", help=f"outcomes of a frame, at most ({FRAME_ROWS})"
    )
    parser.add_argument("--partitions", type=whole(1), metavar="N", help="make the topic with N partitions if need be")
    parser.add_argument("--dead-letters", type=Path, metavar="FILE", help="append rejected records to FILE, as JSON")
    parser.add_argument("--json", action="store_true", help="print the counts as JSON")
    parser.set_defaults(run=_publish)


def _publish(arguments: argparse.Namespace) -> int:
    count = 0
    name: str = arguments.input
    with open_source(name, format=arguments.format, dead_letters=arguments.dead_letters) as source:
        with open_sink(arguments.to) as sink, _progress(name) as show:
            created = arguments.partitions is not None and sink.create(arguments.partitions)
            for delivery in source:
                sink.send_outcomes(delivery.outcomes, arguments.shape, arguments.rows)
                count += len(delivery.outcomes)
                show(count, delivery.position)
        _report(arguments, source, count, sink.settings.topic, created=created)
    return DONE


def _report(arguments: argparse.Namespace, source: Source, count: int, topic: str, *, created: bool) -> None:
    name_rejections(source.rejections, source.rejected)
    if arguments.json:
        echo_json({"outcomes": count, "rejected": source.rejected, "topic": topic, "created": created})
    else:
        made = ", which is new" if created else ""
        echo(f"sent {count:,} outcomes to topic {topic}{made}; rejected {source.rejected:,} records")


class _Bar:
    """Shows how many outcomes were sent, and of a plain file how much of it."""

    def __init__(self, bar: Progress, size: int | None) -> None:
        self._bar = bar
        self._task = bar.add_task("", total=size)
        self._whole = size is not None

    def __call__(self, count: int, position: Position) -> None:
        done = position.offset if self._whole else None
        self._bar.update(self._task, description=f"{count:,} outcomes", completed=done)


@contextmanager
def _progress(name: str) -> Iterator[_Bar]:
    path, console = Path(name), Console(stderr=True)
    columns = (BarColumn(), TextColumn("{task.description}"), TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as bar:
        yield _Bar(bar, path.stat().st_size if path.is_file() and path.suffix != ".gz" else None)


def _topic(text: str) -> str:
    if not text.startswith(SCHEME):
        raise argparse.ArgumentTypeError(f"expected kafka://HOST:PORT/TOPIC, found {text!r}")
    return text
