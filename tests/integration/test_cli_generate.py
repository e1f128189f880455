"""`generate`: a log that `replay` reads, the same for a seed, and what it refuses."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from streamsched.replay import SyntheticSettings, read_truth
from tests.support.command_line import Command, files

SMALL = ("--pages", "200", "--days", "9")


def test_a_generated_log_can_be_replayed(streamsched: Command, tmp_path: Path) -> None:
    out = tmp_path / "new" / "log.tsv.gz"
    answer = streamsched("generate", out, *SMALL)
    assert (answer.code, answer.err) == (0, "")
    log = read_truth(out)
    assert answer.out == f"wrote 200 pages and {log.times_s.size - 200:,} changes of theirs in 9 days to {out}\n"
    content = streamsched("replay", out, "--policy", "nad", "--json", "-").json
    assert (content["pages"], content["cycles"], content["rejected"]) == (200, 9, 0)
    assert content["policies"]["nad"]["figures"]["change_rate"]["value"] > 0.3
    assert files(out.parent) == ["log.tsv.gz"]


def test_pages_that_never_change_have_no_changes(streamsched: Command, tmp_path: Path) -> None:
    answer = streamsched("generate", tmp_path / "log.tsv", *SMALL, "--kinds", "dead=1")
    assert answer.out == f"wrote 200 pages and 0 changes of theirs in 9 days to {tmp_path / 'log.tsv'}\n"


def test_every_option_reaches_the_corpus(streamsched: Command, tmp_path: Path) -> None:
    """In Tokyo's zone, office hours of 8 to 19 are 23 to 10 in UTC; a bulk edit comes at any time."""
    words = "--from 2026-03-02 --zone 9 --kinds weekday=0.5,dead=0.5 --pages 400 --days 5"
    plain, edited = tmp_path / "plain.tsv", tmp_path / "edited.tsv"
    assert streamsched("generate", plain, *shlex.split(words)).code == 0
    assert streamsched("generate", edited, *shlex.split(words), "--bulk-edits", "2").code == 0
    assert streamsched("generate", tmp_path / "other.tsv", *shlex.split(words), "--seed", "4").code == 0
    assert plain.read_bytes() != (tmp_path / "other.tsv").read_bytes()
    log, more = read_truth(plain), read_truth(edited)
    assert (log.first_s, log.last_s) == (1_772_409_600.0, 1_772_409_600.0 + 5 * 86_400)
    counts = (log.offsets[1:] - log.offsets[:-1]) - 1
    assert 100 < (counts == 0).sum() < 300
    hours = (log.times_s[(log.times_s > log.first_s) & (log.times_s < log.last_s)] + 9 * 3600) % 86_400 / 3600
    assert ((hours >= 8) & (hours < 19)).mean() > 0.7
    assert more.times_s.size > 2 * log.times_s.size


def test_a_file_that_is_there_is_not_overwritten_unasked(streamsched: Command, tmp_path: Path) -> None:
    out = tmp_path / "log.tsv"
    out.write_text("dear\n")
    streamsched("generate", out, *SMALL).check_refused(
        2, "OUT: expected the name of a file that does not exist, or --force, found"
    )
    assert out.read_text() == "dear\n"
    assert streamsched("generate", out, *SMALL, "--force").code == 0
    assert len(read_truth(out).urls) == 200


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        ("log.csv", "OUT: expected a name that ends in .tsv, with .gz or without, found 'log.csv'"),
        ("log.tsv --pages 0", "--pages: expected a whole number of 1 or more, found '0'"),
        ("log.tsv --seed -1", "--seed: expected a whole number of 0 or more"),
        ("log.tsv --kinds poisson", "--kinds: expected shares such as poisson=0.5,dead=0.5 of poisson, weekday,"),
        ("log.tsv --kinds undead=1", "found 'undead=1'"),
        ("log.tsv --kinds dead=2", "found 'dead=2'"),
        ("log.tsv --kinds dead=nan", "found 'dead=nan'"),
        ("log.tsv --kinds dead=0.5,dead=0.5", "found 'dead=0.5,dead=0.5'"),
        ("log.tsv --kinds dead=0.5", "expected shares that sum to 1, found 'dead=0.5'"),
        ("log.tsv --zone 15", "streamsched: --zone: expected hours from -14 to 14, found 15"),
        ("log.tsv --zone nan", "streamsched: --zone: expected hours from -14 to 14, found nan"),
        ("log.tsv --bulk-edits -1", "streamsched: --bulk-edits: expected a number of 0 or more"),
        ("log.tsv --from 0.5", "streamsched: --from: expected epoch seconds at a whole second"),
        ("log.tsv --days 99999", "streamsched: --days: expected fewer than"),
    ],
)
def test_what_cannot_work_has_code_2(
    streamsched: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: str, reason: str
) -> None:
    monkeypatch.chdir(tmp_path)
    streamsched("generate", *shlex.split(words)).check_refused(2, reason)
    assert files(tmp_path) == []


def test_a_place_that_cannot_be_written_has_code_3(streamsched: Command, tmp_path: Path) -> None:
    (tmp_path / "log.tsv").mkdir()
    streamsched("generate", tmp_path / "log.tsv", *SMALL).check_refused(3, "cannot be written")


def test_help_states_the_defaults(streamsched: Command) -> None:
    shown = " ".join(streamsched("generate", "--help").out.split())
    settings = SyntheticSettings()
    assert f"poisson={settings.poisson:g},weekday={settings.weekday:g}" in shown
    assert re.search(r"First day\. +\[default: \(2012-09-17\)\]", shown)
    assert f"Number of pages. [default: {settings.pages}]" in shown
