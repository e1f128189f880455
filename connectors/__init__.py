"""Sources of crawl outcomes and of change signals: files and standard input in several formats, and Kafka topics.

::

    with open_source("outcomes.jsonl.gz") as source:
        for delivery in source:
            scheduler.observe(delivery.records)
    with open_signals("signals.jsonl") as source:
        for delivery in source:
            scheduler.notice(delivery.records)
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from streamsched.connectors.file_source import FileSource
    from streamsched.connectors.formats.microsoft import write_sample
    from streamsched.connectors.formats.writers import write_jsonl, write_msgpack
    from streamsched.connectors.kafka import KafkaSettings, KafkaSink, KafkaSource, open_kafka, open_sink
    from streamsched.connectors.opening import open_signals, open_source
    from streamsched.connectors.source import Delivery, Position, Rejection, Source
    from streamsched.frames import decode_frame, encode_frame

__all__ = [
    "Delivery",
    "FileSource",
    "KafkaSettings",
    "KafkaSink",
    "KafkaSource",
    "Position",
    "Rejection",
    "Source",
    "decode_frame",
    "encode_frame",
    "open_kafka",
    "open_signals",
    "open_sink",
    "open_source",
    "write_jsonl",
    "write_msgpack",
    "write_sample",
]

# What a name is loaded from when it is first used: a crawler that needs `crawlers` only compiles nothing.
_HOMES: Final = {
    "Delivery": "streamsched.connectors.source",
    "FileSource": "streamsched.connectors.file_source",
    "KafkaSettings": "streamsched.connectors.kafka",
    "KafkaSink": "streamsched.connectors.kafka",
    "KafkaSource": "streamsched.connectors.kafka",
    "Position": "streamsched.connectors.source",
    "Rejection": "streamsched.connectors.source",
    "Source": "streamsched.connectors.source",
    "decode_frame": "streamsched.frames",
    "encode_frame": "streamsched.frames",
    "open_kafka": "streamsched.connectors.kafka",
    "open_signals": "streamsched.connectors.opening",
    "open_sink": "streamsched.connectors.kafka",
    "open_source": "streamsched.connectors.opening",
    "write_jsonl": "streamsched.connectors.formats.writers",
    "write_msgpack": "streamsched.connectors.formats.writers",
    "write_sample": "streamsched.connectors.formats.microsoft",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value: Any = getattr(import_module(_HOMES[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
