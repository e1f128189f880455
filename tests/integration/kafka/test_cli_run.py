"""`streamsched run` on a topic: to its end and on and on, stopped, killed."""

from __future__ import annotations

import json
import random
import signal
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import replace
from multiprocessing.context import ForkServerContext
from pathlib import Path
from typing import Any

import msgspec
import pytest
from msgspec import structs

from streamsched import Scheduler, Signal
from streamsched.connectors import write_jsonl
from streamsched.outcomes import Outcome, OutcomeBatch
from streamsched.persistence.state_directory import newest_image
from tests.integration.kafka.broker import USER, Address
from tests.integration.kafka.proxy import Proxy
from tests.integration.kafka.topics import Topic, encode_event
from tests.support.child_processes import warm_forkserver
from tests.support.command_line import Command, crawl, finish, start, write
from tests.support.crawl_outcomes import make_outcomes
from tests.support.killed_run import kill_after

# A socket that kafka-python is connecting when it is closed is left to the garbage collector.
pytestmark = [pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning"), pytest.mark.usefixtures("collected")]

VISITS = (one for one in make_outcomes(120) if not isinstance(one.status, str))
OUTCOMES = [structs.replace(one, moved_to=None) for one in VISITS][:60]
FAST = ("--set", "save.every=20ms", "--log-format", "json")


def publish(topic: Topic, outcomes: list[Outcome], shape: str = "msgpack") -> None:
    with topic.open_sink() as sink:
        sink.send_outcomes(OutcomeBatch.from_outcomes(outcomes), shape, 7)


def stream(count: int, first: int = 0) -> list[Outcome]:
    """Visits to 40 pages on 4 hosts in turn."""
    return [
        Outcome(f"https://host{i % 4}.example/{i % 40}", 60.0 * (i + 1), changed=i % 7 < 2 and i >= 40)
        for i in range(first, first + count)
    ]


def events_of(process: subprocess.Popen[str]) -> Iterator[dict[str, Any]]:
    """Yield what `process` logs, as it does."""
    assert process.stderr is not None
    for line in process.stderr:
        if line.startswith("{"):
            yield json.loads(line)


def wait_until_saved(events: Iterator[dict[str, Any]], state: Path, applied: int) -> None:
    """Wait until a save that is on disk holds this number of outcomes."""
    for event in events:
        if event["event"] == "saved" and applied_in(state) >= applied:
            return
    raise AssertionError("it ended before")


def applied_in(state: Path) -> int:
    return int(Scheduler.load(state).core.pages.arrays.corpus["applied"][0])


@pytest.mark.parametrize("shape", ["frames", "msgpack", "json"])
def test_a_topic_to_its_end_and_on_from_there(streamsched: Command, topic: Topic, tmp_path: Path, shape: str) -> None:
    publish(topic, OUTCOMES, shape)
    topic.send([b"nonsense"], partition=1)
    words = ("run", "--source", topic.url(), "--state", tmp_path / "state", "--until-end", "--json")
    result = streamsched(*words, "--log-level", "error")
    assert (result.code, result.err) == (0, "")
    assert (result.json["applied"], result.json["rejected"], result.json["lag"]) == (60, 1, 0)
    again = streamsched(*words, "--log-level", "error").json
    assert [again[name] for name in ("applied", "duplicates", "late", "rejected")] == [0, 0, 0, 0]
    assert len(Scheduler.load(tmp_path / "state").positions) == 4
    publish(topic, [Outcome("https://a.example/new", 1.7e9)], shape)
    assert streamsched(*words, "--log-level", "error").json["applied"] == 1


def test_what_a_file_holds_leads_to_the_state_that_a_topic_leads_to(
    streamsched: Command, topic: Topic, tmp_path: Path
) -> None:
    write_jsonl([OutcomeBatch.from_outcomes(stream(500))], tmp_path / "log.jsonl")
    with topic.producing() as producer:
        for one in stream(500):
            producer.send(topic.name, encode_event(one.url, one.fetched_at, changed=one.changed), b"host", partition=2)
    words = ("--json", "--log-level", "error")
    assert streamsched("run", "--source", tmp_path / "log.jsonl", "--state", tmp_path / "a", *words).code == 0
    url = topic.url(until_end="true")
    result = streamsched("run", "--source", url, "--state", tmp_path / "b", *words).json
    assert (result["applied"], result["misplaced"]) == (500, 500)
    assert Scheduler.load(tmp_path / "a").digest() == Scheduler.load(tmp_path / "b").digest()


def test_settings_from_a_file_the_environment_and_the_command_line(
    streamsched: Command, topic: Topic, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    publish(topic, OUTCOMES)
    url, _, query = topic.url().partition("?")
    words = dict(pair.split("=") for pair in query.split("&"))
    kafka = "\n".join(f'{word} = "{value}"' for word, value in words.items() if word != "client")
    (tmp_path / "run.toml").write_text(
        f'source = "{url}"\nstate = "{tmp_path / "no"}"\n'
        f'[kafka]\n{kafka}\nuntil_end = true\n[scheduler]\ncycle = "6h"\nseed = 9\n'
        '[politeness]\ndelay = "2s"\n[rules."slow.example"]\ndelay = "1m"\n[rules."*/private/*"]\nnever = true\n'
        '[log]\nlevel = "error"\n'
    )
    monkeypatch.setenv("STREAMSCHED_KAFKA_CLIENT", topic.client)
    monkeypatch.setenv("STREAMSCHED_SCHEDULER_SEED", "11")
    monkeypatch.setenv("STREAMSCHED_STATE", str(tmp_path / "nor here"))
    result = streamsched("run", "--config", tmp_path / "run.toml", "--state", tmp_path / "state", "--json")
    assert (result.code, result.err, result.json["applied"]) == (0, "", 60)
    scheduler = Scheduler.load(tmp_path / "state")
    assert (scheduler.cycle_s, scheduler.seed, scheduler.politeness.delay) == (21_600.0, 11, 2.0)
    assert not (tmp_path / "no").exists()


def test_a_damaged_save_is_passed_over_and_what_it_held_is_read_again(
    streamsched: Command, topic: Topic, real: Address, tmp_path: Path
) -> None:
    assert real.is_real
    publish(topic, OUTCOMES)
    state = tmp_path / "state"
    words = ("run", "--source", topic.url(), "--state", state, "--until-end", "--json")
    assert streamsched(*words, "--log-level", "error").json["applied"] == 60
    newest = newest_image(state)
    raw = newest.read_bytes()
    newest.write_bytes(raw[: len(raw) // 2] + b"XXXX" + raw[len(raw) // 2 + 4 :])
    assert streamsched("state", "verify", "--state", state).code == 4
    assert streamsched(*words, "--log-level", "error").code == 0
    again = Scheduler.load(state)
    assert int(again.core.pages.arrays.corpus["applied"][0]) == 60
    assert len(again) == len({one.url for one in OUTCOMES})


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_told_to_stop_it_saves_and_says_so(topic: Topic, real: Address, tmp_path: Path, number: signal.Signals) -> None:
    assert real.is_real
    publish(topic, OUTCOMES)
    state, url = tmp_path / "state", topic.url()
    process = start("run", "--source", url, "--state", state, "--json", *FAST)
    events = events_of(process)
    wait_until_saved(events, state, 60)
    publish(topic, [Outcome("https://a.example/last", 1.7e9)])
    wait_until_saved(events, state, 61)
    process.send_signal(number)
    logged = {event["event"]: event for event in events}
    assert process.stdout is not None
    result = json.loads(process.stdout.read())
    assert finish(process).code == {signal.SIGTERM: 0, signal.SIGINT: 130}[number]
    assert logged["stopping"]["signal"] == number
    assert (result["applied"], logged["stopped"]["applied"], applied_in(state)) == (61, 61, 61)


def test_a_network_that_is_cut_is_waited_for(topic: Topic, proxy: Proxy, tmp_path: Path) -> None:
    publish(topic, OUTCOMES)
    url = topic.through(proxy.servers).url()
    process = start("run", "--source", url, "--state", tmp_path / "state", "--json", *FAST)
    events = events_of(process)
    wait_until_saved(events, tmp_path / "state", 60)
    proxy.cut()
    publish(topic, [Outcome("https://a.example/later", 1.7e9)])
    proxy.mend()
    wait_until_saved(events, tmp_path / "state", 61)
    process.send_signal(signal.SIGTERM)
    answer = finish(process)
    assert (answer.code, json.loads(answer.out)["applied"]) == (0, 61)


def test_what_to_visit_next_is_published_once(make_topic: Callable[..., Topic], real: Address, tmp_path: Path) -> None:
    assert real.is_real
    outcomes, visits = make_topic(), make_topic()
    publish(outcomes, OUTCOMES)
    known = {one.url for one in OUTCOMES}
    batches = ("--batches-to", visits.url(), "--set", "batches.size=7", "--set", "batches.every=10ms")
    words = ("--source", outcomes.url(), "--state", tmp_path / "state", "--json", *FAST, *batches)
    process = start("run", *words, "--set", "batches.lease=52w", "--log-level", "debug")
    events = events_of(process)
    sent = 0
    while sent < len(known):
        sent += next(event["pages"] for event in events if event["event"] == "batch")
    process.kill()
    finish(process)
    again = start("run", *words, "--set", "batches.lease=52w")  # all of them are leased still
    wait_until_saved(events_of(again), tmp_path / "state", 60)
    again.send_signal(signal.SIGTERM)
    result = json.loads(finish(again).out)
    pages = [json.loads(value) for _, value, _ in visits.messages()]
    assert sorted(page["url"] for page in pages) == sorted(known)
    assert all(page["host"] in page["url"] and page["lease_until_s"] > page["now"] for page in pages)
    assert result["handed_out"] == 0


def test_changes_are_written_at_least_once_in_the_order_of_each_host(
    make_topic: Callable[..., Topic], real: Address, streamsched: Command, tmp_path: Path
) -> None:
    assert real.is_real
    to, state, source = make_topic(), tmp_path / "state", tmp_path / "outcomes.jsonl"
    urls = [f"https://h{number % 4}.example/{number}" for number in range(12)]
    words = ("run", "--source", source, "--state", state, "--changes-to", to.url())

    def run(days: range) -> None:
        source.write_text(
            "".join(
                json.dumps({"url": url, "fetched_at": 1e9 + 3_600.0 * day, "changed": True}) + "\n"
                for day in days
                for url in urls
            )
        )
        assert streamsched(*words, "--from-start").code == 0

    def written() -> list[dict[str, Any]]:
        return [json.loads(value) for _, value, _ in to.messages()]

    run(range(3))
    run(range(3, 5))
    expected = [(url, 1e9 + 3_600.0 * day) for day in range(1, 5) for url in urls]
    found = [(change["url"], change["fetched_at"]) for change in written()]
    assert sorted(found) == sorted(expected)
    for host in {change["host"] for change in written()}:
        of_host = [one for one in expected if f"//{host}/" in one[0]]
        assert [one for one in found if f"//{host}/" in one[0]] == of_host
    (state / "changes-to.json").unlink()  # as a crash before it was saved
    run(range(5, 6))
    cursors = [change["cursor"] for change in written()]
    assert len(set(cursors)) == len(expected) + len(urls)
    assert len(cursors) == 2 * len(expected) + len(urls)


def test_one_table_of_settings_serves_the_source_and_the_batches(
    make_topic: Callable[..., Topic], real: Address, streamsched: Command, tmp_path: Path
) -> None:
    assert real.is_real
    outcomes, visits = make_topic(), make_topic()
    publish(outcomes, OUTCOMES)
    (tmp_path / "run.toml").write_text(
        f'source = "{outcomes.url()}"\n[batches]\nto = "{visits.url()}"\nevery = "1ms"\n'
        "[kafka]\nuntil_end = true\n"
        '"session.timeout.ms" = 6000\n"heartbeat.interval.ms" = 1000\n"max.poll.interval.ms" = 60000\n'
        '"fetch.min.bytes" = 1\n"fetch.max.wait.ms" = 100\n"fetch.max.bytes" = 1000000\n'
        '"isolation.level" = "read_committed"\n'
        '"auto.offset.reset" = "earliest"\n"linger.ms" = 3\n"compression.type" = "gzip"\n"client.id" = "crawl"\n'
    )
    words = ("run", "--config", tmp_path / "run.toml", "--json", "--log-level", "error")
    result = streamsched(*words, "--state", tmp_path / "state")
    assert (result.code, result.err, result.json["applied"]) == (0, "", 60)
    assert len(visits.messages()) == result.json["handed_out"] > 0
    streamsched(*words, "--state", tmp_path / "other", "--set", "kafka.colour.of.messages=red").check_refused(
        2, "colour.of.messages: expected"
    )


@pytest.mark.parametrize("of", ["source", "batches", "publish"])
def test_a_refused_password_ends_the_command(
    make_topic: Callable[..., Topic], real: Address, streamsched: Command, tmp_path: Path, of: str
) -> None:
    topic = make_topic()
    publish(topic, OUTCOMES)
    credentials = {
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "PLAIN",
        "sasl.username": USER,
        "ssl.ca.location": real.certificate,
        "patience": "1h",
    }
    secure = replace(topic, address=replace(real, servers=real.secure))
    for password, code, name in (("wrong", 3, "uthentication"), ("", 2, "sasl.password: expected")):
        refused = secure.url(**credentials, **{"sasl.password": password})
        words = {
            "source": ("run", "--source", refused, "--state", tmp_path / "state"),
            "batches": ("run", "--source", topic.url(), "--state", tmp_path / "state", "--batches-to", refused),
            "publish": ("publish", write(tmp_path / "log.jsonl", crawl()), "--to", refused),
        }[of]
        said = [""]
        for _ in range(3):  # the broker may close the connection before a busy client has read the refusal
            answer = streamsched(*words)
            said = [line for line in answer.err.splitlines() if line.startswith("streamsched:")]
            assert (answer.code, answer.out, len(said)) == (code, "", 1)
            if name in said[0]:
                break
        assert name in said[0]


def test_what_cannot_work_is_told_at_once(streamsched: Command, topic: Topic, tmp_path: Path) -> None:
    bad = ("--set", "kafka.start=middle", "--set", "kafka.lost=maybe", "--set", "politeness.delay=soon", "--cycle", "0")
    answer = streamsched("run", "--source", topic.url(), "--state", tmp_path / "state", *bad)
    assert (answer.code, answer.out) == (2, "")
    assert answer.err.startswith("streamsched: 4 settings have invalid values:\n")
    for name in ("kafka.start", "kafka.lost", "politeness.delay", "--cycle"):
        assert f"{name}: expected" in answer.err
    assert not (tmp_path / "state").exists()


def test_what_may_be_a_secret_is_not_shown(streamsched: Command, tmp_path: Path) -> None:
    words = ("run", "--state", tmp_path / "state", "--source")
    for url, more in (
        ("kafka://me:s3cret@broker:9092/topic", ()),
        ("kafka://broker:9092/topic?sasl.password=a&s3cret!=b", ()),
        ("kafka://broker:9092/topic", ("--set", "kafka.password=s3cret")),
    ):
        answer = streamsched(*words, url, *more)
        assert (answer.code, answer.out) == (2, "")
        assert "s3cret" not in answer.err


@pytest.fixture(scope="module")
def processes() -> Iterator[ForkServerContext]:
    with warm_forkserver("tests.support.killed_run") as context:
        yield context


@pytest.mark.cases(ordinary=1, whole=18)
def test_killed_again_and_again(
    processes: ForkServerContext, topic: Topic, real: Address, tmp_path: Path, rng: random.Random
) -> None:
    """Readers of a partition, killed at random instants while it grows: the state is that of its messages, once."""
    assert real.is_real
    kills = 5
    twin = Scheduler()
    sent = 0
    words = ["run", "--source", topic.url(), "--state", str(tmp_path / "state"), "--set", "save.every=5ms", "--json"]
    for _ in range(kills):
        more = stream(rng.randrange(1, 120), sent)
        with topic.producing() as producer:
            for one in more:
                producer.send(topic.name, encode_event(one.url, one.fetched_at, changed=one.changed), b"k", partition=0)
        twin.observe(more)
        sent += len(more)
        assert kill_after(processes, words, tmp_path / "result", 0.2 + rng.random()) is None, (
            tmp_path / "result.err"
        ).read_text()
    assert kill_after(processes, [*words, "--until-end"], tmp_path / "result", 300.0) == 0
    state = Scheduler.load(tmp_path / "state")
    assert int(state.core.pages.arrays.corpus["applied"][0]) == sent
    assert state.digest() == twin.digest()


@pytest.mark.cases(ordinary=1, whole=18)
def test_two_topics_killed_again_and_again(
    processes: ForkServerContext, make_topic: Callable[..., Topic], real: Address, tmp_path: Path, rng: random.Random
) -> None:
    """Outcomes and signals arrive in turn, the reader of both is killed at random instants: each counts once."""
    assert real.is_real
    topic, signals = make_topic(), make_topic()
    twin, sent = Scheduler(), 0
    sources = ["--source", topic.url(), "--signals", signals.url()]
    words = ["run", *sources, "--state", str(tmp_path / "state"), "--set", "save.every=5ms", "--json", "--until-end"]
    for number in range(4):
        more = stream(rng.randrange(40, 400), sent)
        sent += len(more)
        with topic.producing() as producer:
            for one in more:
                event = encode_event(one.url, one.fetched_at, changed=one.changed)
                if number % 2:
                    event = msgspec.json.encode({"url": one.url, "at": one.fetched_at, "source": "feed"})
                producer.send((signals if number % 2 else topic).name, event, b"k", partition=0)
        if number % 2:
            twin.notice([Signal(one.url, one.fetched_at, "feed") for one in more])
        else:
            twin.observe(more)
        for seconds in (0.2 + rng.random(), 0.2 + 2 * rng.random(), 300.0):
            ended = kill_after(processes, words, tmp_path / "result", seconds)
            if ended is not None:
                break
        assert ended == 0, (tmp_path / "result.err").read_text()
    assert Scheduler.load(tmp_path / "state").digest() == twin.digest()
