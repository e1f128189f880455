"""Figures of the service: samples, metrics, and what the files in deploy/ and docs/ say of them."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import threading
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from streamsched import DurableScheduler, Outcome, OutcomeBatch
from streamsched.http.scheduler_thread import SchedulerThread
from streamsched.http.service_figures import KEPT_SAMPLES, Sampler, ServiceFigures
from streamsched.service.ingest_loop import StreamProgress
from tests.support.http_service import NOW, URLS, Running, outcome, running
from tests.support.paths import ROOT
from tests.support.waiting import CALL_S, pause

DAY = 86_400.0
RULES = ROOT / "deploy" / "prometheus" / "streamsched.rules.yml"
DASHBOARD = ROOT / "deploy" / "grafana" / "streamsched.json"
NAMES = re.compile(r"\b((?:streamsched|process)_[a-z_]+)\b")


@pytest.fixture
def service(tmp_path: Path) -> Iterator[Running]:
    with running(tmp_path, sample_every=0.02) as service:
        yield service


@pytest.fixture
def scheduler(tmp_path: Path) -> Iterator[DurableScheduler]:
    with DurableScheduler.open(tmp_path / "state") as scheduler:
        yield scheduler


def crawl(service: Running, days: int, k: int = 20) -> None:
    """Visit pages for some days; those of h0.example change daily, the others never."""
    service.client.post("/v1/discover", json={"urls": URLS})
    for _ in range(days):
        service.clock.now_s += DAY
        pages = service.client.post("/v1/next", json={"k": k}).json()["pages"]
        found = [outcome(page["url"], service.clock.read(), changed=page["host"] == "h0.example") for page in pages]
        service.client.post("/v1/outcomes", json={"outcomes": found})


def stats(service: Running, **query: Any) -> dict[str, Any]:
    answer = service.client.get("/v1/stats", params=query)
    assert answer.status_code == 200
    found: dict[str, Any] = answer.json()
    return found


def wait_for_samples(service: Running, more: int = 2) -> dict[str, Any]:
    """Return the figures after `more` further samples."""
    begun = stats(service)["latest"]["at_s"]
    while len((found := stats(service, since=begun))["samples"]) < more:
        pause(CALL_S)
    return found


def metrics(service: Running) -> dict[tuple[str, tuple[tuple[str, str], ...]], float]:
    """Return all values of /metrics by name and labels."""
    families = text_string_to_metric_families(service.client.get("/metrics").text)
    return {(one.name, tuple(sorted(one.labels.items()))): one.value for family in families for one in family.samples}


def test_samples_show_what_happened_and_what_is_believed(service: Running) -> None:
    crawl(service, 12)
    service.client.post("/v1/next", json={"k": 3})
    found = wait_for_samples(service)
    latest, calibration = found["latest"], found["calibration"]
    assert (latest["pages"], latest["leased"], latest["handed_out"]) == (40, 3, 12 * 20 + 3)
    assert latest["applied"] == found["outcomes"]["applied"] == 12 * 20
    assert (latest["served"], latest["hits"]) == (found["outcomes"]["served"], found["outcomes"]["hits"])
    assert 0 < latest["hits"] < latest["served"] == calibration["visits"]
    assert calibration["observed"] == pytest.approx(latest["hits"] / latest["served"])
    assert sum(one["visits"] for one in calibration["bins"]) == calibration["visits"]
    distance = sum(abs(one["predicted"] - one["observed"]) for one in calibration["bins"])
    assert latest["calibration_error"] == calibration["error"] == pytest.approx(distance / calibration["visits"])
    assert 0.3 < latest["freshness"] < 1.0
    assert (latest["lag"], latest["drifted"]) == (None, None)


def test_samples_are_those_later_than_asked_and_in_order(service: Running) -> None:
    found = wait_for_samples(service, 4)
    times = [sample["at_s"] for sample in found["samples"]]
    assert times == sorted(times)
    assert found["latest"] == found["samples"][-1]
    later = stats(service, since=times[-2])["samples"]
    assert later[0]["at_s"] == times[-1]
    assert stats(service, since=1e15)["samples"] == []


def test_outcomes_and_batches_from_elsewhere_are_counted(service: Running) -> None:
    outcomes = OutcomeBatch.from_outcomes(
        [Outcome("https://stream.example/", NOW - 9.0), Outcome(URLS[0], NOW + 9 * DAY)]
    )
    service.scheduler.take(outcomes, "topic", 2)
    service.scheduler.next_batch(1, now=NOW + 1.0)
    found = stats(service)
    assert (found["outcomes"]["applied"], found["outcomes"]["rejected"]) == (1, 1)
    assert (found["batches"], found["handed_out"]) == (1, 1)


def test_service_is_ready_once_its_stream_has_caught_up(service: Running) -> None:
    def ready() -> tuple[int, dict[str, Any]]:
        answer = service.client.get("/readyz")
        return answer.status_code, answer.json()

    figures = service.server.figures
    assert ready() == (200, {"status": "ok", "lag": None, "behind_s": None})
    figures.note_stream(StreamProgress(None, None, at_end=None))  # no partition is assigned yet
    assert ready()[0] == 200
    figures.note_stream(StreamProgress(4_000, NOW - 7_200.0, at_end=False))
    status, answer = ready()
    assert (status, answer["code"]) == (503, "not_ready")
    assert "4000 messages and 2 h behind" in answer["detail"]
    figures.note_stream(StreamProgress(3, NOW - 30.0, at_end=False))
    status, answer = ready()
    assert (status, answer["status"], answer["lag"]) == (200, "ok", 3)
    assert answer["behind_s"] == pytest.approx(30.0, abs=5.0)
    figures.note_stream(StreamProgress(9_000, NOW - 7_200.0, at_end=False))  # later it says so, and serves on
    status, answer = ready()
    assert (status, answer["lag"]) == (200, 9_000)
    figures.note_stream(StreamProgress(0, NOW - 7_200.0, at_end=True))
    assert ready()[1]["behind_s"] == 0.0


def test_file_is_behind_until_its_end(service: Running) -> None:
    figures = service.server.figures
    figures.note_stream(StreamProgress(0, None, at_end=False))
    assert service.client.get("/readyz").status_code == 503
    figures.note_stream(StreamProgress(0, NOW - 9e6, at_end=True))
    assert service.client.get("/readyz").status_code == 200


def test_metrics_are_the_figures(service: Running) -> None:
    crawl(service, 9)
    service.server.figures.note_stream(StreamProgress(77, service.clock.now_s, at_end=False))
    service.server.figures.drifted = True
    found = wait_for_samples(service)
    values, latest = metrics(service), found["latest"]

    def value(name: str, **labels: str) -> float:
        return values[f"streamsched_{name}", tuple(sorted(labels.items()))]

    fates = ("applied", "duplicates", "late", "rejected", "refused")
    assert {fate: value("outcomes_total", fate=fate) for fate in fates} == {
        fate: found["outcomes"][fate] for fate in fates
    }
    results = ("changed", "unchanged", "first_visits", "failures", "unproven", "robots_denied", "not_attempted")
    assert sum(value("applied_outcomes_total", result=one) for one in results) == found["outcomes"]["applied"]
    assert value("applied_outcomes_total", result="changed") == found["outcomes"]["changed"] > 0
    assert value("hits_total") == latest["hits"] < value("served_outcomes_total") == latest["served"]
    assert value("pages_handed_out_total") == 9 * 20
    assert value("request_seconds_count", operation="next_batch") == value("batches_total") == 9
    assert value("request_seconds_bucket", operation="next_batch", le="+Inf") == 9
    assert value("requests_total", status="200") > 18
    assert (value("lag_messages"), value("drifted"), value("ready"), value("pages")) == (77, 1, 1, 40)
    assert value("freshness_ratio") == pytest.approx(latest["freshness"], abs=1e-6)  # time goes on
    assert value("calibration_error_ratio") == pytest.approx(latest["calibration_error"])
    formula = service.scheduler.formula.text
    assert value("champion_info", formula=formula, origin="first", record="") == 1


def test_what_is_not_known_has_no_value(service: Running) -> None:
    names = {name for name, _ in metrics(service)}
    assert "streamsched_pages" in names
    unknown = {
        "lag_messages",
        "freshness_ratio",
        "calibration_error_ratio",
        "predicted_ratio",
        "observed_ratio",
        "drifted",
    }
    assert names.isdisjoint({f"streamsched_{name}" for name in unknown})


def test_monitors_do_not_wait_for_the_scheduler(service: Running) -> None:
    with service.scheduler.core.lock:
        assert service.client.get("/metrics").status_code == 200
        assert stats(service)["pages"] == 0


def test_the_age_of_the_image_is_that_of_unsaved_changes(scheduler: DurableScheduler) -> None:
    seconds = count(100.0)
    figures = ServiceFigures(scheduler, SchedulerThread(scheduler, 1), lambda: NOW, 5.0, seconds.__next__)
    assert figures.take().image_age_s == 0.0
    scheduler.discover(URLS, now=NOW)
    ages = [figures.take().image_age_s for _ in range(3)]
    assert ages == sorted(set(ages))
    assert ages[0] > 0.0
    scheduler.snapshot()
    assert figures.take().image_age_s == 0.0


def test_rates_are_those_since_the_sample_before(scheduler: DurableScheduler) -> None:
    seconds = count(100.0)
    figures = ServiceFigures(scheduler, SchedulerThread(scheduler, 1), lambda: NOW, 5.0, seconds.__next__)
    scheduler.observe([Outcome(url, NOW - DAY) for url in URLS])
    before = next(seconds)
    first = figures.take()
    assert first.hit_rate is None
    assert first.outcomes_per_s is not None
    assert 40 / (next(seconds) - before) <= first.outcomes_per_s <= 40
    batch = scheduler.next_batch(10, now=NOW)
    scheduler.observe([Outcome(url, NOW, changed=i < 3) for i, url in enumerate(batch.urls)])
    assert figures.take().hit_rate == pytest.approx(0.3)
    third = figures.take()
    assert (third.outcomes_per_s, third.hit_rate) == (0.0, None)


def test_only_the_newest_samples_are_kept(scheduler: DurableScheduler) -> None:
    times = count(NOW)
    figures = ServiceFigures(scheduler, SchedulerThread(scheduler, 1), times.__next__, 5.0)
    for _ in range(KEPT_SAMPLES + 10):
        figures.take()
    assert len(figures.since(0.0)) == KEPT_SAMPLES


def test_a_sample_that_fails_does_not_end_the_others() -> None:
    class Failing:
        every_s = 0.001
        taken = 0

        def __init__(self) -> None:
            self.third = threading.Event()

        def take(self) -> None:
            self.taken += 1
            if self.taken == 3:
                self.third.set()
            raise OSError("no sample")

    figures: Any = Failing()
    with Sampler(figures):
        assert figures.third.wait(10.0)


def exposed(service: Running) -> set[str]:
    """The names of all metrics, those without a value too."""
    found = re.findall(r"^# TYPE (\S+) ", service.client.get("/metrics").text, re.MULTILINE)
    return set(found)


def families(text: str) -> set[str]:
    """The metrics that a text names, without the suffixes of histograms."""
    return {re.sub(r"_(bucket|sum|count)$", "", name) for name in NAMES.findall(text)} - {"process_"}


def test_the_documentation_lists_all_metrics_and_no_other(service: Running) -> None:
    documented = families((ROOT / "docs" / "metrics.md").read_text())
    own = {name for name in exposed(service) if name.startswith("streamsched_")}
    assert documented == own


def test_alerts_and_dashboard_read_metrics_that_exist(service: Running) -> None:
    known = exposed(service)
    for path in (RULES, DASHBOARD):
        assert families(path.read_text()) <= known, path.name


def promtool(*words: str | Path, given: str | None = None) -> None:
    tool = shutil.which("promtool")
    if tool is None:
        pytest.skip("promtool is not installed: Debian has it in the package prometheus")
    done = subprocess.run([tool, *words], input=given, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stderr == "" or "SUCCESS" in done.stdout


def test_fetches_are_counted_by_what_their_status_says(service: Running) -> None:
    statuses = [200, 304, None, 404, 410, 403, 429, 500, 0, "robots_denied", "not_attempted"]
    at = service.clock.read()
    service.scheduler.observe(OutcomeBatch(URLS[:11], [at] * 11, status=statuses))
    expected = {"fetched": 3, "gone": 2, "client_error": 1, "too_many_requests": 1, "server_error": 1}
    expected |= {"no_response": 1, "robots_denied": 1}
    assert wait_for_samples(service)["latest"]["fetches"] == expected
    assert {
        result: metrics(service)["streamsched_fetches_total", (("result", result),)] for result in expected
    } == expected


def test_promtool_accepts_the_metrics(service: Running) -> None:
    crawl(service, 3)
    promtool("check", "metrics", given=service.client.get("/metrics").text)


def test_alerts_fire_when_they_should() -> None:
    promtool("check", "rules", RULES)
    promtool("test", "rules", RULES.with_suffix(".test.yml"))
    promtool("check", "config", "--syntax-only", RULES.with_name("prometheus.yml"))


def test_every_alert_has_a_test_and_a_line_in_the_documentation() -> None:
    alerts = set(re.findall(r"alert: (\w+)", RULES.read_text()))
    tests, page = RULES.with_suffix(".test.yml").read_text(), (ROOT / "docs" / "metrics.md").read_text()
    assert {name for name in alerts if f'alertname="{name}"' in tests} == alerts
    assert set(re.findall(r"^\| `(Streamsched\w+)` \|", page, re.MULTILINE)) == alerts


def test_queries_of_the_dashboard_are_valid(tmp_path: Path) -> None:
    board = json.loads(DASHBOARD.read_text())
    queries = [target["expr"] for panel in board["panels"] for target in panel["targets"]]
    queries += [one["expr"] for one in board["annotations"]["list"]]
    assert len(queries) > 20
    rules = [
        {"record": f"query:{number}", "expr": query.replace("$instance", "a").replace("$__rate_interval", "1m")}
        for number, query in enumerate(queries)
    ]
    path = tmp_path / "queries.json"  # YAML has JSON in it
    path.write_text(json.dumps({"groups": [{"name": "dashboard", "rules": rules}]}))
    promtool("check", "rules", path)
