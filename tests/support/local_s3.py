"""An S3 of our own, with one bucket, on a free port."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final
from urllib.request import Request, urlopen

from moto.server import ThreadedMotoServer

URL: Final = "s3://bucket/crawl"


class LocalS3:
    """The server. ``environment``: how it is reached, by variables. What it stores outlives a stop."""

    def __init__(self) -> None:
        logging.getLogger("werkzeug").setLevel(logging.ERROR)
        self._port = 0
        self.start()
        with urlopen(Request(f"http://127.0.0.1:{self._port}/bucket", method="PUT")):
            pass
        self.environment = {
            "AWS_ACCESS_KEY_ID": "x",
            "AWS_SECRET_ACCESS_KEY": "y",
            "AWS_REGION": "us-east-1",
            "AWS_ALLOW_HTTP": "true",
            "AWS_ENDPOINT": f"http://127.0.0.1:{self._port}",
        }

    def start(self) -> None:
        self._server = ThreadedMotoServer(ip_address="127.0.0.1", port=self._port, verbose=False)
        self._server.start()
        _, self._port = self._server.get_host_and_port()

    def stop(self) -> None:
        self._server.stop()


@contextmanager
def serving_s3() -> Iterator[LocalS3]:
    s3 = LocalS3()
    try:
        yield s3
    finally:
        s3.stop()
