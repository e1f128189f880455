"""``make live``: both crawlers run to the end, and nothing is left however it ends."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from examples.live.crawlers import ServiceCrawler
from examples.live.world import DAY_S, World
from streamsched.replay import read_truth
from tests.integration.kafka.broker import Address
from tests.integration.kafka.topics import Topic
from tests.support.cases import how_many
from tests.support.paths import ROOT

MOMENTS = [("the service:", signal.SIGINT), ("broker ...", signal.SIGTERM)]  # where the most runs, and amid a start
START_S = 1_755_820_800.0  # 2025-08-22
LIVE = (sys.executable, "-m", "examples.live", "--http", "127.0.0.1:0", "--history", "20", "--days", "20")


def start(folder: Path, *words: str, servers: str = "") -> subprocess.Popen[str]:
    """Start it with its files in `folder`, on a broker of its own unless `servers` names one."""
    env = os.environ | {"TMPDIR": str(folder), "PYTHONPATH": str(ROOT), "KAFKA_BOOTSTRAP_SERVERS": servers}
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    return subprocess.Popen((*LIVE, *words), text=True, env=env, cwd=ROOT, **pipes)  # type: ignore[call-overload,no-any-return]


def left_over(folder: Path) -> list[str]:
    """Return the files in `folder`, and the commands of running processes that name it."""
    files = [path.name for path in folder.iterdir()]
    for process in Path("/proc").glob("[0-9]*"):
        try:
            command = (process / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
        except OSError:  # it has ended
            continue
        if str(folder) in command:
            files.append(command)
    return files


def test_a_month_passes_in_seconds(address: Address, real: Address, tmp_path: Path) -> None:  # noqa: ARG001
    process = start(tmp_path, "--seconds", "6", "--json", servers=address.servers)
    out, err = process.communicate()
    assert process.returncode == 0, err
    ours, oldest = (json.loads(out)[name] for name in ("streamsched", "oldest first"))
    assert ours["visits"] == oldest["visits"] > 500
    for crawler in (ours, oldest):
        assert 0.0 < crawler["hit_rate"] < 1.0
        assert 0.5 < crawler["freshness"] < 1.0
    assert "read 4" in err  # 20 days of about 2,200 pages
    assert left_over(tmp_path) == []


def test_what_a_crawl_has_found_is_sent_at_once(topic: Topic) -> None:
    """Although it fills no frame."""
    log = read_truth(ROOT / "data" / "scoop-extras.tsv.gz")
    world = World(log, START_S, 9)
    pages = [SimpleNamespace(url=url) for url in world.urls[:5]]
    client: Any = SimpleNamespace(next_batch=lambda *_, **__: SimpleNamespace(pages=pages, now=START_S + DAY_S))
    with topic.open_sink() as sink:
        assert ServiceCrawler(world, START_S, client, sink).crawl(5) == 5
        assert sorted(one.url for one in topic.read()) == sorted(world.urls[:5])


@pytest.mark.usefixtures("real")
@pytest.mark.longer
@pytest.mark.parametrize(("moment", "number"), MOMENTS[: how_many(1, 2)])
def test_ctrl_c_leaves_nothing_running(tmp_path: Path, moment: str, number: signal.Signals) -> None:
    process = start(tmp_path, "--seconds", "600")
    assert process.stderr is not None
    while moment not in (line := process.stderr.readline()):
        assert line, "it has ended"
    process.send_signal(number)
    _, err = process.communicate()
    assert (process.returncode, "Traceback" in err) == (130, False)
    assert left_over(tmp_path) == []
