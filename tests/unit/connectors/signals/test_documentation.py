"""The program of docs/signal-readers.md prints what the page says."""

from __future__ import annotations

import contextlib
import io
import re
from pathlib import Path

import pytest

from streamsched.connectors.signals import document_reader, entry_columns, json_documents, xml_entries
from tests.support.paths import ROOT

PAGE = (ROOT / "docs" / "signal-readers.md").read_text()


def test_the_programs_of_the_page_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    programs = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    printed = re.findall(r"```\n(sitemap 0.*?)```", PAGE, re.DOTALL)
    assert len(programs) == 2
    with contextlib.redirect_stdout(io.StringIO()) as output:
        exec("\n".join(programs), {})  # noqa: S102  the page's own programs
    assert [output.getvalue()] == printed


@pytest.mark.parametrize(
    ("limit", "value"),
    [
        ("bytes of a document, compressed and decompressed", f"{document_reader.MAX_DOCUMENT_BYTES >> 20} MiB"),
        ("bytes of JSON", f"{json_documents.MAX_JSON_BYTES >> 20} MiB"),
        ("entries", f"{entry_columns.MAX_ENTRIES:,}"),
        ("bytes of their URLs together", f"{entry_columns.MAX_URL_TOTAL_BYTES >> 20} MiB"),
        ("nested elements", str(xml_entries.MAX_DEPTH)),
        ("bytes of a tag or comment", f"{xml_entries.MAX_TOKEN_BYTES >> 10} KiB"),
        ("different names of elements and attributes", f"{xml_entries.MAX_NAMES:,}"),
        ("characters of a namespace", str(xml_entries.MAX_NAMESPACE_CHARS)),
    ],
)
def test_the_limits_of_the_page_are_those_of_the_code(limit: str, value: str) -> None:
    assert re.search(rf"^\| {limit} \| {re.escape(value)}[ |]", PAGE, re.MULTILINE)
