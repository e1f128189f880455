"""``streamsched cluster``: hosts that share a topic's partitions, what they hold, a check of it, imports and splits."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, Final

import click
from msgspec import to_builtins
from rich.console import Console
from rich.progress import track
from rich.table import Column, Table

from streamsched.cli.exits import DONE, UNREADABLE, Cancelled, Interruption, after_drain
from streamsched.cli.options import DIRECTORY, FILE, current_time, whole
from streamsched.cli.output import echo, echo_json
from streamsched.cli.service_options import (
    compile_for_requests,
    given_settings,
    log_run,
    needs_http,
    service_clock,
    service_options,
    setting,
)
from streamsched.connectors.kafka.kafka_settings import SCHEME, KafkaSettings, check_credentials, read_settings
from streamsched.connectors.records import OUTCOMES, SIGNALS
from streamsched.errors import NOTHING, SettingsError, SettingsErrors, SourceError
from streamsched.numerics.durations import write_duration
from streamsched.persistence.state_directory import lock_state
from streamsched.scheduler.recovered_state import recover_state
from streamsched.service.event_log import LOG
from streamsched.service.http_settings import HttpSettings
from streamsched.service.run_settings import RunSettings
from streamsched.service.setting_sources import Given, read_run_settings
from streamsched.service.stream_replay import Topic, reread_with

_EXTRA: Final = "cluster"
_WIDTH: Final = 120  # of a table, so that no address is cut where the output is piped
_NO_DIRECTORY: Final = "."  # of commands that keep nothing
_EPILOG: Final = """
\b
Examples:
  streamsched cluster host --source 'kafka://localhost:9092/outcomes?group=crawl' \\
      --calls crawl-calls --images s3://bucket/crawl --local /var/lib/streamsched --http 10.0.0.5:8080 --tokens t.toml
  streamsched cluster status --source 'kafka://localhost:9092/outcomes?group=crawl' --calls crawl-calls
  streamsched cluster verify --source 'kafka://localhost:9092/outcomes?group=crawl' --calls crawl-calls \\
      --images s3://bucket/crawl
  streamsched cluster import --state state/ --source 'kafka://localhost:9092/outcomes?group=crawl' \\
      --calls crawl-calls --images s3://bucket/crawl
  streamsched cluster split --partitions 24 --source 'kafka://localhost:9092/outcomes?group=crawl' \\
      --calls crawl-calls --images s3://bucket/crawl

docs/cluster.md says what is promised, and what to do when a host, the brokers or the storage fail.
"""


@click.group("cluster", epilog=_EPILOG)
def cluster_command() -> None:
    """Serve a topic's partitions by several hosts.

    Each partition is a shard. The consumer group of the topic decides which host has it.
    """


_place: Final = (
    setting(
        "--source", metavar="URL", help="The topic of outcomes, with its group: kafka://HOST:PORT/TOPIC?group=NAME."
    ),
    setting("--calls", setting="cluster.calls", metavar="TOPIC"),
)
_images: Final = setting("--images", setting="cluster.images", metavar="URL")


def _with(*options: Callable[[Any], Any]) -> Callable[[Any], Any]:
    def give(command: Any) -> Any:
        for option in reversed(options):
            command = option(command)
        return command

    return give


@cluster_command.command("host")
@_with(*_place, _images)
@setting(
    "--local", setting="state", metavar="DIR", required=True, help="Directory for open partitions; not needed again."
)
@setting("--signals", setting="signals.source", metavar="URL")
@setting("--advertise", setting="cluster.advertise", metavar="HOST:PORT")
@service_options
def host_command(**given: Any) -> int:
    """Serve the partitions that the group gives to this host.

    Each is taken over with its history, from the topic of calls and the store of images; the first SIGTERM or Ctrl-C
    saves all of them and leaves the group.
    """
    settings, unknown = read_run_settings(*given_settings(given))
    with log_run(settings, unknown, Console(stderr=True), level="info"):
        return _host(settings)


host_command.params = [one for one in host_command.params if one.name != "state"]  # hosts have --local


@cluster_command.command("status")
@_with(*_place)
@click.option("--config", type=FILE, help="TOML file with settings.")
@click.option("--set", multiple=True, metavar="NAME=VALUE", help="Set any setting of such a file. Can be repeated.")
@click.option("--json", is_flag=True, help="Print JSON.")
def status_command(**given: Any) -> int:
    """Show owner, lag and newest image of each partition."""
    settings, topic = _inspected(given)
    with needs_http(_EXTRA):
        from streamsched.cluster.inspection import read_status  # noqa: PLC0415  an extra
    found = read_status(topic, _calls_topic(settings, topic))
    if given["json"]:
        echo_json(to_builtins(found))
        return DONE
    names = ("partition", "owner", "lag", "image", "bytes", "calls since")
    table = Table(*(Column(name, no_wrap=True) for name in names), box=None)
    now = current_time(None)
    for one in found:
        age = "none" if one.saved_s is None else f"{write_duration(max(1, round(now - one.saved_s)))} old"
        owner = "nobody" if one.owner is None else one.owner if one.serves else f"{one.owner}, not served"
        table.add_row(str(one.partition), owner, f"{one.lag:,}", age, f"{one.image_bytes:,}", f"{one.calls:,}")
    Console(width=_WIDTH).print(table)
    return DONE


@cluster_command.command("verify")
@_with(*_place, _images)
@click.option("--config", type=FILE, help="TOML file with settings.")
@click.option("--set", multiple=True, metavar="NAME=VALUE", help="Set any setting of such a file. Can be repeated.")
@click.option("--json", is_flag=True, help="Print JSON.")
def verify_command(**given: Any) -> int:
    """Read every byte of all images and calls, and print the digest of each partition.

    Hosts may run meanwhile; nothing is changed.
    """
    settings, topic = _inspected(given)
    with needs_http(_EXTRA):
        from streamsched.cluster.image_store import ImageStore  # noqa: PLC0415  an extra
        from streamsched.cluster.inspection import check_partition  # noqa: PLC0415  an extra
    calls, store = _calls_topic(settings, topic), ImageStore(_required("images", settings.cluster.images), make=False)
    reread = reread_with(_topics(settings, topic))
    numbers = track(range(calls.partitions), "partitions", console=Console(stderr=True), transient=True)
    found = [check_partition(calls, number, store, reread) for number in numbers]
    if given["json"]:
        echo_json(to_builtins(found))
    else:
        for one in found:
            text = (
                one.error or f"{one.digest or 'nothing yet'}  {one.pages:,} pages, {one.calls:,} calls since the image"
            )
            echo(f"{one.partition:>4}  {text}")
    return UNREADABLE if any(one.error for one in found) else DONE


@cluster_command.command("import")
@click.option("--state", "imported", type=DIRECTORY, required=True, help="Directory of a state of `run` or `serve`.")
@_with(*_place, _images)
@setting("--signals", setting="signals.source", metavar="URL")
@click.option("--config", type=FILE, help="TOML file with settings.")
@click.option("--set", multiple=True, metavar="NAME=VALUE", help="Set any setting of such a file. Can be repeated.")
def import_command(imported: Path, **given: Any) -> int:
    """Make a saved state the shards of a new cluster.

    Each partition gets the pages of its hosts, and is read on from where the state stands. The state stays as it is.
    No host may run yet. If it was interrupted, give the command again before a host is started.
    """
    settings, topic = _inspected(given)
    with needs_http(_EXTRA):
        from streamsched.cluster.repartition import import_state  # noqa: PLC0415  an extra
    calls, place = _calls_topic(settings, topic), _cluster_place(settings, topic)
    with lock_state(imported):
        found = recover_state(imported)
        if found.needed is not None:
            raise found.needed
        import_state(place, calls, found.core, imported, _report_image)
    echo(f"imported into {calls.partitions} partitions: start hosts")
    return DONE


@cluster_command.command("split")
@click.option("--partitions", type=whole(2), required=True, help="How many there will be: twice the present number.")
@_with(*_place, _images)
@setting("--signals", setting="signals.source", metavar="URL")
@click.option("--config", type=FILE, help="TOML file with settings.")
@click.option("--set", multiple=True, metavar="NAME=VALUE", help="Set any setting of such a file. Can be repeated.")
def split_command(partitions: int, **given: Any) -> int:
    """Double the partitions of a cluster whose hosts are stopped.

    Each shard becomes two, with their leases and all that is known of their pages; the topics of outcomes, signals and
    calls get as many partitions. Stop what writes to the topics, wait until hosts have read it, and stop hosts. If it
    was interrupted, give the same command again; hosts refuse to serve what is split by half.
    """
    settings, topic = _inspected(given)
    with needs_http(_EXTRA):
        from streamsched.cluster.repartition import split  # noqa: PLC0415  an extra
    split(_cluster_place(settings, topic), _calls_topic(settings, topic), partitions, _report_image)
    echo(f"{partitions} partitions: start hosts")
    return DONE


def _report_image(partition: int, pages: int) -> None:
    echo(f"{partition:>4}  {pages:,} pages stored")


def _cluster_place(settings: RunSettings, topic: KafkaSettings) -> Any:
    with needs_http(_EXTRA):
        from streamsched.cluster.image_store import ImageStore  # noqa: PLC0415  an extra
        from streamsched.cluster.repartition import Place  # noqa: PLC0415  an extra
    topics = [topic]
    if settings.signals.source is not None:
        signals = read_settings(settings.signals.source, settings.kafka)
        topics.append(replace(signals, client="confluent", group=None))
    store = ImageStore(_required("images", settings.cluster.images))
    return Place(topics, store, lambda: current_time(None))


def _inspected(given: dict[str, Any]) -> tuple[RunSettings, KafkaSettings]:
    options, file = given_settings(given)
    settings, _ = read_run_settings(options | {"state": Given(_NO_DIRECTORY, "cluster")}, file)
    return settings, _group_topic(settings)


def _group_topic(settings: RunSettings) -> KafkaSettings:
    """Return the topic of outcomes. Raises SettingsError if it names no group, or a client that cannot be a member."""
    if not settings.is_topic:
        raise SettingsError("--source", settings.source, "kafka://HOST:PORT/TOPIC?group=NAME")
    topic = read_settings(settings.source, settings.kafka)
    check_credentials(topic)
    if topic.group is None:
        raise SettingsError("group", NOTHING, "the group whose members the hosts are: ?group=NAME")
    if topic.client == "kafka-python":
        expected = "confluent: kafka-python can neither keep partitions through a rebalance nor write transactions"
        raise SettingsError("client", topic.client, expected)
    return replace(topic, client="confluent")


def _calls_topic(settings: RunSettings, topic: KafkaSettings) -> Any:
    with needs_http(_EXTRA):
        from streamsched.cluster.group import count_partitions  # noqa: PLC0415  an extra
        from streamsched.cluster.topic_log import CallsTopic  # noqa: PLC0415  an extra
    assert topic.group is not None
    calls = replace(topic, topic=_required("calls", settings.cluster.calls), group=None, dead_letters=None)
    return CallsTopic(calls, topic.group, count_partitions(topic))


def _required(name: str, value: str | None) -> str:
    if value is None:
        raise SettingsError(f"--{name}", NOTHING, "a value: docs/cluster.md says which")
    return value


def _topics(settings: RunSettings, topic: KafkaSettings) -> list[Topic]:
    topics = [Topic(OUTCOMES, topic)]
    if settings.signals.source is not None:
        topics.append(Topic(SIGNALS, read_settings(settings.signals.source, settings.kafka)))
    return topics


def _host(settings: RunSettings) -> int:
    with needs_http(_EXTRA):
        from streamsched.cluster.host import open_host  # noqa: PLC0415
        from streamsched.cluster.image_store import ImageStore  # noqa: PLC0415  an extra
        from streamsched.cluster.topic_log import prepare_topic  # noqa: PLC0415
        from streamsched.http.server import listen  # noqa: PLC0415
    topic, http = _group_topic(settings), HttpSettings(**settings.http)
    _check_parts(settings)
    wall, begin = service_clock(settings)
    with ExitStack() as stack:
        listener = stack.enter_context(listen(http))
        store = ImageStore(_required("images", settings.cluster.images))
        if settings.changes.to is not None:
            _check_changes(settings, topic)
        calls = prepare_topic(_calls_topic(settings, topic))
        interruption = stack.enter_context(Interruption(waits=False))
        with suppress(Cancelled):
            prepare = partial(compile_for_requests, interruption)
            host = stack.enter_context(open_host(settings, calls, store, wall, listener, prepare))
            begin()
            for _ in interruption.until(_polls(host)):
                pass
        if interruption.number is not None:
            LOG.info("stopping", signal=interruption.number)
    LOG.info("stopped")
    return DONE if interruption.number is None else after_drain(interruption.number)


def _check_parts(settings: RunSettings) -> None:
    """Raise SettingsErrors for parts of a run that a host does not have: they need the whole corpus at one place."""
    given = {
        "optimiser": settings.optimiser is not None,
        "batches.to": settings.batches.to is not None,
        "changes.keep": bool(settings.changes.keep) and settings.changes.to is None,
        "frontier.address": settings.frontier.address is not None,
        "http.indexnow": bool(settings.http.get("indexnow")),
        "until_end": settings.until_end,
        "from_start": settings.from_start,
    }
    expected = "no such setting of a cluster host: `streamsched run` and `serve` have it"
    errors = [SettingsError(name, "…", expected) for name, is_given in given.items() if is_given]
    if settings.changes.to is not None and not settings.changes.to.startswith(SCHEME):
        errors.append(SettingsError("changes.to", settings.changes.to, "a topic: kafka://HOST:PORT/TOPIC"))
    if errors:
        raise SettingsErrors(errors)


def _check_changes(settings: RunSettings, topic: KafkaSettings) -> None:
    """Raise SettingsError if the place for changes is no topic of their own, SourceError if there is none."""
    with needs_http(_EXTRA):
        from streamsched.cluster.group import count_partitions  # noqa: PLC0415  an extra
        from streamsched.cluster.shard import changes_topic  # noqa: PLC0415  an extra
    changes = changes_topic(settings)
    used = [settings.cluster.calls, *(one.settings.topic for one in _topics(settings, topic))]
    if changes.topic in used:
        raise SettingsError("changes.to", changes.topic, "a topic of its own, by its name")
    try:
        count_partitions(changes)
    except SourceError as error:
        if not error.retriable:
            raise
        LOG.warning("changes wait", to=f"kafka://{changes.topic}", reason=str(error))


def _polls(host: Any) -> Iterator[bool]:
    while True:
        host.run_once()
        yield True
