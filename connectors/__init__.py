"""Sources of crawl outcomes: files and standard input in several formats, and what a broker will have to offer.

::

    with open_source("outcomes.jsonl.gz") as source:
        for delivery in source:
            scheduler.observe(delivery.outcomes)
"""

from streamsched.connectors.files import FileSource, open_source
from streamsched.connectors.frames import decode_frame, encode_frame
from streamsched.connectors.microsoft import write_sample
from streamsched.connectors.source import Delivery, Position, Rejection, Source
from streamsched.connectors.writers import write_jsonl, write_msgpack

__all__ = [
    "Delivery",
    "FileSource",
    "Position",
    "Rejection",
    "Source",
    "decode_frame",
    "encode_frame",
    "open_source",
    "write_jsonl",
    "write_msgpack",
    "write_sample",
]
