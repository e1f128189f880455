"""When a call is tried again, on a clock that the tests set."""

from __future__ import annotations

from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamsched.api import operations
from streamsched.client.calls import make_call
from streamsched.client.replies import Applied, Failure
from streamsched.client.retries import Attempts, RetryPolicy
from streamsched.errors import AccessDenied, ServiceError, ServiceUnavailable, SettingsError

POLICY = RetryPolicy(first_s=1.0, most_s=8.0, attempt_s=4.0)
REPEATABLE = make_call(operations.CHAMPION)
SINGLE = make_call(operations.USE, formula="changes")


@dataclass
class Clock:
    now_s: float = 0.0

    def __call__(self) -> float:
        return self.now_s


def failure(retry_after_s: float = 0.0, *, applied: Applied = Applied.PERHAPS) -> Failure:
    return Failure(ServiceUnavailable("GET x", "busy", 503, "busy"), applied=applied, retry_after_s=retry_after_s)


def test_waits_double_up_to_a_bound() -> None:
    attempts = Attempts(REPEATABLE, POLICY, 1e6, Clock(), draw=lambda bound: bound)
    assert [attempts.wait_s(failure()) for _ in range(6)] == [1.0, 2.0, 4.0, 8.0, 8.0, 8.0]


@given(st.integers(1, 10_000))
def test_waits_are_random_within_the_bound(failures: int) -> None:
    bound_s = POLICY.bound_s(failures)
    assert 0.0 < bound_s <= POLICY.most_s
    assert 0.0 <= Attempts(REPEATABLE, POLICY, 1e6, Clock()).wait_s(failure()) <= POLICY.first_s


def test_retry_after_is_waited_for() -> None:
    attempts = Attempts(REPEATABLE, POLICY, 100.0, Clock(), draw=lambda bound: bound)
    assert attempts.wait_s(failure(30.0)) == 31.0


def test_a_wait_beyond_the_deadline_is_an_error_at_once() -> None:
    clock = Clock()
    attempts = Attempts(REPEATABLE, POLICY, 10.0, clock, draw=lambda bound: 0.0)
    attempts.wait_s(failure())
    clock.now_s = 5.0
    with pytest.raises(ServiceUnavailable) as caught:
        attempts.wait_s(failure(6.0))
    assert (caught.value.status, caught.value.code) == (503, "busy")
    assert "2 attempts" in caught.value.reason


def test_an_attempt_bears_no_longer_silence_than_is_left() -> None:
    clock = Clock()
    attempts = Attempts(REPEATABLE, POLICY, 10.0, clock)
    assert attempts.silence_s() == 4.0
    clock.now_s = 9.0
    assert attempts.silence_s() == 1.0
    clock.now_s = 11.0
    assert 0.0 < attempts.silence_s() < 0.1


def test_a_call_of_one_attempt_gets_all_the_time() -> None:
    assert Attempts(SINGLE, POLICY, 10.0, Clock()).silence_s() == 10.0


@pytest.mark.parametrize("applied", Applied)
def test_what_may_have_been_applied_is_not_repeated_unless_it_may(applied: Applied) -> None:
    assert Attempts(REPEATABLE, POLICY, 100.0, Clock()).wait_s(failure(applied=applied)) <= 1.0
    attempts = Attempts(SINGLE, POLICY, 100.0, Clock())
    if applied is Applied.NO:
        assert attempts.wait_s(failure(applied=applied)) <= 1.0
    else:
        with pytest.raises(ServiceUnavailable):
            attempts.wait_s(failure(applied=applied))


@pytest.mark.parametrize("kind", [ServiceError, AccessDenied])
def test_a_lasting_refusal_is_not_repeated(kind: type[ServiceError]) -> None:
    refusal = Failure(kind("GET x", "no"), applied=Applied.NO)
    with pytest.raises(kind):
        Attempts(REPEATABLE, POLICY, 100.0, Clock()).wait_s(refusal)


def test_the_number_of_attempts_can_be_bounded() -> None:
    attempts = Attempts(REPEATABLE, RetryPolicy(attempts=2), 100.0, Clock())
    attempts.wait_s(failure())
    with pytest.raises(ServiceUnavailable):
        attempts.wait_s(failure())


@pytest.mark.parametrize(
    ("name", "value"),
    [("first_s", 0.0), ("most_s", float("inf")), ("attempt_s", "1s"), ("attempts", 0), ("attempts", True)],
)
def test_a_wrong_setting_is_named(name: str, value: object) -> None:
    with pytest.raises(SettingsError) as caught:
        RetryPolicy(**{name: value})  # type: ignore[arg-type]
    assert caught.value.setting == name
