"""Help, usage errors and exit codes: what the command line says of itself is so."""

from __future__ import annotations

import argparse
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from streamsched.cli import exits
from streamsched.cli.arguments import duration, moment, url, whole
from streamsched.cli.main import build_parser
from streamsched.cli.output import plain
from tests.support.command_line import Command
from tests.support.paths import ROOT

COMMANDS = (
    "replay",
    "analyze",
    "evolve",
    "run",
    "next",
    "explain",
    "state",
    "generate",
    "convert",
    "publish",
    "evolutions",
    "use",
)
SLOW_TO_IMPORT = {"matplotlib", "msgpack", "msgspec", "rich", "scipy"}


def examples(text: str) -> list[list[str]]:
    """The words of each streamsched command in a help text's examples, of pipelines too."""
    lines = text.partition("examples:\n")[2].splitlines()
    found = []
    for line in lines[: lines.index("") if "" in lines else None]:
        for part in re.split(r"\|(?![^']*'$)|&&", line):
            words = shlex.split(part, comments=True)
            if words[0] == "streamsched":
                found.append(words[1:])
    return found


@pytest.mark.parametrize("command", COMMANDS)
def test_every_example_of_the_help_parses(streamsched: Command, command: str) -> None:
    shown = streamsched(command, "--help")
    assert shown.code == 0
    assert shown.err == ""
    words = examples(shown.out)
    assert len(words) >= 2
    for example in words:
        assert example[0] == command
        assert callable(build_parser(example).parse_args(example).run)


@pytest.mark.parametrize("command", COMMANDS)
def test_every_option_is_explained(command: str) -> None:
    parser = build_parser([command])
    commands = next(action for action in parser._actions if isinstance(action, argparse._SubParsersAction))
    for action in commands.choices[command]._actions:
        assert action.help or action.dest in ("url", "action"), action.dest


def test_help_names_the_commands_and_every_exit_code(streamsched: Command) -> None:
    shown = streamsched("--help")
    assert shown.code == 0
    listed = {int(code) for code in re.findall(r"^ +(\d+)  ", shown.out, re.MULTILINE)}
    assert listed == {exits.DONE, exits.NOTHING, 2, exits.UNREADABLE, 4, 5, exits.DEFECT, exits.INTERRUPTED, 143}
    for command in COMMANDS:
        assert re.search(rf"^ +{command}\s+\w", shown.out, re.MULTILINE)
    assert max(map(len, shown.lines)) <= 100


def test_version(streamsched: Command) -> None:
    assert re.fullmatch(r"streamsched \d+\.\d+\.\d+\n", streamsched("--version").out)


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("", "required: COMMAND"),
        ("rank", "invalid choice: 'rank'"),
        ("--stat", "required: COMMAND"),
        ("next", "required: --state"),
        ("next --sta s", "required: --state"),
        ("next --state s extra", "unrecognized arguments: extra"),
        ("next --state s -k 0", "-k: expected a whole number of 1 or more, found '0'"),
        ("next --state s -k ten", "found 'ten'"),
        ("next --state s -k 99999999999999999999", "found '99999999999999999999'"),
        ("next --state s --per-host 0", "--per-host: expected a whole number of 1 or more"),
        (
            "next --state s --lease soon",
            "--lease: expected a duration, for example 500ms, 90s, 10m, 1h, 1d or 1w, found 'soon'",
        ),
        ("next --state s --lease 0", "--lease: expected a length of time"),
        ("next --state s --now yesterday", "--now: expected a date (2025-08-22), ISO 8601 time or epoch seconds"),
        ("next --state s --now nan", "--now: expected a finite time, found 'nan'"),
        ("explain --state s", "required: URL"),
        ("explain '' --state s", "URL: expected a URL in UTF-8, found ''"),
        ("state --state s", "required: action"),
        ("state polish --state s", "invalid choice: 'polish'"),
        ("use --state s", "required: FORMULA|NUMBER"),
        ("use 7", "required: --state"),
        ("use 7 --state s --now soon", "--now: expected a date"),
        ("evolutions", "required: --state"),
        ("convert a.jsonl", "required: OUT"),
        ("convert a.jsonl b.csv", "OUT: expected a name that ends in .jsonl or .msgpack, with .gz or without"),
        ("convert a.jsonl jsonl", "found 'jsonl'"),
        ("replay", "required: LOG"),
        ("replay a.tsv --budget much", "--budget: expected a share such as 0.05, found 'much'"),
        ("evolve a.tsv --budget 5%", "--budget: expected a share such as 0.05 (5 % is 0.05), found '5%'"),
        ("replay a.tsv --changed never", "invalid choice: 'never'"),
        ("replay a.tsv --from 22.8.2025", "--from: expected a date"),
        ("replay a.tsv --warmup -1", "--warmup: expected a whole number of 0 or more"),
        ("replay a.tsv --cycle", "--cycle: expected one argument"),
    ],
)
def test_wrong_usage_is_named_with_code_2(streamsched: Command, line: str, reason: str) -> None:
    words = shlex.split(line)
    answer = streamsched(*words)
    assert (answer.code, answer.out) == (2, "")
    assert answer.err.startswith("usage: streamsched")
    assert reason in answer.err.splitlines()[-1]


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("2025-08-22", 1755820800.0),
        ("2025-08-22T06:30", 1755844200.0),
        ("2025-08-22 06:30:00.5", 1755844200.5),
        ("2025-08-22T06:30:00Z", 1755844200.0),
        ("2025-08-22T06:30:00+02:00", 1755837000.0),
        ("2025-08-22T06:30:00-0330", 1755856800.0),
        ("1755820800", 1755820800.0),
        ("1.7558208e9", 1755820800.0),
        ("-1", -1.0),
    ],
)
def test_times_are_dates_iso_8601_or_epoch_seconds(text: str, seconds: float) -> None:
    assert moment(text) == seconds


@pytest.mark.parametrize("text", ["", "today", "inf", "1e999", "2025-13-01", "2025-08-22T25:00"])
def test_other_times_are_refused(text: str) -> None:
    with pytest.raises(argparse.ArgumentTypeError, match="found"):
        moment(text)


def test_lengths_of_time_and_whole_numbers() -> None:
    assert [duration(text) for text in ("90", "90s", "10m", "1.5h", "1d", "1w")] == [90, 90, 600, 5400, 86400, 604800]
    assert [whole(-3)(text) for text in ("-3", "0", "9223372036854775807")] == [-3, 0, 2**63 - 1]
    for text in ("", "-", "--3", "1.0", "1e3", "-4", "9223372036854775808", "1" * 5000):
        with pytest.raises(argparse.ArgumentTypeError, match="whole number"):
            whole(-3)(text)


def test_urls_are_in_utf_8() -> None:
    assert url("https://a.example/ä") == "https://a.example/ä"
    with pytest.raises(argparse.ArgumentTypeError, match="UTF-8"):
        url("https://a.example/\udcff")


def test_printed_urls_hold_no_control_characters() -> None:
    controls = "".join(map(chr, [*range(0x20), *range(0x7F, 0xA0), 0x2028, 0x2029]))
    assert re.fullmatch(r"(%[0-9A-F]{2})+", plain(controls))
    assert plain("https://a.example/ %41é€\U0001f600") == "https://a.example/ %41é€\U0001f600"


def modules_after(statements: str) -> set[str]:
    code = f"import sys\n{statements}\nprint(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, text=True, capture_output=True, check=True)
    return {name.split(".")[0] if name.split(".")[0] in SLOW_TO_IMPORT else name for name in done.stdout.split()}


def test_a_command_imports_only_what_it_needs(crawled: Path) -> None:
    """`next` on a saved state is asked for again and again: what it does not need it does not wait for."""
    asked = [["next", "--peek"], ["explain", "https://h0.example/p0"], ["state", "digest"]]
    calls = [f"assert main({[*words, '--state', str(crawled)]}) == 0" for words in asked]
    loaded = modules_after("\n".join(["from streamsched.cli import main", *calls])) - modules_after("import numba")
    assert "streamsched.cli.commands.next" in loaded
    assert loaded & SLOW_TO_IMPORT == set()
    assert {name for name in loaded if name.startswith(("streamsched.replay", "streamsched.connectors"))} == set()
