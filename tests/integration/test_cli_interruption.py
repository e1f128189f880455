"""SIGINT and SIGTERM at any moment: what was read is saved, the state is whole, the code says what happened."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from importlib import import_module
from pathlib import Path
from typing import Any, Self

import pytest

from streamsched import Scheduler
from streamsched.cli import service_options
from streamsched.cli.exits import Interruption, orderly_exit
from streamsched.connectors import Delivery, Source, open_source
from streamsched.outcomes import OutcomeBatch
from streamsched.persistence.log_reader import has_calls
from tests.support.command_line import Answer, Command, crawl, finish, start, write
from tests.support.waiting import pause

LINES = crawl()
CODES = {signal.SIGINT: 130, signal.SIGTERM: 143}
DRAINED = {signal.SIGINT: 130, signal.SIGTERM: 0}

signals = pytest.mark.parametrize("number", CODES)
opening: Any = import_module("streamsched.service.setup")


class Interrupted:
    """A source that sends this process signals while its second delivery is on its way."""

    def __init__(self, source: Source[OutcomeBatch], *numbers: signal.Signals) -> None:
        self._source = source
        self._numbers = numbers

    def __iter__(self) -> Iterator[Delivery[OutcomeBatch]]:
        for place, delivery in enumerate(self._source):
            if place == 1:
                for number in self._numbers:
                    signal.raise_signal(number)
            yield delivery

    def deliveries(self, _timeout_s: float) -> Iterator[Delivery[OutcomeBatch]]:
        return iter(self)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._source.close()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._source, name)


@pytest.fixture(autouse=True)
def hear_ctrl_c() -> Iterator[None]:
    """Also where whoever runs the tests in the background has this process ignore it."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.fixture
def interrupt(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """From now on sources deliver ten records at a time, and signals come with the second ten."""

    def patch(*numbers: signal.Signals) -> None:
        def open_interrupted(path: str, _records: object, **options: Any) -> Interrupted:
            return Interrupted(open_source(path, batch=10, **options), *numbers)

        monkeypatch.setattr(opening, "open_file", open_interrupted)

    return patch


@signals
def test_of_a_file_all_that_was_delivered_is_saved_and_the_rest_read_later(
    streamsched: Command, tmp_path: Path, interrupt: Callable[..., None], number: signal.Signals
) -> None:
    source, state = write(tmp_path / "outcomes.jsonl", LINES), tmp_path / "state"
    handlers = [signal.getsignal(one) for one in CODES]
    interrupt(number)
    result = streamsched("run", "--source", source, "--state", state, "--json")
    assert (result.code, result.json["applied"]) == (DRAINED[number], 20)
    assert [signal.getsignal(one) for one in CODES] == handlers
    assert streamsched("state", "verify", "--state", state).code == 0

    interrupt()
    result = streamsched("run", "--source", source, "--state", state, "--json")
    assert (result.code, result.json["applied"], result.json["duplicates"]) == (0, len(LINES) - 20, 0)
    assert streamsched("run", "--source", source, "--state", tmp_path / "whole").code == 0
    assert Scheduler.load(state).digest() == Scheduler.load(tmp_path / "whole").digest()


@signals
def test_a_service_that_compiles_what_requests_need_has_read_nothing_yet(
    streamsched: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: signal.Signals
) -> None:
    source, state = write(tmp_path / "outcomes.jsonl", LINES), tmp_path / "state"
    monkeypatch.setattr(service_options, "warm", lambda _: signal.raise_signal(number))
    words = ("run", "--source", source, "--state", state, "--until-end", "--json")
    result = streamsched(*words, "--http", "127.0.0.1:0", "--log-level", "error")
    assert (result.code, result.err, result.json["applied"]) == (DRAINED[number], "", 0)
    assert streamsched(*words).json["applied"] == len(LINES)


@signals
def test_asked_twice_it_leaves_at_once_and_goes_on_where_the_state_stands(
    streamsched: Command, tmp_path: Path, interrupt: Callable[..., None], number: signal.Signals
) -> None:
    source, state = write(tmp_path / "outcomes.jsonl", LINES), tmp_path / "state"
    interrupt(number, number)
    answer = streamsched("run", "--source", source, "--state", state)
    assert answer == Answer(CODES[number], "", "")
    assert len(Scheduler.load(state)) == 0
    interrupt()
    assert streamsched("run", "--source", source, "--state", state).code == 0  # nothing holds the lock
    assert streamsched("run", "--source", source, "--state", tmp_path / "whole").code == 0
    assert Scheduler.load(state).digest() == Scheduler.load(tmp_path / "whole").digest()


@signals
def test_a_wait_for_input_is_broken_off(number: signal.Signals) -> None:
    """A signal while the next item is on its way ends the items at once where that may take long."""
    seen = []

    def items() -> Iterator[int]:
        yield 1
        signal.raise_signal(number)
        seen.append("waited on")
        yield 2

    with Interruption(waits=True) as interruption:
        assert list(interruption.until(items())) == [1]
    assert (seen, interruption.number) == ([], number)


@signals
def test_a_signal_between_two_items_is_not_missed(number: signal.Signals) -> None:
    for waits in (False, True):
        with Interruption(waits=waits) as interruption:
            taken = []
            for item in interruption.until(range(9)):
                taken.append(item)
                if item == 3:
                    signal.raise_signal(number)
        assert (taken, interruption.number) == ([0, 1, 2, 3], number)


def test_ignored_signals_stay_ignored() -> None:
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        with Interruption(waits=True) as interruption:
            signal.raise_signal(signal.SIGINT)
            assert list(interruption.until("ab")) == ["a", "b"]
        assert interruption.number is None
        assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGINT, before)


def test_sigterm_unwinds_any_command(streamsched: Command, state: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    left = []

    def terminated(*_: object) -> Scheduler:
        try:
            signal.raise_signal(signal.SIGTERM)
        finally:
            left.append("in good order")
        raise AssertionError("went on")

    monkeypatch.setattr(Scheduler, "load", terminated)
    answer = streamsched("next", "--state", state, "--peek")
    assert (answer, left) == (Answer(143, "", ""), ["in good order"])
    with pytest.raises(SystemExit) as leaving, orderly_exit():
        signal.raise_signal(signal.SIGTERM)
    assert leaving.value.code == 143


@signals
def test_a_pipe_that_stays_silent(tmp_path: Path, number: signal.Signals) -> None:
    """A real process that waits for its standard input and gets SIGTERM saves what it has read."""
    state = tmp_path / "state"
    process = start("run", "--source", "-", "--format", "jsonl", "--state", state, "--json")
    assert process.stdin is not None
    process.stdin.write("\n".join(LINES[:3]) + "\n")
    process.stdin.flush()
    while not has_calls(state) and process.poll() is None:
        pause()
    process.send_signal(number)
    try:
        process.wait(timeout=120)  # for a test that fails: nothing more comes, and the pipe is not closed
    finally:
        answer = finish(process)
    assert (answer.code, answer.err) == (DRAINED[number], "")
    assert answer.json["applied"] == len(Scheduler.load(state)) == 3
