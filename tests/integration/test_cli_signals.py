"""`signals`: the sources of a saved state; `replay --signals`: simulated ones, and what is learned of them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from streamsched import Scheduler, SignalBatch
from streamsched.replay import read_truth
from tests.support.command_line import NOW, Command, change_log

SOURCE = "kind=feed,share=.6,recall=.7,precision=.7,late=6h"
TWIN = "default without signals"


@pytest.fixture
def noticed(state: Path) -> Path:
    """The state after signals of two kinds about pages of two hosts."""
    scheduler = Scheduler.load(state)
    urls = ["https://a.example/1", "https://a.example/2", "https://b.example/1"]
    scheduler.discover(urls, now=NOW - 60.0)
    scheduler.notice(SignalBatch(urls, [NOW - 30.0, NOW - 20.0, NOW - 10.0], ["sitemap", "sitemap", "feed"]))
    scheduler.save(state)
    return state


def test_sources_are_listed_by_kind_and_host(streamsched: Command, noticed: Path) -> None:
    answer = streamsched("signals", "--state", noticed)
    assert (answer.code, answer.err) == (0, "")
    rows = [[cell.strip() for cell in line.split("  ") if cell.strip()] for line in answer.lines]
    assert rows[0] == ["source", "host", "signals", "pages", "precision", "recall", "lateness"]
    assert [row[:4] for row in rows[1:]] == [
        ["sitemap", "all hosts", "2", "2"],
        ["sitemap", "a.example", "2", "2"],
        ["feed", "all hosts", "1", "1"],
        ["feed", "b.example", "1", "1"],
    ]
    assert [row[4:6] for row in rows[1:]] == [["–", "–"]] * 4


def test_sources_of_one_host_as_json(streamsched: Command, noticed: Path) -> None:
    answer = streamsched("signals", "--state", noticed, "--host", "a.example", "--json")
    (source,) = answer.json
    assert (answer.code, source["kind"], source["host"], source["signals"]) == (0, "sitemap", "a.example", 2)
    assert source["precision"] is source["recall"] is None
    none = streamsched("signals", "--state", noticed, "--host", "c.example")
    assert (none.code, none.err) == (1, "streamsched: no signal has been noticed yet of c.example\n")


def test_a_state_without_signals(streamsched: Command, state: Path) -> None:
    answer = streamsched("signals", "--state", state)
    assert (answer.code, answer.out, answer.err) == (1, "", "streamsched: no signal has been noticed yet\n")
    assert streamsched("signals", "--state", state, "--json").json == []


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return change_log(tmp_path_factory.mktemp("log") / "log.tsv.gz")


def test_a_replay_shows_what_signals_bring_and_what_was_learned(
    streamsched: Command, log: Path, tmp_path: Path
) -> None:
    report = tmp_path / "report.html"
    words = ("replay", log, "--policy", "default", "--signals", SOURCE, "--signals", "flood=1d", "--calibration")
    answer = streamsched(*words, "--budget", "0.2", "--json", "-", "--report", report)
    content = answer.json
    assert (answer.code, content["against"]) == (0, TWIN)
    assert list(content["policies"]) == ["default", TWIN]
    assert content["signals"] == [
        {"kind": "feed", "share": 0.6, "start_s": 0.0, "recall": 0.7, "precision": 0.7, "late_s": 21_600.0},
        {"kind": "source-2", "share": 1.0, "start_s": 0.0, "flood_s": 86_400.0},
    ]
    feed, flood = content["policies"]["default"]["sources"]
    assert (feed["kind"], flood["kind"], flood["true"]["precision"]) == ("feed", "source-2", 0.0)
    assert 0.0 < feed["true"]["precision"] < 1.0
    assert feed["learned"]["lateness_s"] > 0.0
    assert content["policies"][TWIN]["sources"] == []
    plain = streamsched("replay", log, "--policy", "default", "--budget", "0.2", "--json", "-").json["policies"][
        "default"
    ]
    for metric in ("change_rate", "ndcg", "freshness"):  # NDCG: the same cycles have changes
        found, expected = (one["figures"][metric]["value"] for one in (content["policies"][TWIN], plain))
        assert found == pytest.approx(expected, rel=0.05)
    assert "Sources of signals" in report.read_text()
    shown = " ".join(streamsched(*words).out.split())
    assert "Signals of feed: on 60 % of the pages, recall 0.7, precision 0.7, 6 h late." in shown
    assert "Signals of source-2: all pages every 24 h, changed or not." in shown
    assert "Learned from all visits of the replay." in shown


def test_without_signals_nothing_is_announced(streamsched: Command, log: Path) -> None:
    plain = streamsched("replay", log, "--policy", "default", "--json", "-").json["policies"]["default"]
    without = streamsched("replay", log, "--policy", TWIN, "--signals", SOURCE, "--json", "-").json["policies"][TWIN]
    assert without == plain


def test_the_state_that_is_saved_has_the_sources(streamsched: Command, log: Path, tmp_path: Path) -> None:
    state = tmp_path / "state"
    answer = streamsched("replay", log, "--policy", "default", "--signals", SOURCE, "--save-state", state)
    assert answer.code == 0
    assert "state of policy default: " in answer.out
    assert {one["kind"] for one in streamsched("signals", "--state", state, "--json").json} == {"feed"}


def test_recorded_signals_are_noticed_at_their_times(streamsched: Command, log: Path, tmp_path: Path) -> None:
    """A recording of the log's own changes is as good as a perfect simulated source, from the second cycle on."""
    truth = read_truth(log)
    lines = [
        json.dumps({"url": url, "at": when, "source": "sitemap"})
        for page, url in enumerate(truth.urls)
        for when in truth.times_s[truth.offsets[page] : truth.offsets[page + 1]].tolist()
    ]
    other = json.dumps({"url": "https://elsewhere.example/", "at": NOW, "source": "sitemap"})
    file = tmp_path / "signals.jsonl"
    file.write_text("\n".join([*lines, other, "{}"]) + "\n")
    words = ("replay", log, "--policy", "default", "--budget", "0.1", "--calibration", "--json", "-", "--signals")
    recorded, simulated = streamsched(*words, file), streamsched(*words, "kind=sitemap")
    assert recorded.json["signal_files"] == [str(file)]
    assert recorded.json["rejected"] == 1
    ours, theirs = (answer.json["policies"]["default"] for answer in (recorded, simulated))
    assert ours["sources"][0]["true"] is None
    assert ours["sources"][0]["learned"] == theirs["sources"][0]["learned"]
    assert ours["figures"] == theirs["figures"]


def test_a_file_of_signals_that_is_not_there(streamsched: Command, log: Path) -> None:
    streamsched("replay", log, "--policy", "default", "--signals", "none.jsonl").check_refused(3, "none.jsonl")
