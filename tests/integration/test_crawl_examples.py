"""The examples of crawlers, each on its own site and service for a few seconds."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from examples.rag_refresh.index import VectorIndex
from streamsched.client import Client
from tests.support.child_processes import child_process
from tests.support.paths import ROOT
from tests.support.waiting import pause


def rows_of(example: str, *words: str) -> tuple[dict[str, list[int]], str]:
    """Run an example; return the numbers of its rows by name, and all that it prints."""
    command = (sys.executable, "-m", f"examples.{example}", "--pages", "200", "--per-s", "50", "--seconds", "4", *words)
    done = subprocess.run(command, cwd=ROOT, text=True, capture_output=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    found = re.findall(r"^(oldest first|streamsched) {2,}(.*)$", done.stdout, re.MULTILINE)
    return {
        name: [int(number.replace(",", "")) for number in re.findall(r"[\d,]+", row)] for name, row in found
    }, done.stdout


def test_the_loop_finds_changes_with_as_many_visits_as_oldest_first() -> None:
    rows, said = rows_of("httpx_loop")
    assert rows["oldest first"][0] == rows["streamsched"][0] == 200
    assert min(rows["streamsched"][1], rows["oldest first"][1]) > 0
    assert re.search(r"\d% of the visits are saved$", said.strip())


def test_the_index_embeds_what_is_new_or_changed_and_deletes_what_is_gone() -> None:
    rows, said = rows_of("rag_refresh")
    visits, changes, embedded, deleted, current = rows["streamsched"]
    assert visits == 200
    assert embedded == 200 + changes - deleted  # each document once, and each change but those that are an end
    assert rows["oldest first"][2] == 400
    assert current > 50
    assert "/railway/" in said.splitlines()[-1]


def test_an_index_without_documents_finds_none() -> None:
    index = VectorIndex()
    index.put("https://a.example/", "")
    assert index.search("words") == ["https://a.example/"]
    index.remove("https://a.example/")
    index.remove("https://b.example/")
    assert (index.search("words"), len(index), index.deleted) == ([], 0, 1)
    with pytest.raises(KeyError):
        _ = index.texts["https://a.example/"]


def address_in(folder: Path) -> str:
    """Return where the service of an example is, which keeps its log in `folder`."""
    while True:
        texts = [log.read_text() for log in folder.glob("*/log.jsonl")]
        if found := re.search(r'"address": ?"(.+?)"', "".join(texts)):
            return f"http://{found[1]}"
        pause()


@pytest.mark.parametrize("times", [1, pytest.param(2, marks=pytest.mark.soak)])
def test_an_interrupted_loop_ends_in_silence(times: int, tmp_path: Path) -> None:
    command = (sys.executable, "-m", "examples.httpx_loop", "--pages", "20", "--seconds", "60")
    settings: dict[str, Any] = {"cwd": ROOT, "env": {**os.environ, "TMPDIR": str(tmp_path)}, "process_group": 0}
    with child_process(command, **settings, stdout=subprocess.PIPE, stderr=subprocess.STDOUT) as process:
        with Client(address_in(tmp_path)) as client:
            while client.stats().outcomes["applied"] < 30:  # more than the first visits
                pause()
        for _ in range(times):
            os.killpg(process.pid, signal.SIGINT)  # as a terminal does
        said, _ = process.communicate(timeout=60)
    assert (process.returncode, said) == (130, "")
    assert not list(tmp_path.iterdir())
