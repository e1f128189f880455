"""The endpoint of figures: counts, calibration, and the newest samples."""

from __future__ import annotations

from typing import TYPE_CHECKING

from streamsched.answers import CalibrationView, ReliabilityBin, Stats
from streamsched.http.endpoints.reading import show_counts
from streamsched.http.messages.reading import StatsQuery
from streamsched.http.protocol.routes import Call, Route
from streamsched.scheduler.monitoring.reliability import BIN_EDGES

if TYPE_CHECKING:
    from streamsched.http.service import Service
    from streamsched.scheduler.monitoring.reliability import Reliability

__all__ = ["Figures"]


class Figures:
    """Answers who watches the service, without waiting for the scheduler."""

    def __init__(self, service: Service) -> None:
        self._service = service

    def routes(self) -> list[Route]:
        """Return the routes of these endpoints."""
        return [Route("GET", "/v1/stats", self.stats, "read", Stats, query=StatsQuery)]

    async def stats(self, call: Call) -> Stats:
        """Return figures of the service and samples of them."""
        asked: StatsQuery = call.query
        service, scheduler, figures = self._service, self._service.scheduler, self._service.figures
        return Stats(
            now=service.clock(),
            started_s=service.started_s,
            pages=len(scheduler),
            waiting=service.thread.length,
            cycle_s=scheduler.cycle_s,
            formula=scheduler.formula.text,
            refused_pages=scheduler.refused_pages,
            refused_patterns=scheduler.refused_patterns,
            requests={str(status): count for status, count in sorted(service.statuses.items())},
            outcomes=show_counts(figures.watch.observed),
            signals=show_counts(figures.watch.noticed),
            batches=figures.watch.batches,
            handed_out=figures.watch.handed_out,
            trouble=service.trouble(),
            calibration=_show_calibration(figures.calibration),
            sample_every_s=figures.every_s,
            latest=figures.latest,
            samples=figures.since(asked.since),
        )


def _show_calibration(reliability: Reliability) -> CalibrationView:
    columns = BIN_EDGES[:-1], BIN_EDGES[1:], reliability.visits, reliability.foretold, reliability.came
    rows = zip(*(column.tolist() for column in columns), strict=True)
    return CalibrationView(
        visits=reliability.total,
        error=reliability.error,
        foretold=reliability.mean_foretold,
        came=reliability.share_came,
        bins=[
            ReliabilityBin(low=low, high=high, visits=visits, foretold=foretold, came=came)
            for low, high, visits, foretold, came in rows
            if visits
        ],
    )
