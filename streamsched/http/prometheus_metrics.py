"""The metrics of a service for Prometheus; docs/metrics.md lists them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import accumulate
from typing import Final

from prometheus_client import CollectorRegistry, ProcessCollector, generate_latest
from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    InfoMetricFamily,
    Metric,
)
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4
from prometheus_client.registry import Collector

from streamsched.api.views import Noticed, Observed
from streamsched.http.service import Service, ServiceState
from streamsched.http.service_figures import BOUNDS_S, Durations
from streamsched.outcomes import STATUSES

_GAUGES: Final = {  # by the field of `Sample`
    "leased": ("leased_pages", "Pages that are leased."),
    "lag": ("lag_messages", "Messages of outcomes that the stream is behind."),
    "freshness": ("freshness_ratio", "Expected share of pages whose copy is current."),
    "calibration_error": ("calibration_error_ratio", "Mean distance of predicted from found changes, per visit."),
    "image_age_s": ("image_age_seconds", "How long there have been changes that no image holds."),
    "lock_wait_s": ("lock_wait_seconds", "How long the newest sample waited for the scheduler."),
    "drifted": ("drifted", "Whether the hit rate has drifted since the last evolution: 0 or 1."),
    "state_bytes": ("state_bytes", "Memory of the state."),
    "at_s": ("sample_timestamp_seconds", "When the newest sample was taken, by the service's clock."),
}


class RequestMetrics(Collector):
    """Writes what any service counts in Prometheus's text format. ``media_type``: that of the text."""

    media_type: Final = CONTENT_TYPE_PLAIN_0_0_4

    def __init__(self, state: ServiceState) -> None:
        self._state = state
        self._registry = CollectorRegistry(auto_describe=False)
        self._registry.register(self)
        ProcessCollector(registry=self._registry)

    def write(self) -> bytes:
        """Return all metrics as text. Never waits for the scheduler."""
        return generate_latest(self._registry)

    def collect(self) -> Iterator[Metric]:
        """Yield the metrics of the service, for `prometheus_client`."""
        state = self._state
        yield _gauge("ready", "Whether requests are served: 0 or 1.", state.trouble() is None)
        yield _gauge("start_time_seconds", "When the service started, by its clock.", state.started_s)
        yield InfoMetricFamily("streamsched_build", "The version of streamsched.", {"version": state.version})
        statuses = {str(status): count for status, count in sorted(state.statuses.items())}
        yield _count("requests", "Answers, by their status.", statuses, "status")
        text = "How long requests took from their bodies' end, by operation."
        family = HistogramMetricFamily("streamsched_request_seconds", text, labels=["operation"])
        for operation, durations in sorted(state.durations.by_operation.items()):
            family.add_metric([operation], _cumulate(durations), durations.total_s)
        yield family


class PrometheusMetrics(RequestMetrics):
    """Writes the figures of `service`, too.

    Figures of a sample are those of the newest one; one that is not known has no value.
    """

    def __init__(self, service: Service) -> None:
        self._service = service
        super().__init__(service)

    def collect(self) -> Iterator[Metric]:
        """Yield the metrics of the service, for `prometheus_client`."""
        yield from self._collect_counts()
        yield from self._collect_gauges()
        yield from super().collect()

    def _collect_counts(self) -> Iterator[Metric]:
        watch = self._service.figures.watch
        observed = watch.observed
        yield _count("outcomes", "Outcomes, by their fate.", _fates(observed), "fate")
        yield _count("applied_outcomes", "Applied outcomes, by their result.", _results(observed), "result")
        yield _count("fetches", "Outcomes by the result of the fetch, duplicates included.", watch.fetches, "result")
        yield _count(
            "served_outcomes",
            "Outcomes of pages leased for their score that show whether they changed.",
            {"": observed.served},
        )
        yield _count("hits", "Served outcomes that show a change.", {"": observed.hits})
        yield _count("moved_outcomes", "Applied outcomes that name another URL.", {"": observed.moved})
        yield _count("signals", "Change signals, by their fate.", _signal_fates(watch.noticed), "fate")
        yield _count("batches", "Batches that were leased.", {"": watch.batches})
        yield _count("pages_handed_out", "Pages that were leased.", {"": watch.handed_out})

    def _collect_gauges(self) -> Iterator[Metric]:
        service, scheduler = self._service, self._service.scheduler
        figures, latest = service.figures, service.figures.latest
        yield _gauge("pages", "Known pages.", len(scheduler))
        yield _gauge("refused_pages", "Unknown pages that a bound has refused.", scheduler.refused_pages)
        yield _gauge(
            "unproven_ratio", "Share of the newest visits that say nothing about a change.", scheduler.unproven_share
        )
        yield _gauge("requests_waiting", "Requests that wait for the scheduler.", service.thread.length)
        for name, (metric, text) in _GAUGES.items():
            yield _gauge(metric, text, getattr(latest, name))
        reliability = figures.calibration
        yield _gauge("calibration_visits", "Visits that the calibration error is of.", reliability.total)
        yield _gauge("predicted_ratio", "Mean probability of a change of these pages.", reliability.mean_predicted)
        yield _gauge("observed_ratio", "Share of these visits that found a change.", reliability.share_observed)
        champion = scheduler.champion
        labels = {"formula": champion.formula.text, "origin": champion.origin, "record": str(champion.record or "")}
        yield InfoMetricFamily("streamsched_champion", "The formula in use.", labels)


def _count(name: str, text: str, counts: Mapping[str, int], label: str = "") -> Metric:
    """Return a counter; with a `label` one value for each of `counts`."""
    family = CounterMetricFamily(f"streamsched_{name}", text, labels=[label] if label else [])
    for value, count in counts.items():
        family.add_metric([value] if label else [], count)
    return family


def _gauge(name: str, text: str, value: float | None) -> Metric:
    """Return a gauge, without a value if it is None."""
    family = GaugeMetricFamily(f"streamsched_{name}", text, labels=[])
    if value is not None:
        family.add_metric([], float(value))
    return family


def _fates(observed: Observed) -> dict[str, int]:
    """Return all outcomes by fate: each has one."""
    return {name: getattr(observed, name) for name in ("applied", "duplicates", "late", "rejected", "refused")}


def _results(observed: Observed) -> dict[str, int]:
    """Return the applied outcomes by result: each has one."""
    results = {name: getattr(observed, name) for name in ("changed", "first_visits", "failures", "unproven", *STATUSES)}
    return results | {"unchanged": observed.applied - sum(results.values())}


def _signal_fates(noticed: Noticed) -> dict[str, int]:
    names = ("applied", "discovered", "repeated", "late", "refused", "rejected")
    return {name: getattr(noticed, name) for name in names}


def _cumulate(durations: Durations) -> list[tuple[str, float]]:
    """Return the cumulated counts by bound, as Prometheus's histograms have them."""
    bounds = [*map(str, BOUNDS_S), "+Inf"]
    return list(zip(bounds, accumulate(durations.counts), strict=True))
