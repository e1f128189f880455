"""The endpoints of monitors: health, readiness, metrics, the description of the service."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from http import HTTPStatus
from typing import TYPE_CHECKING, Any

import msgspec

from streamsched.http.messages.administration import Health
from streamsched.http.protocol.media_types import JSON
from streamsched.http.protocol.problems import HttpError
from streamsched.http.protocol.requests import Answer
from streamsched.http.protocol.routes import Call, Route

if TYPE_CHECKING:
    from streamsched.http.service import Service

__all__ = ["Monitoring"]


class Monitoring:
    """Answers monitors. `describe`: returns the OpenAPI document, made when it is first asked for."""

    def __init__(self, service: Service, describe: Callable[[], dict[str, Any]]) -> None:
        from streamsched.http.prometheus_metrics import PrometheusMetrics  # noqa: PLC0415  prometheus_client is an extra

        self._service = service
        self._metrics = PrometheusMetrics(service)
        self._describe = describe

    def routes(self) -> list[Route]:
        """Return the routes of these endpoints."""
        return [
            Route("GET", "/healthz", self.health, None, Health, while_stopping=True),
            Route("GET", "/readyz", self.readiness, None, Health, while_stopping=True),
            Route("GET", "/metrics", self.metrics, "read", media_type=self._metrics.media_type, while_stopping=True),
            Route("GET", "/openapi.json", self.openapi, None, media_type=JSON),
        ]

    async def health(self, call: Call) -> Health:  # noqa: ARG002  a handler, as the others
        """Tell whether the process answers."""
        return Health(status="ok")

    async def readiness(self, call: Call) -> Health:  # noqa: ARG002
        """Tell whether requests are served: 503 if not."""
        trouble = self._service.trouble()
        if trouble is not None:
            raise HttpError(HTTPStatus.SERVICE_UNAVAILABLE, "not_ready", trouble, headers={"retry-after": "1"})
        return Health(status="ok")

    async def metrics(self, call: Call) -> Answer:  # noqa: ARG002
        """Return metrics for Prometheus."""
        return Answer(HTTPStatus.OK, self._metrics.write(), self._metrics.media_type)

    async def openapi(self, call: Call) -> Answer:  # noqa: ARG002
        """Describe the service in OpenAPI."""
        return Answer(HTTPStatus.OK, self._document, JSON)

    @cached_property
    def _document(self) -> bytes:
        return msgspec.json.encode(self._describe())
