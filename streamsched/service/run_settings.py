"""The settings of a run: each table is a class that checks its values, with a bullet for each in its docstring.

Everything else is derived from the parameters of these classes and from the bullets: keys of TOML tables, variables of
the environment, ``--set`` (`setting_sources`), options and their help (`streamsched.cli.service_options`), and the
page docs/settings.md (``make docs``).
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import UnionType
from typing import Any, Final, Literal, NamedTuple, Union, get_args, get_origin

from streamsched.connectors.file_formats import formats_of
from streamsched.connectors.kafka.kafka_settings import SCHEME, read_settings
from streamsched.connectors.records import OUTCOMES, SIGNALS
from streamsched.errors import NOTHING, SettingsError, SettingsErrors
from streamsched.evolution.plan import EvolutionPlan
from streamsched.numerics.argument_checks import check_whole
from streamsched.numerics.durations import parse_duration, parse_lease, parse_moment
from streamsched.persistence.image_writer import SavePlan
from streamsched.politeness.politeness_settings import HostRule, Politeness, Rule
from streamsched.scheduler.planning.optimiser_settings import OptimiserSettings
from streamsched.scheduler.scheduler import Scheduler
from streamsched.service.http_settings import FrontierSettings, HttpSettings, split_address

_NAMES: Final = 249  # characters of a topic's name


def _check_outputs(settings: RunSettings) -> None:
    """Raise SettingsErrors for a file that would be read and written to, or have changes and rejected records."""
    taken = {_resolve(settings.source), _resolve(settings.signals.source)} - {None}
    outputs = {
        "changes.to": settings.changes.to,
        "dead_letters": settings.dead_letters,
        "signals.dead_letters": settings.signals.dead_letters,
    }
    for name, output in outputs.items():
        place = _resolve(output)
        if place in taken:
            raise SettingsErrors([SettingsError(name, str(output), "a file that the run does not use otherwise")])
        if place is not None and not name.endswith("dead_letters"):
            taken.add(place)


def _resolve(file: str | Path | None) -> Path | None:
    """Return where `file` is, None for a topic, standard input, none, or what no file can be."""
    text = "-" if file is None else str(file)
    if text == "-" or "://" in text:
        return None
    try:
        return Path(text).resolve()
    except (OSError, RuntimeError, ValueError):  # a loop of links, or a zero byte: who opens it says so
        return None


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterSettings:
    """A host of a cluster. Durations are ``"10s"`` or seconds.

    - ``calls``: the topic for the calls of all shards, made if it does not exist;
    - ``images``: where the images of all shards are kept: a folder that all hosts have, or s3://BUCKET/PREFIX;
    - ``advertise``: HOST:PORT at which the other hosts reach this one, by default that of ``http.address``;
    - ``token``: file with the token by which hosts call each other, if there are tokens: of all three scopes;
    - ``give_up``: the longest time to save a partition that goes to another host, which otherwise replays more;
    - ``answer``: how long a shard may take to offer pages; without it, a batch is made of the others' pages.
    """

    calls: str | None = None
    images: str | None = None
    advertise: str | None = None
    token: Path | None = None
    give_up: str | float = "5s"
    answer: str | float = "500ms"

    def __post_init__(self) -> None:
        if self.calls is not None and (not self.calls or len(self.calls) > _NAMES or "/" in self.calls):
            raise SettingsError("calls", self.calls, "the name of a topic on the brokers of the source")
        if self.images == "":
            raise SettingsError("images", self.images, "a folder, or s3://BUCKET/PREFIX")
        if self.advertise is not None:
            split_address(self.advertise)
        for name in ("give_up", "answer"):
            object.__setattr__(self, name, parse_duration(getattr(self, name), name))


LOG_LEVELS: Final = ("debug", "info", "warning", "error")
LOG_FORMATS: Final = ("text", "json")
SOURCE_EXPECTED: Final = "file:PATH, PATH, - for standard input, or kafka://HOST:PORT/TOPIC"
NO_STREAM: Final = "none:"  # the source of `serve`
_READABLE: Final = frozenset((bool, int, float, str, Path))  # kinds that a text can give
_BULLET: Final = re.compile(r"^- (``\w+``(?:, ``\w+``)*): (.*(?:\n  .*)*)", re.MULTILINE)


def check_topic(url: str) -> None:
    """Check the URL of a topic; the error shows no password."""
    try:
        read_settings(url)
    except SettingsError as error:
        setting = "" if error.setting == "source" else error.setting
        raise SettingsErrors([SettingsError(setting, error.found, error.expected)]) from error


def check_source(source: str) -> str:
    """Return a file's path or a topic's URL without the prefix ``file:``; the error shows no password."""
    if source.startswith(SCHEME):
        check_topic(source)
    elif source.startswith("kafka:"):
        raise SettingsErrors([SettingsError("", source.partition("?")[0], SOURCE_EXPECTED)])
    return source.removeprefix("file:")


def _check_choice(name: str, found: str | None, choices: tuple[str, ...]) -> None:
    if found is not None and found not in choices:
        raise SettingsError(name, found, f"one of {', '.join(choices)}")


def _check_beside(source: str, signals: str) -> None:
    """Raise SettingsError if `signals` cannot be read beside `source`."""
    found, expected = signals, ""
    if signals.startswith(SCHEME) and source.startswith(SCHEME):
        own, other = read_settings(signals), read_settings(source)
        if own.topic == other.topic:
            found, expected = own.topic, "another topic than that of the outcomes, by its name"
    elif signals == source:
        expected = "another source than that of the outcomes"
    elif "-" in (signals, source) and (signals.startswith(SCHEME) or source.startswith(SCHEME)):
        expected = "no standard input beside a topic, which cannot wait for it"
    if expected:
        raise SettingsErrors([SettingsError("signals.source", found, expected)])


@dataclass(frozen=True, slots=True, kw_only=True)
class SignalsSettings:
    """The second stream, of change signals.

    - ``source``: where change signals come from, beside the outcomes: a file, - or a topic;
    - ``format``: format of a file of signals, by default detected;
    - ``dead_letters``: a file for rejected signals.
    """

    source: str | None = None
    format: str | None = None
    dead_letters: Path | None = None

    def __post_init__(self) -> None:
        if self.source is not None:
            object.__setattr__(self, "source", check_source(self.source))
        _check_choice("format", self.format, tuple(formats_of(SIGNALS)))
        if self.source is None and (self.format is not None or self.dead_letters is not None):
            raise SettingsError("source", NOTHING, SOURCE_EXPECTED)


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchPlan:
    """How batches are published. Durations are ``"10s"`` or seconds.

    - ``to``: the topic for the pages to visit next: kafka://HOST/TOPIC;
    - ``size``: pages in a batch;
    - ``behind``: messages behind above which no batch is published, because outcomes that are not read yet may be newer
    - ``every``: time between two batches;
    - ``lease``: length of the lease.
    """

    to: str | None = None
    size: int = 1000
    behind: int = 10_000
    every: str | float = "10s"
    lease: str | float = "10m"

    def __post_init__(self) -> None:
        if self.to is not None:
            check_topic(self.to)
        check_whole("size", self.size, 1, "1 or more pages")
        check_whole("behind", self.behind, 0, "0 or more messages")
        object.__setattr__(self, "every", parse_duration(self.every, "every"))
        object.__setattr__(self, "lease", parse_lease(self.lease))


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangesSettings:
    """The change feed: the changes of pages that outcomes have shown. Durations are ``"10s"`` or seconds.

    - ``keep``: for how long changes are kept at least, 0 for no feed; by default 7d if ``to`` is given, else 0;
    - ``to``: where each change is also written, at least once: kafka://HOST/TOPIC, or a file of JSON Lines.
    """

    keep: str | float | None = None
    to: str | None = None

    def __post_init__(self) -> None:
        keep = self.keep if self.keep is not None else "7d" if self.to is not None else 0.0
        object.__setattr__(self, "keep", parse_duration(keep, "keep", zero=True))
        if self.to is not None:
            object.__setattr__(self, "to", check_source(self.to))
            if not self.keep:
                raise SettingsError("keep", self.keep, "a time above 0: what is written is read from the feed")


@dataclass(frozen=True, slots=True, kw_only=True)
class ClockSettings:
    """The time of the run, for rehearsals. Use a state of its own for them.

    - ``start``: date or time at which the run begins once it is ready, UTC unless it has a zone; None is the present;
    - ``speed``: how many times as fast as the machine's clock it runs, such as 525600 for a year a minute.
    """

    start: str | float | None = None
    speed: float = 1.0

    def __post_init__(self) -> None:
        if self.start is not None:
            start = self.start if isinstance(self.start, float) else parse_moment(str(self.start), "start")
            object.__setattr__(self, "start", start)
        if not 0.0 < self.speed < float("inf"):
            raise SettingsError("speed", self.speed, "a number greater than 0")


@dataclass(frozen=True, slots=True, kw_only=True)
class LogSettings:
    """The log on standard error.

    - ``level``: least level of log lines: debug, info, warning or error;
    - ``format``: format of log lines: text or json.
    """

    level: str | None = None
    format: str = "text"

    def __post_init__(self) -> None:
        _check_choice("level", self.level, LOG_LEVELS)
        _check_choice("format", self.format, LOG_FORMATS)


@dataclass(frozen=True, kw_only=True)
class RunSettings:
    """What a run does; see `setting_sources.read_run_settings`. Tables with nothing given have their defaults.

    - ``source``: where outcomes come from: a file, - for standard input, or kafka://HOST/TOPIC;
    - ``state``: directory of the saved state, created if it does not exist;
    - ``format``: format of a file;
    - ``until_end``: stop at the topic's present end; files are always read to theirs;
    - ``from_start``: read the file from its start; outcomes already known are ignored;
    - ``dead_letters``: a file to which rejected records are appended as JSON, outcomes from the future among them.

    ``scheduler``, ``http``: the given arguments of `Scheduler` and `HttpSettings`; ``kafka``: further settings of the
    topics' URLs, by the names that `read_settings` takes; ``rules``: by target, None to remove one.
    """

    source: str
    state: Path
    format: str | None = None
    until_end: bool = False
    from_start: bool = False
    dead_letters: Path | None = None
    signals: SignalsSettings = SignalsSettings()
    scheduler: Mapping[str, Any] = field(default_factory=dict)
    politeness: Politeness | None = None
    evolution: EvolutionPlan | None = None
    optimiser: OptimiserSettings | None = None
    save: SavePlan = field(default_factory=SavePlan)
    batches: BatchPlan = BatchPlan()
    changes: ChangesSettings = ChangesSettings()
    http: Mapping[str, Any] = field(default_factory=dict)
    frontier: FrontierSettings = field(default_factory=FrontierSettings)
    cluster: ClusterSettings = field(default_factory=ClusterSettings)
    clock: ClockSettings = ClockSettings()
    log: LogSettings = LogSettings()
    kafka: Mapping[str, Any] = field(default_factory=dict, repr=False)  # may hold passwords
    rules: Mapping[str, Rule | HostRule | None] = field(default_factory=dict)

    def __post_init__(self) -> None:
        object.__setattr__(self, "source", check_source(self.source))
        _check_choice("format", self.format, tuple(formats_of(OUTCOMES)))
        if self.signals.source is not None:
            _check_beside(self.source, self.signals.source)
        _check_outputs(self)

    @property
    def is_topic(self) -> bool:
        """Whether outcomes come from Kafka."""
        return self.source.startswith(SCHEME)


TABLES: Final[Mapping[str, Callable[..., Any]]] = {
    "": RunSettings,
    "signals": SignalsSettings,
    "scheduler": Scheduler,
    "politeness": Politeness,
    "evolution": EvolutionPlan,
    "optimiser": OptimiserSettings,
    "save": SavePlan,
    "batches": BatchPlan,
    "changes": ChangesSettings,
    "http": HttpSettings,
    "frontier": FrontierSettings,
    "cluster": ClusterSettings,
    "clock": ClockSettings,
    "log": LogSettings,
}
"""The class of each table, the settings outside of tables first; ``kafka`` and ``rules`` have names of their own."""


class Setting(NamedTuple):
    """A setting: the types of its values, its default, and what its bullet says."""

    kinds: frozenset[type]
    default: object
    doc: str


def _settings() -> Iterator[tuple[str, Setting]]:
    for table, target in TABLES.items():
        bullets = {
            name: " ".join(text.split()).rstrip(";.")
            for names, text in _BULLET.findall(inspect.getdoc(target) or "")
            for name in re.findall(r"\w+", names)
        }
        for name, parameter in inspect.signature(target, eval_str=True).parameters.items():
            if (kinds := _kinds(parameter.annotation)) & _READABLE:
                yield f"{table}.{name}".lstrip("."), Setting(kinds, parameter.default, bullets[name])


def _kinds(annotation: Any) -> frozenset[type]:
    """Return the types of values that `annotation` allows.

    >>> _kinds(int | None) == {int, type(None)}
    True
    """
    if get_origin(annotation) in (Union, UnionType):
        return frozenset().union(*map(_kinds, get_args(annotation)))
    if get_origin(annotation) is Literal:
        return frozenset(map(type, get_args(annotation)))
    return frozenset((annotation,)) if isinstance(annotation, type) else frozenset()


SETTINGS: Final[Mapping[str, Setting]] = dict(_settings())
"""All settings by dotted name, but for those of Kafka and the rules."""
