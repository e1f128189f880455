"""A front: what it answers for all shards, without some of them, and twice for one key."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from streamsched import HostRule, Outcome, Politeness, Scheduler
from streamsched.api.operations import OPERATIONS
from streamsched.client import AsyncClient, Signal
from streamsched.cluster import shard_calls
from streamsched.cluster.common_formula import follow
from streamsched.errors import ServiceError, ServiceUnavailable, SettingsError, UnknownPage
from tests.support.cluster import DAY_S, Cluster, fill, running_cluster, use
from tests.support.http_service import NOW

URLS = [f"https://h{page % 12}.example/p{page}" for page in range(240)]
Test = Callable[[Cluster], Awaitable[None]]


async def run_in_cluster(folder: Path, test: Test, deadline_s: float = 60.0) -> None:
    """Run `test` with a cluster of three shards that knows URLS."""
    async with running_cluster(folder, deadline_s=deadline_s, host_share=None) as cluster:
        await fill(cluster, URLS)
        for scheduler in cluster.schedulers:
            scheduler.offer(64, now=cluster.clock.read())
        await test(cluster)


def in_cluster(test: Test) -> Callable[[Path], None]:
    """Return `test` as a test of its own."""

    def run(tmp_path: Path) -> None:
        asyncio.run(run_in_cluster(tmp_path, test))

    run.__name__, run.__doc__ = test.__name__, test.__doc__
    return run


def leased(cluster: Cluster) -> set[str]:
    now = cluster.clock.read()
    known = [(url, cluster.schedulers[cluster.owner(url)].page(url, now=now)) for url in URLS]
    return {url for url, view in known if view is not None and view.lease_until_s is not None}


@in_cluster
async def test_a_batch_has_the_best_pages_of_all_shards(cluster: Cluster) -> None:
    """By the time since the last visit, the first URLs are the best."""
    await use(cluster, "t")
    ranking = await cluster.front.rank(30)
    batch = await cluster.front.next_batch(30)
    assert {page.url for page in batch.pages} == set(URLS[:30]) == {page.url for page in ranking.pages}
    assert [page.url for page in ranking.pages] == URLS[:30]
    assert (batch.missing, ranking.missing, batch.repeated) == ([], [], False)
    assert leased(cluster) == set(URLS[:30])
    assert {page.lease_until for page in batch.pages} <= {page.lease_until for page in batch.pages}
    assert {shard for shard, path in cluster.hosts.called if path == "v1/grant"} == {0, 1, 2}


@in_cluster
async def test_hosts_per_host_and_wait(cluster: Cluster) -> None:
    batch = await cluster.front.next_batch(100, hosts=["h1.example", "h2.example"], per_host=3)
    assert sorted(page.host for page in batch.pages) == ["h1.example"] * 3 + ["h2.example"] * 3
    begun_s = time.monotonic()
    empty = await cluster.front.next_batch(1, hosts=["none.example"], wait="600ms")
    assert (empty.pages, time.monotonic() - begun_s >= 0.6) == ([], True)

    async def discover() -> None:
        await asyncio.sleep(0.2)
        await cluster.front.discover(["https://none.example/"])

    found, _ = await asyncio.gather(cluster.front.next_batch(1, hosts=["none.example"], wait="30s"), discover())
    assert [page.url for page in found.pages] == ["https://none.example/"]


@in_cluster
async def test_two_fronts_and_many_callers_lease_no_page_twice(cluster: Cluster) -> None:
    batches = await asyncio.gather(*(cluster.fronts[number % 2].next_batch(10) for number in range(12)))
    urls = [page.url for batch in batches for page in batch.pages]
    assert len(urls) == len(set(urls))
    assert set(urls) == leased(cluster)


def test_a_slow_shard_that_was_silent_once_has_its_whole_time_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shard_calls, "_WHOLE_EVERY", 1.0)

    async def test(cluster: Cluster) -> None:
        cluster.hosts.hangs.add(1)
        assert (await cluster.front.next_batch(20)).missing == [1]
        cluster.hosts.hangs.clear()
        cluster.hosts.slow.add(1)
        begun_s = time.monotonic()
        while missing := (await cluster.front.next_batch(20)).missing:
            assert missing == [1]
            assert time.monotonic() - begun_s < 60.0

    asyncio.run(run_in_cluster(tmp_path, test, deadline_s=1.0))


def test_a_slow_shard_has_its_whole_time_again_among_many_requests(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shard_calls, "_WHOLE_EVERY", 1.0)

    async def test(cluster: Cluster) -> None:
        cluster.hosts.hangs.add(1)
        assert (await cluster.front.rank(5)).missing == [1]
        cluster.hosts.hangs.clear()
        cluster.hosts.slow.add(1)
        missing: list[list[int]] = []

        async def rank() -> None:
            missing.append((await cluster.front.rank(5)).missing)

        begun_s = time.monotonic()
        async with asyncio.TaskGroup() as requests:
            while missing[-20:] != [[]] * 20:
                requests.create_task(rank())
                await asyncio.sleep(0.05)
                assert time.monotonic() - begun_s < 60.0

    asyncio.run(run_in_cluster(tmp_path, test, deadline_s=2.0))


def test_one_request_at_a_time_waits_longer_for_a_shard_that_is_silent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shard_calls, "_SHORT_S", 0.05)
    monkeypatch.setattr(shard_calls, "_WHOLE_EVERY", 0.0)

    async def test(cluster: Cluster) -> None:
        cluster.hosts.hangs.add(1)
        assert (await cluster.front.rank(5)).missing == [1]
        monkeypatch.setattr(shard_calls, "_WHOLE_EVERY", 1_000.0)
        waited_s = []

        async def rank() -> None:
            begun_s = time.monotonic()
            assert (await cluster.front.rank(5)).missing == [1]
            waited_s.append(time.monotonic() - begun_s)

        await asyncio.gather(*(rank() for _ in range(8)))
        assert sum(one >= 4.0 for one in waited_s) == 1

    asyncio.run(run_in_cluster(tmp_path, test, deadline_s=4.0))


@pytest.mark.parametrize("fault", ["refuses", "hangs", "unowned"])
def test_a_shard_that_does_not_answer_is_left_out_and_named(tmp_path: Path, fault: str) -> None:
    async def test(cluster: Cluster) -> None:
        getattr(cluster.hosts, fault).add(1)
        times_s = []
        for _ in range(2):
            begun_s = time.monotonic()
            batch = await cluster.front.next_batch(20)
            times_s.append(time.monotonic() - begun_s)
            assert batch.missing == [1]
            assert len(batch.pages) == 20
            assert {cluster.owner(page.url) for page in batch.pages} == {0, 2}
        if fault == "hangs":
            assert times_s[1] < times_s[0]  # a shard that was silent is not waited for again for as long
        assert (await cluster.front.rank(5)).missing == [1]
        assert bool(cluster.hosts.lost_ones) == (fault != "unowned")
        getattr(cluster.hosts, fault).clear()
        begun_s = time.monotonic()
        while missing := (await cluster.front.next_batch(20)).missing:
            assert fault == "hangs"  # its answer may take longer than the short time that it has
            assert missing == [1]
            assert time.monotonic() - begun_s < 100.0

    asyncio.run(run_in_cluster(tmp_path, test, deadline_s=3.0 if fault == "hangs" else 60.0))


@in_cluster
async def test_what_needs_a_missing_shard_is_refused(cluster: Cluster) -> None:
    mine = [url for url in URLS if cluster.owner(url) == 1]
    others = [url for url in URLS if cluster.owner(url) != 1]
    cluster.hosts.refuses.add(1)
    front = cluster.front
    for call in (
        front.observe([Outcome(url, NOW - 9.0) for url in URLS]),
        front.discover(URLS),
        front.explain(mine[0]),
        front.page(mine[0]),
        front.set_rules({"h1.example": HostRule(delay=1.0)}),
        front.release(URLS),
        front.hosts(),
    ):
        with pytest.raises(ServiceUnavailable, match="shard 1 ") as caught:
            await call
        assert (caught.value.status, caught.value.code) == (503, "shard_missing")
    page = await front.page(others[0])
    assert page is not None
    assert page.last_outcome_s == NOW - 9.0  # the others have their outcomes, and take them again as duplicates
    assert (await front.observe([Outcome(url, NOW - 8.0) for url in others])).applied == len(others)
    assert (await front.champion()).formula


@in_cluster
async def test_a_key_used_again_returns_what_was_granted(cluster: Cluster) -> None:
    first = await cluster.front.next_batch(20, key="a")
    for front in cluster.fronts:
        again = await front.next_batch(20, key="a")
        assert {page.url for page in again.pages} == {page.url for page in first.pages}
        assert (again.repeated, again.missing) == (True, [])
        assert abs(again.now - first.now) < 1.0
    assert leased(cluster) == {page.url for page in first.pages}
    other = await cluster.front.next_batch(20, key="b")
    assert not {page.url for page in other.pages} & {page.url for page in first.pages}


@in_cluster
async def test_a_key_of_which_only_some_shards_have_granted(cluster: Cluster) -> None:
    """The front ends between two grants; the caller asks another front."""
    cluster.hosts.stuck.add((2, "v1/grant"))
    dying = asyncio.create_task(cluster.front.next_batch(20, key="a"))
    while {(0, "v1/grant"), (1, "v1/grant")} - set(cluster.hosts.answered):
        await asyncio.sleep(0.01)
    dying.cancel()
    await asyncio.wait([dying])
    cluster.hosts.stuck.clear()
    granted = leased(cluster)
    assert {cluster.owner(url) for url in granted} == {0, 1}
    assert len(granted) < 20
    for front in cluster.fronts:
        again = await front.next_batch(20, key="a")
        assert ({page.url for page in again.pages}, again.repeated) == (granted, True)
    assert leased(cluster) == granted


@in_cluster
async def test_one_key_at_two_fronts_at_once(cluster: Cluster) -> None:
    """Each has its batch, or is told to ask again; then both get all that was leased."""
    for number in range(8):
        before = leased(cluster)
        calls = [front.next_batch(15, key=f"{number}") for front in cluster.fronts]
        for found in await asyncio.gather(*calls, return_exceptions=True):
            if isinstance(found, BaseException):
                assert isinstance(found, ServiceUnavailable)
                assert (found.status, found.code) == (409, "key_running")
        ours = leased(cluster) - before
        for front in cluster.fronts:
            again = await front.next_batch(15, key=f"{number}")
            assert ({page.url for page in again.pages}, again.repeated) == (ours, True)


def test_a_shard_that_is_lost_between_offer_and_grant_is_replaced(tmp_path: Path) -> None:
    async def test(cluster: Cluster) -> None:
        cluster.hosts.stuck.add((2, "v1/grant"))
        batch = await cluster.front.next_batch(20, key="a")
        assert (len(batch.pages), batch.missing) == (20, [2])
        assert {cluster.owner(page.url) for page in batch.pages} == {0, 1}
        cluster.hosts.stuck.clear()
        again = await cluster.fronts[1].next_batch(20, key="a")
        assert {page.url for page in again.pages} == {page.url for page in batch.pages} == leased(cluster)

    asyncio.run(run_in_cluster(tmp_path, test, deadline_s=3.0))


@in_cluster
async def test_refused_pages_are_replaced_once(cluster: Cluster) -> None:
    """Another front leases the same pages between the offer and the grant."""
    held = asyncio.Event()
    client = cluster.hosts.client(0)
    grant = client.grant

    async def late(*given: Any, **named: Any) -> Any:
        await held.wait()
        return await grant(*given, **named)

    vars(client)["grant"] = late
    waiting = asyncio.create_task(cluster.front.next_batch(30, key="late"))
    await asyncio.sleep(0.1)
    del vars(client)["grant"]
    early = await cluster.fronts[1].next_batch(30)
    held.set()
    batch = await waiting
    assert len(batch.pages) == len(early.pages) == 30
    assert not {page.url for page in batch.pages} & {page.url for page in early.pages}
    again = await cluster.fronts[1].next_batch(30, key="late")
    assert {page.url for page in again.pages} == {page.url for page in batch.pages}


@in_cluster
async def test_outcomes_go_to_their_owners_and_faults_keep_their_places(cluster: Cluster) -> None:
    outcomes = [Outcome(url, NOW - 5.0, changed=number % 3 == 0) for number, url in enumerate(URLS)]
    outcomes[7] = Outcome(URLS[7], NOW + 9.0 * DAY_S)
    outcomes[100] = Outcome("no URL", NOW)
    observed = await cluster.front.observe(outcomes, positions=True)
    assert (observed.applied, observed.rejected) == (238, 2)
    assert [one.record for one in observed.rejections] == [7, 100]
    assert observed.positions == [number for number in range(240) if number % 3 == 0]
    assert observed.unchanged == [number for number in range(240) if number % 3 and number not in (7, 100)]
    assert (await cluster.front.observe(outcomes[:50])).duplicates == 49
    assert (await cluster.front.observe([])).applied == 0
    noticed = await cluster.front.notice([Signal(url, NOW - 1.0, "feed") for url in URLS[:40]])
    assert noticed.applied == 40
    found = await cluster.front.discover([*URLS[:2], "https://new.example/", "x:", "https://H3.example/new"])
    assert (found.added, found.rejected, [one.record for one in found.rejections]) == (2, 1, [3])
    assert (await cluster.front.ask(URLS[:5])).added == 0
    batch = await cluster.front.next_batch(5)
    assert {page.url for page in batch.pages} == set(URLS[:5])
    assert (await cluster.front.release([*URLS[:5], "https://unknown.example/"])).known == 5
    assert leased(cluster) == set()
    assert (await cluster.front.forget(URLS[:10])).known == 10
    assert (await cluster.front.forget(host="*.example")).known == 232
    with pytest.raises(SettingsError, match="urls"):
        await cluster.front.forget()


@in_cluster
async def test_targets_of_redirects_go_to_their_owners(cluster: Cluster) -> None:
    moved = {url: f"https://other-{number}.example/new" for number, url in enumerate(URLS[:24])}
    now = cluster.clock.read()
    await cluster.front.observe([Outcome(url, now, status=301, moved_to=target) for url, target in moved.items()])
    for target in moved.values():
        known = [scheduler.page(target, now=now) is not None for scheduler in cluster.schedulers]
        assert known == [shard == cluster.owner(target) for shard in range(len(known))]


@in_cluster
async def test_readers_and_administrators(cluster: Cluster) -> None:
    front = cluster.front
    page, host = await front.page(URLS[3]), await front.host("H3.example")
    assert page is not None
    assert host is not None
    assert (page.url, host.host, host.pages) == (URLS[3], "h3.example", 20)
    assert await front.page("https://unknown.example/") is None
    assert await front.host("unknown.example") is None
    assert (await front.explain(URLS[3])).url == URLS[3]
    with pytest.raises(UnknownPage):
        await front.explain("https://unknown.example/")
    week = await front.week(host="h3.example")
    assert week is not None
    names, start = list[str](), 0
    while start is not None:
        part = await front.hosts(start, 5)
        assert len(part.hosts) == 5 or part.next is None
        names += [one.host for one in part.hosts]
        start = part.next  # type: ignore[assignment]
    assert sorted(names) == sorted(f"h{number}.example" for number in range(12))
    await front.observe([Outcome(url, NOW - 4.0, status=500) for url in URLS[:30] if url not in URLS[:3]])
    first, second = await front.hosts(0, 7, order="failing"), await front.hosts(7, 7, order="failing")
    failing = [one.failing or 0 for one in (*first.hosts, *second.hosts)]
    assert (failing, first.next, second.next) == (sorted(failing, reverse=True), 7, None)
    assert sum(failing) == 27

    assert (await front.set_rules({"*.example": HostRule(delay=2.0), "h3.example": HostRule(delay=5.0)})).pages >= 240
    assert {name: rule.delay for name, rule in (await front.rules()).hosts.items()} == {
        "*.example": 2.0,
        "h3.example": 5.0,
    }
    host = await front.host("h3.example")
    assert host is not None
    assert host.delay_s == 5.0
    with pytest.raises(SettingsError, match="rules"):
        await front.set_rules({"h3.example": {"delay": 1.0, "never": True}})
    assert (await front.block("*.example", 60.0)).hosts == 12
    assert (await front.block("h3.example", 0.0)).hosts == 1
    assert (await front.set_politeness(Politeness(delay=3.0))).delay == 3.0
    assert {scheduler.politeness.delay for scheduler in cluster.schedulers} == {3.0}
    assert (await front.surges()).surges == []
    for call in (front.read_changes(), front.week(region="CJK"), front.week()):
        with pytest.raises(ServiceError) as caught:
            await call
        assert (caught.value.status, caught.value.code) == (501, "not_merged")


async def work(front: AsyncClient) -> None:
    """Lease all pages, visit most of them, and report signals before and after."""
    await front.notice([Signal(url, NOW + 10.0, "feed") for url in URLS[:90]])
    batch = await front.next_batch(len(URLS))
    visited = [page.url for page in batch.pages if URLS.index(page.url) % 8]
    statuses = {url: 404 if URLS.index(url) % 7 == 0 else 200 for url in visited}
    now = batch.now + 0.5
    await front.observe([Outcome(url, now, status=statuses[url], changed=len(url) % 2 == 0) for url in visited])
    await front.observe([Outcome(URLS[0], now + 9.0 * DAY_S), Outcome(visited[0], now)])
    await front.notice([Signal(url, NOW + 10.0, "feed") for url in URLS[:30]])


def test_stats_and_sources_are_those_of_one_scheduler_with_all_pages(tmp_path: Path) -> None:
    """But for what each shard learns from its own pages, and times."""

    async def observe(folder: Path, shards: int) -> tuple[dict[str, Any], dict[str, Any], list[dict[str, Any]]]:
        async with running_cluster(folder, shards, host_share=None) as cluster:
            await fill(cluster, URLS)
            await work(cluster.front)
            for app in cluster.hosts.apps:
                app.service.figures.take()
            if shards == 1:
                await agrees_with_its_only_shard(cluster)
            stats = (await cluster.front.stats()).as_dict()
            sources = [one.as_dict() for one in (await cluster.front.sources()).sources]
            assert "missing" not in stats
            return stats, stats["latest"], sources

    one, three = asyncio.run(observe(tmp_path / "one", 1)), asyncio.run(observe(tmp_path / "three", 3))
    equal = "pages", "cycle_s", "formula", "refused_pages", "outcomes", "signals", "handed_out", "version", "scopes"
    assert {name: three[0][name] for name in equal} == {name: one[0][name] for name in equal}
    assert three[0]["outcomes"]["changed"] > 0
    assert three[0]["batches"] == 3 * one[0]["batches"]  # each shard grants its part
    for name in ("visits", "observed"):
        assert three[0]["calibration"][name] == pytest.approx(one[0]["calibration"][name])
    sums = "pages", "leased", "waiting", "lag", "applied", "served", "hits", "fetches", "handed_out", "drifted"
    assert {name: three[1][name] for name in sums} == {name: one[1][name] for name in sums}
    assert three[1]["served"] > 0
    assert three[1]["freshness"] == pytest.approx(one[1]["freshness"], abs=0.2)
    counts = [
        [(each["kind"], each["host"], each["signals"], each["pages"]) for each in found[2]] for found in (one, three)
    ]
    assert counts[0] == counts[1] != []
    assert [each["checked"] for each in three[2]] == pytest.approx([each["checked"] for each in one[2]], rel=0.1)


async def agrees_with_its_only_shard(cluster: Cluster) -> None:
    """Check that a front of one shard says what the shard says, but for what is not known of a whole."""
    merged, alone = await cluster.front.stats(), await cluster.hosts.client(0).stats()
    own = {"now", "requests", "samples", "unproven_share"}
    found, expected = ({k: v for k, v in one.as_dict().items() if k not in own} for one in (merged, alone))
    found["latest"]["hit_rate"] = expected["latest"]["hit_rate"]
    assert found == expected
    assert await cluster.front.sources() == await cluster.hosts.client(0).sources()


@in_cluster
async def test_stats_without_a_shard(cluster: Cluster) -> None:
    cluster.hosts.refuses.add(1)
    for app in cluster.hosts.apps:
        app.service.figures.take()
    stats = await cluster.front.stats()
    assert stats.missing == [1]
    assert stats.pages == stats.latest.pages == sum(cluster.owner(url) != 1 for url in URLS)
    assert stats.trouble is None
    assert (await cluster.front.stats(since=-1e15)).missing == [1]
    cluster.hosts.refuses |= {0, 2}
    with pytest.raises(ServiceUnavailable) as caught:
        await cluster.front.stats()
    assert caught.value.code == "shard_missing"


@in_cluster
async def test_a_snapshot_is_a_copy_of_each_shard(cluster: Cluster) -> None:
    with pytest.raises(ServiceError, match=r"http\.snapshots"):
        await cluster.front.snapshot()
    for shard, app in enumerate(cluster.hosts.apps):
        app.service.snapshots = app.service.directory.parent / f"copies-{shard}"
    copied = await cluster.front.snapshot()
    assert (copied.file, copied.size) == (None, sum(one.size for one in copied.shards))
    copies = [Scheduler.load(Path(one.file or "").parent) for one in copied.shards]
    assert [len(copy) for copy in copies] == [len(scheduler) for scheduler in cluster.schedulers]
    assert copied.now == min(one.now for one in copied.shards) > NOW
    cluster.hosts.refuses.add(2)
    with pytest.raises(ServiceUnavailable, match="shard 2"):
        await cluster.front.snapshot()


@in_cluster
async def test_a_moved_shard_is_called_at_its_new_owner(cluster: Cluster) -> None:
    """The front looks the owner up again, once; a call that may not be repeated is refused."""
    url = next(url for url in URLS if cluster.owner(url) == 1)
    alive = cluster.hosts.client(1)
    gone = cluster.hosts.client(0)  # a host without the shard, for a moment
    owners = [gone, alive]
    cluster.hosts.client = lambda shard, /: owners[0] if shard == 1 else gone  # type: ignore[method-assign]
    cluster.hosts.refuses.add(0)

    def lost(shard: int, /) -> None:
        if shard == 1:
            owners.reverse()

    cluster.hosts.lost = lost  # type: ignore[method-assign]
    assert await cluster.front.page(url) is not None
    owners[:] = [gone, alive]
    with pytest.raises(ServiceUnavailable):
        await cluster.front.release([url])


@in_cluster
async def test_every_operation_is_answered_and_described(cluster: Cluster) -> None:
    described = (await cluster.front._http.get("http://127.0.0.1/openapi.json")).json()
    names = {one["operationId"] for methods in described["paths"].values() for one in methods.values()}
    assert names == {operation.name for operation in OPERATIONS} | {"health", "readiness", "metrics", "openapi"}
    for path in ("healthz", "readyz", "metrics"):
        assert (await cluster.front._http.get(f"http://127.0.0.1/{path}")).status_code == 200


@in_cluster
async def test_the_formula_of_all_shards(cluster: Cluster) -> None:
    front = cluster.front
    before = (await front.champion()).formula
    assert (await front.use("t")).formula == (await front.champion()).formula == "t"
    assert (await front.formula()).text == "t"
    await use(cluster, "t * rate")
    assert {scheduler.champion for scheduler in cluster.schedulers} == {cluster.schedulers[0].champion}
    records = (await front.evolutions()).evolutions
    assert [one.champion_before.formula for one in records] == [before, "t"]
    assert (await front.use(records[0].number)).formula == "t"
    with pytest.raises(SettingsError, match="formula"):
        await front.use("1 +")
    with pytest.raises(SettingsError, match="formula"):
        await front.use(30)


@in_cluster
async def test_a_trial_shows_what_all_shards_have_found(cluster: Cluster) -> None:
    assert (await cluster.front.evolutions()).trial is None
    leading, *others = cluster.schedulers
    leading.begin_trial("t", now=NOW)
    for scheduler in others:
        follow(scheduler, leading.trial_counts())
    cluster.clock.now_s += 5 * DAY_S
    batch = await cluster.front.next_batch(200)
    await cluster.front.observe([Outcome(page.url, cluster.clock.read(), changed=True) for page in batch.pages])
    shown, trial = await cluster.front.trial(), (await cluster.front.evolutions()).trial
    assert trial is not None
    assert (trial.challenger, shown.pages) == ("t", sum(map(len, cluster.schedulers)))
    assert sum(shown.costs) == sum(trial.evidence.costs) > 100.0
    assert all(0.0 < sum(one.trial_counts().costs) < sum(shown.costs) for one in cluster.schedulers)
