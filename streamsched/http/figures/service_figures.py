"""Samples of what a service does, taken at regular times; the newest are kept."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from streamsched.answers import Sample
from streamsched.scheduler.monitoring.scheduler_watch import SchedulerWatch

if TYPE_CHECKING:
    from streamsched.http.scheduler_thread import SchedulerThread
    from streamsched.scheduler.durable import DurableScheduler
    from streamsched.scheduler.monitoring.reliability import Reliability
    from streamsched.scheduler.results import Observed

__all__ = ["KEPT_SAMPLES", "ServiceFigures"]

KEPT_SAMPLES: Final = 720  # an hour of them at five seconds


class ServiceFigures:
    """Samples of `scheduler`, whose requests wait in `thread`. Methods may be called from several threads.

    `wall`: the present time, UTC epoch seconds; `clock`: seconds of a clock that is never set. ``every_s``: seconds
    between two samples, as `Sampler` takes them; ``watch``: counts of what the scheduler did since the making;
    ``calibration``: the forecasts of the newest sample; ``lag``: messages of outcomes that the stream is behind, and
    ``drifted``: whether the hit rate has drifted, both set by who knows them, None if nobody does.
    """

    def __init__(
        self,
        scheduler: DurableScheduler,
        thread: SchedulerThread,
        wall: Callable[[], float],
        every_s: float,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.every_s = every_s
        self.watch = SchedulerWatch(scheduler.core)
        self.lag: int | None = None
        self.drifted: bool | None = None
        self._scheduler = scheduler
        self._thread = thread
        self._wall = wall
        self._clock = clock
        self._lock = threading.Lock()
        self._samples: deque[Sample] = deque(maxlen=KEPT_SAMPLES)
        self._sampled_at_s = clock()
        self._image, self._saved_at_s = scheduler.saved, clock()
        self.calibration: Reliability = self.watch.calibration(now=wall())
        self.take()

    @property
    def latest(self) -> Sample:
        """The newest sample."""
        return self._samples[-1]

    def since(self, at_s: float) -> list[Sample]:
        """Return the samples that are later than `at_s`, oldest first. O(samples)."""
        with self._lock:
            return [sample for sample in self._samples if sample.at_s > at_s]

    def take(self) -> Sample:
        """Take a sample, keep it and return it. O(groups), and the lock is held for milliseconds."""
        lock_wait_s = self._wait()
        now, watch = self._wall(), self.watch
        with self._scheduler.core.lock:
            self.calibration = watch.calibration(now=now)
            leased, freshness, observed = watch.leased(now=now), watch.freshness(now=now), watch.observed
            state_bytes = sum(self._scheduler.state_bytes().values())
        with self._lock:
            outcomes_per_s, hit_rate = self._compare(observed)
            sample = Sample(
                at_s=now,
                pages=len(self._scheduler),
                leased=leased,
                waiting=self._thread.length,
                lag=self.lag,
                applied=observed.applied,
                served=observed.served,
                hits=observed.hits,
                handed_out=watch.handed_out,
                outcomes_per_s=outcomes_per_s,
                hit_rate=hit_rate,
                freshness=freshness,
                calibration_error=self.calibration.error,
                image_age_s=self._find_image_age(),
                lock_wait_s=lock_wait_s,
                drifted=self.drifted,
                state_bytes=state_bytes,
            )
            self._samples.append(sample)
        return sample

    def _compare(self, observed: Observed) -> tuple[float | None, float | None]:
        """Return the outcomes a second and the hit rate since the sample before, None if there is none."""
        elapsed_s, self._sampled_at_s = self._clock() - self._sampled_at_s, self._clock()
        if not self._samples:
            return None, None
        before = self._samples[-1]
        applied, served = observed.applied - before.applied, observed.served - before.served
        rate = applied / elapsed_s if elapsed_s > 0.0 else None
        return rate, (observed.hits - before.hits) / served if served else None

    def _wait(self) -> float:
        """Return how long the scheduler's lock was waited for."""
        begun_s = self._clock()
        with self._scheduler.core.lock:
            return self._clock() - begun_s

    def _find_image_age(self) -> float:
        """Return for how long there have been changes that no image holds, as far as samples have seen."""
        now_s = self._clock()
        if self._scheduler.is_saved or self._scheduler.saved is not self._image:
            self._image, self._saved_at_s = self._scheduler.saved, now_s
        return now_s - self._saved_at_s
