"""Arguments of the public interface, how to call what takes them, and values of wrong kinds.

Arguments that are objects of streamsched's own classes, or flags that change no result, are left to type checkers.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Mapping
from collections.abc import Set as AbstractSet
from decimal import Decimal
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

import streamsched
from streamsched import (
    DurableScheduler,
    EvolutionPlan,
    Evolver,
    Formula,
    HostRule,
    Optimiser,
    OptimiserSettings,
    Outcome,
    OutcomeBatch,
    PackedUrls,
    Politeness,
    Rule,
    SavePlan,
    Scheduler,
    Signal,
    SignalBatch,
    WallClock,
    connectors,
    hamming,
    replay,
    simhash,
)
from streamsched.estimation.seasonality.regions import TimeRegion
from streamsched.evolution.evolution_settings import EvolutionSettings
from streamsched.outcomes import OPTIONAL

URLS = ["https://a.example/", "https://b.example/"]
COLUMNS = tuple(field.name for field in OPTIONAL)


def generate() -> Iterator[float]:
    yield 1.5


WRONG: dict[str, Callable[[], object]] = {
    "none": lambda: None,
    "text": lambda: "no text/\0",
    "bytes": lambda: b"x",
    "flag": lambda: True,
    "nan": lambda: float("nan"),
    "inf": lambda: float("inf"),
    "negative": lambda: -1,
    "huge": lambda: 10**400,
    "fraction": lambda: 1.5,
    "list": lambda: [1.5],
    "nested": lambda: [["a"]],
    "nones": lambda: [None, None],
    "wrong length": lambda: [1, 1, 1],
    "dict": lambda: {"a": 1},
    "set": lambda: {1.5},
    "object": object,
    "generator": generate,
    "complex": lambda: 1j,
    "decimal": lambda: Decimal(1),
    "type": lambda: int,
    "date": lambda: np.datetime64("2026-01-01"),
    "float32": lambda: np.float32("nan"),
    "masked": lambda: np.ma.masked_array([1, 2], [True, False]),
    "masked value": lambda: np.ma.masked,
    "objects": lambda: np.array([object(), object()]),
    "2-D": lambda: np.zeros((2, 2)),
    "0-D": lambda: np.array(1.5),
    "complexes": lambda: np.array([1j, 2j]),
    "floats": lambda: np.array([1.5, 2.5]),
}
AMOUNT = frozenset({"fraction"})
TIME = frozenset({"negative", "fraction"})
WHOLE = frozenset({"negative", "huge"})
TEXT = frozenset({"text"})
FLOATS = frozenset({"floats"})
ANY_MORE = frozenset({"huge"})
NOTHING: frozenset[str] = frozenset()
NONE = frozenset({"none"})
ABSENT = frozenset({"none", "nones"})
FLAG = frozenset({"flag"})
JSON_VALUES = {"none", "text", "flag", "nan", "inf", "negative", "huge", "fraction", "list", "nested", "nones",
               "wrong length", "dict"}  # fmt: skip


@dataclasses.dataclass
class Place:
    """Where the calls of a case work."""

    scheduler: Scheduler
    durable: DurableScheduler
    folder: Path
    log: replay.ChangeLog


@dataclasses.dataclass(frozen=True)
class Case:
    """One argument: what takes it, its name, the call, and which of the `WRONG` values are not wrong for it."""

    owner: str
    argument: str
    call: Callable[[Place, Any], object]
    valid: frozenset[str]

    def __str__(self) -> str:
        return f"{self.owner}.{self.argument}"


def case(owner: str, argument: str, call: Callable[[Place, Any], object], *valid: AbstractSet[str] | str) -> Case:
    names = NOTHING.union(*({one} if isinstance(one, str) else one for one in valid)) if valid else NOTHING
    return Case(owner, argument, call, frozenset(names))


def of(owner: str, make: Callable[..., object], valid: Mapping[str, AbstractSet[str]], **others: object) -> list[Case]:
    """A case for each keyword argument of `make` in `valid`."""
    return [
        case(owner, name, lambda _, value, name=name: make(**{**others, name: value}), names)  # type: ignore[misc]
        for name, names in valid.items()
    ]


def _read_feed(place: Place, keep: Any = "1d", **given: Any) -> None:
    with DurableScheduler.open(place.folder / "feed", keep_changes=keep) as scheduler:
        if given:
            scheduler.changes(**given)


def outcome_cases() -> list[Case]:
    fields = ("importance", "cost", "retry_after", "significance", "not_before")
    amounts = {key: {"none", "fraction"} for key in fields}
    arrays = {key: {"none", "nones", "floats"} for key in fields}
    columns = dict.fromkeys(COLUMNS, ABSENT) | arrays
    texts = {"moved_to": {"none", "text"}, "etag": {"none", "text"}, "last_modified": {"none", "text"}}
    single = (
        dict.fromkeys(COLUMNS, NONE) | amounts | {"changed": {"none", "flag"}, "not_before": {"none", *TIME}} | texts
    )
    return [
        *of("OutcomeBatch", OutcomeBatch, columns, urls=URLS, fetched_at=[1.0, 2.0]),
        *of("OutcomeBatch", OutcomeBatch, {"urls": NOTHING}, fetched_at=[1.0, 2.0]),
        *of("OutcomeBatch", OutcomeBatch, {"fetched_at": FLOATS}, urls=URLS),
        *of("Outcome", Outcome, single, url=URLS[0], fetched_at=1.0),
        *of("Outcome", Outcome, {"url": TEXT}, fetched_at=1.0),
        *of("Outcome", Outcome, {"fetched_at": TIME}, url=URLS[0]),
        *of("OutcomeBatch", OutcomeBatch.from_outcomes, {"outcomes": NOTHING}),
        *of("OutcomeBatch", OutcomeBatch.from_table, {"table": NOTHING}),
        *of("PackedUrls", PackedUrls, {"blob": {"bytes"}}, offsets=[0, 1]),
        *of("PackedUrls", PackedUrls, {"offsets": {"wrong length"}}, blob=b"abcd"),
        *of("PackedUrls", PackedUrls.pack, {"urls": NOTHING}),
        case("hamming", "left", lambda _, value: hamming(value, 1), "wrong length"),
        case("hamming", "right", lambda _, value: hamming(1, value), "wrong length"),
        *of("simhash", simhash, {"texts": TEXT}),
        *of("simhash", simhash, {"width": NOTHING}, texts="a"),
    ]


def signal_cases() -> list[Case]:
    known = {"at": [1.0, 2.0], "source": "feed"}
    return [
        *of("Signal", Signal, {"url": TEXT}, at=1.0, source="feed"),
        *of("Signal", Signal, {"at": TIME}, url=URLS[0], source="feed"),
        *of("Signal", Signal, {"source": NOTHING}, url=URLS[0], at=1.0),
        *of("Signal", Signal, {"significance": NONE}, url=URLS[0], at=1.0, source="feed"),
        *of("SignalBatch", SignalBatch, {"urls": NOTHING}, **known),
        *of("SignalBatch", SignalBatch, {"at": FLOATS}, urls=URLS, source="feed"),
        *of("SignalBatch", SignalBatch, {"source": TEXT}, urls=URLS, at=[1.0, 2.0]),
        *of("SignalBatch", SignalBatch, {"significance": {"none", "nones", "floats"}}, urls=URLS, **known),
        *of("SignalBatch", SignalBatch.from_signals, {"signals": NOTHING}),
        *of("SignalBatch", SignalBatch.from_table, {"table": NOTHING}),
    ]


def settings_cases() -> list[Case]:
    lengths = dict.fromkeys(("delay", "backoff", "probe_every", "min_revisit", "clock_skew"), AMOUNT)
    politeness = lengths | {"backoff_most": NOTHING, "max_revisit": {"none", "fraction"}, "retire_after": NONE}
    politeness |= {"retry_after_most": AMOUNT, "host_backoff_429": NONE, "host_backoff_503": NONE}
    counts = {"in_flight": NONE, "per_batch": NONE}
    scheduler = {
        "cycle": AMOUNT,
        "objective": NONE,
        "formula": NONE,
        "seed": WHOLE,
        "politeness": NONE,
        "panel": NOTHING,
        "new_share": NOTHING,
        "host_share": NONE,
        "surges": FLAG,
        "changes": NOTHING,
        "signals_discover": FLAG,
        "schemes": NONE,
        "max_ahead": {"none", "fraction"},
        "max_pages": NONE,
        "max_pages_per_host": NONE,
        "max_patterns_per_host": NONE,
        "regions": NONE,
        "threads": NONE,
    }
    plan = dict.fromkeys(("every", "rest", "history", "draws", "archive", "seed", "settings"), NOTHING)
    search = {field.name: NOTHING for field in dataclasses.fields(EvolutionSettings)} | {
        **dict.fromkeys(("crossover", "reproduction", "replacement", "swap"), AMOUNT),
        "workers": NONE,
        "seconds": {"none", "fraction"},
    }
    return [
        *of("Scheduler", Scheduler, scheduler),
        *of("Politeness", Politeness, politeness | counts),
        *of("Rule", Rule, {"min_revisit": {"none", *AMOUNT}, "max_revisit": {"none", *AMOUNT}, "never": FLAG}),
        *of("HostRule", HostRule, {"delay": {"none", *AMOUNT}, **counts}),
        *of("OptimiserSettings", OptimiserSettings, {"policy": NOTHING, "budget": AMOUNT, "every": AMOUNT}),
        *of("OptimiserSettings", OptimiserSettings, {"floor": NOTHING, "complete_from": NOTHING}),
        *of("WallClock", WallClock, {"read": {"type"}}),
        *of("WallClock", WallClock, {"max_ahead": {"none", "fraction"}}, read=float),
        case(
            "DurableScheduler.open", "keep_changes", lambda place, value: _read_feed(place, value), "none", "fraction"
        ),
        case("DurableScheduler.changes", "after", lambda place, value: _read_feed(place, after=value)),
        case("DurableScheduler.changes", "limit", lambda place, value: _read_feed(place, limit=value), ANY_MORE),
        *of("SavePlan", SavePlan, {"every": AMOUNT, "increments": ANY_MORE, "kept": ANY_MORE}),
        *of("SavePlan", SavePlan, {"share": {"inf", "huge", "fraction"}}),
        *of(
            "EvolutionPlan",
            EvolutionPlan,
            plan | {"trial": FLAG, "every": NONE, "drift": NONE, "time_limit_s": {"inf", "huge", "fraction"}},
        ),
        *of("EvolutionSettings", EvolutionSettings, search),
        *of("TimeRegion", TimeRegion, {"domains": {"dict"}}),
        *of("TimeRegion", TimeRegion, {"zone": {"none", "negative", "fraction"}}, domains=("jp",)),
    ]


def formula_cases() -> list[Case]:
    parsed = Formula.parse("t")
    return [
        *of("Formula", Formula, {"root": NOTHING}),
        *of("Formula", Formula.parse, {"text": NOTHING}),
        *of("Formula", Formula.parse, {"terminals": {"none", "dict"}}, text="t"),
        case("Formula", "t", lambda _, value: parsed.evaluate({"t": value}), "floats"),
        *of("Formula", parsed.compile_bound, {"moving": {"dict"}}),
    ]


def _set(of_place: Callable[[Place], Any], name: str, place: Place, value: object) -> None:
    setattr(of_place(place), name, value)


def any_scheduler_cases(owner: str, of_place: Callable[[Place], Any]) -> list[Case]:
    def method(name: str, argument: str, /, *valid: AbstractSet[str] | str, **others: object) -> Case:
        return case(
            f"{owner}.{name}",
            argument,
            lambda place, value: getattr(of_place(place), name)(**{**others, argument: value}),
            *valid,
        )

    return [
        method("observe", "outcomes"),
        method("notice", "signals"),
        method("discover", "urls", now=0.0),
        method("discover", "now", TIME, urls=URLS),
        method("discover", "importance", "none", AMOUNT, FLOATS, urls=URLS, now=0.0),
        method("rank", "k", ANY_MORE, now=0.0),
        method("rank", "now", TIME, k=1),
        method("rank", "surge_probes", "flag", k=1, now=0.0),
        method("next_batch", "k", ANY_MORE, now=0.0),
        method("next_batch", "now", TIME, k=1),
        method("next_batch", "lease", AMOUNT, k=1, now=0.0),
        method("next_batch", "hosts", NONE, k=1, now=0.0),
        method("next_batch", "per_host", NONE, k=1, now=0.0),
        method("next_batch", "key", NONE, k=1, now=0.0),
        method("offer", "k", ANY_MORE, now=0.0),
        method("offer", "now", TIME, k=1),
        method("offer", "lease", AMOUNT, k=1, now=0.0),
        method("offer", "hosts", NONE, k=1, now=0.0),
        method("offer", "per_host", NONE, k=1, now=0.0),
        method("grant", "urls", now=0.0),
        method("grant", "now", TIME, urls=URLS),
        method("grant", "lease", AMOUNT, urls=URLS, now=0.0),
        method("grant", "key", NONE, urls=URLS, now=0.0),
        method("forget", "urls"),
        method("forget", "host"),
        method("page", "url", TEXT, now=0.0),
        method("page", "now", TIME, url=URLS[0]),
        method("host", "name", now=0.0),
        method("host", "now", TIME, name="a.example"),
        method("hosts", "start", ANY_MORE, now=0.0),
        method("hosts", "size", ANY_MORE, now=0.0),
        method("hosts", "now", TIME),
        method("hosts", "order", now=0.0),
        method("surges", "k", ANY_MORE),
        method("week", "now", TIME),
        method("week", "url", NONE, TEXT, now=0.0),
        method("week", "host", NONE, now=0.0),
        method("week", "region", NONE, now=0.0),
        method("tie_keys", "urls", now=0.0),
        method("tie_keys", "now", TIME, urls=URLS),
        method("release", "urls"),
        method("ask", "urls", now=0.0),
        method("ask", "now", TIME, urls=URLS),
        method("block", "host", until=0.0),
        method("block", "until", TIME, host="a.example"),
        method("set_rules", "rules"),
        method("set_rule", "target", TEXT, rule=None),
        method("set_rule", "rule", "none", target="a.example"),
        method("set_politeness", "politeness"),
        method("score", "urls", now=0.0),
        method("score", "now", TIME, urls=URLS),
        method("scores", "now", TIME),
        method("explain", "url", TEXT, now=0.0),  # unknown
        method("explain", "now", TIME, url=URLS[0]),
        method("explain", "k", ANY_MORE, url=URLS[0], now=0.0),
        method("explain", "lease", AMOUNT, url=URLS[0], now=0.0),
        method("training", "cycles", now=0.0),
        method("training", "now", TIME, cycles=1),
        method("training", "seed", WHOLE, cycles=1, now=0.0),
        method("use", "formula"),
        method("begin_trial", "challenger", now=1.0),
        method("save", "path"),
        *[
            case(f"{owner} of a state", name, partial(_set, of_place, name), "none", valid)
            for name, valid in {"max_ahead": AMOUNT, "max_pages": NOTHING}.items()
        ],
        case(owner, "url", lambda place, value: value in of_place(place), TEXT),
    ]


def scheduler_cases() -> list[Case]:
    def open_again(name: str) -> Callable[[Place, Any], object]:
        return lambda place, value: DurableScheduler.open(place.folder / "other", **{name: value}).close()

    batch = OutcomeBatch(URLS, [1.0, 2.0])
    return [
        *any_scheduler_cases("Scheduler", lambda place: place.scheduler),
        *any_scheduler_cases("DurableScheduler", lambda place: place.durable),
        case("Scheduler.load", "path", lambda _, value: Scheduler.load(value)),
        case("Scheduler.load", "threads", lambda place, value: Scheduler.load(place.durable.directory, threads=value),
             "none"),
        case("known_cycles", "share", lambda place, value: place.scheduler.core.known_cycles(now=0.0, share=value)),
        case("known_cycles", "now", lambda place, value: place.scheduler.core.known_cycles(now=value), TIME),
        case("open", "directory", lambda _, value: DurableScheduler.open(value)),
        case("open", "reread", open_again("reread"), "none", "type"),
        case("open", "threads", open_again("threads"), "none"),
        case("close", "save", lambda place, value: place.durable.close(save=value), "flag"),
        case("take", "path", lambda place, value: place.durable.take(batch, value, None), TEXT),
        case("take", "position", lambda place, value: place.durable.take(batch, "p", value), JSON_VALUES),
        case("Evolver", "scheduler", lambda _, value: Evolver(value)),
        case("Evolver", "directory", lambda place, value: Evolver(place.scheduler, directory=value), "none"),
        case("Evolver", "plan", lambda place, value: Evolver(place.scheduler, plan=value), "none"),
        case("Optimiser", "scheduler", lambda _, value: Optimiser(value)),
        case("Optimiser.due", "now", lambda place, value: Optimiser(place.scheduler).due(value), TIME),
        case("tick", "now", lambda place, value: Optimiser(place.scheduler).tick(value), TIME),
        case("plan_now", "now", lambda place, value: Optimiser(place.scheduler).plan_now(value), TIME),
        case("due", "now", lambda place, value: Evolver(place.scheduler).due(value), TIME),
        case("evolve_now", "now", lambda place, value: Evolver(place.scheduler).evolve_now(value), TIME),
        case("keep", "directory", lambda place, value: Evolver(place.scheduler).keep(value, [])),
    ]  # fmt: skip


def connector_cases() -> list[Case]:
    batch = OutcomeBatch(URLS, [1.0, 2.0])
    frame = {"v": 1, "url": URLS, "fetched_at": [1.0, 2.0]}
    absent = dict.fromkeys(COLUMNS, ABSENT) | {"given": NONE, "v": NOTHING, "url": NOTHING}
    topic = "kafka://localhost:1/topic"

    def read(**arguments: Any) -> Callable[[Place, Any], object]:
        (name,) = arguments

        def call(place: Place, value: Any) -> object:
            connectors.write_jsonl([batch], place.folder / "a.jsonl")
            with connectors.open_source(place.folder / "a.jsonl", **{name: value}) as source:
                return list(source)

        return call

    def write(place: Place, value: Any) -> object:
        return connectors.write_jsonl(value, place.folder / "b.jsonl")

    def sample(name: str) -> Callable[[Place, Any], object]:
        return lambda place, value: connectors.write_sample(place.folder, **{"pages": 1, "days": 2, name: value})

    return [
        case("open_source", "path", lambda _, value: connectors.open_source(value)),
        case("open_source", "format", read(format=None), "none"),
        case("open_source", "dead_letters", read(dead_letters=None), "none"),
        case("open_source", "batch", read(batch=None), "huge"),
        case("open_source", "origin_s", read(origin_s=None), TIME),
        case("write_jsonl", "batches", write),
        case("write_jsonl", "path", lambda _, value: connectors.write_jsonl([batch], value)),
        case("write_msgpack", "path", lambda _, value: connectors.write_msgpack([batch], value)),
        case("write_msgpack", "frames",
             lambda place, value: connectors.write_msgpack([batch], place.folder / "b", frames=value), "flag"),
        *of("decode_frame", lambda **column: connectors.decode_frame({**frame, **column}), absent),
        case("write_sample", "directory", lambda _, value: connectors.write_sample(value, 1)),
        *[case("write_sample", name, sample(name), valid)
          for name, valid in {"pages": NOTHING, "days": NOTHING, "seed": ANY_MORE}.items()],
        *of("open_kafka", connectors.open_kafka, {"url": TEXT}),
        *of("open_kafka", connectors.open_kafka, {"settings": {"none", "dict"}}, url=topic),
        *of("open_kafka", connectors.open_kafka, {"dead_letters": NONE}, url=topic),
        *of("open_kafka", connectors.open_kafka, {"batch": {"huge"}}, url=topic),
        *of("open_sink", connectors.open_sink, {"url": TEXT}),
        *of("Position", connectors.Position.from_json, {"value": {"dict"}}),
    ]  # fmt: skip


def replay_cases() -> list[Case]:
    texts = {
        "log": TEXT,
        "policies": NOTHING,
        "changed": NOTHING,
        "seeds": NOTHING,
        "domain": NOTHING,
        "office_hours": NOTHING,
    }
    shares = dict.fromkeys(("poisson", "weekday", "clock", "bursty", "dead"), NOTHING)
    corpus = {field.name: NOTHING for field in dataclasses.fields(replay.SyntheticSettings)}
    corpus |= {name: AMOUNT | ANY_MORE | TIME for name in corpus if name not in {*texts, *shares, "pages", "days"}}
    run = {field.name: texts.get(field.name, NOTHING) for field in dataclasses.fields(replay.ReplaySettings)}
    run |= {"budget": AMOUNT, "cycle_s": AMOUNT, "warmup": ANY_MORE, "workers": ANY_MORE, "later_pages": FLAG}
    run |= {"start_s": NONE, "end_s": NONE | TIME, "learn_from_s": NONE, "against": NONE, "calibration": FLAG}
    return [
        *of("SyntheticSettings", replay.SyntheticSettings, corpus),
        *of("ReplaySettings", replay.ReplaySettings, {"log": TEXT}),
        *of(
            "ReplaySettings",
            replay.ReplaySettings,
            {name: names for name, names in run.items() if name != "log"},
            log="x",
        ),
        *of("synthesize", replay.synthesize, {"seed": ANY_MORE}, settings=replay.SyntheticSettings(pages=9, days=2)),
        case("write_changes", "path", lambda place, value: replay.write_changes(place.log, value)),
        *of("read_truth", replay.read_truth, {"path": NOTHING}),
        *of("read_truth", replay.read_truth, {"change_bits": NOTHING, "changes": NOTHING}, path="x"),
    ]


def warming_cases() -> list[Case]:
    return [*of("warm", streamsched.warm, {"progress": NONE | {"type"}, "native": FLAG})]


CASES = [
    *outcome_cases(),
    *signal_cases(),
    *settings_cases(),
    *formula_cases(),
    *scheduler_cases(),
    *connector_cases(),
    *replay_cases(),
    *warming_cases(),
]
