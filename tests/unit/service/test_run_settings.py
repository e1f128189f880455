"""Settings of a run: their sources and precedence, and that all invalid ones are reported at once."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from streamsched import HostRule, Politeness, Rule
from streamsched.errors import NOTHING, SettingsError, SettingsErrors
from streamsched.evolution.plan import EvolutionPlan
from streamsched.persistence.image_writer import SavePlan
from streamsched.service.run_settings import SETTINGS, BatchPlan, ClockSettings, RunSettings
from streamsched.service.setting_sources import Given, read_assignments, read_run_settings
from tests.support.cases import grouped
from tests.support.settings_page import PAGE, settings_page

LEAST = {"source": Given("file:a.jsonl", "--source"), "state": Given("s", "--state")}


@pytest.fixture(autouse=True)
def no_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the variables of whoever runs the tests."""
    monkeypatch.delenv("STREAMSCHED_CONFIG", raising=False)


def read(options: Mapping[str, object] = {}, config: Path | None = None) -> RunSettings:
    given = {name: value if isinstance(value, Given) else Given(value, name) for name, value in options.items()}
    return read_run_settings(LEAST | given, config)[0]


def refused(options: Mapping[str, object]) -> dict[str, str]:
    with pytest.raises(SettingsErrors) as raised:
        read(options)
    assert all(str(error) in str(raised.value) for error in raised.value.errors)
    return {error.setting: error.expected for error in raised.value.errors}


def test_defaults() -> None:
    found = read()
    assert (found.source, found.state, found.until_end, found.is_topic) == ("a.jsonl", Path("s"), False, False)
    assert (found.scheduler, found.politeness, found.save, found.batches) == ({}, None, SavePlan(), BatchPlan())
    assert (found.rules, found.kafka, found.log.level, found.log.format) == ({}, {}, None, "text")


def test_numbers_and_flags_may_be_texts() -> None:
    options = {
        "scheduler.seed": "-3",
        "scheduler.panel": "0.1",
        "scheduler.signals_discover": "false",
        "politeness.retire_after": "none",
        "politeness.in_flight": "8",
        "politeness.host_backoff_503": "none",
        "politeness.retry_after_most": "2h",
        "until_end": "True",
        "evolution.every": "7",
    }
    found = read(options)
    assert found.scheduler == {"seed": -3, "panel": 0.1, "signals_discover": False}
    assert found.politeness == Politeness(in_flight=8, retire_after=None, host_backoff_503=None, retry_after_most=7_200)
    assert (found.until_end, found.evolution) == (True, EvolutionPlan(every=7))


def test_the_page_of_the_settings_is_up_to_date() -> None:
    assert PAGE.read_text() == settings_page(), "make docs"


def test_a_formula_stays_a_text() -> None:
    assert read({"scheduler.formula": "7"}).scheduler == {"formula": "7"}


@grouped(
    ("expected", "name", "value"),
    {
        "kafka://HOST:PORT/TOPIC": [("source", "kafka:broker/topic")],
        "a text": [("source", ""), ("source", 5), ("state", "")],
        "one of": [("format", "xml")],
        "true or false": [("until_end", "perhaps"), ("scheduler.signals_discover", "perhaps")],
        "a whole number from 1": [("evolution.every", "0"), ("evolution.every", "-1")],
        "a whole number": [
            *[("evolution.every", "1.5"), ("scheduler.seed", True), ("politeness.in_flight", "many")],
            *[("save.kept", "none")],
        ],
        "adwin": [("evolution.drift", "fast")],
        "a date": [("clock.start", "soon")],
        "greater than 0": [("clock.speed", "0"), ("clock.speed", "inf")],
        "0 or more messages": [("batches.behind", -1)],
        "a duration": [
            *[("batches.every", 0), ("scheduler.max_ahead", "soon"), ("politeness.delay", "soon")],
            *[("politeness.retry_after_most", "0"), ("optimiser.every", "soon"), ("save.every", 0)],
            *[("batches.lease", "x"), ("batches.lease", "367d"), ("rules.a.example", {"delay": "soon"})],
        ],
        "1 to 256": [("scheduler.threads", 0)],
        "a table": [("scheduler", 5), ("kafka", 5), ("rules", 5), ("rules.a.example", 5)],
        "seconds": [("scheduler.cycle", "1ms")],
        "a number or a text": [("scheduler.cycle", ["1d"])],
        "column 4": [("scheduler.formula", "t +")],
        "changes": [("scheduler.objective", "speed")],
        "less than 1": [("scheduler.panel", 1.5)],
        "docs/settings.md": [("scheduler.odd", 1), ("nonsense", 1), ("non.sense", 1)],
        "such as politeness.delay": [("politeness.dealy", "2s")],
        "no table 'nosuch'": [("nosuch.x", 1)],
        "1 or more pages": [("politeness.in_flight", "0"), ("batches.size", 0)],
        "1 to 255 answers": [("politeness.retire_after", 300)],
        "1 to 255 pages": [("politeness.host_backoff_503", "256")],
        "lambdacrawl": [("optimiser.policy", "none")],
        "visits a second": [("optimiser.budget", "0")],
        "1": [("optimiser.floor", "2")],
        "at most 1": [("optimiser.complete_from", "nan")],
        "HOST:PORT": [("http.address", "here")],
        "1,024 or more bytes": [("http.max_body", "10")],
        "1 or more": [("http.rate", 0)],
        "above 0": [("save.share", 0)],
        "1 or more images": [("save.kept", "0")],
        "kafka://HOST:PORT": [("batches.to", "kafka://broker/")],
        "one of debug, info, warning, error": [("log.level", "loud")],
        "without a topic": [("kafka.group", "crawl")],
        "one of max_revisit": [("rules.a.example", {"speed": 1})],
        "host": [("rules.a.example/x", {"delay": "2s"})],
        "a host, a URL": [("rules.http://", {"never": True})],
    },
)
def test_an_invalid_setting_is_named_with_its_place(name: str, value: object, expected: str) -> None:
    found = refused({name: Given(value, "the place")})
    assert len(found) == 1
    ((place, reason),) = found.items()
    assert place.startswith("the place")
    assert expected in reason


def test_everything_is_reported_at_once() -> None:
    names = {"scheduler.cycle", "scheduler.panel", "politeness.delay", "log.format", "odd", "rules.a/b"}
    assert set(refused(dict.fromkeys(names, "?"))) == names


def test_the_error_shows_what_was_given() -> None:
    with pytest.raises(SettingsError, match=r"^--set scheduler.panel: expected .* less than 1, found '7'$"):
        read({"scheduler.panel": Given("7", "--set scheduler.panel")})


def test_missing_settings_are_reported() -> None:
    with pytest.raises(SettingsErrors) as raised:
        read_run_settings({})
    assert [error.setting for error in raised.value.errors] == ["--source", "--state"]
    assert [error.found for error in raised.value.errors] == [NOTHING, NOTHING]


def test_settings_that_exclude_each_other() -> None:
    formulas = {"scheduler.formula": Given("t", "F"), "scheduler.objective": Given("changes", "O")}
    assert list(refused(formulas)) in (["F"], ["O"])
    revisits = {"politeness.min_revisit": Given("2d", "least"), "politeness.max_revisit": Given("1d", "most")}
    assert list(refused(revisits)) == ["least"]
    assert list(refused({"politeness.backoff": "9d"})) == ["politeness.backoff_most"]
    longer = {"politeness.backoff": "9d", "politeness.backoff_most": "30d"}
    assert read(longer).politeness == Politeness(backoff="9d", backoff_most="30d")


def test_what_is_read_is_not_written_to(tmp_path: Path) -> None:
    names = ("changes.to", "dead_letters", "signals.dead_letters")
    for name in names:
        assert list(refused({"signals.source": "b.jsonl", name: "x/../a.jsonl"})) == [name]
        assert list(refused({"signals.source": "b.jsonl", name: "./b.jsonl"})) == [name]
    assert list(refused({"changes.to": "c.jsonl", "dead_letters": "c.jsonl"})) == ["dead_letters"]
    read({"signals.source": "b.jsonl", "dead_letters": "d.jsonl", "signals.dead_letters": "d.jsonl"})
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    for odd in (str(tmp_path / "loop"), "a\0b", "n" * 5_000, "kafka://127.0.0.1:9/a.jsonl", "-", "\udcff"):
        assert read({"changes.to": odd}).changes.to == odd


def test_settings_of_kafka() -> None:
    topic = {"source": Given("kafka://broker:9092/outcomes?group=a", "--source")}
    found = read(topic | {"kafka.start": "latest", "kafka.sasl_username": "me", "kafka.dead-letters": "d"})
    assert found.kafka == {"start": "latest", "sasl.username": "me", "dead_letters": "d"}
    errors = refused(topic | {"kafka.start": Given("middle", "s"), "kafka.group.id": "x", "kafka.odd": Given(1, "o")})
    assert set(errors) == {"s", "kafka.group.id", "o"}
    assert list(refused({"source": Given("kafka://broker:9092", "--source")})) == ["--source"]
    assert list(refused({"source": Given("kafka://b:1/t?start=never", "--source")})) == ["--source: start"]


@pytest.mark.parametrize(
    "options",
    [
        {"source": "kafka://b:1/t?colour=red&sasl.password=hush"},
        {"source": "kafka://me:hush@b:1/t"},
        {"source": "kafka:b:1/t?sasl.password=hush"},
        {"batches.to": "kafka://b:1/t?start=never&sasl.password=hush"},
        {"kafka.sasl.password": "hush"},
        {"sasl.password": "hush"},
        {"source": "kafka://b:1/t", "kafka.password": "hush"},
        {"source": "kafka://b:1/t", "kafka.sasl.password": "hush", "save.kept": 0},
    ],
)
def test_no_error_shows_a_password(options: dict[str, object]) -> None:
    with pytest.raises(SettingsErrors) as raised:
        read(options)
    assert "hush" not in str(raised.value)
    assert raised.value.__cause__ is None
    assert "hush" not in repr(read({"source": "kafka://b:1/t", "kafka.sasl.password": "hush"}))


def test_rules() -> None:
    found = read(
        {
            "rules.*.slow.example": {"delay": "30s"},
            "rules.shop.example/cart/*": {"never": True},
            "rules.was.example": "none",
        }
    )
    assert found.rules == {
        "*.slow.example": HostRule(delay=30.0),
        "shop.example/cart/*": Rule(never=True),
        "was.example": None,
    }


def test_a_toml_file(tmp_path: Path) -> None:
    path = tmp_path / "run.toml"
    path.write_text(
        'source = "kafka://b:1/t"\n[kafka]\nsasl.username = "me"\npartitions = [0, 2]\nuntil-end = true\n'
        '[rules."a.example"]\ndelay = "2s"\n[save]\nevery = 5\n'
    )
    options = {"state": Given("s", "--state")}
    found, _ = read_run_settings(options, path)
    assert (found.source, found.kafka) == (
        "kafka://b:1/t",
        {"sasl.username": "me", "partitions": [0, 2], "until_end": True},
    )
    assert (found.rules, found.save) == ({"a.example": HostRule(delay="2s")}, SavePlan(every=5))
    path.write_text('source = "a"\n[save]\nkept = 0\n[rules."a.example"]\ndelay = "soon"\n[log]\ncolour = 1\n')
    with pytest.raises(SettingsErrors) as raised:
        read_run_settings(options, path)
    named = {f"{path}: save.kept", f"{path}: log.colour", f"{path}: rules.a.example: delay"}
    assert {error.setting for error in raised.value.errors} == named


def test_a_toml_file_may_begin_with_a_byte_order_mark(tmp_path: Path) -> None:
    path = tmp_path / "run.toml"
    path.write_text('source = "a.jsonl"\n', encoding="utf-8-sig")
    assert read_run_settings({"state": Given("s", "--state")}, path)[0].source == "a.jsonl"


@pytest.mark.parametrize("content", [b"source = ", b"\xff\xfe", None])
def test_a_file_that_is_not_toml(tmp_path: Path, content: bytes | None) -> None:
    if content is not None:
        (tmp_path / "run.toml").write_bytes(content)
    with pytest.raises(SettingsError, match="--config: expected"):
        read(config=tmp_path / "run.toml")


def test_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    variables = {
        "STREAMSCHED_SOURCE": "kafka://b:1/t",
        "STREAMSCHED_UNTIL_END": "true",
        "STREAMSCHED_SCHEDULER_NEW_SHARE": "0.2",
        "STREAMSCHED_KAFKA_SASL_PASSWORD": "1e5",
        "STREAMSCHED_KAFKA_PARTITIONS": "0,2",
        "STREAMSCHED_CONFIG": "run.toml",
        "STREAMSCHED_SCHEDULER_NEWSHARE": "0.3",
        "STREAMSCHED_SCHEDULER": "{}",
        "STREAMSCHED_RULES_A": "none",
    }
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    found, unknown = read_run_settings({"state": Given("s", "--state")})
    assert (found.source, found.until_end, found.scheduler) == ("kafka://b:1/t", True, {"new_share": 0.2})
    assert found.kafka == {"sasl.password": "1e5", "partitions": "0,2"}
    known = {"STREAMSCHED_RULES_A", "STREAMSCHED_SCHEDULER", "STREAMSCHED_SCHEDULER_NEWSHARE"}
    assert known <= set(unknown)
    assert not set(unknown) & (set(variables) - known)
    assert len({name.replace(".", "_") for name in SETTINGS}) == len(SETTINGS)  # no variable is ambiguous
    monkeypatch.setenv("STREAMSCHED_SCHEDULER_NEW_SHARE", "all")
    assert "STREAMSCHED_SCHEDULER_NEW_SHARE" in refused({"source": "kafka://b:1/t"})


def test_the_command_line_comes_first_then_the_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "run.toml"
    path.write_text(
        'source = "kafka://b:1/t"\n[save]\nkept = 1\nevery = "1m"\nshare = 0.5\n'
        '[kafka]\nsasl_username = "file"\nclient.id = "file"\nssl.ca.location = "file"\n'
    )
    monkeypatch.setenv("STREAMSCHED_SAVE_KEPT", "2")
    monkeypatch.setenv("STREAMSCHED_SAVE_EVERY", "2m")
    monkeypatch.setenv("STREAMSCHED_KAFKA_SASL_USERNAME", "environment")
    monkeypatch.setenv("STREAMSCHED_KAFKA_CLIENT_ID", "environment")
    options = {"state": "s", "save.kept": "3", "kafka.sasl.username": "option"}
    found, _ = read_run_settings({name: Given(value, name) for name, value in options.items()}, path)
    assert found.save == SavePlan(kept=3, every="2m", share=0.5)
    assert found.kafka == {"sasl.username": "option", "client.id": "environment", "ssl.ca.location": "file"}


def test_assignments() -> None:
    assert read_assignments(["a.b=c=d"]) == {"a.b": Given("c=d", "--set a.b")}
    for text in ("a", "=b", ""):
        with pytest.raises(SettingsError, match="NAME=VALUE"):
            read_assignments([text])


@pytest.mark.parametrize(
    ("source", "signals", "expected"),
    [
        ("a.jsonl", "file:a.jsonl", "another source than that of the outcomes"),
        ("a.jsonl", "kafka:b", "file:PATH, PATH, - for standard input, or kafka://HOST:PORT/TOPIC"),
        ("kafka://h:9/t", "kafka://other:9/t", "another topic than that of the outcomes, by its name"),
        ("kafka://h:9/t", "-", "no standard input beside a topic, which cannot wait for it"),
        ("-", "kafka://h:9/t", "no standard input beside a topic, which cannot wait for it"),
    ],
)
def test_signals_that_cannot_be_read_beside_the_outcomes(source: str, signals: str, expected: str) -> None:
    assert refused({"source": source, "signals.source": signals}) == {"signals.source": expected}


def test_signals() -> None:
    found = read({"signals.source": "file:s.jsonl", "signals.format": "jsonl"}).signals
    assert (found.source, found.format, found.dead_letters) == ("s.jsonl", "jsonl", None)
    assert refused({"signals.source": "s", "signals.format": "changes"}) == {"signals.format": "one of jsonl, msgpack"}
    assert list(refused({"signals.format": "jsonl"})) == ["signals.source"]
    assert read({"signals.source": "kafka://h:9/s", "kafka.client": "confluent"}).kafka == {"client": "confluent"}


def test_the_clock_starts_at_a_date(tmp_path: Path) -> None:
    path = tmp_path / "run.toml"
    path.write_text("[clock]\nstart = 2025-08-22\nspeed = 60\n")
    assert read(config=path).clock == ClockSettings(start=1_755_820_800.0, speed=60)
    assert read({"clock.start": "2025-08-22T12:00:00+02:00"}).clock.start == 1_755_856_800.0
