"""When a call is tried again, and how long it waits before that. Reads no clock and does not sleep."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from streamsched.client.calls import Call
from streamsched.client.replies import Failure
from streamsched.errors import ServiceUnavailable, SettingsError

_MOST_DOUBLINGS: Final = 60
_LEAST_SILENCE_S: Final = 1e-3  # a socket takes a timeout of 0 for none


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryPolicy:
    """How long a client waits before it tries a call again, in seconds.

    The wait after the i-th failure is random, from 0 to ``first_s * 2**(i - 1)``, at most ``most_s``, so that clients
    that failed together do not come back together. A longer Retry-After of the service comes before. ``attempt_s``:
    the longest silence of the service within one attempt; ``attempts``: the most attempts of a call, None for any
    number within its time.

    Raises SettingsError if a value is invalid.

    >>> RetryPolicy(first_s=0.5).bound_s(3)
    2.0
    """

    first_s: float = 0.1
    most_s: float = 5.0
    attempt_s: float = 10.0
    attempts: int | None = None

    def __post_init__(self) -> None:
        for name in ("first_s", "most_s", "attempt_s"):
            check_seconds(name, getattr(self, name))
        if self.attempts is not None and (type(self.attempts) is not int or self.attempts < 1):
            raise SettingsError("attempts", self.attempts, "1 or more attempts, or None for any number")

    def bound_s(self, failures: int) -> float:
        """Return the longest wait after that many failures."""
        return float(min(self.most_s, self.first_s * 2.0 ** min(failures - 1, _MOST_DOUBLINGS)))


class Attempts:
    """The attempts of one call within `timeout_s` seconds.

    `clock`: seconds of a clock that is never set; `draw`: a random number from 0 to its argument.
    """

    def __init__(
        self,
        call: Call[Any],
        policy: RetryPolicy,
        timeout_s: float,
        clock: Callable[[], float],
        draw: Callable[[float], float] = lambda bound: random.uniform(0.0, bound),
    ) -> None:
        self._call = call
        self._policy = policy
        self._timeout_s = timeout_s
        self._clock = clock
        self._draw = draw
        self._until_s = clock() + timeout_s
        self._failures = 0

    @property
    def left_s(self) -> float:
        """The seconds that are left for the call."""
        return self._until_s - self._clock()

    def silence_s(self) -> float:
        """Return the longest silence of the service that the next attempt may bear.

        A call that cannot be repeated has one attempt, which gets all the time there is.
        """
        attempt_s = self._policy.attempt_s + self._call.wait_s
        most_s = min(attempt_s, self.left_s) if self._call.operation.is_repeatable else self.left_s
        return max(most_s, _LEAST_SILENCE_S)

    def wait_s(self, failure: Failure) -> float:
        """Return the seconds to wait before the next attempt. Raises the error of `failure` if there is none."""
        self._failures += 1
        if not failure.may_retry(self._call.operation.is_repeatable) or self._failures == self._policy.attempts:
            raise failure.error from failure.error.__cause__
        wait_s = failure.retry_after_s + self._draw(self._policy.bound_s(self._failures))
        if wait_s >= self.left_s:
            raise self._describe_timeout(failure) from failure.error.__cause__
        return wait_s

    def _describe_timeout(self, failure: Failure) -> ServiceUnavailable:
        error = failure.error
        tries = "1 attempt" if self._failures == 1 else f"{self._failures} attempts"
        wait = f"; it asks to wait {failure.retry_after_s:g} s" if failure.retry_after_s else ""
        reason = f"{error.reason}{wait} (after {tries} in {self._timeout_s:g} s)"
        return ServiceUnavailable(error.request, reason, error.status, error.code)


def check_seconds(name: str, value: object) -> float:
    """Return `value` as a float. Raises SettingsError unless it is a positive, finite number."""
    if isinstance(value, int | float) and not isinstance(value, bool) and 0.0 < value < float("inf"):
        return float(value)
    raise SettingsError(name, value, "a positive number of seconds")
