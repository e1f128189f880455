"""`next`, `explain` and `state` on a saved state: leases, errors, and what changes nothing."""

from __future__ import annotations

import json
import shutil
from collections import Counter
from pathlib import Path

import pytest

from streamsched import (
    DurableScheduler,
    FormulaError,
    HostRule,
    InvalidOutcome,
    Politeness,
    ReplayError,
    Scheduler,
    SettingsError,
    SnapshotError,
    SourceError,
    StreamschedError,
    UnknownPage,
)
from streamsched.errors import StateInUse
from streamsched.formula import champion
from streamsched.persistence.state_directory import lock_state, newest_image
from streamsched.scheduler.settings import DEFAULT_FORMULA
from tests.support.cases import grouped
from tests.support.command_line import DAY, NOW, Answer, Command, finish, outcome, start, write

DAMAGED = ("damaged", "truncated", "version")
INFINITE = " * ".join(["t"] * 60)
URLS = {f"https://h{page % 3}.example/p{page}" for page in range(12)}


def digest(streamsched: Command, state: Path) -> str:
    answer = streamsched("state", "digest", "--state", state)
    assert answer.code == 0
    assert len(answer.out) == 65
    return answer.out.strip()


def test_leases_survive_in_the_saved_state(streamsched: Command, state: Path) -> None:
    """What was handed out is not handed out again, until the lease expires or the page's outcome comes."""
    asked = ("next", "--state", state, "-k", 5, "--lease", "1h")
    first = streamsched(*map(str, asked), "--now", str(NOW))
    second = streamsched(*map(str, asked), "--now", str(NOW + 1800))
    rest = streamsched(*map(str, asked), "--now", str(NOW + 1801))
    assert [len(answer.lines) for answer in (first, second, rest)] == [5, 5, 2]
    assert {*first.lines, *second.lines, *rest.lines} == URLS

    none = streamsched(*map(str, asked), "--now", str(NOW + 1802))
    assert (none.code, none.out, none.err) == (1, "", "")
    assert {*streamsched(*map(str, asked), "--now", str(NOW + 3600)).lines} == {*first.lines}

    page = int(second.lines[0].rpartition("/p")[2])
    source = write(state.parent / "more.jsonl", [outcome(page, 10.03)])
    assert streamsched("run", "--source", source, "--state", state).code == 0
    assert streamsched(*map(str, asked), "--now", str(NOW + 3601)).lines == [second.lines[0]]


def test_pages_come_best_first_and_as_the_library_ranks_them(streamsched: Command, state: Path) -> None:
    ranked = Scheduler.load(state).rank(7, now=NOW)
    answer = streamsched("next", "--state", state, "--now", "2025-08-22", "-k", "7", "--peek", "--scores")
    assert [line.split("\t") for line in answer.lines] == [
        [f"{score:.6g}", url] for score, url in zip(ranked.scores, ranked.urls, strict=True)
    ]


@pytest.mark.parametrize("words", [[], ["--formula", "t"], ["--per-host", "1"], ["--scores"], ["--json"]])
def test_peeking_changes_nothing(streamsched: Command, state: Path, words: list[str]) -> None:
    before = {path.name: path.read_bytes() for path in state.iterdir()}
    shown = [streamsched("next", "--state", state, "--peek", "--now", str(NOW), *words) for _ in range(2)]
    assert shown[0] == shown[1]
    assert shown[0].code == 0
    assert {path.name: path.read_bytes() for path in state.iterdir()} == before


def test_formula_and_per_host_are_for_this_once(streamsched: Command, state: Path) -> None:
    asked = ("next", "--state", str(state), "--now", str(NOW), "--lease", "1s")
    usual = streamsched(*asked, "--peek", "--scores").lines
    fresh = streamsched(*asked, "--formula", "0 - t", "--scores").lines
    assert {line.split("\t")[0] for line in fresh} == {"-5"}
    spread = streamsched(*asked, "--now", str(NOW + 1), "--per-host", "1").lines
    assert sorted(url.split("/")[2] for url in spread) == ["h0.example", "h1.example", "h2.example"]
    scheduler = Scheduler.load(state)
    assert (scheduler.formula.text, scheduler.politeness.per_batch) == (DEFAULT_FORMULA, None)
    after = streamsched(*asked, "--now", str(NOW + 2), "--peek", "--scores").lines
    assert [line.split("\t")[1] for line in after] == [line.split("\t")[1] for line in usual]


def test_a_formula_for_this_once_never_reaches_the_state(streamsched: Command, state: Path) -> None:
    """Not even for a moment: a process that is killed must not leave it behind."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(DurableScheduler, "use", _refuse)
        answer = streamsched("next", "--state", state, "--now", str(NOW), "--formula", "0 - t", "-k", "3")
    assert len(answer.lines) == 3
    after = streamsched("next", "--state", state, "--now", str(NOW + 1), "-k", "99")
    assert not set(after.lines) & set(answer.lines)


def _refuse(*_: object, **__: object) -> None:
    pytest.fail("the formula of the state was changed")


@pytest.mark.parametrize("words", [(), ("--json",), ("--formula", "0 - t")])
def test_pages_that_could_not_be_printed_are_given_back(state: Path, words: tuple[str, ...]) -> None:
    with Path("/dev/full").open("w") as full:
        process = start("next", "--state", state, "--now", str(NOW), "-k", "5", *words, stdout=full)
        assert finish(process).code == 3
    with DurableScheduler.open(state) as scheduler:
        assert len(scheduler.next_batch(99, now=NOW + 1.0)) == len(scheduler)


def test_per_host_is_a_limit_beside_those_of_the_state(streamsched: Command, state: Path) -> None:
    """It neither lifts the setting and the rules nor changes them, as with a service."""
    with DurableScheduler.open(state) as scheduler:
        scheduler.set_politeness(Politeness(per_batch=2))
        scheduler.set_rules({"h0.example": HostRule(per_batch=4)})
    asked = ("next", "--state", str(state), "--lease", "1s")

    def hosts(after_s: int, most: str) -> Counter[str]:
        answer = streamsched(*asked, "--now", str(NOW + after_s), "-k", "12", "--per-host", most)
        return Counter(url.split("/")[2] for url in answer.lines)

    assert hosts(0, "1") == {"h0.example": 1, "h1.example": 1, "h2.example": 1}
    assert hosts(2, "3") == {"h0.example": 3, "h1.example": 2, "h2.example": 2}
    assert Scheduler.load(state).politeness.per_batch == 2


def test_json_holds_the_batch(streamsched: Command, state: Path) -> None:
    batch = streamsched("next", "--state", state, "-k", "3", "--now", str(NOW), "--lease", "90s", "--json").json
    names = {"urls", "scores", "probabilities", "hosts", "reasons", "now", "lease_until", "etags", "last_modified"}
    assert set(batch) == names
    assert batch["etags"] == batch["last_modified"] == [None] * 3
    assert [len(batch[name]) for name in ("urls", "scores", "probabilities", "hosts", "reasons")] == [3] * 5
    assert set(batch["reasons"]) == {"in_batch_by_score"}
    assert batch["hosts"] == [url.split("/")[2] for url in batch["urls"]]
    assert batch["scores"] == sorted(batch["scores"], reverse=True)
    assert (batch["now"], batch["lease_until"]) == (NOW, NOW + 90)
    assert streamsched("next", "--state", state, "--peek", "--now", str(NOW), "--json").json["lease_until"] is None
    assert streamsched("next", "--state", state, "-k", "99", "--now", str(NOW + 1), "--json").code == 0
    leased = streamsched("explain", batch["urls"][0], "--state", state, "--now", str(NOW + 80), "--json").json
    assert leased["reasons"][0] == {
        "code": "leased",
        "fields": {"until_s": NOW + 90, "wait_s": 10.0},
        "text": "not eligible: leased until 2025-08-22 00:01:30 UTC, 10 s from now",
    }
    empty = streamsched("next", "--state", state, "--now", str(NOW + 2), "--json")
    assert (empty.code, empty.json["urls"]) == (1, [])


def test_scores_that_are_not_finite_are_null_in_json(streamsched: Command, state: Path) -> None:
    answer = streamsched(
        "next", "--state", state, "--peek", "--now", "9e10", "--formula", INFINITE, "-k", "2", "--json"
    )
    assert answer.json["scores"] == [None, None]
    result = streamsched("explain", "https://h0.example/p0", "--state", state, "--now", "9e10", "--json")
    assert result.json["url"] == "https://h0.example/p0"


def test_without_a_time_the_present_is_meant(streamsched: Command, state: Path) -> None:
    assert streamsched("next", "--state", state, "--peek", "--json").json["now"] > NOW


def test_hostile_urls_stay_on_their_line(streamsched: Command, tmp_path: Path) -> None:
    hostile = "https://a.example/\x1b[2J\r\nhttps://b.example/"
    source = write(tmp_path / "outcomes.jsonl", [json.dumps({"url": hostile, "fetched_at": NOW - DAY})])
    state = str(tmp_path / "state")
    assert streamsched("run", "--source", source, "--state", state, "--set", "scheduler.schemes=none").code == 0
    asked = ("--state", state, "--now", str(NOW))
    assert streamsched("next", *asked, "--peek").lines == ["https://a.example/%1B[2J%0D%0Ahttps://b.example/"]
    assert streamsched("next", *asked, "--peek", "--json").json["urls"] == [hostile]
    result = streamsched("explain", hostile, *asked)
    assert result.code == 0
    assert "\x1b" not in result.out
    assert streamsched("explain", hostile, *asked, "--json").json["url"] == hostile


@pytest.mark.parametrize(
    ("formula", "column", "reason"),
    [
        ("t * (", 6, "found the end"),
        ("", 1, "found the end"),
    ],
)
def test_formula_errors_point_at_the_column(
    streamsched: Command, state: Path, formula: str, column: int, reason: str
) -> None:
    before = digest(streamsched, state)
    answer = streamsched("next", "--state", state, "--formula", formula)
    assert (answer.code, answer.out) == (2, "")
    message, text, caret = answer.err.splitlines()
    assert message.startswith(f"streamsched: column {column}: {reason}")
    assert text == f"  {formula}"
    assert caret.index("^") == column + 1
    assert digest(streamsched, state) == before


def test_terminals_that_nothing_provides_yet_are_refused(
    streamsched: Command, state: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(champion, "PROVIDED", ("t", "worth", "gain"))
    answer = streamsched("next", "--state", state, "--formula", "t * tau")
    assert answer.code == 2
    assert "column 5: terminal 'tau'" in answer.err


def test_explain_tells_a_page_apart(streamsched: Command, state: Path) -> None:
    result = streamsched("explain", "https://h2.example/p11", "--state", state, "--now", "2025-08-22")
    assert result.code == 0
    assert result.lines[0] == "https://h2.example/p11"
    assert any(line.strip().startswith("place") and "of 12 eligible pages" in line for line in result.lines)
    as_json = streamsched("explain", "https://h2.example/p11", "--state", state, "--now", str(NOW), "--json").json
    library = Scheduler.load(state).explain("https://h2.example/p11", now=NOW).as_dict()
    assert as_json == json.loads(json.dumps(library))


def test_explain_speaks_of_the_batch_of_a_lease(streamsched: Command, tmp_path: Path) -> None:
    scheduler = Scheduler(politeness=Politeness(delay="1m"))
    scheduler.discover([f"https://a.example/{i}" for i in range(9)], now=0.0)
    scheduler.save(tmp_path)
    worst = scheduler.rank(9, now=NOW).urls[-1]
    for lease, within in (("2m", False), ("1h", True)):
        asked = ("explain", worst, "--state", tmp_path, "--now", str(NOW), "--lease", lease, "--json")
        assert streamsched(*asked).json["in_batch"] is within


def test_unknown_pages_have_a_code_of_their_own(streamsched: Command, state: Path) -> None:
    answer = streamsched("explain", "https://h0.example/none", "--state", state)
    assert (answer.code, answer.out) == (5, "")
    assert answer.err == (
        "streamsched: unknown page 'https://h0.example/none': observe an outcome of it or discover it first\n"
    )


def test_state_shows_what_it_holds(streamsched: Command, state: Path) -> None:
    shown = streamsched("state", "show", "--state", state, "--json").json
    assert (shown["pages"], shown["outcomes"], shown["formula"], shown["cycle"]) == (12, 72, DEFAULT_FORMULA, "1 d")
    assert shown["file"] == str(newest_image(state))
    assert shown["state_bytes"] > 0
    assert "bytes_a_page" not in shown  # of 12 pages it would be the size of empty tables
    ((path, position),) = shown["positions"].items()
    assert position["path"] == path
    assert position["offset"] == Path(path).stat().st_size
    text = streamsched("state", "show", "--state", state)
    assert text.code == 0
    words = [line.split(maxsplit=1) for line in text.lines]
    assert ["position", f"{path}: jsonl, read to byte {position['offset']}"] in words
    assert ["pages", "12"] in words


def test_state_verifies_and_digests(streamsched: Command, state: Path) -> None:
    assert streamsched("state", "verify", "--state", state).lines[-1].split() == ["sound", "True"]
    assert streamsched("state", "verify", "--state", state, "--json").json["sound"] is True
    as_json = streamsched("state", "digest", "--state", state, "--json").json
    assert as_json["digest"] == digest(streamsched, state) == Scheduler.load(state).digest()


@pytest.mark.parametrize("words", [["next"], ["next", "--peek"], ["state", "verify"]])  # opens, loads, checks the state
@pytest.mark.parametrize("fault", ["missing", "empty", "file", *DAMAGED])
def test_states_that_cannot_be_loaded_have_code_4(
    streamsched: Command, state: Path, words: list[str], fault: str
) -> None:
    images = {path: path.read_bytes() for path in state.glob("snapshot-*")}
    if fault in ("missing", "empty", "file"):
        shutil.rmtree(state)
    if fault == "empty":
        state.mkdir()
    elif fault == "file":
        state.write_text("not a directory")
    for path, whole in images.items():
        if fault == "damaged":
            path.write_bytes(whole[:400] + bytes([whole[400] ^ 1]) + whole[401:])
        elif fault == "truncated":
            path.write_bytes(whole[:-1])
        elif fault == "version":
            path.write_bytes(b"something else entirely")
    answer = streamsched(*words, "--state", state)
    assert (answer.code, answer.out) == (4, "")
    assert answer.err.startswith(f"streamsched: {state}")
    assert len(answer.err.splitlines()) == (len(images) if "verify" in words and fault in DAMAGED else 1)
    assert state.exists() == (fault != "missing")


@grouped(
    ("code", "error"),
    {
        2: [FormulaError("t", 1, "odd"), SettingsError("k", 0, "1 or more"), ReplayError("empty window")],
        3: [InvalidOutcome(0, "url", "", "a URL"), SourceError("a.jsonl", "no such file"), OSError(28, "full")],
        4: [SnapshotError("state", "damaged"), StateInUse("state", "in use")],
        5: [UnknownPage("https://a.example/")],
        70: [StreamschedError("of a kind not known yet"), ZeroDivisionError("a defect")],
        130: [KeyboardInterrupt()],
    },
)
def test_every_kind_of_error_has_its_code(
    streamsched: Command, state: Path, monkeypatch: pytest.MonkeyPatch, error: BaseException, code: int
) -> None:
    def fail(*_: object) -> Scheduler:
        raise error

    monkeypatch.setattr(Scheduler, "load", fail)
    answer = streamsched("state", "show", "--state", state)
    assert (answer.code, answer.out) == (code, "")
    assert ("Traceback" in answer.err) == isinstance(error, ZeroDivisionError)
    assert str(error) in answer.err


def test_a_state_that_another_process_changes_is_left_alone(streamsched: Command, state: Path) -> None:
    before = digest(streamsched, state)
    source = write(state.parent / "more.jsonl", [outcome(1, 9)])
    with lock_state(state):
        for words in (["next"], ["run", "--source", str(source)]):
            answer = streamsched(*words, "--state", state)
            assert (answer.code, answer.out) == (4, "")
            assert answer.err == (
                f"streamsched: {state}: another streamsched process is changing this state: try again when it is done\n"
            )
        with pytest.raises(StateInUse) as caught, lock_state(state):
            pass
        assert caught.value.retriable
        assert digest(streamsched, state) == before
        assert streamsched("next", "--peek", "--state", state).code == 0
        assert streamsched("explain", "https://h0.example/p0", "--state", state).code == 0
    assert streamsched("next", "--state", state).code == 0


def test_nothing_left_to_hand_out_has_a_code_of_its_own(streamsched: Command, state: Path) -> None:
    assert streamsched("next", "--state", state, "-k", "12", "--now", str(NOW)).code == 0
    before = Scheduler.load(state).digest()
    assert streamsched("next", "--state", state, "-k", "12", "--now", str(NOW)) == Answer(1, "", "")
    assert Scheduler.load(state).digest() == before
    assert streamsched("state", "verify", "--state", state).code == 0


def test_an_increment_without_the_image_before_it_is_not_sound(streamsched: Command, state: Path) -> None:
    assert streamsched("next", "--state", state, "-k", "2", "--now", str(NOW)).code == 0
    newest = newest_image(state)
    assert "+" in newest.name
    (state / f"{newest.name.partition('+')[0]}.state").unlink()  # a slow machine has saved more than one increment
    streamsched("state", "verify", "--state", state).check_refused(4, f"{newest.name.split('+')[0]}.state is missing")
