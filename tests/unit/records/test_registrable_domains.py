"""Registrable domains of hosts, and the numbers that hosts of one domain share."""

from __future__ import annotations

from pathlib import Path

import pytest

from streamsched import Outcome, Scheduler
from streamsched.records.registrable_domains import registrable_domain
from streamsched.records.url_patterns import find_host


@pytest.mark.parametrize(
    ("host", "domain"),
    [
        ("example.org", "example.org"),
        ("a.b.www.example.org", "example.org"),
        ("www.example.org:8443", "example.org"),
        ("www.example.org.", "example.org"),
        ("www.example.co.uk", "example.co.uk"),
        ("co.uk", "co.uk"),
        ("ann.github.io", "ann.github.io"),
        ("x.ann.github.io", "ann.github.io"),
        ("www.city.kawasaki.jp", "city.kawasaki.jp"),
        ("www.x.y.kawasaki.jp", "x.y.kawasaki.jp"),
        ("www.example.unknownsuffix", "example.unknownsuffix"),
        ("localhost", "localhost"),
        ("localhost:8000", "localhost"),
        ("192.0.2.7", "192.0.2.7"),
        ("192.0.2.7:80", "192.0.2.7"),
        ("[2001:db8::1]:80", "[2001:db8::1]"),
        ("www.bücher.de", "bücher.de"),
        ("www.BÜCHER.de", "bücher.de"),
        ("www.xn--bcher-kva.de", "bücher.de"),
        ("www.食狮.公司.cn", "食狮.公司.cn"),
        ("www.xn--85x722f.xn--55qx5d.cn", "食狮.公司.cn"),
        ("xn--a.example", "xn--a.example"),
        ("a..b", "a..b"),
        (".", "."),
        ("", ""),
        ("\udcff.example", "\udcff.example"),
        ("a." * 200 + "example", "a." * 200 + "example"),
        ("www." + "ü" * 80 + ".de", "www." + "ü" * 80 + ".de"),
    ],
)
def test_each_host_has_a_domain(host: str, domain: str) -> None:
    assert registrable_domain(host) == domain


def domains_of(scheduler: Scheduler, *hosts: str) -> list[int]:
    groups = scheduler.core.pages.arrays.groups
    return [int(groups.domain_of[find_host(groups, host)]) for host in hosts]


def pages_of(scheduler: Scheduler) -> list[int]:
    shard = scheduler.core.pages.arrays
    pages: list[int] = shard.groups.domains["pages"][: int(shard.corpus["domains"][0])].tolist()
    return pages


def test_hosts_share_their_domain_across_calls_and_restarts(tmp_path: Path) -> None:
    scheduler = Scheduler()
    scheduler.discover(["https://a.example.org/1", "https://b.example.org/1", "https://example.net/"], now=0.0)
    scheduler.observe([Outcome(f"https://c.example.org/docs/{i}", 1.0) for i in range(20)])  # enough for a URL pattern
    assert domains_of(scheduler, "a.example.org", "b.example.org", "example.net", "c.example.org") == [0, 0, 1, 0]
    assert pages_of(scheduler) == [22, 1]
    scheduler.save(tmp_path)
    loaded = Scheduler.load(tmp_path)
    assert loaded.digest() == scheduler.digest()
    for one in (scheduler, loaded):
        one.discover(["https://www.example.net/", "https://new.example/"], now=2.0)
        assert domains_of(one, "www.example.net", "new.example") == [1, 2]
        assert pages_of(one) == [22, 2, 1]
        assert one.core.pages.faults() == []
    assert loaded.digest() == scheduler.digest()


def test_forgotten_pages_are_not_counted() -> None:
    scheduler = Scheduler()
    scheduler.discover([f"https://h{i % 2}.example.org/{i}" for i in range(10)] + ["https://b.example/"], now=0.0)
    assert scheduler.forget(["https://h1.example.org/1", "https://b.example/"]) == 2
    assert pages_of(scheduler) == [9, 0]
    scheduler.discover(["https://b.example/2"], now=1.0)
    assert pages_of(scheduler) == [9, 1]
    assert scheduler.core.pages.faults() == []


def test_pages_that_change_in_the_batch_that_adds_them_are_counted() -> None:
    scheduler = Scheduler()
    outcomes = [Outcome(f"https://h{i % 2}.example.org/{i % 5}", float(i), changed=i > 5) for i in range(20)]
    assert scheduler.observe(outcomes).changed > 0
    assert pages_of(scheduler) == [len(scheduler)]
    assert scheduler.core.pages.faults() == []
