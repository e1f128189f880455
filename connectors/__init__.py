"""Sources of crawl outcomes and of change signals: files and standard input in several formats, and Kafka topics.

::

    with open_source("outcomes.jsonl.gz") as source:
        for delivery in source:
            scheduler.observe(delivery.records)
    with open_signals("signals.jsonl") as source:
        for delivery in source:
            scheduler.notice(delivery.records)
"""

from streamsched.connectors.file_source import FileSource
from streamsched.connectors.formats.microsoft import write_sample
from streamsched.connectors.formats.writers import write_jsonl, write_msgpack
from streamsched.connectors.kafka import KafkaSettings, KafkaSink, KafkaSource, open_kafka, open_sink
from streamsched.connectors.open_source import open_signals, open_source
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
