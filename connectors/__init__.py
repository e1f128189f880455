"""Sources of crawl outcomes: files and standard input in several formats, and Kafka topics.

::

    with open_source("outcomes.jsonl.gz") as source:
        for delivery in source:
            scheduler.observe(delivery.outcomes)
"""

from streamsched.connectors.files import FileSource
from streamsched.connectors.frames import decode_frame, encode_frame
from streamsched.connectors.kafka import KafkaSettings, KafkaSink, KafkaSource, open_kafka, open_sink
from streamsched.connectors.microsoft import write_sample
from streamsched.connectors.opening import open_source
from streamsched.connectors.source import Delivery, Position, Rejection, Source
from streamsched.connectors.writers import write_jsonl, write_msgpack

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
    "open_sink",
    "open_source",
    "write_jsonl",
    "write_msgpack",
    "write_sample",
]
