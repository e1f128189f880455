"""Options and arguments of the command line with values that make no sense: one clear line, or the right result."""

from __future__ import annotations

import random
import shutil
from pathlib import Path

import click
import pytest

from streamsched.cli.program import program
from tests.soak.orderly import call
from tests.support.command_line import NOW, change_log, crawl, write

VALUES = [
    "", " ", "nan", "inf", "-inf", "-1", "0", "1e400", "0x10", "1_0", "٣", "None", "[]", "{}", "--", "-k", "é\u202e",
    "a\nb", "\x1b[2J", "a" * 70_000, "(" * 5_000, "../../..", "/dev/null", "/dev/zero", "%s%n", "1e11", "1755820800000",
    "t +", "true", "=", "x=y", "save.every=", "scheduler.cycle=nan", "kafka://", "https://a.example:99999/", "9" * 30,
]  # fmt: skip
LONG = {  # work for minutes, or wait for brokers, where a value happens to be right
    "evolve", "publish", "generate", "serve",
    "experiment lambdacrawl", "experiment mirrorsync", "experiment noisy-signals", "experiment webfountain",
}  # fmt: skip


def places(folder: Path) -> dict[str, list[str]]:
    """The words of each command that works, without the option under attack."""
    state, log = str(folder / "state"), str(folder / "log.tsv")
    nowhere = ["--source", "kafka://127.0.0.1:9/outcomes?group=g&patience=10ms", "--calls", "calls"]
    images = ["--images", str(folder / "images")]
    return {
        "cluster host": [*nowhere, *images, "--local", str(folder / "local"), "--http", "127.0.0.1:0"],
        "cluster status": nowhere,
        "cluster verify": [*nowhere, *images],
        "cluster split": [*nowhere, *images, "--partitions", "8"],
        "cluster import": [*nowhere, *images, "--state", state],
        "replay": [log, "--policy", "age", "--workers", "1"],
        "analyze": [log],
        "run": ["--source", str(folder / "outcomes.jsonl"), "--state", state],
        "changes": ["--service", "http://127.0.0.1:9"],
        "content": [str(folder / "page.html"), "--wait", "0"],
        "next": ["--state", state, "--now", str(NOW)],
        "explain": ["https://h0.example/p0", "--state", state, "--now", str(NOW)],
        "evolutions": ["--state", state],
        "signals": ["--state", state],
        "signals fetch": [
            "--sitemap", "http://127.0.0.1:9/a.xml", "--to", str(folder / "signals.jsonl"),
            "--state", str(folder / "documents"), "--once",
        ],
        "use": ["t", "--state", state],
        "rules": ["h0.example", "delay=1s", "--service", "http://127.0.0.1:9"],
        "token": ["crawler", "--scope", "crawl", "--file", str(folder / "tokens.toml")],
        "convert": [str(folder / "outcomes.jsonl"), str(folder / "out.jsonl")],
        "state show": ["--state", state],
        "state verify": ["--state", state],
        "state repair": ["--state", state, "--now", str(NOW)],
        "state digest": ["--state", state],
        "state export": ["--state", state, "--to", str(folder / "pages.arrow")],
        "state compact": ["--state", state],
        "state backup": ["--state", state, "--to", str(folder / "copy")],
        "state restore": ["--state", str(folder / "restored"), "--from", state],
    }  # fmt: skip


def parameters() -> list[tuple[str, click.Parameter]]:
    """All options and arguments that take a value, with their commands, those of subcommands too."""
    context = click.Context(program)
    found: list[tuple[str, click.Command]] = []
    for name in program.list_commands(context):
        command = program.get_command(context, name)
        assert command is not None
        inner = command.commands.items() if isinstance(command, click.Group) else [("", command)]
        found += [(f"{name} {sub}".strip(), one) for sub, one in inner]
    return [
        (name, one)
        for name, command in found
        for one in command.params
        if name not in LONG and not (isinstance(one, click.Option) and one.is_flag)
    ]


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory, small_tables: None) -> Path:  # noqa: ARG001
    folder = tmp_path_factory.mktemp("words")
    change_log(folder / "log.tsv")
    write(folder / "outcomes.jsonl", crawl())
    (folder / "page.html").write_text("<p>text", encoding="utf-8")
    assert call("run", "--source", folder / "outcomes.jsonl", "--state", folder / "state").code == 0
    return folder


def test_every_command_is_attacked_or_known_to_be_long(tmp_path: Path) -> None:
    assert {name for name, _ in parameters()} <= places(tmp_path).keys()


@pytest.mark.cases(ordinary=20, whole=400)
def test_wrong_word(sound: Path, tmp_path: Path, rng: random.Random, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "folder"
    shutil.copytree(sound, folder)
    monkeypatch.chdir(folder)  # a value may happen to be the name of a file to write
    name, parameter = rng.choice(parameters())
    value = rng.choice(VALUES)
    words = places(folder)[name]
    if isinstance(parameter, click.Option):
        words = [*words, parameter.opts[0], value]  # the last one counts
    else:
        number = [one.name for one in _arguments(name)].index(parameter.name)
        words = [*words[:number], value, *words[number + 1 :]]
    answer = call(*name.split(), *words)
    if answer.code > 1:
        assert len(answer.err) < 2_000
        assert "\x1b" not in answer.err
    verdict = call("state", "verify", "--state", folder / "state")
    assert verdict.code == 0, verdict


def _arguments(name: str) -> list[click.Parameter]:
    return [one for command, one in parameters() if command == name and isinstance(one, click.Argument)]
