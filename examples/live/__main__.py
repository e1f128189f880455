"""``make live``, or ``python -m examples.live``: a year of real changes in a minute.

A crawl that visits every page daily is published to a Kafka topic at full speed, and read into a state: what the
service knows at the beginning. Then its clock goes so fast that the following year passes in a minute. Two crawlers
visit the same pages with the same budget; what they find is what the change log says. One asks the service which pages
to visit, and answers through the topic. The other visits the oldest copies first.
"""

from __future__ import annotations

import json
import signal
import sys
import time
import uuid
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from types import FrameType
from typing import Any

import click
from rich.console import Console, Group
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table

from examples.live.crawlers import OldestFirst, ServiceCrawler
from examples.live.processes import ServiceFailed, compile_kernels, open_broker, open_service, read_to_the_end
from examples.live.world import DAY_S, World
from streamsched.client import Client
from streamsched.connectors.kafka import open_sink
from streamsched.errors import StreamschedError
from streamsched.replay import read_truth
from tests.integration.kafka.broker import NoBroker

_LOG = Path(__file__).resolve().parents[2] / "data" / "scoop-extras.tsv.gz"
_STEP_DAYS = 0.5  # between two batches, if the machine is fast enough
_STATS_S = 1.0  # between two looks at the service's own figures


@dataclass(frozen=True)
class Plan:
    """What is shown. ``history``, ``days``: lengths of both years; ``budget``: visits a day, a share of all pages."""

    start_s: float
    history: int
    days: int
    seconds: float
    budget: float

    @property
    def speed(self) -> float:
        """Seconds of the service's time in a second."""
        return self.days * DAY_S / self.seconds


@click.command()
@click.option("--start", type=click.DateTime(["%Y-%m-%d"]), default="2025-08-22", help="First day of the crawl.")
@click.option("--history", type=click.IntRange(1), default=365, help="Days of crawling before it.")
@click.option("--days", type=click.IntRange(1), default=365, help="Length of the crawl.")
@click.option("--seconds", type=click.FloatRange(1.0), default=60.0, help="In which it passes.")
@click.option("--budget", type=click.FloatRange(0.001, 1.0), default=0.05, help="Share of the pages a day.")
@click.option("--http", default="127.0.0.1:8080", help="Where the service listens.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON at the end.")
def main(start: datetime, http: str, *, as_json: bool, **given: Any) -> None:
    """Crawl a year of real changes in a minute, beside a crawler that visits the oldest copies first."""
    signal.signal(signal.SIGTERM, _interrupt)
    console = Console(stderr=True)
    try:
        result = show(Plan(start.replace(tzinfo=UTC).timestamp(), **given), http, console)
    except (NoBroker, ServiceFailed, StreamschedError) as error:
        console.print(f"live: {error}", markup=False)
        sys.exit(1)
    except KeyboardInterrupt:
        console.print("stopped")
        sys.exit(130)
    if as_json:
        click.echo(json.dumps(result))
    else:
        Console().print(tabulate(result))


def show(plan: Plan, http: str, console: Console) -> dict[str, dict[str, float]]:
    """Run all of it; return the figures of both crawlers. Nothing is left running, however it ends."""
    world = World(read_truth(_LOG), plan.start_s - plan.history * DAY_S, plan.history + plan.days)
    with ExitStack() as stack:
        folder = Path(stack.enter_context(TemporaryDirectory(prefix="streamsched-live-")))
        console.print("compiling kernels, unless they are ...")
        compile_kernels()
        console.print("starting a Kafka broker ...")
        servers = stack.enter_context(open_broker(folder / "kafka"))
        topic = f"kafka://{servers}/live-{uuid.uuid4().hex[:8]}"
        publish_history(world, plan, topic, folder / "state", console)
        settings = [f"clock.start={_iso(plan.start_s)}", f"clock.speed={plan.speed}", "http.sample_every=1s"]
        address = stack.enter_context(open_service(topic, folder / "state", http, settings))
        console.print(f"the service: http://{address}/ (metrics: /metrics, figures: /v1/stats)")
        client = stack.enter_context(Client(f"http://{address}"))
        sink = stack.enter_context(open_sink(topic))
        race = Race(plan, world, ServiceCrawler(world, plan.start_s, client, sink), client)
        with Live(console=console, transient=True, auto_refresh=False) as live:
            while race.step():
                live.update(race.table(), refresh=True)
        return race.result()


def publish_history(world: World, plan: Plan, topic: str, state: Path, console: Console) -> None:
    """Publish a crawl of the days before the start, and read it into `state`."""
    begun, count = time.perf_counter(), 0
    with open_sink(topic) as sink:
        sink.create(1)
        for outcomes in world.daily_visits(plan.history):
            sink.send_outcomes(outcomes)
            count += len(outcomes)
    took = time.perf_counter() - begun
    console.print(f"published {count:,} outcomes of {plan.history} days in {took:.1f} s; reading them ...")
    begun = time.perf_counter()
    applied = read_to_the_end(topic, state)
    console.print(f"read {applied:,} outcomes in {time.perf_counter() - begun:.1f} s, the start of a process included")


class Race:
    """Both crawlers, step by step, at the times of the service's clock."""

    def __init__(self, plan: Plan, world: World, ours: ServiceCrawler, client: Client) -> None:
        self._plan = plan
        self._world = world
        self._ours = ours
        self._oldest = OldestFirst(world, plan.start_s)
        self._client = client
        self._owed = _STEP_DAYS * plan.budget * world.count(plan.start_s)  # visits that the budget allows by now
        self._estimate: float | None = None  # of the freshness, by the service
        self._looked_s = 0.0

    @property
    def now(self) -> float:
        """The time of the last visits."""
        return self._ours.copies.now

    def step(self) -> bool:
        """Make the visits that the budget allows by now; return False after the last day."""
        begun_s, before = time.monotonic(), self.now
        visits = self._ours.crawl(max(1, int(self._owed)))
        self._oldest.crawl(visits, self.now)
        days = (self.now - before) / DAY_S
        self._owed += days * self._plan.budget * self._world.count(self.now) - visits
        if begun_s > self._looked_s + _STATS_S:
            self._looked_s = begun_s
            self._estimate = self._client.stats(since=self.now).latest.freshness
        time.sleep(max(0.0, begun_s + _STEP_DAYS * DAY_S / self._plan.speed - time.monotonic()))
        return self.now < self._plan.start_s + self._plan.days * DAY_S

    def result(self) -> dict[str, dict[str, float]]:
        """Return the figures of both crawlers."""
        crawlers = {"streamsched": self._ours.copies, "oldest first": self._oldest.copies}
        return {
            name: {"visits": copies.visits, "hit_rate": copies.hit_rate, "freshness": copies.freshness}
            for name, copies in crawlers.items()
        }

    def table(self) -> Group:
        """Return what the terminal shows."""
        figures = tabulate(self.result())
        if self._estimate is not None:
            figures.add_row("current now, by the service", f"{self._estimate:.1%}", "")
        day = (self.now - self._plan.start_s) / DAY_S
        return Group(f"{_iso(self.now)[:10]}", ProgressBar(total=self._plan.days, completed=day, width=60), figures)


def tabulate(result: dict[str, dict[str, float]]) -> Table:
    """Return the figures of all crawlers as a table."""
    table = Table("", *result, box=None)
    for column in table.columns[1:]:
        column.justify = "right"
    table.add_row("visits", *(f"{one['visits']:,.0f}" for one in result.values()))
    table.add_row("visits that found a change", *(f"{one['hit_rate']:.1%}" for one in result.values()))
    table.add_row("copies that were current", *(f"{one['freshness']:.1%}" for one in result.values()))
    return table


def _iso(time_s: float) -> str:
    return datetime.fromtimestamp(time_s, UTC).isoformat()


def _interrupt(_number: int, _frame: FrameType | None) -> None:
    raise KeyboardInterrupt


if __name__ == "__main__":
    main()
