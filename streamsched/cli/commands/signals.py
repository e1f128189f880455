"""``streamsched signals``: how far the sources of signals proved true, and sitemaps and feeds, fetched politely."""

from __future__ import annotations

import asyncio
import math
import re
import signal
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, Final

import click
import msgspec
import numpy as np
from rich.console import Console
from rich.progress import TimeElapsedColumn

from streamsched.cli import options
from streamsched.cli.exits import DONE, NOTHING, UNREADABLE, after_drain, after_signal
from streamsched.cli.options import DURATION, FILE, Parsed, current_time, parse_whole, whole
from streamsched.cli.output import STDOUT, echo, echo_error, echo_json, plain
from streamsched.cli.progress import show_bar
from streamsched.cli.remote import TOKEN_VARIABLE, open_client
from streamsched.cli.service_options import needs_http, print_counts
from streamsched.connectors.kafka import open_sink
from streamsched.connectors.kafka.kafka_settings import SCHEME
from streamsched.connectors.signals.entry_columns import find_host
from streamsched.errors import NOTHING as NO_VALUE
from streamsched.errors import ServiceError, SettingsError
from streamsched.numerics.durations import format_duration
from streamsched.scheduler.scheduler import Scheduler
from streamsched.service.event_log import LOG, log_to
from streamsched.signals import SignalBatch

if TYPE_CHECKING:
    from streamsched.api.views import SourceReliability
    from streamsched.fetching.document_book import Kind
    from streamsched.fetching.fetcher import Deliver, Fetcher, FetchSettings

_ALL_HOSTS: Final = "all hosts"
_HEAD: Final = ("source", "host", "signals", "pages", "precision", "recall", "lateness")
_EPILOG: Final = """
\b
Examples:
  streamsched signals --state state/
  streamsched signals fetch --discover example.org --to http://127.0.0.1:8080 --state documents/
  streamsched signals --state state/ --host example.org --json

\b
precision   share of the signals that announced a change, of those that a visit has checked
recall      share of the changes of the source's pages that it announced, of those that a visit has seen
lateness    mean time from a change to its signal
"""
_FETCH_EPILOG: Final = """
\b
Examples:
  streamsched signals fetch --discover example.org --to http://127.0.0.1:8080 --state documents/
  streamsched signals fetch --sitemap https://example.org/sitemap.xml --to signals.jsonl --state documents/ --once
  streamsched signals fetch --feed https://example.org/feed --to kafka://localhost:9092/signals --state documents/

\b
Exit code of --once: 3 if a document could not be read, 6 if the service refuses or is away.
It obeys robots.txt, ETag, Last-Modified, max-age, ttl, Retry-After and 410, and asks a host one thing at a time.
Documents stay in the state: without --sitemap, --feed and --discover it continues with those that it has.
"""
_WEB: Final = ("http://", "https://")
_ATTEMPTS: Final = 3  # of a delivery to a service; later it is tried again as a whole
_SIGNALS_A_CALL: Final = 10_000  # the most that a service takes
_FAILED: Final = "failed_"  # counts of documents that could not be read
_WEBSUB_ADDRESS: Final = "127.0.0.1:8090"
_LONGEST_CALLBACK: Final = 1_024
_AGENT: Final = re.compile(r"[\x20-\x7e]{1,256}")


@click.group("signals", epilog=_EPILOG, invoke_without_command=True, no_args_is_help=False)
@click.option("--state", type=options.DIRECTORY, help="Directory of the saved state.")
@click.option("--host", metavar="HOST", help="Only the sources of this host.")
@click.option("--json", is_flag=True, help="Print JSON.")
@click.pass_context
def signals_command(context: click.Context, state: Path | None, host: str | None, json: bool) -> int:
    """List what change signals proved; fetch sitemaps and feeds.

    A source is a kind, such as sitemap or feed, on a host. Each kind has a line for all of its hosts together, by which
    new sources of the kind are judged at first. The figures are learned from the visits that follow signals. `signals
    fetch` fetches sitemaps and feeds.
    """
    if context.invoked_subcommand is not None:
        return DONE
    if state is None:
        raise click.UsageError("--state is required")
    sources = [one for one in Scheduler.load(state).sources() if host is None or one.host == host]
    if json:
        echo_json([one.as_dict() for one in sources])
    elif sources:
        _print_table([_HEAD, *map(_describe, sources)])
    else:
        echo_error(f"streamsched: no signal has been noticed yet{'' if host is None else f' of {plain(host)}'}")
    return DONE if sources else NOTHING


def _describe(source: SourceReliability) -> tuple[str, ...]:
    """Return the cells of a source's line."""
    host = _ALL_HOSTS if source.host is None else source.host
    return (
        plain(source.kind),
        plain(host),
        f"{source.signals:,}",
        f"{source.pages:,}",
        _share(source.precision, source.checked),
        _share(source.recall, source.changes),
        format_duration(source.lateness_s),
    )


def _share(share: float | None, count: float) -> str:
    """Return a share in per cent and what it is of; a dash where nothing is proved."""
    return "–" if share is None else f"{100 * share:.0f} % of {count:,.0f}"


def _print_table(rows: list[tuple[str, ...]]) -> None:
    """Print rows in columns, names aligned left and figures right."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        cells = [
            cell.ljust(width) if place < 2 else cell.rjust(width)
            for place, (cell, width) in enumerate(zip(row, widths, strict=True))
        ]
        echo("  ".join(cells).rstrip())


def _parse_document(text: str) -> str:
    if find_host(text) is None:
        raise SettingsError("URL", text, "an absolute http or https URL")
    return text


def _parse_site(text: str) -> str:
    """Return the front page of a host, or of a URL without a path.

    >>> _parse_site("a.example"), _parse_site("http://a.example:8080/")
    ('https://a.example/', 'http://a.example:8080/')
    """
    url = (text if text.startswith(_WEB) else f"https://{text}").rstrip("/")
    if find_host(url) is None or re.search(r"[/?#]", url.partition("://")[2]):
        raise SettingsError("HOST", text, "a host such as example.org, or http://example.org for one without https")
    return f"{url}/"


def _parse_port(text: str) -> int:
    port = parse_whole(text, 1)
    if port > 65_535:
        raise SettingsError("port", text, "a port from 1 to 65535")
    return port


def _parse_agent(text: str) -> str:
    if not _AGENT.fullmatch(text):
        raise SettingsError("agent", text, "1 to 256 printable characters of ASCII")
    return text


def _parse_callback(text: str) -> str:
    """Return the URL below which callbacks are.

    >>> _parse_callback("https://crawler.example/websub")
    'https://crawler.example/websub/'
    """
    if find_host(text) is None or re.search(r"[?#@]", text) or len(text) > _LONGEST_CALLBACK:
        raise SettingsError(
            "URL", text, "an absolute http or https URL without a query, such as https://a.example/hub/"
        )
    return text if text.endswith("/") else f"{text}/"


@signals_command.command("fetch", epilog=_FETCH_EPILOG)
@click.option("--sitemap", multiple=True, type=Parsed("URL", _parse_document), help="Fetch this sitemap or index.")
@click.option("--feed", multiple=True, type=Parsed("URL", _parse_document), help="Fetch this feed.")
@click.option(
    "--discover",
    multiple=True,
    type=Parsed("HOST", _parse_site),
    help="Find the sitemaps and feeds of this host: in its robots.txt and on its front page.",
)
@click.option(
    "--to", required=True, metavar="SERVICE|TOPIC|FILE", help="URL of a service, kafka:// URL, .jsonl file, or -."
)
@click.option("--token-file", type=FILE, show_default=f"the variable {TOKEN_VARIABLE}", help="Token of the service.")
@click.option("--state", required=True, type=options.DIRECTORY, help="Directory of what is known of the documents.")
@click.option("--every", type=DURATION, default="1h", help="Mean time between two visits of a document.")
@click.option("--delay", type=DURATION, default="1s", help="Time between two requests to a host.")
@click.option("--jobs", type=whole(1), default=32, help="Largest number of visits at a time.")
@click.option("--allow", multiple=True, metavar="NETWORK", help="Connect to these addresses too: 10.0.0.0/8.")
@click.option(
    "--allow-port",
    multiple=True,
    type=Parsed("PORT", _parse_port),
    help="Of addresses of --allow, beside 80 and 443.",
)
@click.option("--agent", type=Parsed("TEXT", _parse_agent), help="Add this to the User-Agent: how to reach you.")
@click.option(
    "--websub-callback",
    type=Parsed("URL", _parse_callback),
    help="Subscribe at WebSub hubs, which reach this process below this URL.",
)
@click.option(
    "--websub-listen",
    metavar="HOST:PORT",
    default=_WEBSUB_ADDRESS,
    help="Serve what comes for --websub-callback here.",
)
@click.option("--once", is_flag=True, help="Visit what is due, then end.")
@click.option(
    "--log-level", type=click.Choice(["info", "warning", "error"]), default="warning", help="Least level of the log."
)
@click.option("--json", is_flag=True, help="Print JSON.")
def fetch_command(**given: Any) -> int:
    """Fetch sitemaps and feeds; send what they announce.

    A service, a topic or a file gets the change signals. How often each document is fetched is learned from what it
    announced. The command runs until it is stopped.
    """
    arguments = SimpleNamespace(**given)
    if arguments.once and arguments.websub_callback:
        raise click.UsageError("--websub-callback needs a process that runs on: it cannot be used with --once")
    try:
        from streamsched.fetching.fetcher import Fetcher, FetchSettings  # noqa: PLC0415  httpx is an extra
        from streamsched.web.reach import Reach, read_networks  # noqa: PLC0415
        from streamsched.web.safe_fetch import AGENT  # noqa: PLC0415
    except ImportError as error:
        expected = "an installed package: pip install 'streamsched[fetch]'"
        raise SettingsError(error.name or "httpx", NO_VALUE, expected) from error
    settings = FetchSettings(
        every_s=arguments.every,
        delay_s=arguments.delay,
        jobs=arguments.jobs,
        reach=Reach(read_networks(arguments.allow, "--allow"), allow_ports=frozenset(arguments.allow_port)),
        agent=f"{AGENT} ({arguments.agent})" if arguments.agent else AGENT,
        callback=arguments.websub_callback or "",
    )
    console = Console(stderr=True)
    with (
        _open_callbacks(settings, arguments.websub_listen) as settings,
        _open_sink(arguments.to, arguments.token_file, once=arguments.once) as deliver,
        log_to(console, arguments.log_level, "text"),
        Fetcher(
            arguments.state, deliver, settings, clock=partial(current_time, None), monotonic=time.monotonic
        ) as fetcher,
        show_bar("documents", TimeElapsedColumn(), console=console) as update,
    ):
        if update is not None:
            fetcher.on_progress = partial(_show, update)
        _add(fetcher, {"sitemap": arguments.sitemap, "feed": arguments.feed, "site": arguments.discover})
        number = asyncio.run(_run(fetcher, once=arguments.once))
        due_s = fetcher.schedule.next_due_s() if arguments.once else None
    if due_s is not None:
        fetcher.counts["next_due_s"] = math.ceil(due_s)
    if arguments.to != STDOUT:
        print_counts(dict(fetcher.counts), as_json=arguments.json)
    if number is not None:
        return after_drain(number)
    if due_s is not None and not fetcher.counts["visits"]:
        echo_error(f"streamsched: no document is due; the next one is in {format_duration(math.ceil(due_s))}")
    failed = sum(count for name, count in fetcher.counts.items() if name.startswith(_FAILED))
    if failed:
        echo_error(f"streamsched: documents that could not be read: {failed:,}")
    return UNREADABLE if failed else DONE


@contextmanager
def _open_callbacks(settings: FetchSettings, address: str) -> Iterator[FetchSettings]:
    """Yield `settings` with what serves the callbacks of hubs at `address`, if there are any. Raises SettingsError."""
    if not settings.callback:
        yield settings
        return
    with needs_http():
        from streamsched.http.server import listen_on, serving  # noqa: PLC0415  an extra
    with listen_on(address, "websub-listen") as listener:
        yield replace(settings, serve=partial(serving, listener=listener))


def _add(fetcher: Fetcher, named: dict[Kind, tuple[str, ...]]) -> None:
    from streamsched.fetching.document_book import Document  # noqa: PLC0415  httpx is an extra

    for kind, urls in named.items():
        fetcher.schedule.add(Document(url, kind) for url in urls)
    if not len(fetcher.schedule):
        raise click.UsageError("expected --sitemap, --feed or --discover: the state has no documents yet")


def _show(update: Callable[..., None], counts: Counter[str]) -> None:
    update(description=f"{counts['documents']:,} documents, {counts['visits']:,} visits, {counts['signals']:,} signals")


async def _run(fetcher: Fetcher, *, once: bool) -> int | None:
    """Run until a signal comes, whose number is returned, or with `once` until nothing is due; a second one exits."""
    stop, found = asyncio.Event(), list[int]()

    def take(number: int) -> None:
        if found:
            raise SystemExit(after_signal(number))
        found.append(number)
        stop.set()

    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        with suppress(NotImplementedError, RuntimeError):  # in another thread than the main one
            loop.add_signal_handler(number, take, number)
    await fetcher.run(stop, once=once)
    return found[0] if found else None


@contextmanager
def _open_sink(to: str, token_file: Path | None, *, once: bool) -> Iterator[Deliver]:
    """Yield what delivers signals to `to`. Raises SettingsError, SourceError or ServiceError.

    A service that refuses is found out before anything is fetched, and with `once` one that is away too.
    """
    if to.startswith(_WEB):
        with open_client(to, token_file, _ATTEMPTS) as client:
            try:
                client.notice([])
            except ServiceError as error:
                if once or not error.retriable:
                    raise

            def notice(signals: SignalBatch) -> None:
                for part in _parts(signals):
                    noticed = client.notice(part)
                    if noticed.rejected:  # its clock may be behind; later signals are not lost for it
                        LOG.warning("the service rejected signals", count=noticed.rejected, first=noticed.rejections[0])

            yield notice
    elif to.startswith(SCHEME):
        with open_sink(to) as sink:

            def send(signals: SignalBatch) -> None:
                sink.send_signals(signals)
                sink.flush()

            yield send
    elif to == STDOUT:
        yield _print_lines
    else:
        from streamsched.fetching.signal_files import SignalFile  # noqa: PLC0415

        with SignalFile(Path(to)) as file:
            yield file.append


def _parts(signals: SignalBatch) -> Iterator[SignalBatch]:
    for start in range(0, len(signals), _SIGNALS_A_CALL):
        yield signals.take(np.arange(start, min(start + _SIGNALS_A_CALL, len(signals))))


def _print_lines(signals: SignalBatch) -> None:
    sys.stdout.write(msgspec.json.Encoder().encode_lines(list(signals.to_events())).decode())
    sys.stdout.flush()
