"""``streamsched convert`` and ``publish``: outcomes or signals from a file to another format or to a topic."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import click
import numpy as np
from rich.progress import TimeElapsedColumn

from streamsched.cli.exits import DONE, UNREADABLE
from streamsched.cli.options import FILE, Parsed, output_file, whole
from streamsched.cli.output import echo, echo_json, name_rejections
from streamsched.cli.progress import show_bar
from streamsched.connectors.file_formats import formats_of
from streamsched.connectors.formats.writers import write_jsonl, write_msgpack
from streamsched.connectors.kafka import open_sink
from streamsched.connectors.kafka.kafka_settings import SCHEME
from streamsched.connectors.kafka.sink import FORMATS as SHAPES
from streamsched.connectors.kafka.sink import FRAME_ROWS
from streamsched.connectors.opening import open_signals, open_source
from streamsched.connectors.records import OUTCOMES
from streamsched.errors import SettingsError
from streamsched.state.url_rule import SCHEMES, UrlRule, parse_schemes

_WRITERS: Final = {".jsonl": write_jsonl, ".ndjson": write_jsonl, ".msgpack": write_msgpack, ".mp": write_msgpack}
_CONVERT_EPILOG: Final = """
\b
Examples:
  streamsched convert outcomes.jsonl outcomes.msgpack.gz    # columnar frames: the fastest to read
  streamsched convert history/urlid_offset_history.txt outcomes.jsonl
"""


@click.command("convert", epilog=_CONVERT_EPILOG)
@click.argument("source_name", metavar="IN")
@click.argument("output", metavar="OUT", type=output_file(*_WRITERS))
@click.option(
    "--format",
    "format_name",
    type=click.Choice(list(formats_of(OUTCOMES))),
    show_default="detected by name and content",
    help="Format of IN.",
)
@click.option("--signals", is_flag=True, help="IN holds change signals, not outcomes.")
def convert_command(source_name: str, output: Path, format_name: str | None, *, signals: bool) -> int:
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
        return _exit_code(count, source.rejected)


def _exit_code(count: int, rejected: int) -> int:
    """Return that of an input that cannot be read if every record was rejected."""
    return UNREADABLE if rejected and not count else DONE


_PUBLISH_EPILOG: Final = """
\b
Examples:
  streamsched publish outcomes.jsonl.gz --to kafka://localhost:9092/outcomes
  streamsched publish log.tsv --to kafka://localhost:9092/outcomes --partitions 12 --as msgpack
  streamsched publish day.msgpack --to 'kafka://broker:9093/outcomes?security.protocol=SSL' --json

All outcomes of a host go to one partition, in the order of the log. A frame, the fastest to read, holds outcomes of
several hosts of one partition; a single message has its host as key. Rejected records are named and not sent; if
there is no other, the exit code is 3.
"""


def _parse_topic(text: str) -> str:
    if not text.startswith(SCHEME):
        raise SettingsError("--to", text, "kafka://HOST:PORT/TOPIC")
    return text


def _parse_schemes(text: str) -> str | None:
    return parse_schemes(None if text == "none" else text)


@click.command("publish", epilog=_PUBLISH_EPILOG)
@click.argument("log")
@click.option(
    "--to",
    "topic",
    required=True,
    type=Parsed("URL", _parse_topic),
    help="Topic to send to: kafka://HOST:PORT[,…]/TOPIC[?SETTINGS].",
)
@click.option(
    "--format",
    "format_name",
    type=click.Choice(list(formats_of(OUTCOMES))),
    show_default="detected by name and content",
    help="Format of LOG.",
)
@click.option(
    "--as", "shape", type=click.Choice(SHAPES), default=SHAPES[0], help="Content of a message: a frame or one outcome."
)
@click.option("--signals", is_flag=True, help="LOG holds change signals, not outcomes.")
@click.option(
    "--schemes",
    type=Parsed("TEXT", _parse_schemes),
    default=SCHEMES,
    show_default=True,
    help="Reject URLs that are not absolute with one of these, as scheduler.schemes of those who read the topic.",
)
@click.option("--rows", type=whole(1), default=FRAME_ROWS, help="Largest number of outcomes in a frame.")
@click.option("--partitions", type=whole(1), help="Create the topic with N partitions if it does not exist.")
@click.option("--dead-letters", type=FILE, help="Append rejected records to FILE as JSON.")
@click.option("--json", is_flag=True, help="Print JSON.")
def publish_command(log: str, topic: str, partitions: int | None, json: bool, **given: Any) -> int:
    """Send outcomes or signals from a file to a Kafka topic.

    LOG is a file of crawl outcomes or of signals in any format, or - for standard input.
    """
    count, rule = 0, UrlRule(given["schemes"])
    open_either, kind = (open_signals, "signals") if given["signals"] else (open_source, "outcomes")
    with open_either(log, format=given["format_name"], dead_letters=given["dead_letters"]) as source:
        size = Path(log).stat().st_size if Path(log).is_file() and not log.endswith(".gz") else None
        with open_sink(topic) as sink, show_bar(kind, TimeElapsedColumn()) as update:
            send: Any = sink.send_signals if given["signals"] else sink.send_outcomes
            created = partitions is not None and sink.create(partitions)
            delivery: Any
            for delivery in source:
                records = delivery.records
                if problems := rule.check(records, []):
                    source.reject(delivery, problems)
                    records = records.take(np.delete(np.arange(len(records)), [one.record for one in problems]))
                send(records, given["shape"], given["rows"])
                count += len(records)
                if update is not None:
                    done = delivery.position.offset if size else None
                    update(description=f"{count:,} {kind}", completed=done, total=size)
        name_rejections(source.rejections, source.rejected)
    name = sink.settings.topic
    if json:
        echo_json({kind: count, "rejected": source.rejected, "topic": name, "created": created})
    else:
        new = ", which is new" if created else ""
        echo(f"sent {count:,} {kind} to topic {name}{new}; rejected {source.rejected:,} records")
    return _exit_code(count, source.rejected)
