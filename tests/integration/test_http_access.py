"""Who may call the service: tokens and their scopes, the Host header, rates, the audit log."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from streamsched import DurableScheduler
from streamsched.errors import SettingsError
from streamsched.http.open_http import open_http
from streamsched.http.server import listen
from streamsched.http.tokens import TokenFile
from streamsched.service.http_settings import HttpSettings
from tests.support.command_line import Command
from tests.support.http_service import TOKENS, Clock, Running, make_client, running, write_tokens

WHO = {  # a call of each scope, with a body that cannot be decoded: whoever may call it gets 400
    "crawl": ("POST", "/v1/next"),
    "read": ("GET", "/v1/rank?k"),
    "admin": ("PUT", "/v1/champion"),
}


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    with running(tmp_path_factory.mktemp("service"), tokens=True) as service:
        yield service


def call(client: httpx.Client, method: str, path: str) -> httpx.Response:
    return client.request(method, path, content=b"{", headers={"content-type": "application/json"})


@pytest.mark.parametrize("scope", WHO)
@pytest.mark.parametrize("token", ["crawl", "read", "admin", "all"])
def test_a_token_opens_what_its_scopes_name(service: Running, scope: str, token: str) -> None:
    with service.as_token(token) as client:
        answer = call(client, *WHO[scope])
    if token in (scope, "all"):
        assert answer.status_code == 400
    else:
        assert (answer.status_code, answer.json()["code"], answer.json()["expected"]) == (403, "no_scope", scope)


@pytest.mark.parametrize(
    "authorization", [None, "", "Bearer", "Bearer wrong", "Basic YTpi", f"Bearer {TOKENS['expired']}", "Bearer \xff"]
)
def test_no_wrong_and_expired_tokens_open_nothing(service: Running, authorization: str | None) -> None:
    headers = {} if authorization is None else {b"authorization": authorization.encode("latin-1")}
    with make_client(service.server.address) as client:
        answer = client.request(*WHO["read"], headers=headers)
    assert (answer.status_code, answer.json()["code"]) == (401, "no_token")
    assert answer.headers["www-authenticate"].startswith("Bearer ")


def test_health_and_description_need_no_token(service: Running) -> None:
    with make_client(service.server.address) as client:
        assert [client.get(path).status_code for path in ("/healthz", "/readyz", "/openapi.json")] == [200] * 3
        assert client.get("/metrics").status_code == 401


def test_every_route_but_these_needs_a_scope(service: Running) -> None:
    described = service.client.get("/openapi.json").json()["paths"]
    is_open = {path for path, methods in described.items() for one in methods.values() if not one["security"]}
    assert is_open == {"/healthz", "/readyz", "/openapi.json"}


def test_a_token_is_revoked_without_a_restart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("streamsched.http.tokens._LOOK_S", 0.0)
    with running(tmp_path, tokens=True) as service, service.as_token("read") as client:
        assert client.get("/v1/rank").status_code == 200
        path = tmp_path / "tokens.toml"
        path.write_text(path.read_text().replace('name = "read"', 'name = "read"\nexpires = 2001-01-01T00:00:00Z'))
        assert client.get("/v1/rank").status_code == 401
        path.write_text("not a file of tokens")  # as while it is edited: the tokens of before stay
        assert client.get("/v1/rank").status_code == 401
        assert service.client.get("/v1/rank").status_code == 200


def test_without_tokens_a_foreign_name_is_refused(tmp_path: Path) -> None:
    with running(tmp_path) as service:
        for host, status in (
            ("localhost", 200),
            ("127.0.0.1:1", 200),
            ("[::1]", 200),
            ("evil.example", 421),
            ("[", 421),
        ):
            assert service.client.get("/healthz", headers={"host": host}).status_code == status
            assert service.client.get("/v1/rank", headers={"host": host}).status_code == status


def test_a_browser_cannot_call_from_another_page(tmp_path: Path) -> None:
    """What a page may send without asking first is no JSON, and no answer to its question allows it."""
    with running(tmp_path) as service:
        for content_type in ("text/plain", "application/x-www-form-urlencoded", "multipart/form-data"):
            answer = service.client.post("/v1/next", content=b'{"k": 1}', headers={"content-type": content_type})
            assert answer.status_code == 415
        asked = service.client.options("/v1/next", headers={"origin": "https://evil.example"})
        assert asked.status_code == 405
        assert not any(name.startswith("access-control") for name in asked.headers)


def test_beyond_loopback_nothing_is_served_without_tokens(streamsched: Command, tmp_path: Path) -> None:
    for address in ("0.0.0.0:0", "[::]:0", "192.0.2.1:80", "example.org:80"):
        answer = streamsched("serve", "--state", tmp_path / "state", "--http", address)
        assert (answer.code, "http.tokens" in answer.err or "--http" in answer.err) == (2, True)


def test_a_caller_that_calls_too_often_waits(tmp_path: Path) -> None:
    with running(tmp_path, tokens=True, rate=5) as service, service.as_token("read") as client:
        answers = [client.get("/v1/champion") for _ in range(8)]
        assert [one.status_code for one in answers[:5]] == [200] * 5
        assert answers[-1].status_code == 429
        assert int(answers[-1].headers["retry-after"]) >= 1
        assert service.client.get("/v1/champion").status_code == 200  # another token has a rate of its own


def test_guessing_tokens_has_a_rate(tmp_path: Path) -> None:
    with running(tmp_path, tokens=True, rate=5) as service, service.as_token("guess") as client:
        assert {client.get("/v1/champion").status_code for _ in range(12)} == {401, 429}
        assert service.client.get("/v1/champion").status_code == 200


def test_the_audit_log_has_every_call_of_an_administrator(tmp_path: Path) -> None:
    audit = tmp_path / "log" / "audit.jsonl"
    audit.parent.mkdir()
    with running(tmp_path, tokens=True, audit=str(audit)) as service:
        service.client.put("/v1/rules", json={"rules": {"a.example": {"delay": "1s"}}})
        service.client.put("/v1/champion", json={"formula": "1 +"})
        service.client.post("/v1/hosts/a.example/block", json={"seconds": 9})
        service.client.put("/v1/politeness", json={"delay": "1s"})
        service.client.post("/v1/forget", json={"host": "a.example"})
        with service.as_token("read") as client:
            client.put("/v1/champion", json={"formula": "t"})
        service.client.get("/v1/rank")
    lines = [json.loads(line) for line in audit.read_text().splitlines()]
    calls = {line["call"]: line for line in lines if line["event"] == "call"}
    ends = {line["call"]: line["status"] for line in lines if line["event"] == "answer"}
    assert [(one["caller"], one["method"], one["path"]) for one in calls.values()] == [
        ("all", "PUT", "/v1/rules"),
        ("all", "PUT", "/v1/champion"),
        ("all", "POST", "/v1/hosts/a.example/block"),
        ("all", "PUT", "/v1/politeness"),
        ("all", "POST", "/v1/forget"),
        ("read", "PUT", "/v1/champion"),
    ]
    assert [ends[name] for name in calls] == [200, 422, 200, 200, 200, 403]
    assert json.loads(next(iter(calls.values()))["body"]) == {"rules": {"a.example": {"delay": "1s"}}}


def test_what_cannot_be_audited_is_not_done(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)

    def logged(event: str) -> int:
        return sum(record.msg == event for record in caplog.records)

    with running(tmp_path) as service:
        monkeypatch.setattr("streamsched.http.gate.os.fsync", _fail)
        answer = service.client.put("/v1/rules", json={"rules": {"a.example": {"delay": "1s"}}})
        monkeypatch.undo()
        assert answer.status_code == 503
        service.client.post("/v1/discover", json={"urls": ["https://a.example/"]})
        assert service.client.get("/v1/hosts/a.example").json()["rule"] is None
        assert (logged("calls refused"), logged("calls accepted again")) == (1, 0)
        service.client.put("/v1/rules", json={"rules": {"a.example": {"delay": "1s"}}})
        assert (logged("calls refused"), logged("calls accepted again")) == (1, 1)


def _fail(_handle: int) -> None:
    raise OSError(28, "No space left on device")


def test_a_port_in_use_is_named(streamsched: Command, tmp_path: Path) -> None:
    """Before a state is made."""
    with running(tmp_path) as service:
        answer = streamsched("serve", "--state", tmp_path / "new", "--http", service.server.address)
        assert answer.code == 2
        assert not (tmp_path / "new").exists()
        settings = HttpSettings(service.server.address)
        with pytest.raises(SettingsError, match=r"http\.address"):
            listen(settings)


def test_token_makes_tokens_that_open(streamsched: Command, tmp_path: Path) -> None:
    path = write_tokens(tmp_path / "tokens.toml")
    made = streamsched("token", "made", "--scope", "read", "--lasts", "1d", "--file", path)
    assert (made.code, made.err) == (0, "")
    assert made.out.strip() not in path.read_text()
    assert streamsched("token", "made", "--scope", "read", "--file", path).code == 2  # its name is in use
    assert streamsched("token", "bad name", "--scope", "read").code == 2
    streamsched("token", "lasting", "--scope", "read", "--lasts", "100000000d").check_refused(
        2, "before the year 10000"
    )
    shown = streamsched("token", "shown", "--scope", "crawl", "--scope", "read")
    assert 'scopes = ["crawl", "read"]' in shown.err
    tokens = TokenFile(path, lambda: 0.0, lambda: 0.0)
    found = tokens.find(made.out.strip())
    assert found is not None
    assert found.scopes == {"read"}


def test_until_it_is_prepared_only_monitors_are_answered(tmp_path: Path) -> None:
    answers = dict[str, httpx.Response]()
    http = HttpSettings("127.0.0.1:0")
    with DurableScheduler.open(tmp_path / "state") as scheduler, listen(http) as listener:
        host, port = listener.getsockname()
        with make_client(f"{host}:{port}", None) as client:

            def ask() -> None:
                answers.update({path: client.get(path) for path in ("/healthz", "/readyz", "/v1/rank", "/metrics")})

            with open_http(scheduler, http, Clock().read, listener, prepare=ask):
                assert client.get("/readyz").status_code == client.get("/v1/rank").status_code == 200
    assert {path: answer.status_code for path, answer in answers.items()} == {
        "/healthz": 200,
        "/readyz": 503,
        "/v1/rank": 503,
        "/metrics": 200,
    }
    assert "compiled" in answers["/readyz"].json()["detail"]
    assert answers["/v1/rank"].json()["code"] == "starting"
