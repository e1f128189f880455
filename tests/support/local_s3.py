"""An S3 of our own, with one bucket, on a free port."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from urllib.request import Request, urlopen

from moto.server import ThreadedMotoServer


@contextmanager
def serving_s3() -> Iterator[tuple[str, dict[str, str]]]:
    """Yield the URL of a place in the bucket, and the variables of the environment that say how it is reached."""
    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    try:
        host, port = server.get_host_and_port()
        with urlopen(Request(f"http://{host}:{port}/bucket", method="PUT")):
            pass
        yield (
            "s3://bucket/crawl",
            {
                "AWS_ACCESS_KEY_ID": "x",
                "AWS_SECRET_ACCESS_KEY": "y",
                "AWS_REGION": "us-east-1",
                "AWS_ALLOW_HTTP": "true",
                "AWS_ENDPOINT": f"http://{host}:{port}",
            },
        )
    finally:
        server.stop()
