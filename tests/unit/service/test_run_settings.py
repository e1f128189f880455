"""Settings of a run: where they may stand, which of them counts, and that all which cannot work is told at once."""

from __future__ import annotations

from pathlib import Path

import pytest

from streamsched import HostRule, Politeness, Rule
from streamsched.errors import SettingsError, SettingsErrors
from streamsched.service.run_settings import KNOWN, RunSettings, read_run_settings
from streamsched.service.setting_sources import Word, Words, read_assignments, read_environment, read_toml

LEAST = {"source": Word("file:a.jsonl", "--source"), "state": Word("s", "--state")}


def read(**words: object) -> RunSettings:
    return read_run_settings(LEAST | {name.replace("__", "."): Word(value, name) for name, value in words.items()})


def refused(words: Words) -> dict[str, str]:
    with pytest.raises(SettingsErrors) as raised:
        read_run_settings(LEAST | words)
    assert all(str(error) in str(raised.value) for error in raised.value.errors)
    return {error.setting: error.expected for error in raised.value.errors}


def test_nothing_but_what_must_be() -> None:
    found = read()
    assert (found.source, found.state, found.politeness, found.rules) == ("a.jsonl", Path("s"), None, {})
    assert (found.save.every, found.batches.size, found.until_end, found.is_topic) == (30.0, 1000, False, False)


def test_numbers_and_flags_may_be_texts() -> None:
    told = {
        "scheduler.seed": "-3",
        "scheduler.panel": "0.1",
        "politeness.retire_after": "none",
        "politeness.in_flight": "8",
    }
    words = {name: Word(value, name) for name, value in told.items()}
    found = read_run_settings(LEAST | words | {"until_end": Word("True", ""), "evolve_every": Word("7", "")})
    assert found.scheduler == {"seed": -3, "panel": 0.1}
    assert found.politeness == Politeness(in_flight=8, retire_after=None)
    assert (found.until_end, found.evolve_every) == (True, 7)


def test_a_formula_stays_a_text() -> None:
    assert read(scheduler__formula="7").scheduler == {"formula": "7"}


@pytest.mark.parametrize(
    ("name", "value", "expected"),
    [
        ("source", "kafka:broker/topic", "kafka://HOST:PORT/TOPIC"),
        ("source", "", "a text"),
        ("source", 5, "a text"),
        ("format", "xml", "one of"),
        ("until_end", "perhaps", "true or false"),
        ("evolve_every", "0", "1 or more cycles"),
        ("evolve_every", "1.5", "1 or more cycles"),
        ("threads", 0, "1 to 256"),
        ("scheduler.cycle", "1ms", "seconds"),
        ("scheduler.formula", "t +", "column 4"),
        ("scheduler.objective", "speed", "changes"),
        ("scheduler.panel", 1.5, "less than 1"),
        ("politeness.delay", "soon", "a length of time"),
        ("politeness.in_flight", "many", "1 or more pages"),
        ("politeness.retire_after", 300, "1 to 255 answers"),
        ("save.every", 0, "a length of time"),
        ("save.share", 0, "above 0"),
        ("save.kept", "0", "1 or more images"),
        ("batches.to", "kafka://broker/", "kafka://HOST:PORT"),
        ("batches.size", 0, "1 or more pages"),
        ("batches.lease", "x", "a length of time"),
        ("log.level", "loud", "one of debug"),
        ("kafka.group", "crawl", "no topic"),
        ("nonsense", 1, "docs/run.md"),
        ("rules.a.example", 5, "a table"),
        ("rules.a.example", {"speed": 1}, "one of max_revisit"),
        ("rules.a.example", {"delay": "soon"}, "a length of time"),
        ("rules.a.example/x", {"delay": "2s"}, "host"),
        ("rules.http://", {"never": True}, "a host, a URL"),
    ],
)
def test_what_cannot_work_is_named_with_its_place(name: str, value: object, expected: str) -> None:
    told = refused({name: Word(value, "the place")})
    assert len(told) == 1
    ((place, why),) = told.items()
    assert place.startswith("the place")
    assert expected in why


def test_everything_is_told_at_once() -> None:
    told = refused({name: Word("?", name) for name in ("scheduler.cycle", "politeness.delay", "log.format", "odd")})
    assert set(told) == {"scheduler.cycle", "politeness.delay", "log.format", "odd"}


def test_what_is_missing_is_told() -> None:
    with pytest.raises(SettingsErrors) as raised:
        read_run_settings({})
    assert [error.setting for error in raised.value.errors] == ["--source", "--state"]


def test_what_goes_alone_may_not_go_together() -> None:
    words = {"scheduler.formula": Word("t", "F"), "scheduler.objective": Word("changes", "O")}
    assert list(refused(words)) in (["F"], ["O"])
    revisits = {"politeness.min_revisit": Word("2d", "least"), "politeness.max_revisit": Word("1d", "most")}
    assert list(refused(revisits)) == ["least"]
    assert list(refused({"politeness.backoff": Word("9d", "b")})) == ["politeness.backoff_most"]
    assert read(manners__backoff="9d", manners__backoff_most="30d").politeness == Politeness(
        backoff="9d", backoff_most="30d"
    )


def test_words_for_kafka() -> None:
    topic = {"source": Word("kafka://broker:9092/outcomes?group=a", "--source")}
    said = {
        "kafka.start": Word("latest", "s"),
        "kafka.sasl_username": Word("secret", "env"),
        "kafka.dead-letters": Word("d", ""),
    }
    found = read_run_settings(LEAST | topic | said)
    assert found.kafka == {"start": "latest", "sasl.username": "secret", "dead-letters": "d"}
    assert "secret" not in repr(found)
    told = refused(
        topic | {"kafka.start": Word("middle", "s"), "kafka.group.id": Word("x", "g"), "kafka.odd": Word(1, "o")}
    )
    assert set(told) == {"s", "g", "o"}
    assert list(refused({"source": Word("kafka://broker:9092", "--source")})) == ["--source"]
    assert list(refused({"source": Word("kafka://b:1/t?start=never", "--source")})) == ["--source: start"]


def test_rules() -> None:
    found = read_run_settings(
        LEAST
        | {
            "rules.*.slow.example": Word({"delay": "30s"}, ""),
            "rules.shop.example/cart/*": Word({"never": True}, ""),
            "rules.was.example": Word("none", ""),
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
        'source = "a"\n[kafka]\nsasl.username = "me"\n[rules."a.example"]\ndelay = "2s"\n[save]\nevery = 5\n'
    )
    words = read_toml(path)
    assert {name: word.value for name, word in words.items()} == {
        "source": "a",
        "kafka.sasl.username": "me",
        "rules.a.example": {"delay": "2s"},
        "save.every": 5,
    }
    assert words["save.every"].place == f"{path}: save.every"


@pytest.mark.parametrize("content", [b"source = ", b"\xff\xfe", None])
def test_a_file_that_is_no_toml(tmp_path: Path, content: bytes | None) -> None:
    if content is not None:
        (tmp_path / "run.toml").write_bytes(content)
    with pytest.raises(SettingsError, match="--config: expected"):
        read_toml(tmp_path / "run.toml")


def test_the_environment() -> None:
    given = {
        "STREAMSCHED_SCHEDULER_NEW_SHARE": "0.2",
        "STREAMSCHED_KAFKA_SASL_PASSWORD_FILE": "/secret",
        "STREAMSCHED_CONFIG": "run.toml",
        "STREAMSCHED_SCHEDULER_NEWSHARE": "0.3",
        "HOME": "/",
    }
    words, strange = read_environment(given, KNOWN)
    assert {name: word.value for name, word in words.items()} == {
        "scheduler.new_share": "0.2",
        "kafka.sasl_password_file": "/secret",
    }
    assert strange == ["STREAMSCHED_SCHEDULER_NEWSHARE"]
    assert len({name.replace(".", "_") for name in KNOWN}) == len(KNOWN)  # no variable means two settings


def test_assignments() -> None:
    assert read_assignments(["a.b=c=d"]) == {"a.b": Word("c=d", "--set a.b")}
    for text in ("a", "=b", ""):
        with pytest.raises(SettingsError, match="NAME=VALUE"):
            read_assignments([text])
