"""The console in a browser: what it shows, by mouse and keyboard, and what it says when something is wrong."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from streamsched import DurableScheduler, HostRule, Outcome, OutcomeBatch, Signal, __version__
from streamsched.evolution.promotion import Verdict
from streamsched.evolution.records import Decision, EvolutionRecord, RecordBook
from streamsched.formula.champion import Champion
from streamsched.formula.formula import Formula
from tests.support.browser import open_browser, opened
from tests.support.cluster import ServedFront, serving_front
from tests.support.http_service import NOW, TOKENS, Running, running

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

DAY = 86_400.0
URLS = [f"https://h{page % 5}.example/docs/{page // 5}" for page in range(150)]
FORMULA = "worth * gain / (1 + log(1 + confidence))"
STRANGE = "<img src=x onerror=alert(1)>"
NAVIGATION = ("Now", "Ranking", "Formula", "Hosts", "Rules", "Week", "Surges and signals")


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    yield from open_browser()


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory, browser: Browser) -> Iterator[Running]:  # noqa: ARG001  may skip
    """A service whose crawlers have been at work for weeks, with hosts that are held back, surges and signals."""
    folder = tmp_path_factory.mktemp("service")
    with running(folder, sample_every=0.2) as service:
        fill(service.scheduler)
        record_contests(service.scheduler)
        batch = service.client.post("/v1/next", json={"k": 30, "lease": "1h"}).json()
        outcomes = [
            {"url": page["url"], "fetched_at": batch["now"] + 0.001, "changed": place % 3 == 0}
            for place, page in enumerate(batch["pages"][:20])
        ]
        assert service.client.post("/v1/outcomes", json={"outcomes": outcomes}).status_code == 200
        time.sleep(0.5)  # for a sample of these figures
        yield service


def fill(scheduler: DurableScheduler) -> None:
    """Report visits every six hours for three weeks; pages change in the morning."""
    for at in range(int(NOW - 21 * DAY), int(NOW - DAY), int(DAY / 4)):
        changed = [at % DAY == DAY / 4 and page % 3 == 0 for page in range(len(URLS))]
        scheduler.observe(OutcomeBatch(URLS, [at + page / 100 for page in range(len(URLS))], changed=changed))
    scheduler.observe([Outcome(URLS[6], NOW - DAY / 2, changed=False, etag=f'W/"{STRANGE}"')])
    bulk = [url for url in URLS if url.startswith("https://h2.")][:12]
    scheduler.observe([Outcome(url, NOW - 900.0 + place, changed=True) for place, url in enumerate(bulk)])
    scheduler.notice([Signal(url, NOW - 300.0, "sitemap") for url in URLS[:40]])
    scheduler.set_rule("h3.example", HostRule(delay="2s", in_flight=4))
    scheduler.block("h4.example", NOW + 7_200.0)


def record_contests(scheduler: DurableScheduler) -> None:
    """Keep the record of a promotion, and of a challenger that was beaten since."""
    first, champion = (
        Champion(Formula.parse("gain")),
        Champion(Formula.parse(FORMULA), "evolution", 1, NOW, 0.031, "ndcg"),
    )
    won = Verdict(True, 0.30, 0.33, 0.03, 0.004, 8, 4, 12, "promoted: the gain exceeds the noise")
    lost = Verdict(False, 0.33, 0.331, 0.001, 0.004, 8, 4, 12, "not promoted: the gain does not exceed the noise")
    records: list[tuple[Verdict, str, Decision, Champion]] = [
        (won, FORMULA, "promoted", first),
        (lost, "gain * tau", "kept", champion),
    ]
    for number, (verdict, challenger, decision, before) in enumerate(records, 1):
        record = EvolutionRecord(number, NOW, "schedule", decision, verdict.why, before, champion)
        record = replace(record, challenger=challenger, metric="ndcg", verdict=verdict)
        RecordBook(scheduler.directory).append(record)
    scheduler.use(champion)


@pytest.fixture
def page(browser: Browser, service: Running) -> Iterator[Page]:
    with opened(browser, f"http://{service.server.address}/") as page:
        page.wait_for_selector(".figure")
        yield page


def text_of(page: Page, selector: str) -> str:
    return " ".join(page.inner_text(selector).split())


def shows(page: Page, selector: str, pattern: str) -> bool:
    """Return whether such an element comes to show such a text in time."""
    from playwright.sync_api import TimeoutError as LateError

    try:
        page.locator(selector, has_text=re.compile(pattern)).first.wait_for()
    except LateError:
        return False
    return True


def test_figures_have_values_and_their_course(page: Page) -> None:
    for name, value in {
        "Hit rate": r"35\.0 %",
        "Freshness": r"\d\d\.\d %",
        "Calibration error": r"\d+\.\d %",
        "Outcomes a second": r"\d",
        "Lag": "no stream",
        "Leases out": "10",
    }.items():
        assert shows(page, ".figure", rf"{name}\s*{value}")
    assert page.locator(".figure .u-wrap canvas").count() == 7
    assert page.locator(".reliability circle").count() >= 1
    assert "150" in text_of(page, ".facts")
    assert shows(page, ".state", "working")


def test_new_figures_come_by_themselves(page: Page, service: Running) -> None:
    before = service.scheduler.count()
    service.scheduler.discover([f"https://later.example/{before}"], now=service.clock.read())
    assert shows(page, ".title", f"{before + 1} pages")


def test_a_page_is_explained_on_a_click_and_by_the_keyboard(page: Page) -> None:
    first = page.locator("#ranking tbody button").first
    first.focus()
    page.keyboard.press("Enter")
    assert shows(page, "dialog .reasons", "In the next batch of 1,000")
    assert shows(page, "dialog .facts", r"Probability of a change\s*0\.\d")
    assert shows(page, "dialog .causes tr", r"unseen_surge\s*[\d.e−-]+\s*[\d.]+")
    assert page.inner_text("#explained") == first.inner_text()
    assert "in_batch_by_score" in text_of(page, "dialog .reasons")
    terminals = text_of(page, "dialog .terminals:not(.causes)")
    assert terminals.startswith("confidence")  # what the formula reads comes first
    page.keyboard.press("Escape")
    page.locator("dialog").wait_for(state="hidden")
    assert first.evaluate("button => button === document.activeElement")


def test_any_page_can_be_asked_for(page: Page) -> None:
    page.fill("#ranking input", "https://h4.example/docs/0")
    page.keyboard.press("Enter")
    assert shows(page, "dialog .reasons", "blocked")
    page.click("dialog button[aria-label=Close]")
    page.locator("dialog").wait_for(state="hidden")
    page.fill("#ranking input", "https://nowhere.example/")
    page.keyboard.press("Enter")
    assert shows(page, "dialog .notice", "not known")


def test_the_week_of_an_explained_page(page: Page) -> None:
    page.locator("#ranking tbody button").first.click()
    page.click("dialog >> text=Show its week")
    page.locator("dialog").wait_for(state="hidden")
    assert shows(page, "#week p", "this page by hour of the week, UTC")
    assert page.locator(".heat tbody td").count() == 168


def test_weeks_of_hosts_and_regions(page: Page) -> None:
    assert page.locator(".heat tbody td.heat-4").count() < 168
    page.select_option("#week select", "region:CJK")
    assert shows(page, "#week p", "learned from all pages of the region CJK")
    page.select_option("#week select", "host")
    page.fill("#week input", "h1.example")
    page.keyboard.press("Enter")
    assert shows(page, "#week p", "Changes by hour of the week")
    page.fill("#week input", "nowhere.example")
    page.keyboard.press("Enter")
    assert shows(page, "#week .notice", "nowhere.example is not known")


def test_the_present_hour_is_that_of_the_service(page: Page) -> None:
    page.locator(".heat").wait_for()
    assert (page.locator(".heat .present").get_attribute("title") or "").startswith("Friday 0:00")


def test_the_foot_has_the_version_and_a_way_to_the_documentation(page: Page, service: Running) -> None:
    assert text_of(page, ".foot").startswith(f"streamsched {__version__} ")
    links = [str(link.get_attribute("href")) for link in page.locator(".foot a").all()]
    assert links == ["/docs", "/docs/console.md", "/openapi.json"]
    listed, console, described = (service.client.get(link) for link in links)
    assert "<h1>Documentation</h1>" in listed.text
    assert '<h1 id="console">Console</h1>' in console.text
    assert described.json()["info"]["version"] == __version__
    page.click("text=Calls of the API")
    assert shows(page, ".foot tr", r"POST /v1/next\s*crawl\s*Lease the pages to visit next")
    assert shows(page, ".foot tr", r"GET /healthz\s*none")
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")


def test_the_formula_is_a_tree_with_its_contests(page: Page) -> None:
    assert shows(page, "#formula code.formula", re.escape(FORMULA))
    page.locator(".tree").wait_for()
    assert page.locator(".tree .terminal").all_inner_texts()[:2] != []
    assert page.locator(".tree rect").count() == Formula.parse(FORMULA).size
    assert "importance of the page over the cost of a visit" in text_of(page, ".meanings")
    assert shows(page, "#formula", r"contest of evolution 1 .*NDCG was 3\.1 % better")
    page.locator(".contests li").nth(1).wait_for()
    contests = [" ".join(text.split()) for text in page.locator(".contests li").all_inner_texts()]
    assert re.match(r"beaten evolution 2, .* gain \+0\.001 ± 0\.004 gain \* tau", contests[0])
    assert contests[1].startswith("promoted evolution 1")


def test_hosts_say_what_holds_them_back(page: Page) -> None:
    assert shows(page, "#hosts tr", r"h4\.example.*rests, blocked by a call, until")
    assert shows(page, "#hosts tr", r"h3\.example\s*rule\s*30\s*\d+ of 4\s*2 s")
    page.fill("#hosts input", "h1.example")
    page.keyboard.press("Enter")
    page.locator("#hosts table", has_not_text="h4.example").wait_for()
    assert page.locator("#hosts tbody tr").count() == 1
    page.fill("#hosts input", "nowhere.example")
    page.keyboard.press("Enter")
    assert shows(page, "#hosts", "No page of nowhere.example is known")


def test_an_administrator_sets_rules_blocks_hosts_and_asks_for_visits(
    tmp_path_factory: pytest.TempPathFactory, browser: Browser
) -> None:
    with running(tmp_path_factory.mktemp("changed")) as service:
        service.scheduler.discover(URLS, now=NOW - DAY)
        with opened(browser, f"http://{service.server.address}/") as page:
            assert shows(page, "#rules", "No rule is set")
            page.fill("#rules input >> nth=0", STRANGE)
            page.fill("#rules [name=in_flight]", "many")
            page.click("text=Set the rule")
            assert shows(page, "#rules .outcome", "Not done: .*in_flight")
            page.fill("#rules [name=in_flight]", "")  # an empty rule for hosts is none for pages
            page.click("text=Set the rule")
            assert shows(page, "#rules .outcome", "Not done: .*a host")
            page.fill("#rules input >> nth=0", "h1.example")
            page.fill("#rules [name=delay]", "2h")
            page.fill("#rules [name=in_flight]", "3")
            page.click("text=Set the rule")
            assert shows(page, "#rules .outcome", "The rule for h1.example is set; 30 known pages may be concerned")
            assert shows(page, "#rules tr", r"h1\.example\s*hosts\s*delay between visits: 2 h; pages in flight: 3")
            page.click("#rules >> text=Edit")
            assert page.input_value("#rules [name=delay]") == "7200"
            page.select_option("#rules select", "pages")
            page.fill("#rules input >> nth=0", "h2.example/docs/*")
            page.check("text=Never visit")
            page.click("text=Set the rule")
            assert shows(page, "#rules tr", r"h2\.example/docs/\*\s*pages\s*never visited")
            page.locator("#rules tr", has_text="h1.example").locator("text=Remove").click()
            page.locator("#rules tr", has_text="h1.example").wait_for(state="detached")
            assert shows(page, "#rules .outcome", "No rule for h1.example is left")

            page.fill("#hosts .act input", "h3.example")
            page.click("#hosts .act >> text=Block")
            assert shows(page, "#hosts .outcome", "h3.example, 1 known host, blocked until 22 Aug 2025, 01:00 UTC")
            assert shows(page, "#hosts tr", r"h3\.example.*rests, blocked by a call")
            page.select_option("#hosts .act select", "0")
            page.click("#hosts .act >> text=End the block")
            page.locator("#hosts tr", has_text="blocked by a call").wait_for(state="detached")

            page.fill("#ranking input", URLS[0])
            page.keyboard.press("Enter")
            assert shows(page, "dialog .history", r"Last outcome of any kind\s*none")
            page.click("dialog >> text=Ask for a visit")
            assert shows(page, "dialog .outcome", "A visit is requested")
            assert shows(page, "dialog .history", r"Visit requested\s*yes")
        assert service.scheduler.rules.pages.keys() == {"h2.example/docs/*"}
        asked = service.scheduler.page(URLS[0], now=NOW)
        assert asked is not None
        assert asked.asked_for


def test_the_history_of_an_explained_page(page: Page) -> None:
    assert URLS[6] == "https://h1.example/docs/1"
    page.fill("#ranking input", "https://h1.example/docs/1")
    page.keyboard.press("Enter")
    assert shows(page, "dialog .history", r"Changes\s*\d+ in \d\d visits after the first")
    assert shows(page, "dialog .history", r"Last outcome of any kind\s*2\d Aug 2025, \d\d:\d\d, fetched")
    assert shows(page, "dialog .history", "ETag.*" + re.escape(f'W/"{STRANGE}"'))
    assert page.locator("dialog img").count() == 0


def test_failed_fetches_are_counted_by_kind_and_by_host(
    tmp_path_factory: pytest.TempPathFactory, browser: Browser
) -> None:
    with running(tmp_path_factory.mktemp("failing"), sample_every=0.2) as service:
        at, statuses = NOW - DAY, [200] * 40 + [0] * 60 + [404] * 20 + [503] * 30
        service.scheduler.observe(OutcomeBatch(URLS, [at] * 150, status=statuses))
        with opened(browser, f"http://{service.server.address}/") as page:
            assert shows(
                page, ".alerts", r"73\.3 % of the last 150 fetches failed: 60 without a response, 30 5xx, 20 404"
            )
            assert shows(page, ".fetches tr", r"without a response\s*60\s*40\.0 %\s*60\s*40\.0 %")
            assert shows(page, ".figure", r"Failed fetches\s*73\.3 %")
            page.click("#hosts >> text=Most failures first")
            assert shows(page, "#hosts tr", r"h0\.example\s*30\s*22\s*73 %")


def test_surges_and_sources_of_signals(page: Page) -> None:
    assert shows(page, "#bulk tr", r"h2\.example/docs/\s*\d+ %\s*\d+ of 30")
    assert shows(page, "#bulk tr", r"sitemap\s*40")
    assert shows(page, "#bulk tr", r"h0\.example\s*8")


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_phone_needs_no_sideways_scrolling(browser: Browser, service: Running, scheme: Any) -> None:
    size = {"width": 360, "height": 740}
    with opened(browser, f"http://{service.server.address}/", viewport=size, color_scheme=scheme) as page:
        page.locator(".heat").wait_for()
        page.locator("#hosts table").wait_for()
        page.click("text=Calls of the API")
        page.locator(".foot tr").first.wait_for()
        assert page.evaluate("document.documentElement.scrollWidth") == 360
        assert shows(page, "#bulk tr", r"h0\.example\s*8")
        assert page.evaluate("document.querySelector('#bulk tbody tr').offsetHeight") < 40  # one line
        ground = page.evaluate("getComputedStyle(document.body).backgroundColor")
        assert (max(map(int, re.findall(r"\d+", ground))) < 64) == (scheme == "dark")


def test_keys_reach_everything_in_order(page: Page) -> None:
    page.locator("#ranking tbody button").first.wait_for()
    reached = []
    for _ in range(10):
        page.keyboard.press("Tab")
        reached.append(page.evaluate("document.activeElement.textContent.trim()"))
    assert tuple(reached[:7]) == NAVIGATION
    assert "Explain" in reached[7:]  # after the tables that scroll


def test_only_new_samples_are_asked_for_and_none_while_hidden(browser: Browser, service: Running) -> None:
    address = f"http://{service.server.address}/"
    with opened(browser, address) as page:
        asked: list[str] = []
        page.on("request", lambda request: asked.append(request.url))
        page.wait_for_event("request", lambda request: "/v1/stats?since=" in request.url)
        page.evaluate("Object.defineProperty(document, 'hidden', {value: true, configurable: true})")
        page.wait_for_timeout(2_100)
        asked.clear()
        page.wait_for_timeout(2_500)
        assert asked == []
        page.evaluate("Object.defineProperty(document, 'hidden', {value: false, configurable: true})")
        with page.expect_request(lambda request: "/v1/stats" in request.url):
            ask_now(page)


def test_an_empty_service_says_how_to_begin(tmp_path_factory: pytest.TempPathFactory, browser: Browser) -> None:
    with (
        running(tmp_path_factory.mktemp("empty")) as service,
        opened(browser, f"http://{service.server.address}/") as page,
    ):
        assert shows(page, ".empty", f"curl http://{service.server.address}/v1/discover")
        assert shows(page, "#ranking", "No page may be visited now")
        assert shows(page, "#hosts", "No host is known")
        assert shows(page, "#bulk", "No surge is under way")
        assert shows(page, ".calm", "Nothing needs attention")
        assert shows(page, "#now .card", "Nothing to compare: only pages that a batch hands out have a prediction")


def test_outcomes_of_pages_that_were_never_leased(tmp_path_factory: pytest.TempPathFactory, browser: Browser) -> None:
    with running(tmp_path_factory.mktemp("unleased"), sample_every=0.2) as service:
        at = NOW - DAY
        service.scheduler.observe(OutcomeBatch(URLS * 2, [at] * 150 + [at + 60.0] * 150, changed=[False] * 300))
        with opened(browser, f"http://{service.server.address}/") as page:
            assert shows(page, "#now .card", "No outcome of 300 can be compared: only pages that a batch hands out")
            service.client.post("/v1/next", json={"k": 5, "lease": "1h"})
            assert shows(page, "#now .card", "Of 5 pages handed out since the start, none has an outcome that can be")


def test_a_token_is_asked_for_once(tmp_path_factory: pytest.TempPathFactory, browser: Browser) -> None:
    with (
        running(tmp_path_factory.mktemp("tokens"), tokens=True) as service,
        opened(browser, f"http://{service.server.address}/") as page,
    ):
        for name, answer in {"wrong": "not valid", "expired": "not valid", "crawl": "lacks the scope read"}.items():
            page.fill("#token", TOKENS.get(name, name))
            page.keyboard.press("Enter")
            assert shows(page, ".signin .notice", answer)
        page.fill("#token", TOKENS["read"])
        page.keyboard.press("Enter")
        page.locator(".figure").first.wait_for()
        page.reload()
        page.locator(".figure").first.wait_for()
        assert page.evaluate("localStorage.length + document.cookie.length") == 0
        page.click("text=Sign out")
        page.locator("#token").wait_for()
        assert page.evaluate("sessionStorage.length") == 0


def test_a_reader_sees_rules_and_changes_nothing(tmp_path_factory: pytest.TempPathFactory, browser: Browser) -> None:
    with running(tmp_path_factory.mktemp("readers"), tokens=True) as service:
        service.scheduler.discover(URLS, now=NOW - DAY)
        service.scheduler.set_rule("h1.example", HostRule(delay="2s"))
        with opened(browser, f"http://{service.server.address}/") as page:
            page.fill("#token", TOKENS["read"])
            page.keyboard.press("Enter")
            assert shows(page, "#rules tr", r"h1\.example\s*hosts\s*delay between visits: 2 s")
            page.locator("#ranking tbody button").first.click()
            page.locator("dialog .history").wait_for()
            assert page.locator(".act").count() == 0
            assert page.locator("text=/^(Remove|Ask for a visit)$/").count() == 0


@pytest.mark.parametrize(("name", "scopes"), [("read", ["read"]), ("all", ["crawl", "read", "admin"])])
def test_figures_tell_the_scopes_of_the_token(
    tmp_path_factory: pytest.TempPathFactory, name: str, scopes: list[str]
) -> None:
    with running(tmp_path_factory.mktemp("scopes"), tokens=True) as service, service.as_token(name) as client:
        assert client.get("/v1/stats").json()["scopes"] == scopes


@pytest.fixture(scope="module")
def front(tmp_path_factory: pytest.TempPathFactory, browser: Browser) -> Iterator[ServedFront]:  # noqa: ARG001  may skip
    """A front of three shards whose crawlers have been at work."""
    with serving_front(tmp_path_factory.mktemp("cluster"), sample_every=0.2) as front:
        for at in (NOW - 9 * DAY, NOW - 6 * DAY, NOW - 3 * DAY):
            outcomes = [{"url": url, "fetched_at": at, "changed": len(url) % 3 == 0} for url in URLS]
            assert front.client.post("/v1/outcomes", json={"outcomes": outcomes}).json()["applied"] == 150
        batch = front.client.post("/v1/next", json={"k": 30, "lease": "1h"}).json()
        outcomes = [
            {"url": page["url"], "fetched_at": batch["now"] + 0.001, "changed": place % 4 == 0}
            for place, page in enumerate(batch["pages"][:20])
        ]
        front.client.post("/v1/outcomes", json={"outcomes": outcomes})
        front.client.post("/v1/signals", json={"signals": [{"url": URLS[0], "at": batch["now"], "source": "feed"}]})
        yield front


def test_a_front_shows_the_whole_cluster_and_what_it_has_not(browser: Browser, front: ServedFront) -> None:
    with opened(browser, f"http://{front.server.address}/") as page:
        assert shows(page, ".figure", r"Hit rate\s*25\.0 %")
        assert shows(page, ".figure", r"Freshness\s*\d\d\.\d %")
        assert shows(page, ".figure", r"Calibration error\s*\d+\.\d %")
        assert shows(page, ".figure", r"Leases out\s*10")
        assert shows(page, ".fetches tr", r"fetched\s*470")
        assert shows(page, ".facts", r"150.*470 applied")
        page.locator("#hosts tbody tr").nth(4).wait_for()
        assert shows(page, "#bulk tr", r"feed\s*1")
        assert shows(page, "#week .notice", "Not available: .* no week of anything but a page or a host")
        for place in (0, 1, 2):  # of whichever shard
            page.locator("#ranking tbody button").nth(place).click()
            assert shows(page, "dialog .history", r"Changes\s*\d in 2 visits")
            page.click("dialog >> text=Show its week")
            page.locator("dialog").wait_for(state="hidden")
            page.locator("#week .heat, #week p.muted").first.wait_for()
        page.fill("#hosts .act input", "h3.example")
        page.click("#hosts .act >> text=Block")
        assert shows(page, "#hosts .outcome", "h3.example, 1 known host, blocked until")
        page.fill("#rules input >> nth=0", "h1.example")
        page.fill("#rules [name=delay]", "2h")
        page.click("text=Set the rule")
        assert shows(page, "#rules tr", r"h1\.example\s*hosts\s*delay between visits: 2 h")
        assert shows(page, ".state", "working")
        front.cluster.hosts.refuses.add(1)
        assert shows(page, ".alerts", "error Shard 1 of the cluster cannot be reached")
        assert shows(page, ".state", "in trouble")
        front.cluster.hosts.refuses.clear()
        assert shows(page, ".state", "working")


def test_a_shard_has_a_console_of_its_own(browser: Browser, front: ServedFront) -> None:
    pages = len(front.cluster.schedulers[1])
    with opened(browser, f"http://{front.server.address}/shards/1/") as page:
        assert shows(page, ".title", f"{pages} pages")
        assert shows(page, "#formula", "No evolution has been held yet")
        page.locator(".heat").wait_for()


def ask_now(page: Page) -> None:
    """Let the page ask for its figures at once, as it does when it becomes visible."""
    page.evaluate("document.dispatchEvent(new Event('visibilitychange'))")


def answer_with(page: Page, status: int, code: str, detail: str) -> None:
    problem = {"type": "about:blank", "title": "", "status": status, "code": code, "detail": detail}
    body = json.dumps(problem)
    page.route(
        "**/v1/**", lambda route: route.fulfill(status=status, body=body, content_type="application/problem+json")
    )


@pytest.mark.parametrize(
    ("status", "code", "alert"),
    [
        (503, "stopping", "warning The service is stopping"),
        (503, "queue_full", "error The service cannot answer: as it says"),
        (429, "too_many_requests", "warning This browser asks more often"),
        (500, "internal", "error The service cannot answer: as it says"),
    ],
)
def test_answers_that_are_no_figures(page: Page, status: int, code: str, alert: str) -> None:
    answer_with(page, status, code, "as it says")
    ask_now(page)
    assert shows(page, ".alerts", alert.replace(" ", r"\s*"))
    assert page.locator(".figure").count() == 7  # the last figures stay
    page.unroute("**/v1/**")
    ask_now(page)
    page.locator(".alerts", has_text="service").wait_for(state="hidden")


def test_a_token_that_expires_is_asked_for_again(page: Page) -> None:
    answer_with(page, 401, "no_token", "expected a valid token")
    ask_now(page)
    page.locator("#token").wait_for()
    assert page.locator("#token").is_visible()


def test_a_service_that_is_gone(page: Page) -> None:
    page.route("**/v1/**", lambda route: route.abort())
    ask_now(page)
    assert shows(page, ".state", "no answer")
    assert shows(page, ".alerts", r"The service does not answer\. The figures are \d+ s old")


def test_alerts_in_words(page: Page) -> None:
    found = page.evaluate(
        """async () => {
          const { findAlerts } = await import("/console/alerts.js");
          const latest = {lag: 90_000, outcomes_per_s: 100, waiting: 40, lock_wait_s: 0.5, leased: 7,
            drifted: true, image_age_s: 7_200};
          const calibration = {visits: 5_000, error: 0.2, predicted: 0.3, observed: 0.1};
          const outcomes = {applied: 900, rejected: 100};
          const stats = {latest, calibration, outcomes, trouble: "the disk is full", requests: {500: 2, 200: 9},
            refused_pages: 3, unproven_share: 0.75, missing: [1, 3]};
          const samples = Array.from({length: 20}, (_, i) => ({at_s: 60 * i, applied: 5, leased: 7,
            fetches: {fetched: 10 * i, gone: i, server_error: 3 * i, no_response: 6 * i}}));
          const now = {stats, samples, error: null, answeredAt: 0};
          const calm = {...now, samples: [], stats: {...stats, trouble: null, requests: {}, refused_pages: 0,
            missing: undefined, unproven_share: null, outcomes: {}, calibration: {visits: 0},
            latest: {lag: null, image_age_s: 0}}};
          return [findAlerts(now, 0).map(({level, text}) => `${level}: ${text}`), findAlerts(calm, 0)];
        }"""
    )
    assert found[1] == []
    assert found[0] == [
        "error: Shards 1, 3 of the cluster cannot be reached. The figures are those of the others.",
        "error: The service does not do its work: the disk is full.",
        "error: 2 requests failed since the start; the log says why.",
        "warning: The stream is 90,000 messages behind, 15 min at the present speed.",
        "warning: 40 requests wait for the scheduler; further ones may be refused.",
        "warning: The scheduler's lock was waited for 500 ms.",
        "warning: 50.0 % of the last 300 fetches failed: 90 without a response, 45 5xx, 15 404 or 410. See the hosts.",
        "warning: Crawlers hold 7 pages, and no outcome has been reported for 19 min.",
        "warning: Predicted and observed changes differ by 20.0 % of the visits: predicted 30.0 %, observed 10.0 %.",
        (
            "warning: 75.0 % of the newest visits say nothing about a change: "
            "crawlers should report changed, a fingerprint or status 304."
        ),
        "warning: 100 outcomes rejected since the start; the answers to them say why.",
        "warning: No snapshot for 2 h: a restart would repeat all calls since.",
        "note: The hit rate has drifted since the last evolution; the next one will be early.",
        "note: 3 new pages refused: as many are known as the settings allow.",
    ]
