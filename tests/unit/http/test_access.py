"""Tokens and their file, rates, settings of the service."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from streamsched.errors import SettingsError
from streamsched.http.gate import RateLimit
from streamsched.http.tokens import TokenFile, make_token, read_tokens, write_entry
from streamsched.service.http_settings import HttpSettings

HASH = "sha256:" + hashlib.sha256(b"x").hexdigest()


def entry(**fields: object) -> str:
    given = {"name": '"a"', "hash": f'"{HASH}"', "scopes": '["read"]'} | fields
    return "[[token]]\n" + "".join(f"{name} = {value}\n" for name, value in given.items() if value is not None)


def write(folder: Path, text: str) -> Path:
    path = folder / "tokens.toml"
    path.write_text(text)
    return path


def test_tokens_are_all_different_and_long() -> None:
    tokens = {make_token() for _ in range(100)}
    assert len(tokens) == 100
    assert {len(token) for token in tokens} == {46}


def test_an_entry_is_read_as_it_was_written(tmp_path: Path) -> None:
    path = write(
        tmp_path, write_entry("one", "a.1", ["read", "crawl"], 1_800_000_000.0) + write_entry("two", "b", ["admin"])
    )
    first, second = read_tokens(path)
    assert (first.name, set(first.scopes), first.expires_s) == ("a.1", {"read", "crawl"}, 1_800_000_000.0)
    assert first.digest == hashlib.sha256(b"one").digest()
    assert (set(second.scopes), second.expires_s) == ({"admin"}, None)
    assert "one" not in path.read_text()
    path.write_text(path.read_text(), encoding="utf-8-sig")
    assert [token.name for token in read_tokens(path)] == ["a.1", "b"]


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[[token]",
        "token = 3",
        "[token]",
        entry() + "[other]\n",
        entry() + entry(),
        entry(name=None),
        entry(name='""'),
        entry(name='"a b"'),
        entry(hash='"x"'),
        entry(hash=3),
        entry(scopes="[]"),
        entry(scopes='["write"]'),
        entry(scopes='"read"'),
        entry(expires='"soon"'),
        entry(expires="2027-01-01"),
        entry(color='"red"'),
    ],
)
def test_a_file_that_is_not_valid_is_refused(tmp_path: Path, text: str) -> None:
    with pytest.raises(SettingsError):
        read_tokens(write(tmp_path, text))


def test_a_missing_file_is_refused(tmp_path: Path) -> None:
    for path in (tmp_path / "none.toml", tmp_path):
        with pytest.raises(SettingsError, match="tokens"):
            TokenFile(path, lambda: 0.0, lambda: 0.0)


def test_a_token_is_valid_until_it_expires(tmp_path: Path) -> None:
    now = [1_799_999_999.0]
    tokens = TokenFile(write(tmp_path, write_entry("x", "a", ["read"], 1_800_000_000.0)), lambda: now[0], lambda: 0.0)
    assert tokens.find("x") is not None
    assert tokens.find("y") is None
    assert tokens.find("") is None
    now[0] += 1.0
    assert tokens.find("x") is None


def test_each_caller_has_a_rate_of_its_own() -> None:
    now = [0.0]
    limit = RateLimit(3, lambda: now[0])
    assert [limit.wait_s("a") == 0.0 for _ in range(4)] == [True, True, True, False]
    assert limit.wait_s("b") == 0.0
    wait_s = limit.wait_s("a")
    assert 0.0 < wait_s <= 1 / 3
    now[0] += wait_s
    assert limit.wait_s("a") == 0.0
    assert limit.wait_s("a") > 0.0
    now[0] += 1_000.0  # what is saved up is one second's
    assert [limit.wait_s("a") == 0.0 for _ in range(4)] == [True, True, True, False]


def test_callers_are_forgotten_beyond_a_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("streamsched.http.gate._MOST_CALLERS", 10)
    limit = RateLimit(1, lambda: 0.0)
    for number in range(1_000):
        limit.wait_s(str(number))
    assert len(limit._buckets) == 10


@pytest.mark.parametrize(
    ("address", "host", "port", "is_loopback"),
    [
        ("127.0.0.1:8080", "127.0.0.1", 8080, True),
        ("127.8.8.8:1", "127.8.8.8", 1, True),
        ("[::1]:0", "::1", 0, True),
        ("localhost:65535", "localhost", 65535, True),
        ("0.0.0.0:80", "0.0.0.0", 80, False),
        ("[::]:80", "::", 80, False),
        ("crawl.example:80", "crawl.example", 80, False),
    ],
)
def test_addresses(address: str, host: str, port: int, is_loopback: bool) -> None:
    settings = HttpSettings(address, tokens="tokens.toml")
    assert (settings.host, settings.port, settings.is_loopback) == (host, port, is_loopback)
    if not is_loopback:
        with pytest.raises(SettingsError, match="tokens"):
            HttpSettings(address)


@pytest.mark.parametrize(
    "address", ["", "8080", ":8080", "localhost", "localhost:", "localhost:x", "a:65536", "::1:80", 80]
)
def test_what_is_no_address_is_refused(address: str) -> None:
    with pytest.raises(SettingsError, match="address"):
        HttpSettings(address)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("max_body", 10),
        ("max_body", "1MB"),
        ("rate", 0),
        ("connections", 0),
        ("queue", 2.5),
        ("body_timeout", "soon"),
        ("idle_timeout", 0),
        ("drain_timeout", -1),
    ],
)
def test_settings_that_are_not_valid_are_named(name: str, value: object) -> None:
    with pytest.raises(SettingsError, match=name):
        HttpSettings(**{name: value})  # type: ignore[arg-type]
