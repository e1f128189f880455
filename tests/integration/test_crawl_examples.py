"""The examples of crawlers, each on its own site and service for a few seconds."""

from __future__ import annotations

import re
import subprocess
import sys

import pytest

from examples.rag_refresh.index import VectorIndex
from tests.support.paths import ROOT


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
