"""The thread that takes samples of a service."""

from __future__ import annotations

import threading
from types import TracebackType
from typing import TYPE_CHECKING, Self

from streamsched.service.event_log import LOG

if TYPE_CHECKING:
    from streamsched.http.figures.service_figures import ServiceFigures

__all__ = ["Sampler"]


class Sampler:
    """Takes a sample of `figures` every ``figures.every_s`` seconds while its block runs."""

    def __init__(self, figures: ServiceFigures) -> None:
        self._figures = figures
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._work, name="streamsched figures", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._closing.set()
        self._thread.join()

    def _work(self) -> None:
        while not self._closing.wait(self._figures.every_s):
            try:
                self._figures.take()
            except Exception as error:  # noqa: BLE001  the service goes on without this sample
                LOG.error("no sample of figures", exc_info=error)
