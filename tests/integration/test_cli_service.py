"""`next`, `explain`, `use`, `evolutions` and `rules` against a service."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from streamsched.api.views import HostLimits
from tests.support.cases import how_many
from tests.support.command_line import Answer, Command
from tests.support.http_service import TOKENS, URLS, Running, running
from tests.support.paths import ROOT

TOKEN = "STREAMSCHED_TOKEN"
PACKAGES = ("starlette", "uvicorn", "httptools", "markdown_it", "prometheus_client")  # that a service needs


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    with running(tmp_path_factory.mktemp("service"), tokens=True) as service:
        service.client.post("/v1/discover", json={"urls": URLS})
        service.client.post("/v1/next", json={"k": 1, "lease": 0.001})  # kernels are compiled
        yield service


@pytest.fixture
def ask(service: Running, streamsched: Command, monkeypatch: pytest.MonkeyPatch) -> Command:
    """A command with the URL of the service; the environment has the token that may do all."""
    monkeypatch.setenv(TOKEN, TOKENS["all"])
    service.clock.now_s += 86_400.0

    def call(*words: str | Path) -> Answer:
        return streamsched(*words, "--service", f"http://{service.server.address}")

    return call


def test_next_leases(ask: Command, service: Running) -> None:
    first, second = (ask("next", "-k", "5", "--lease", "1h") for _ in range(2))
    assert (first.code, first.err) == (0, "")
    assert len({*first.lines, *second.lines} & {*URLS}) == 10
    view = service.scheduler.page(first.lines[0], now=service.clock.now_s)
    assert view is not None
    assert view.lease_until_s == pytest.approx(service.clock.now_s + 3_600.0, abs=1.0)
    rest = ask("next", "-k", "100", "--scores").lines
    assert [len(line.split("\t")) for line in rest] == [2] * 30
    none = ask("next")
    assert (none.code, none.out, none.err) == (1, "", "")


def test_next_prints_what_it_prints_of_a_state(ask: Command) -> None:
    leased = ask("next", "-k", "2", "--per-host", "1", "--json").json
    names = {"urls", "scores", "probabilities", "hosts", "reasons", "now", "lease_until", "etags", "last_modified"}
    assert leased.keys() == names
    assert leased["lease_until"] == leased["now"] + 600.0
    assert leased["reasons"] == ["in_batch_by_score"] * 2
    assert len(set(leased["hosts"])) == 2
    peeked = [ask("next", "--peek", "-k", "3", "--json").json["urls"] for _ in range(2)]
    assert peeked[0] == peeked[1]
    assert not {*peeked[0]} & {*leased["urls"]}


def test_explain(ask: Command) -> None:
    answer = ask("explain", URLS[0])
    assert answer.code == 0
    assert answer.lines[0] == URLS[0]
    assert any(line.startswith("  because    ") for line in answer.lines)
    shown = ask("explain", URLS[0], "--json", "-k", "7").json
    assert shown["url"] == URLS[0]
    assert {"code"} <= shown["reasons"][0].keys()
    assert ask("explain", "https://nowhere.example/").code == 5


def test_use_and_evolutions(ask: Command, service: Running) -> None:
    before = len(ask("evolutions", "--json").json)
    used = ask("use", "t * X")
    assert (used.code, used.out) == (0, f"t * X: {service.scheduler.champion}\n")
    assert ask("use", "freshness").code == 0
    records = ask("evolutions", "--json").json
    assert len(records) == before + 2
    assert ask("use", str(records[-2]["number"])).out.startswith("t * X: ")
    assert service.scheduler.formula.text == "t * X"
    assert ask("use", "-(t * X)").code == 0
    listed = ask("evolutions")
    assert "champion    t * X" in listed.out
    assert [ask("use", word).code for word in ("t * Y", "9999", "-3")] == [2, 2, 2]


def test_rules(ask: Command, service: Running) -> None:
    answer = ask("rules", "h0.example", "delay=30s", "in_flight=3", "per_batch=2")
    assert (answer.code, answer.out) == (0, "the rule may concern 8 known pages\n")
    host = service.scheduler.host("h0.example", now=service.clock.now_s)
    assert host is not None
    assert (host.delay_s, host.in_flight, host.per_batch) == (30.0, 3, 2)
    assert ask("rules", "h0.example", "delay=0").code == 0  # no delay, whatever the setting is
    host = service.scheduler.host("h0.example", now=service.clock.now_s)
    assert host is not None
    assert (host.delay_s, host.rule) == (0.0, HostLimits(delay=0.0))
    assert ask("rules", "h1.example/*", "never=true").code == 0
    assert ask("rules", "h2.example/*", "max_revisit=1d", "min_revisit=0").code == 0
    listed = ask("rules")
    assert (listed.code, listed.lines) == (
        0,
        ["h0.example delay=0s", "h1.example/* never=true", "h2.example/* min_revisit=0s max_revisit=86400s"],
    )
    for line in listed.lines:
        assert ask("rules", *line.split()).code == 0
    assert ask("rules").lines == listed.lines
    assert not any("//h1." in line for line in ask("next", "-k", "100").lines)
    assert ask("rules", "h0.example", "--remove").code == 0
    assert ask("rules", "h1.example/*", "--remove").code == 0
    assert ask("rules", "h2.example/*", "--remove").code == 0
    assert ask("rules").out == ""
    host = service.scheduler.host("h0.example", now=service.clock.now_s)
    assert host is not None
    assert host.rule is None


@pytest.mark.parametrize(
    "words",
    [
        ["next", "--now", "2026-01-01"],
        ["next", "--formula", "t"],
        ["next", "--state", "."],
        ["next", "--peek", "--per-host", "1"],
        ["explain", URLS[0], "--lease", "1h"],
        ["use", "t", "--now", "2026-01-01"],
        ["rules", "h0.example"],
        ["rules", "--remove"],
        ["rules", "h0.example", "--remove", "delay=1s"],
        ["rules", "h0.example", "delay"],
        ["rules", "h0.example", "speed=3"],
        ["rules", "h0.example", "in_flight=many"],
        ["rules", "h0.example", "delay=1s", "never=true"],
        ["rules", "h0.example", "delay=soon"],
    ],
    ids=" ".join,
)
def test_what_cannot_work_is_a_usage_error(words: list[str], ask: Command) -> None:
    answer = ask(*words)
    assert (answer.code, answer.out) == (2, "")
    assert len(answer.err.splitlines()) == 1


@pytest.mark.parametrize(
    "command", [["next"], ["explain", URLS[0]], ["evolutions"], ["use", "t"], ["rules", "a", "delay=1"]]
)
def test_one_place_is_required(command: list[str], streamsched: Command) -> None:
    answer = streamsched(*command)
    assert answer.code == 2
    assert "--service" in answer.err


def test_tokens_come_from_a_file_or_the_environment(
    ask: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(TOKEN)
    refused = ask("next")
    assert (refused.code, "401" in refused.err) == (6, True)
    (tmp_path / "token").write_text(f"{TOKENS['read']}\n", encoding="utf-8-sig")
    options = "--token-file", tmp_path / "token"
    assert ask("next", "--peek", *options).code == 0
    denied = ask("next", *options)
    assert (denied.code, "scope" in denied.err) == (6, True)
    assert TOKENS["read"] not in denied.err
    assert ask("next", "--token-file", tmp_path / "none").code == 2
    (tmp_path / "token").write_bytes(b"\xff")
    assert ask("next", *options).code == 2


@pytest.mark.parametrize(("url", "code"), [("http://127.0.0.1:9", 6), ("127.0.0.1:8080", 2), ("", 2)])
def test_a_service_that_is_not_there(url: str, code: int, streamsched: Command) -> None:
    streamsched("next", "--service", url).check_refused(code)


@pytest.mark.longer
@pytest.mark.parametrize("package", PACKAGES[: how_many(2, 5)])
def test_a_missing_package_of_the_service_is_named(tmp_path: Path, package: str) -> None:
    lines = f"import runpy, sys; sys.modules[{package!r}] = None; runpy.run_module('streamsched', run_name='__main__')"
    command = [sys.executable, "-c", lines, "serve", "--state", str(tmp_path / "state"), "--http", "127.0.0.1:0"]
    ended = subprocess.run(command, cwd=ROOT, text=True, capture_output=True, check=False, timeout=120)
    assert ended.returncode == 2
    assert package in ended.stderr
    assert "pip install 'streamsched[http]'" in ended.stderr
    assert "Traceback" not in ended.stderr
