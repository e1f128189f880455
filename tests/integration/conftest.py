"""The command line, called in the process of the tests, and a saved state for it."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

import pytest

from streamsched.cli import main
from tests.support.command_line import Answer, Command, crawl, write
from tests.support.guarded_memory import small_reserve


@pytest.fixture(autouse=True, scope="module")
def small_tables() -> Iterator[None]:
    with small_reserve():
        yield


@pytest.fixture
def streamsched(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Command:
    """The command line without its notice about compiling, so that output does not depend on the cache of kernels."""
    monkeypatch.setattr(import_module("streamsched.cli.program"), "_Notice", lambda: lambda _compilation: None)

    def call(*words: str | Path) -> Answer:
        capsys.readouterr()
        code = main([str(word) for word in words])
        captured = capsys.readouterr()
        return Answer(code, captured.out, captured.err)

    return call


@pytest.fixture(scope="module")
def crawled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A state of 12 pages on 3 hosts, made once. Tests that change it use the copy `state`."""
    folder = tmp_path_factory.mktemp("crawled")
    source = write(folder / "outcomes.jsonl", crawl())
    assert main(["run", "--source", str(source), "--state", str(folder / "state")]) == 0
    return folder / "state"


@pytest.fixture
def state(crawled: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(crawled, tmp_path / "state"))
