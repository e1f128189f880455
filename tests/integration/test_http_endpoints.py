"""Every endpoint with success, in each media type; and what is said of requests that are wrong."""

from __future__ import annotations

import shutil
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import httpx
import msgspec
import pytest

from streamsched import Outcome, OutcomeBatch, Scheduler
from streamsched.api.values import MOST_RECORDS
from streamsched.frames import encode_frame
from streamsched.http.protocol import bodies
from streamsched.persistence.state_directory import lock_state
from tests.support.http_service import NOW, URLS, Running, outcome, running

FRAMES = {"content-type": "application/vnd.streamsched.frames"}
PAGE = quote(URLS[0], safe="")
CALLS: list[tuple[str, str, Any]] = [  # in an order in which each succeeds
    ("POST", "/v1/discover", {"urls": URLS, "importance": 2}),
    ("POST", "/v1/outcomes", {"outcomes": [outcome(URLS[0], NOW - 60, changed=True, status=200)]}),
    ("POST", "/v1/signals", {"signals": [{"url": URLS[1], "at": NOW - 30, "source": "feed"}]}),
    ("POST", "/v1/next", {"k": 3, "lease": 90, "hosts": ["h1.example"], "per_host": 2, "key": "a"}),
    ("POST", "/v1/offer", {"k": 3, "lease": 90, "hosts": ["h1.example"], "per_host": 2, "keys": ["a"]}),
    ("POST", "/v1/grant", {"urls": URLS[20:22], "lease": 90, "key": "b"}),
    ("POST", "/v1/release", {"urls": URLS[:2]}),
    ("POST", "/v1/ask", {"urls": URLS[2:4]}),
    ("GET", "/v1/rank?k=5", None),
    ("GET", f"/v1/explain?url={PAGE}&k=3", None),
    ("GET", "/v1/changes?limit=3&wait=1ms", None),
    ("GET", f"/v1/pages/{PAGE}", None),
    ("GET", "/v1/hosts?start=0&size=2", None),
    ("GET", "/v1/hosts/h0.example", None),
    (
        "PUT",
        "/v1/rules",
        {"rules": {"h0.example": {"delay": "2s"}, "h1.example/*": {"never": True}, "h2.example": None}},
    ),
    ("GET", "/v1/rules", None),
    ("PUT", "/v1/politeness", {"delay": "1s", "in_flight": None, "retire_after": 5}),
    ("GET", "/v1/politeness", None),
    ("POST", "/v1/hosts/h3.example/block", {"seconds": 3600}),
    ("PUT", "/v1/champion", {"formula": "freshness"}),
    ("GET", "/v1/champion", None),
    ("GET", "/v1/evolutions?last=1", None),
    ("GET", "/v1/trial", None),
    ("GET", f"/v1/training?cycles=3&now={NOW}&draws=2&share=0.5&seed=1", None),
    ("GET", "/v1/week", None),
    ("GET", f"/v1/week?url={PAGE}", None),
    ("GET", "/v1/surges?k=3", None),
    ("GET", "/v1/signals/sources", None),
    ("GET", "/v1/formula", None),
    ("GET", "/v1/stats", None),
    ("POST", "/v1/forget", {"urls": URLS[:2]}),
    ("POST", "/v1/snapshot", {}),
    ("GET", "/healthz", None),
    ("GET", "/readyz", None),
    ("GET", "/metrics", None),
    ("GET", "/openapi.json", None),
]


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    with running(tmp_path_factory.mktemp("service")) as service:
        yield service


@pytest.fixture(scope="module")
def crawler(service: Running) -> httpx.Client:
    for _, path, body in CALLS[:1]:
        assert service.client.post(path, json=body).status_code == 200
    return service.client


@pytest.mark.parametrize("media_type", ["application/json", "application/msgpack"])
def test_every_endpoint_answers(tmp_path_factory: pytest.TempPathFactory, media_type: str) -> None:
    code = msgspec.msgpack if media_type.endswith("msgpack") else msgspec.json
    folder = tmp_path_factory.mktemp("service")
    with running(folder, snapshots=str(folder / "copies")) as service:
        for method, path, body in CALLS:
            content = None if body is None else code.encode(body)
            headers = {"accept": media_type, "content-type": media_type}
            answer = service.client.request(method, path, content=content, headers=headers)
            assert answer.status_code == 200, (path, answer.text)
            if path.startswith("/v1"):
                assert answer.headers["content-type"] == media_type
                assert code.decode(answer.content)


def test_the_calls_of_these_tests_are_all_there_are(service: Running) -> None:
    described = {
        (method.upper(), path)
        for path, methods in service.client.get("/openapi.json").json()["paths"].items()
        for method in methods
    }
    called = set()
    for method, path, _ in CALLS:
        template = path.partition("?")[0].replace(PAGE, "{url}")
        called.add((method, template.replace("h0.example", "{host}").replace("h3.example", "{host}")))
    assert called == described


def test_validators_come_back_with_the_page(crawler: httpx.Client) -> None:
    seen = {"status": 200, "changed": True, "etag": 'W/"a"', "last_modified": "Wed, 21 Oct 2015 07:28:00 GMT"}
    framed = OutcomeBatch.from_outcomes(
        [Outcome(URLS[6], NOW - 9.0, **seen), Outcome(URLS[7], NOW - 9.0, changed=True)]  # type: ignore[arg-type]
    )
    answers = [
        crawler.post("/v1/outcomes", json={"outcomes": [outcome(URLS[5], NOW - 9.0, **seen)]}),
        crawler.post("/v1/outcomes", content=encode_frame(framed), headers=FRAMES),
    ]
    assert [answer.json()["applied"] for answer in answers] == [1, 2]
    crawler.post("/v1/ask", json={"urls": URLS[5:8]})
    pages = {page["url"]: page for page in crawler.post("/v1/next", json={"k": 1_000}).json()["pages"]}
    for url in URLS[5:7]:
        assert {name: pages[url][name] for name in ("etag", "last_modified")} == {
            name: seen[name] for name in ("etag", "last_modified")
        }
    assert (pages[URLS[7]]["etag"], pages[URLS[7]]["last_modified"]) == (None, None)


def test_rejected_outcomes_are_named_and_the_others_applied(crawler: httpx.Client) -> None:
    events = [
        outcome("https://new.example/", NOW - 10.0),
        outcome("https://new.example/", 1.7e12),
        outcome("", NOW - 5.0),
        outcome("https://new.example/", NOW - 1.0, importance=-1.0, fingerprint="00000000000000ff"),
        outcome("https://new.example/", NOW, changed=True, status="robots_denied"),
        outcome("new.example/", NOW),
        outcome("https://new.example/", 0),
        outcome("https://new.example/", -5),
    ]
    counts = crawler.post("/v1/outcomes", json={"outcomes": events}).json()
    assert (counts["applied"], counts["rejected"], counts["first_visits"], counts["robots_denied"]) == (2, 6, 1, 1)
    assert [(one["record"], one["field"]) for one in counts["rejections"]] == [
        (1, "fetched_at"),
        (2, "url"),
        (3, "importance"),
        (5, "url"),
        (6, "fetched_at"),
        (7, "fetched_at"),
    ]
    assert counts["rejections"][0]["found"] == "1700000000000.0"


@pytest.mark.parametrize(
    ("path", "body", "field", "found"),
    [
        ("/v1/next", {"k": 0}, "k", "0"),
        ("/v1/next", {"k": MOST_RECORDS + 1}, "k", str(MOST_RECORDS + 1)),
        ("/v1/next", {"k": 1, "hosts": ["no host/"]}, "hosts", "'no host/'"),
        ("/v1/outcomes", {"outcomes": [{"url": "https://a.example/"}]}, "outcomes[0].fetched_at", "nothing"),
        ("/v1/outcomes", {"outcomes": [outcome("https://a.example/", NOW, fingerprint="x")]}, None, "'x'"),
        ("/v1/signals", {"signals": [{"url": "u", "at": NOW}]}, "signals[0].source", "nothing"),
        ("/v1/forget", {}, "urls", "None"),
        ("/v1/forget", {"urls": [], "host": "a.example"}, "urls", None),
        ("/v1/forget", {"host": "a.example/news"}, "host", "'a.example/news'"),
    ],
)
def test_problems_name_field_found_and_expected(
    crawler: httpx.Client, path: str, body: object, field: str | None, found: str | None
) -> None:
    answer = crawler.post(path, json=body)
    assert answer.status_code == 422
    assert answer.headers["content-type"] == "application/problem+json"
    problem = answer.json()
    assert (problem["status"], problem["code"]) == (422, "invalid")
    assert found is None or problem["found"] == found
    assert field is None or problem["field"] == field
    assert problem["expected"]


@pytest.mark.parametrize(
    ("method", "path", "given", "status", "code"),
    [
        ("GET", "/v2/next", {}, 404, "unknown_path"),
        ("GET", "/v1/next", {}, 405, "method_not_allowed"),
        ("GET", "/v1/explain?url=nowhere", {}, 404, "unknown_page"),
        ("GET", "/v1/pages/nowhere", {}, 404, "unknown_page"),
        ("GET", "/v1/hosts/nowhere.example", {}, 404, "unknown_host"),
        ("GET", "/v1/pages/%ff", {}, 400, "malformed_path"),
        ("GET", "/v1/rank?k=1&k=2", {}, 400, "malformed_query"),
        ("GET", "/v1/rank?k", {}, 400, "malformed_query"),
        ("GET", "/v1/rank?k=x", {}, 422, "invalid"),
        ("GET", "/v1/rank", {"headers": {"accept": "text/html"}}, 406, "not_acceptable"),
        ("POST", "/v1/next", {"content": b"{}"}, 415, "media_type"),
        ("POST", "/v1/next", {"content": b"{", "headers": {"content-type": "application/json"}}, 400, "malformed"),
        (
            "POST",
            "/v1/next",
            {"content": b"\x91", "headers": {"content-type": "application/msgpack"}},
            400,
            "malformed",
        ),
        ("POST", "/v1/outcomes", {"content": b"\x80", "headers": FRAMES}, 422, "invalid"),
        ("POST", "/v1/outcomes", {"content": b"\xc1", "headers": FRAMES}, 400, "malformed"),
        ("PUT", "/v1/champion", {"json": {"formula": "1 +"}}, 422, "invalid"),
        ("PUT", "/v1/champion", {"json": {"formula": 77}}, 422, "invalid"),
        ("POST", "/v1/hosts/a%20b/block", {"json": {"seconds": 1}}, 422, "invalid"),
        ("POST", "/v1/snapshot", {}, 415, "media_type"),  # as a web page can send it
        ("POST", "/v1/snapshot", {"json": {"to": "/tmp"}}, 422, "invalid"),
        ("POST", "/v1/snapshot", {"json": {}}, 404, "no_snapshots"),
    ],
)
def test_refusals(crawler: httpx.Client, method: str, path: str, given: Any, status: int, code: str) -> None:
    answer = crawler.request(method, path, **given)
    assert (answer.status_code, answer.json()["code"]) == (status, code)
    if status == 405:
        assert answer.headers["allow"] == "POST"


def test_a_large_body_is_decoded_beside_the_event_loop(crawler: httpx.Client, monkeypatch: pytest.MonkeyPatch) -> None:
    threads: list[str] = []

    def decode(*given: Any) -> Any:
        threads.append(threading.current_thread().name)
        return bodies.decode_body(*given)

    monkeypatch.setattr(bodies.BodyReader, "read", lambda self, body, media_type: decode(body, media_type, self.kind))
    for count in (1, 10_000):
        urls = [f"https://large.example/{number:020}" for number in range(count)]
        assert crawler.post("/v1/release", json={"urls": urls}).json() == {"known": 0}
    assert [name.startswith("streamsched decoder") for name in threads] == [False, True]


@pytest.mark.parametrize("path", ["/healthz", "/v1/rank", "/"])
def test_head_answers_as_get_without_a_body(crawler: httpx.Client, path: str) -> None:
    whole, head = crawler.get(path), crawler.head(path)
    assert (head.status_code, head.content) == (200, b"")
    assert head.headers["content-type"] == whole.headers["content-type"]
    assert int(head.headers["content-length"]) > 0


@pytest.mark.parametrize("path", ["/v1", "/v1/next/", "/v1/pages/a/b", "/V1/next"])
def test_other_paths_lead_nowhere(crawler: httpx.Client, path: str) -> None:
    assert crawler.get(path).status_code == 404


def test_a_path_says_by_which_methods_it_is_called(crawler: httpx.Client) -> None:
    assert crawler.delete("/v1/champion").headers["allow"] == "GET, HEAD, PUT"


@pytest.mark.parametrize(
    ("target", "rule", "field"),
    [
        ("a.example/*", {"delay": "1s"}, "rules.a.example/*"),
        ("a.example", {"min_revisit": "2d", "max_revisit": "1d"}, "rules.a.example.min_revisit"),
    ],
)
def test_an_invalid_rule_is_named_by_its_target(
    crawler: httpx.Client, target: str, rule: dict[str, object], field: str
) -> None:
    answer = crawler.put("/v1/rules", json={"rules": {"first.example": {"delay": 0, "in_flight": 1}, target: rule}})
    assert (answer.status_code, answer.json()["field"]) == (422, field)
    assert crawler.get("/v1/hosts/a*b.example").json()["field"] == "host"


def test_a_column_that_a_frame_cannot_have_is_named(crawler: httpx.Client) -> None:
    frame = msgspec.msgpack.decode(encode_frame(OutcomeBatch(["https://a.example/"], [NOW])))
    answer = crawler.post("/v1/outcomes", content=msgspec.msgpack.encode(frame | {"fingerprints": b""}), headers=FRAMES)
    problem = answer.json()
    assert (answer.status_code, problem["field"], problem["expected"]) == (422, "fingerprints", "no field of this name")


def test_a_frame_has_a_bound(crawler: httpx.Client) -> None:
    count = MOST_RECORDS + 1
    frame = encode_frame(OutcomeBatch(["https://a.example/"] * count, [NOW] * count))
    answer = crawler.post("/v1/outcomes", content=frame, headers=FRAMES)
    assert (answer.status_code, answer.json()["field"]) == (422, "outcomes")


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"delay": "soon"}, "delay"),
        ({"retire_after": 256}, "retire_after"),
        ({"min_revisit": "2d", "max_revisit": "1d"}, "min_revisit"),
        ({"backoff": "8d"}, "backoff_most"),  # longer than the one in force
    ],
)
def test_politeness_settings_that_are_refused_change_nothing(
    crawler: httpx.Client, change: dict[str, object], field: str
) -> None:
    before = crawler.get("/v1/politeness").json()
    answer = crawler.put("/v1/politeness", json={"clock_skew": 77.0, **change})
    assert (answer.status_code, answer.json()["field"]) == (422, field)
    assert crawler.get("/v1/politeness").json() == before


def test_a_copy_is_the_state_as_it_was(tmp_path: Path) -> None:
    copies = tmp_path / "copies"
    with running(tmp_path, snapshots=str(copies)) as service:
        service.client.post("/v1/discover", json={"urls": URLS})
        service.client.post("/v1/next", json={"k": 7})
        digest = service.scheduler.digest()
        answer = service.client.post("/v1/snapshot", json={}).json()
        file = Path(answer["file"])
        assert (file.parent.parent, file.stat().st_size) == (copies, answer["size"])
        service.client.post("/v1/forget", json={"urls": URLS})
        assert Scheduler.load(file.parent).digest() == digest
        with lock_state(copies):  # as while another copy is made
            busy = service.client.post("/v1/snapshot", json={})
        assert (busy.status_code, busy.json()["code"]) == (409, "snapshot_running")
        assert service.client.get("/readyz").status_code == 200
        shutil.rmtree(copies)
        copies.touch()
        assert service.client.post("/v1/snapshot", json={}).status_code == 503
        assert service.client.get("/readyz").status_code == 200  # the state itself can be written


def test_every_answer_forbids_what_browsers_need_not_do(crawler: httpx.Client) -> None:
    for path in ("/healthz", "/v1/rank", "/nothing"):
        headers = crawler.get(path).headers
        assert headers["content-security-policy"] == "default-src 'none'; frame-ancestors 'none'"
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["cache-control"] == "no-store"
