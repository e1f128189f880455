"""Help, usage errors, exit codes and completion."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from pathlib import Path

import click
import pytest

from streamsched import SettingsError
from streamsched.cli import exits
from streamsched.cli.options import DURATION, parse_url, parse_whole
from streamsched.cli.output import plain
from streamsched.cli.program import program
from streamsched.numerics.durations import parse_moment
from streamsched.replay.replay_settings import BUDGETS
from tests.support.cases import grouped
from tests.support.command_line import Command
from tests.support.paths import ROOT

OPERATORS = {"cluster"}  # whose help has no examples
COMMANDS = [name for name in program.list_commands(click.Context(program)) if name not in OPERATORS]
SLOW_TO_IMPORT = {"matplotlib", "msgpack", "rich", "scipy"}


def examples(text: str) -> list[list[str]]:
    """The words of each streamsched command in a help text's examples, of pipelines too."""
    lines = [line.strip() for line in text.partition("Examples:\n")[2].splitlines()]
    found = []
    for line in lines[: lines.index("") if "" in lines else None]:
        for part in re.split(r"\|(?![^']*'$)|&&", line):
            words = shlex.split(part, comments=True)
            if words[0] == "streamsched":
                found.append(words[1:])
    return found


def find(name: str) -> click.Command:
    command = program.get_command(click.Context(program), name)
    assert command is not None
    return command


def commands_of(group: click.Group) -> dict[str, click.Command]:
    """The commands of a group by name, imported."""
    context = click.Context(group)
    found = {name: group.get_command(context, name) for name in group.list_commands(context)}
    return {name: command for name, command in found.items() if command is not None}


def parse(words: list[str]) -> click.Context:
    """The context in which the last command of `words` would run."""
    context, command = click.Context(program, info_name="streamsched"), find(words[0])
    if isinstance(command, click.Group) and (within := commands_of(command).get(words[1])) is not None:
        context, command, words = click.Context(command, parent=context), within, words[1:]
    return command.make_context(words[0], words[1:], parent=context)


@pytest.mark.parametrize("command", COMMANDS)
def test_every_example_of_the_help_parses(streamsched: Command, command: str) -> None:
    shown = streamsched(command, "--help")
    assert shown.code == 0
    assert shown.err == ""
    words = examples(shown.out)
    assert len(words) >= 2
    for example in words:
        assert example[0] == command
        assert parse(example).command.callback is not None


@pytest.mark.parametrize("command", COMMANDS)
def test_every_option_and_argument_is_explained(command: str) -> None:
    named = find(command)
    for one in [named, *(commands_of(named).values() if isinstance(named, click.Group) else ())]:
        for parameter in one.params:
            if isinstance(parameter, click.Option):
                assert parameter.help, parameter.name
            else:
                assert one.help is not None
                for name in parameter.human_readable_name.split("|"):
                    assert re.search(rf"\b{name} is (a|the) ", one.help), name


@pytest.mark.parametrize("command", COMMANDS)
def test_a_command_is_listed_with_the_first_sentence_of_its_help(streamsched: Command, command: str) -> None:
    first = (find(command).help or "").split("\n")[0]
    assert first.endswith(".")
    assert re.search(rf"^ +{command} +{re.escape(first)}$", streamsched("--help").out, re.MULTILINE)


@pytest.mark.parametrize("command", ["show", "verify", "repair", "compact", "digest", "export"])
def test_actions_on_a_state_are_commands(streamsched: Command, command: str) -> None:
    shown = streamsched("state", command, "--help")
    assert (shown.code, shown.err) == (0, "")
    assert f"Example: streamsched state {command} --state state/" in shown.out


def test_help_names_the_commands_and_every_exit_code(streamsched: Command) -> None:
    shown = streamsched("--help")
    assert shown.code == 0
    listed = {int(code) for code in re.findall(r"^ +(\d+)  ", shown.out, re.MULTILINE)}
    assert listed == {
        exits.DONE,
        exits.NOTHING,
        2,
        exits.UNREADABLE,
        4,
        5,
        6,
        exits.DEFECT,
        exits.NO_MEMORY,
        exits.INTERRUPTED,
        143,
    }
    for command in COMMANDS:
        assert re.search(rf"^ +{command}\s+\w", shown.out, re.MULTILINE)
    assert max(map(len, shown.lines)) <= 100


def test_version(streamsched: Command) -> None:
    assert re.fullmatch(r"streamsched \d+\.\d+\.\d+\n", streamsched("--version").out)


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("", "Missing command"),
        ("rank", "'rank'"),
        ("--stat", "'--stat'"),
        ("next", "--state DIR or --service URL, found neither"),
        ("next --sta s", "'--sta'"),
        ("next --state s extra", "(extra)"),
        ("next --state s -k 0", "-k: expected a whole number of 1 or more, found '0'"),
        ("next --state s -k ten", "found 'ten'"),
        ("next --state s -k 99999999999999999999", f"a whole number of 1 to {2**63 - 1}, found '99999999999999999999'"),
        ("next --state s --per-host 0", "--per-host: expected a whole number of 1 or more"),
        (
            "next --state s --lease soon",
            "--lease: expected a duration, for example 500ms, 90s, 10m, 1h, 1d or 1w, found 'soon'",
        ),
        ("next --state s --lease 0", "--lease: expected a duration"),
        ("next --state s --lease 1000000d", "--lease: expected a duration of at most 366 days, found '1000000d'"),
        ("next --state s --now yesterday", "--now: expected a date (2025-08-22), ISO 8601 time or epoch seconds"),
        ("next --state s --now nan", "--now: expected UTC epoch seconds, finite, found 'nan'"),
        ("explain --state s", "URL is required"),
        ("explain '' --state s", "URL: expected a URL in UTF-8, found ''"),
        ("state --state s", "'--state'"),
        ("state", "Missing command"),
        ("state polish --state s", "'polish'"),
        ("state verify", "--state is required"),
        ("state export --state s", "--to is required"),
        ("state show --state s --to a.parquet", "'--to'"),
        ("use --state s", "FORMULA|NUMBER is required"),
        ("use 7", "--state DIR or --service URL, found neither"),
        ("use 7 extra --state s", "(extra)"),
        ("use 7 --state s --now soon", "--now: expected a date"),
        ("evolutions", "--state DIR or --service URL, found neither"),
        ("signals", "--state is required"),
        ("replay a.tsv --signals share=2", "--signals: expected share: more than 0, at most 1, found 'share=2'"),
        ("replay a.tsv --signals share=.5,worth=2", "--signals: expected settings such as share=.5"),
        ("convert a.jsonl", "OUT is required"),
        (
            "convert a.jsonl b.csv",
            "OUT: expected a name that ends in .jsonl, .ndjson, .msgpack or .mp, with .gz or without",
        ),
        ("convert a.jsonl jsonl", "found 'jsonl'"),
        ("replay", "LOG is required"),
        ("replay a.tsv --budget much", f"--budget: expected {BUDGETS}, found 'much'"),
        ("replay a.tsv --budget 5%", f"--budget: expected {BUDGETS} (5 % is 0.05), found '5%'"),
        ("evolve a.tsv --budget 5%", "--budget: expected a share such as 0.05 (5 % is 0.05), found '5%'"),
        ("replay a.tsv --changed never", "--changed: 'never' is not one of 'since-visit', 'that-day'"),
        ("replay a.tsv --from 22.8.2025", "--from: expected a date"),
        ("replay a.tsv --warmup -1", "--warmup: expected a whole number of 0 or more"),
        ("replay a.tsv --cycle", "'--cycle'"),
    ],
)
def test_wrong_usage_is_named_with_code_2(streamsched: Command, line: str, reason: str) -> None:
    words = shlex.split(line)
    streamsched(*words).check_refused(2, reason)


@grouped(
    ("seconds", "text"),
    {
        1755820800.0: ["2025-08-22", "1755820800", "1.7558208e9"],
        1755844200.0: ["2025-08-22T06:30", "2025-08-22T06:30:00Z"],
        1755844200.5: ["2025-08-22 06:30:00.5"],
        1755837000.0: ["2025-08-22T06:30:00+02:00"],
        1755856800.0: ["2025-08-22T06:30:00-0330"],
        -1.0: ["-1"],
    },
)
def test_times_are_dates_iso_8601_or_epoch_seconds(text: str, seconds: float) -> None:
    assert parse_moment(text) == seconds


@pytest.mark.parametrize("text", ["", "today", "inf", "1e999", "2025-13-01", "2025-08-22T25:00"])
def test_other_times_are_refused(text: str) -> None:
    with pytest.raises(SettingsError, match="found"):
        parse_moment(text)


def test_lengths_of_time_and_whole_numbers() -> None:
    lengths = {"90": 90, "90s": 90, "10m": 600, "1.5h": 5400, "1d": 86400, "1w": 604800}
    assert {text: DURATION.convert(text, None, None) for text in lengths} == lengths
    assert [parse_whole(text, -3) for text in ("-3", "0", "9223372036854775807")] == [-3, 0, 2**63 - 1]
    for text in ("", "-", "--3", "1.0", "1e3", "-4", "9223372036854775808", "1" * 5000):
        with pytest.raises(SettingsError, match="whole number"):
            parse_whole(text, -3)


def test_urls_are_in_utf_8() -> None:
    assert parse_url("https://a.example/ä") == "https://a.example/ä"
    with pytest.raises(SettingsError, match="UTF-8"):
        parse_url("https://a.example/\udcff")


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


def test_the_library_imports_no_command_line() -> None:
    assert "click" not in modules_after("import streamsched")


@pytest.mark.parametrize(
    ("words", "found"),
    [
        (["ne"], "next"),
        (["state", "ver"], "verify"),
        (["next", "--per"], "--per-host"),
        (["replay", "a.tsv", "--changed", "that"], "that-day"),
    ],
)
def test_shells_complete_commands_options_and_choices(
    streamsched: Command, monkeypatch: pytest.MonkeyPatch, words: list[str], found: str
) -> None:
    monkeypatch.setenv("_STREAMSCHED_COMPLETE", "bash_complete")
    monkeypatch.setenv("COMP_WORDS", shlex.join(["streamsched", *words]))
    monkeypatch.setenv("COMP_CWORD", str(len(words)))
    answer = streamsched()
    assert (answer.code, answer.lines) == (0, [f"plain,{found}"])
