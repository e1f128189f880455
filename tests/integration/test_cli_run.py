"""`run` and `convert` on files: resuming, growing, rejecting, and what cannot be read or written."""

from __future__ import annotations

import gzip
import json
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from streamsched import Outcome, OutcomeBatch, Scheduler
from streamsched.connectors import open_source, write_msgpack
from streamsched.formula.champion import parse_provided
from tests.support.command_line import DAY, NOW, Command, change_log, crawl, files, outcome, signal, write

LINES = crawl()
COUNTS = (
    *("applied", "changed", "first_visits", "failures", "robots_denied", "not_attempted", "moved"),
    *("unproven", "duplicates", "late", "refused", "rejected", "pages"),
)


@pytest.fixture(scope="module")
def at_one_go(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The digest of the state that all of LINES lead to."""
    source = write(tmp_path_factory.mktemp("whole") / "outcomes.jsonl", LINES)
    scheduler = Scheduler(cycle="1d")
    scheduler.observe(read(source))
    return scheduler.digest()


def read(path: Path) -> list[Outcome]:
    with open_source(path) as source:
        return [outcome for delivery in source for outcome in delivery.records]


def digest(state: Path) -> str:
    return Scheduler.load(state).digest()


@contextmanager
def without_rights(*folders: Path) -> Iterator[None]:
    """In this block the process is a user's who may read `folders` but not write them, also where tests run as root."""
    for folder in folders:
        folder.chmod(0o555)
    user = os.geteuid()
    if user == 0:
        os.seteuid(65534)
    try:
        yield
    finally:
        os.seteuid(user)
        for folder in folders:
            folder.chmod(0o755)


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """A folder that every user can reach; pytest's own are for the one who runs it."""
    with TemporaryDirectory() as name:
        Path(name).chmod(0o755)
        yield Path(name)


def test_counts_are_told_in_words_and_in_json(streamsched: Command, tmp_path: Path) -> None:
    lines = [outcome(0, 0), outcome(0, 1, changed=True), outcome(0, 1), outcome(0, 0.5), outcome(1, 1, status=503), "{"]
    lines += [outcome(0, 2, status="robots_denied"), outcome(1, 2, status="not_attempted")]
    lines += [outcome(1, 3, status=301, moved_to="https://moved.example/"), outcome(1, 4, status="denied")]
    source = write(tmp_path / "outcomes.jsonl", lines)
    answer = streamsched("run", "--source", source, "--state", tmp_path / "a", "--json")
    assert answer.code == 0
    assert [answer.json[name] for name in COUNTS] == [6, 1, 2, 1, 1, 1, 1, 0, 1, 1, 0, 2, 3]
    assert streamsched("state", "show", "--state", tmp_path / "a", "--json").json["robots_denied"] == 1
    assert answer.json["state"] == str(tmp_path / "a" / "snapshot-00000002.state")
    text = streamsched("run", "--source", f"file:{source}", "--state", tmp_path / "b", "--until-end")
    assert dict(line.split(None, 1) for line in text.lines[:-1]) == {name: str(answer.json[name]) for name in COUNTS}
    assert digest(tmp_path / "a") == digest(tmp_path / "b")


@pytest.mark.parametrize("name", ["outcomes.jsonl", "outcomes.jsonl.gz"])
def test_a_growing_file_is_read_on_where_it_was_left(
    streamsched: Command, tmp_path: Path, at_one_go: str, name: str
) -> None:
    source, state, applied = tmp_path / name, tmp_path / "state", []
    for start, end in ((0, 1), (1, 30), (30, 30), (30, len(LINES))):
        write(source, LINES[start:end], append=True)
        result = streamsched("run", "--source", source, "--state", state, "--json").json
        assert result["duplicates"] == 0
        applied.append(result["applied"])
    assert applied == [1, 29, 0, len(LINES) - 30]
    assert digest(state) == at_one_go


def test_a_line_that_is_still_being_written_is_read_when_it_is_whole(
    streamsched: Command, tmp_path: Path, at_one_go: str
) -> None:
    """Cut anywhere, the file leads to the same state; a line without its end counts as rejected until it has it."""
    source, state = tmp_path / "outcomes.jsonl", tmp_path / "state"
    whole = write(source, LINES).read_bytes()
    for cut in range(0, len(whole), 1777):
        source.write_bytes(whole[:cut])
        assert streamsched("run", "--source", source, "--state", state).code == 0
    source.write_bytes(whole)
    assert streamsched("run", "--source", source, "--state", state, "--json").json["rejected"] == 0
    assert digest(state) == at_one_go


def test_saving_often_and_relative_names_make_no_difference(
    streamsched: Command, tmp_path: Path, at_one_go: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = write(tmp_path / "outcomes.jsonl", LINES)
    monkeypatch.chdir(tmp_path)
    result = streamsched("run", "--source", "outcomes.jsonl", "--state", "state", "--save-every", "1ms", "--json").json
    assert result["state"] > "state/snapshot-00000001.state"
    assert streamsched("run", "--source", source, "--state", tmp_path / "state", "--json").json["applied"] == 0
    assert digest(tmp_path / "state") == at_one_go


def test_reading_from_the_start_changes_nothing_that_is_known(
    streamsched: Command, tmp_path: Path, at_one_go: str
) -> None:
    source = write(tmp_path / "outcomes.jsonl", LINES)
    assert streamsched("run", "--source", source, "--state", tmp_path / "state").code == 0
    result = streamsched("run", "--source", source, "--state", tmp_path / "state", "--from-start", "--json").json
    assert (result["applied"], result["duplicates"] + result["late"]) == (0, len(LINES))
    assert digest(tmp_path / "state") == at_one_go


def test_a_file_that_was_replaced_is_told_and_can_be_read_anew(streamsched: Command, tmp_path: Path) -> None:
    source, state = write(tmp_path / "outcomes.jsonl", LINES[:10]), tmp_path / "state"
    assert streamsched("run", "--source", source, "--state", state).code == 0
    before = digest(state)
    write(source, LINES[10:12])
    answer = streamsched("run", "--source", source, "--state", state)
    assert (answer.code, answer.out) == (3, "")
    assert "lies beyond the end" in answer.err
    assert answer.err.endswith("--from-start reads the file again\n")
    assert digest(state) == before
    assert streamsched("run", "--source", source, "--state", state, "--from-start", "--json").json["applied"] == 2
    write(source, LINES[12:14], append=True)
    assert streamsched("run", "--source", source, "--state", state, "--json").json["applied"] == 2


def test_every_format_and_several_files_feed_one_state(streamsched: Command, tmp_path: Path, at_one_go: str) -> None:
    sources = [write(tmp_path / "a.jsonl", LINES[:20]), write(tmp_path / "b", LINES[20:40]), tmp_path / "c.msgpack.gz"]
    write_msgpack([OutcomeBatch.from_outcomes(read(write(tmp_path / "c.jsonl", LINES[40:])))], sources[2])
    for source in sources * 2:
        assert streamsched("run", "--source", source, "--state", tmp_path / "state").code == 0
    assert digest(tmp_path / "state") == at_one_go
    changes = change_log(tmp_path / "log.tsv", pages=3)
    answer = streamsched("run", "--source", changes, "--state", tmp_path / "other", "--format", "changes", "--json")
    assert answer.json["pages"] == 3


def test_rejected_records_are_named_counted_and_kept(streamsched: Command, tmp_path: Path) -> None:
    bad = ["{", '{"url": "https://a.example/"}', outcome(1, 2, status="ok"), "\x1b[2J", *["[]"] * 9]
    source = write(tmp_path / "outcomes.jsonl", [outcome(0, 1), *bad, outcome(2, 1)])
    letters = tmp_path / "bad.jsonl"
    answer = streamsched("run", "--source", source, "--state", tmp_path / "state", "--dead-letters", letters, "--json")
    assert answer.code == 0
    assert (answer.json["applied"], answer.json["rejected"]) == (2, len(bad))
    result = answer.err.splitlines()
    assert len(result) == 11
    assert result[0].startswith(f"rejected: {source}, line 2: record: ")
    assert "field: expected" not in answer.err
    assert "\x1b" not in answer.err
    assert result[-1] == f"rejected: {len(bad) - 10} more"
    kept = [json.loads(line) for line in letters.read_text().splitlines()]
    assert [letter["raw"] for letter in kept] == bad
    assert [letter["offset"] for letter in kept] == list(range(2, 2 + len(bad)))
    write(source, ["nonsense"], append=True)
    assert streamsched("run", "--source", source, "--state", tmp_path / "state", "--dead-letters", letters).code == 0
    assert len(letters.read_text().splitlines()) == len(bad) + 1


def test_pages_without_a_host_are_kept_aside_and_the_stream_goes_on(streamsched: Command, tmp_path: Path) -> None:
    wrong = ["a", "//x", "javascript:alert(1)", " https://a.example/", "ftp://a.example/"]
    bad = [json.dumps({"url": url, "fetched_at": NOW}) for url in wrong]
    bad.append(json.dumps({"url": "https://a.example/", "fetched_at": NOW, "moved_to": "/x"}))
    source = write(tmp_path / "outcomes.jsonl", [outcome(0, 1), *bad, outcome(2, 1)])
    letters = tmp_path / "bad.jsonl"
    answer = streamsched("run", "--source", source, "--state", tmp_path / "state", "--dead-letters", letters, "--json")
    assert (answer.code, answer.json["applied"], answer.json["rejected"]) == (0, 2, len(bad))
    assert "line 2: url: expected an absolute URL: https:// or http:// and a host" in answer.err.splitlines()[0]
    kept = [json.loads(line) for line in letters.read_text().splitlines()]
    assert [json.loads(letter["raw"]) for letter in kept] == [json.loads(line) for line in bad]
    assert [letter["field"] for letter in kept] == ["url"] * 5 + ["moved_to"]
    words = ("run", "--source", source, "--state", tmp_path / "any", "--json", "--set")
    assert streamsched(*words, "scheduler.schemes=any").json["rejected"] == 5
    answer = streamsched(*words, "scheduler.schemes=ftp")
    assert answer.code == 2
    assert "scheduler.schemes: expected any, as in the saved state" in answer.err


def test_a_truncated_gzip_is_read_as_far_as_it_goes(streamsched: Command, tmp_path: Path, at_one_go: str) -> None:
    source, state = write(tmp_path / "outcomes.jsonl.gz", LINES), tmp_path / "state"
    whole = source.read_bytes()
    source.write_bytes(whole[: len(whole) // 2])
    answer = streamsched("run", "--source", source, "--state", state, "--json")
    assert answer.code == 3
    assert 0 < answer.json["applied"] < len(LINES)
    assert "truncated gzip" in answer.err.splitlines()[-1]
    source.write_bytes(whole)
    assert streamsched("run", "--source", source, "--state", state).code == 0
    assert digest(state) == at_one_go


def test_an_empty_file_gives_an_empty_state(streamsched: Command, tmp_path: Path) -> None:
    source = write(tmp_path / "outcomes.jsonl", [])
    assert streamsched("run", "--source", source, "--state", tmp_path / "state").code == 0
    assert streamsched("next", "--state", tmp_path / "state").code == 1
    assert streamsched("explain", "https://a.example/", "--state", tmp_path / "state").code == 5


def test_settings_of_a_new_state(streamsched: Command, tmp_path: Path) -> None:
    source, state = write(tmp_path / "outcomes.jsonl", LINES), tmp_path / "state"
    words = ("run", "--source", source, "--state", state)
    assert streamsched(*words, "--cycle", "12h", "--formula", "X / n * t").code == 0
    scheduler = Scheduler.load(state)
    assert (scheduler.cycle_s, scheduler.formula.text) == (43_200.0, "X / n * t")
    assert streamsched(*words, "--cycle", "12h").code == 0
    assert Scheduler.load(state).formula.text == "X / n * t"
    assert streamsched(*words, "--formula", "t").code == 0
    assert Scheduler.load(state).formula.text == "t"
    assert streamsched(*words, "--objective", "balanced(0.25)").code == 0
    assert Scheduler.load(state).formula == parse_provided("balanced(0.25)")

    saved = files(state)
    answer = streamsched(*words, "--cycle", "1d")
    assert (answer.code, answer.err) == (
        2,
        "streamsched: scheduler.cycle: expected 12h, as in the saved state, found '1d'\n",
    )
    answer = streamsched(*words, "--formula", "t +")
    assert answer.code == 2
    assert "column 4" in answer.err
    assert files(state) == saved


def test_the_url_frontier_api_is_that_of_serve(streamsched: Command, tmp_path: Path) -> None:
    config = write(tmp_path / "run.toml", ["[frontier]", 'address = "127.0.0.1:0"'])
    answer = streamsched("run", "--source", config, "--state", tmp_path / "state", "--config", config)
    assert (answer.code, answer.err.split(" ")[1]) == (2, "frontier.address:")
    assert not (tmp_path / "state").exists()


@pytest.mark.parametrize(
    ("words", "more"),
    [
        (["--source", "kafka://b:1/t?group=crawl"], {}),
        (["--source", "kafka://b:1/t", "--set", "kafka.group=crawl"], {}),
        (["--source", "kafka://b:1/t"], {"STREAMSCHED_KAFKA_GROUP": "crawl"}),
        (["--source", "kafka://b:1/t", "--signals", "kafka://b:1/s?group=crawl"], {}),
    ],
)
def test_a_group_is_that_of_a_cluster(
    streamsched: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: list[str], more: dict[str, str]
) -> None:
    for name, value in more.items():
        monkeypatch.setenv(name, value)
    answer = streamsched("run", *words, "--state", tmp_path / "state")
    assert (answer.code, answer.err.split(" ")[1]) == (2, "group:")
    assert "streamsched cluster host" in answer.err
    assert not (tmp_path / "state").exists()


@pytest.mark.parametrize(
    ("source", "reason"),
    [("missing.jsonl", "no such file"), (".", "is a directory"), ("odd.bin", "format not recognised")],
)
def test_sources_that_cannot_be_read_have_code_3_and_leave_no_state(
    streamsched: Command, tmp_path: Path, source: str, reason: str
) -> None:
    (tmp_path / "odd.bin").write_bytes(b"\xff\xfe\x00 nothing known")
    for answer in (
        streamsched("run", "--source", tmp_path / source, "--state", tmp_path / "state"),
        streamsched("convert", tmp_path / source, tmp_path / "out.jsonl"),
        streamsched("replay", tmp_path / source),
    ):
        assert (answer.code, answer.out) == (3, "")
        assert answer.err.startswith(f"streamsched: {tmp_path / source}")
        assert reason in answer.err
    assert files(tmp_path / "state") == []
    assert not (tmp_path / "out.jsonl").exists()


def test_what_another_user_owns_is_told_by_its_code(streamsched: Command, open_folder: Path) -> None:
    """Files that may not be read: 3; directories that may not be written: 4 for states, 3 for other files."""
    source, state = write(open_folder / "outcomes.jsonl", LINES), open_folder / "state"
    assert streamsched("run", "--source", source, "--state", state).code == 0
    peek, result = ("next", "--state", state, "--peek"), ("explain", "https://h0.example/p0", "--state", state)
    assert streamsched(*peek).code == streamsched(*result).code == 0  # all kernels are at hand from now on
    assert streamsched("convert", source, open_folder / "out.jsonl").code == 0
    (state / ".lock").chmod(0o444)
    before = files(state)
    with without_rights(state, open_folder):
        for words in (["next"], ["run", "--source", source]):
            answer = streamsched(*words, "--state", state)
            assert (answer.code, answer.out) == (4, "")
            assert answer.err == f"streamsched: {state}: cannot be written: Permission denied\n"
        assert streamsched("run", "--source", source, "--state", open_folder / "new").code == 4
        assert streamsched(*peek).code == streamsched(*result).code == 0
        assert streamsched("convert", source, open_folder / "out.jsonl").code == 3
    assert files(state) == before
    source.chmod(0)
    with without_rights(state):
        answer = streamsched("convert", source, open_folder / "out.jsonl")
        assert (answer.code, answer.err) == (3, f"streamsched: {source}: cannot be opened: Permission denied\n")


def test_a_file_in_the_place_of_a_directory(streamsched: Command, tmp_path: Path) -> None:
    source = write(tmp_path / "outcomes.jsonl", LINES)
    for state, reason in ((source, "is a file: expected a directory"), (source / "state", "Not a directory")):
        streamsched("run", "--source", source, "--state", state).check_refused(4, reason)
    streamsched("run", "--source", source, "--state", tmp_path / "a", "--dead-letters", tmp_path).check_refused(
        3, "cannot write dead letters"
    )


def test_a_named_pipe_is_read_once_and_again(streamsched: Command, tmp_path: Path, at_one_go: str) -> None:
    """A pipe has no position to go on from: what comes out of it is new."""
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    for part in (LINES[:30], LINES[30:]):
        writer = threading.Thread(target=write, args=(pipe, part))
        writer.start()
        result = streamsched("run", "--source", pipe, "--format", "jsonl", "--state", tmp_path / "state", "--json").json
        writer.join()
        assert result["applied"] == len(part)
    assert digest(tmp_path / "state") == at_one_go
    assert Scheduler.load(tmp_path / "state").positions == {}


@pytest.mark.parametrize("name", ["dotted.name.jsonl", "out.ndjson.gz", "out.msgpack"])
def test_converted_outcomes_are_the_same(streamsched: Command, tmp_path: Path, name: str) -> None:
    lines = [outcome(0, 1, status=404), outcome(1, 1, fingerprint=2**64 - 1), outcome(2, 1, importance=0.5, cost=3)]
    source, out = write(tmp_path / "in.jsonl.gz", [*lines, "{"]), tmp_path / name
    answer = streamsched("convert", source, out)
    assert (answer.code, answer.out) == (0, f"wrote 3 outcomes to {out}; rejected 1 records\n")
    assert answer.err.startswith(f"rejected: {source}, line 4: record: ")
    assert out.read_bytes().startswith(b"\x1f\x8b") == name.endswith(".gz")
    assert read(out) == read(source)
    assert len(read(out)) == 3


def test_convert_takes_the_format_and_writes_whole_files_only(streamsched: Command, tmp_path: Path) -> None:
    changes = change_log(tmp_path / "log", pages=2, days=3).rename(tmp_path / "plain.txt")
    assert streamsched("convert", changes, tmp_path / "a.jsonl", "--format", "changes").code == 0
    assert len((tmp_path / "a.jsonl").read_text().splitlines()) == 5
    assert streamsched("convert", changes, tmp_path / "b.jsonl", "--format", "msgpack").out.startswith("wrote 0 ")
    packed = write(tmp_path / "in.jsonl.gz", LINES)
    packed.write_bytes(packed.read_bytes()[:-30])
    before = (tmp_path / "a.jsonl").read_bytes()
    streamsched("convert", packed, tmp_path / "a.jsonl").check_refused(3, "truncated gzip")
    assert (tmp_path / "a.jsonl").read_bytes() == before
    assert not list(tmp_path.glob(".*"))
    assert streamsched("convert", changes, tmp_path / "none" / "a.jsonl").code == 3


def test_one_file_may_replace_itself(streamsched: Command, tmp_path: Path) -> None:
    source = write(tmp_path / "in.jsonl", [*LINES, "nonsense"])
    assert streamsched("convert", source, source).code == 0
    assert [json.loads(line)["url"] for line in source.read_text().splitlines()] == [
        json.loads(line)["url"] for line in LINES
    ]


def test_times_far_away_are_taken_as_they_are(streamsched: Command, tmp_path: Path) -> None:
    source = write(tmp_path / "in.jsonl", [outcome(0, 0), json.dumps({"url": "https://a.example/", "fetched_at": 1})])
    assert streamsched("run", "--source", source, "--state", tmp_path / "state").code == 0
    for now in ("-9.9e10", "9.9e10", str(NOW + 1e6 * DAY), "0"):
        answer = streamsched("explain", "https://a.example/", "--state", tmp_path / "state", f"--now={now}")
        assert (answer.code, answer.err) == (0, "")
        assert gzip.compress(answer.out.encode())


def test_a_bound_refuses_pages_until_it_is_raised(streamsched: Command, tmp_path: Path) -> None:
    source, state = write(tmp_path / "outcomes.jsonl", [outcome(i, 0) for i in range(4)]), tmp_path / "state"
    arguments = ("run", "--source", source, "--state", state, "--from-start", "--json")
    first = streamsched(*arguments, "--set", "scheduler.max_pages=3").json
    assert (first["applied"], first["refused"], first["pages"]) == (3, 1, 3)
    again = streamsched(*arguments, "--set", "scheduler.max_pages=none").json
    assert (again["applied"], again["duplicates"], again["refused"], again["pages"]) == (1, 3, 0, 4)
    shown = streamsched("state", "show", "--state", state, "--json").json
    assert (shown["refused_pages"], shown["refused_patterns"]) == (1, 0)


def test_signals_beside_outcomes_end_and_resume_on_their_own(streamsched: Command, tmp_path: Path) -> None:
    source = write(tmp_path / "outcomes.jsonl", LINES[:20])
    signals = write(tmp_path / "signals.jsonl.gz", [signal(1, 0.5), signal(40, 9.0), LINES[0], signal(40, 9.1)])
    state, dead = tmp_path / "state", tmp_path / "dead"
    words = ("run", "--source", source, "--signals", signals, "--state", state, "--json")
    found = streamsched(*words, "--set", f"signals.dead_letters={dead}")
    assert (found.code, found.json["applied"], found.json["signals_applied"]) == (0, 20, 2)
    assert (found.json["rejected"], found.json["signals_rejected"]) == (0, 1)
    assert "signals.jsonl.gz, line 3: at: expected UTC epoch seconds above 0, found nothing" in found.err
    assert json.loads(dead.read_text())["raw"] == LINES[0]
    write(source, LINES[20:], append=True)
    write(signals, [signal(40, 9.1), signal(3, 9.5)], append=True)
    again = streamsched(*words).json
    assert [again[name] for name in ("applied", "signals_applied", "signals_repeated")] == [len(LINES) - 20, 1, 1]
    kinds = {Path(path).name: position["kind"] for path, position in Scheduler.load(state).positions.items()}
    assert kinds == {"outcomes.jsonl": "jsonl", "signals.jsonl.gz": "jsonl signals"}


def test_signals_need_not_discover_pages(streamsched: Command, tmp_path: Path) -> None:
    source, state = write(tmp_path / "outcomes.jsonl", LINES), tmp_path / "state"
    signals = write(tmp_path / "signals.jsonl", [signal(1, 0.5), signal(40, 9.0)])
    words = ("run", "--source", source, "--signals", signals, "--state", state, "--json", "--set")
    found = streamsched(*words, "scheduler.signals_discover=false").json
    assert [found[f"signals_{fate}"] for fate in ("applied", "discovered", "refused")] == [1, 0, 1]
    answer = streamsched(*words, "scheduler.signals_discover=true")
    assert answer.code != 0
    assert "scheduler.signals_discover" in answer.err


def test_a_file_of_signals_is_no_file_of_outcomes(streamsched: Command, tmp_path: Path) -> None:
    signals = write(tmp_path / "signals.jsonl", [signal(1, 0.5)])
    words = ("run", "--state", tmp_path / "state", "--source")
    assert streamsched(*words, write(tmp_path / "o.jsonl", LINES), "--signals", signals).code == 0
    answer = streamsched(*words, signals)
    assert answer.code == 3
    assert "belongs to" in answer.err


def test_signals_are_converted(streamsched: Command, tmp_path: Path) -> None:
    signals = write(tmp_path / "signals.jsonl", [signal(1, 0.5), signal(2, 1.0, significance=0.5)])
    answer = streamsched("convert", "--signals", signals, tmp_path / "s.msgpack")
    assert answer.out == f"wrote 2 signals to {tmp_path}/s.msgpack; rejected 0 records\n"
    assert streamsched("convert", "--signals", tmp_path / "s.msgpack", tmp_path / "t.jsonl").code == 0
    assert [json.loads(line) for line in (tmp_path / "t.jsonl").read_text().splitlines()] == [
        json.loads(line) for line in signals.read_text().splitlines()
    ]
