"""What a run logs: one event a line, whatever its fields hold."""

from __future__ import annotations

import io
import json
import logging

import pytest
from rich.console import Console

from streamsched.service.event_log import LOG, log_to

HOSTILE = 'a b\n\x1b[2J[red]\u2028="x"'


def logged(layout: str, level: str = "info") -> list[str]:
    out = io.StringIO()
    with log_to(Console(file=out, width=40), level, layout):
        LOG.info("saved", file="snapshot-00000001.state", pages=12, share=1 / 3, nothing="")
        LOG.warning("rejected", last=HOSTILE)
        logging.getLogger("streamsched.persistence").error("damaged\nhere")
    LOG.info("after the block")
    return out.getvalue().splitlines()


def test_as_text() -> None:
    first, second, third = logged("text")
    assert first.split(" ", 1)[1] == 'INFO    saved file=snapshot-00000001.state pages=12 share=0.333333 nothing=""'
    assert second.split(" ", 1)[1].startswith('WARNING rejected last="a b\\\\n\\\\x1b[2J[red]\\\\u2028=')
    assert third.split(" ", 1)[1] == r"ERROR   damaged\nhere"
    assert all(line.split(" ")[0].endswith("Z") for line in (first, second, third))


def test_as_json() -> None:
    first, second, third = (json.loads(line) for line in logged("json"))
    assert {name: first[name] for name in ("level", "event", "pages", "share")} == {
        "level": "info",
        "event": "saved",
        "pages": 12,
        "share": 1 / 3,
    }
    assert second["last"] == HOSTILE
    assert third["event"] == "damaged\nhere"


@pytest.mark.parametrize(("level", "count"), [("debug", 3), ("info", 3), ("warning", 2), ("error", 1)])
def test_levels(level: str, count: int) -> None:
    assert len(logged("text", level)) == count


def test_everything_is_as_it_was_afterwards() -> None:
    library = logging.getLogger("streamsched")
    before = library.level, library.propagate, list(library.handlers)
    logged("json")
    assert (library.level, library.propagate, library.handlers) == before


@pytest.mark.parametrize("layout", ["text", "json"])
def test_a_traceback_shows_no_values_of_variables(layout: str) -> None:
    def fail(secret: str) -> None:
        raise ValueError(len(secret))

    out = io.StringIO()
    with log_to(Console(file=out, width=40), "info", layout):
        try:
            fail("ss_" + "secret" * 3)
        except ValueError as error:
            LOG.error("request failed", exc_info=error)
    assert "ValueError: 21" in out.getvalue()
    assert "Traceback (most recent call last)" in out.getvalue()
    assert "ss_secret" not in out.getvalue()
