"""Microsoft's crawl history: 14 weeks of daily crawls of 18 million URLs, published with two papers.

Kolobov, Lubetzky, Peres, Horvitz: Optimal Freshness Crawl Under Politeness Constraints, SIGIR 2019. Kolobov, Peres, Lu,
Horvitz: Staying up to Date with Online Content Changes Using Reinforcement Learning for Scheduling, NeurIPS 2019.

``urlid_offset_history.txt`` has a page a line: its id, the days from the start of the collection to its first crawl,
and ``[[days since the crawl before, 1 if changed since then else 0], …]``. A line becomes an outcome for the first
crawl, ``changed`` absent, and one for each pair. So outcomes are in time order within a page, not across pages: a
scheduler may observe them as they come, whoever needs one clock sorts them first.

Companions are looked for beside it, plain or with ``.gz``: ``url_urlid_hostid.txt`` gives the URL, without it page 5
is ``http://unknown.invalid/urlid/5``; ``urlid_imp.txt`` gives ``importance``, absent without it. The host file is not
needed: a URL contains its host. A page whose id the URL file lacks is rejected. `read_page_histories` reads pages, not
outcomes, for the papers' experiments; it needs no URLs, but ``urlid_chrate_compl_obs_hist.txt``.

The start is published as "2017" only: `ORIGIN_S` takes that year's first second, UTC. So hours of the day and of the
week mean nothing in this data, unless you know better and say so.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from pathlib import Path
from typing import Annotated, Any, Final, Literal, NamedTuple

import msgspec
import numpy as np

from streamsched.connectors.formats.microsoft_companions import NumberTable, UrlTable, parse_id, parse_number
from streamsched.connectors.reading.byte_stream import STDIN, ByteStream, RecordChunk, RecordReader
from streamsched.connectors.reading.lines import LineChunk, split_lines
from streamsched.connectors.reading.rejections import (
    ParseError,
    RecordProblem,
    RejectionCounter,
    Rejections,
    describe,
    parse_each,
    reject_each,
)
from streamsched.connectors.records import UNREADABLE
from streamsched.errors import SourceError
from streamsched.fields import GIVEN
from streamsched.numerics.argument_checks import check_path, check_whole
from streamsched.numerics.arrays import Bools, Floats, Ints
from streamsched.numerics.packed_urls import PackedUrls
from streamsched.outcomes import CHANGED, IMPORTANCE, OutcomeBatch

HISTORY: Final = "urlid_offset_history.txt"
URLS: Final = "url_urlid_hostid.txt"
IMPORTANCES: Final = "urlid_imp.txt"
RATES: Final = "urlid_chrate_compl_obs_hist.txt"
ORIGIN_S: Final = 1_483_228_800.0  # 2017-01-01T00:00:00Z

_HOSTS: Final = "host_hostid_isconstrained.txt"
_LINES: Final = 16_384  # of pages in a chunk of histories
_MOST_PAGES: Final = 10**7  # of a sample: all are in memory
_MOST_DAYS: Final = 10**5
_PAGES_PER_HOST: Final = 20  # in a sample
_PAGES_PER_RATE: Final = 25  # the published data gives the rates of 4 % of its pages

_DAY_S: Final = 86_400.0
_MAX_DAYS: Final = 1e6  # between two crawls; more is no time but a damaged number

_Days = Annotated[float, msgspec.Meta(ge=0, le=_MAX_DAYS)]
_PAIRS: Final = msgspec.json.Decoder(list[tuple[_Days, Literal[0, 1]]])


class _Page(NamedTuple):
    """One line: the days of its crawls since the start, and which of them saw a change (the first never)."""

    url_id: int
    days: Floats
    changed: Bools


class CrawlHistory:
    """Reads the history at `path` and joins it with its companions, which are loaded at the first line.

    ``origin_s``: when the collection started, UTC epoch seconds.
    """

    def __init__(self, path: str, origin_s: float = ORIGIN_S) -> None:
        self._path = path
        self._origin_s = origin_s
        self._tables: tuple[UrlTable | None, NumberTable | None] | None = None

    def read(self, reader: RecordReader) -> Iterator[RecordChunk[OutcomeBatch]]:
        """Return the outcomes of each chunk of lines; rejects lines that are malformed or have no URL. O(bytes)."""
        for chunk in split_lines(reader):
            outcomes = self._decode(chunk, reader.rejections)
            if len(outcomes):
                yield RecordChunk(outcomes, chunk.stop, chunk.first + len(chunk) - 1)

    def _decode(self, chunk: LineChunk, rejections: RejectionCounter) -> OutcomeBatch:
        urls, importances = self._load(rejections)
        lines = chunk.numbered()
        pages, problems = parse_each(lines, _parse_page)
        for number in _find_lines_without_url(pages, urls):
            found = str(pages.pop(number).url_id)
            problems[number] = RecordProblem("url_id", f"expected an id that {URLS} has", found)
        reject_each(lines, problems, rejections)
        return self._join(list(pages.values()), urls, importances)

    def _load(self, rejections: RejectionCounter) -> tuple[UrlTable | None, NumberTable | None]:
        if self._tables is None:
            urls, importances = (_find_companion(self._path, name) for name in (URLS, IMPORTANCES))
            self._tables = (
                None if urls is None else UrlTable(urls, rejections),
                None if importances is None else NumberTable(importances, rejections),
            )
        return self._tables

    def _join(self, pages: Sequence[_Page], urls: UrlTable | None, importances: NumberTable | None) -> OutcomeBatch:
        """Return the outcomes of `pages`, all of whose ids `urls` has, one page after the other."""
        if not pages:
            return OutcomeBatch([], [])
        ids = np.array([page.url_id for page in pages], np.int64)
        counts = np.array([page.days.size for page in pages])
        first = np.zeros(counts.sum(), np.bool_)
        first[np.cumsum(counts) - counts] = True
        given = np.where(first, 0, CHANGED).astype(GIVEN)
        columns: dict[str, Any] = {"changed": np.concatenate([page.changed for page in pages])}
        if importances is not None:
            values, known = importances.find(ids)
            columns["importance"] = np.repeat(values, counts)
            given |= np.repeat(np.where(known, IMPORTANCE, 0).astype(GIVEN), counts)
        fetched_at = self._origin_s + _DAY_S * np.concatenate([page.days for page in pages])
        batch = OutcomeBatch(_expand_urls(ids, counts, urls), fetched_at, **columns)
        batch.given = given
        return batch


def _find_lines_without_url(pages: dict[int, _Page], urls: UrlTable | None) -> list[int]:
    """Return the line numbers of `pages` whose ids `urls` lacks."""
    if urls is None or not pages:
        return []
    rows = urls.find(np.array([page.url_id for page in pages.values()], np.int64))
    return [number for number, row in zip(pages, rows, strict=True) if row < 0]


def _expand_urls(ids: Ints, counts: Ints, urls: UrlTable | None) -> PackedUrls:
    """Return the URL of each of `ids`, repeated `counts` times."""
    if urls is not None:
        return urls.take(np.repeat(urls.find(ids), counts))
    made_up = PackedUrls.pack([f"http://unknown.invalid/urlid/{url_id}" for url_id in ids.tolist()])
    return made_up.take(np.repeat(np.arange(ids.size), counts))


def _find_companion(history: str, name: str) -> Path | None:
    if history == STDIN:
        return None
    folder = Path(history).parent
    return next((path for path in (folder / name, folder / f"{name}.gz") if path.is_file()), None)


def _parse_page(line: bytes) -> _Page:
    """Return what `line` says of a page; raises ParseError. O(bytes)."""
    fields = line.split(None, 2)
    if len(fields) != 3:
        raise ParseError(RecordProblem("record", "expected url_id, first crawl and history", describe(line)))
    url_id, first = parse_id(fields[0]), parse_number("first_crawl", fields[1])
    try:
        pairs = _PAIRS.decode(fields[2])
    except UNREADABLE as error:
        message = f"expected a list of [days, 0 or 1]: {error}"
        raise ParseError(RecordProblem("history", message, describe(fields[2]))) from error
    history = np.fromiter(chain((first, 0), *pairs), np.float64, 2 * len(pairs) + 2).reshape(-1, 2)
    return _Page(url_id, np.cumsum(history[:, 0]), history[:, 1] != 0)


class PageHistories(NamedTuple):
    """Pages in the order of their lines, and what visits saw of them.

    - ``times``: float64[v], days of visits since the page's first; ``changed``: bool[v];
    - ``offsets``: int64[n + 1], where each page's visits begin;
    - ``importance``: float64[n], NaN if unknown;
    - ``change_rate``: float64[n], changes a day as published for pages with complete observations, else NaN.
    """

    times: Floats
    changed: Bools
    offsets: Ints
    importance: Floats
    change_rate: Floats


def read_page_histories(path: str, rejections: Rejections) -> Iterator[PageHistories]:
    """Yield the pages of the history at `path`, 16,384 lines at a time; malformed lines go into `rejections`. O(bytes).

    Raises SourceError if `path`, or its companion of importances or of change rates, cannot be read.
    """
    stream = ByteStream(path)
    counter = RejectionCounter(rejections, path, "line")
    try:
        importances = NumberTable(_need_companion(path, IMPORTANCES), counter)
        rates = NumberTable(_need_companion(path, RATES), counter, "change_rate")
        for chunk in split_lines(RecordReader(stream, counter, _LINES)):
            lines = chunk.numbered()
            pages, problems = parse_each(lines, _parse_page)
            reject_each(lines, problems, counter)
            yield _gather_histories(list(pages.values()), importances, rates)
    finally:
        stream.close()
    if stream.damage is not None:
        raise stream.damage


def _need_companion(history: str, name: str) -> Path:
    found = _find_companion(history, name)
    if found is None:
        raise SourceError(history, f"expected {name} beside it, plain or with .gz")
    return found


def _gather_histories(pages: Sequence[_Page], importances: NumberTable, rates: NumberTable) -> PageHistories:
    ids = np.array([page.url_id for page in pages], np.int64)
    times = [page.days[1:] - page.days[0] for page in pages]
    offsets = np.cumsum([0, *(one.size for one in times)], dtype=np.int64)
    columns = [np.where(known, values, np.nan) for values, known in (importances.find(ids), rates.find(ids))]
    changed = [page.changed[1:] for page in pages]
    return PageHistories(
        np.concatenate([*times, np.empty(0)]), np.concatenate([*changed, np.empty(0, np.bool_)]), offsets, *columns
    )


def write_sample(directory: str | Path, pages: int = 100, seed: int = 0, days: int = 98) -> Path:
    """Write the history of `pages` made-up pages over `days` into `directory` and return the path of the history file.

    About a crawl a day, a tenth of them dropped; changes are a Poisson process of Gamma(0.5, 0.3) changes a day, at
    least one a page as in the published data; 20 pages a host. All five published files are written, the same bytes
    for the same arguments. O(pages * days).
    """
    folder = check_path("directory", directory)
    pages = check_whole("pages", pages, 1, f"1 to {_MOST_PAGES:,} pages", most=_MOST_PAGES)
    seed = check_whole("seed", seed, 0, "a whole number of 0 or more")
    days = check_whole("days", days, 1, f"1 to {_MOST_DAYS:,} days", most=_MOST_DAYS)
    folder.mkdir(parents=True, exist_ok=True)
    rng = np.random.default_rng(seed)
    ids = (rng.permutation(pages) + 1).tolist()
    hosts = (np.arange(pages) // _PAGES_PER_HOST + 1).tolist()
    rates = (rng.gamma(0.5, 0.3, pages) + 1e-3).tolist()
    importances = rng.lognormal(0.0, 1.5, pages).tolist()
    _write_rows(
        folder / URLS,
        ((f"https://host{host}.example/page/{page}", page, host) for page, host in zip(ids, hosts, strict=True)),
    )
    _write_rows(folder / _HOSTS, ((f"host{host}.example", host, host % 2) for host in sorted(set(hosts))))
    _write_rows(folder / IMPORTANCES, zip(ids, importances, strict=True))
    _write_rows(folder / RATES, list(zip(ids, rates, strict=True))[::_PAGES_PER_RATE])
    histories = ((page, *_make_history(rng, rate, days)) for page, rate in zip(ids, rates, strict=True))
    _write_rows(folder / HISTORY, histories)
    return folder / HISTORY


def _make_history(rng: np.random.Generator, rate_per_day: float, days: int) -> tuple[float, list[list[float | int]]]:
    """Return the day of a page's first crawl and [gap, changed] for each crawl after it."""
    crawls = np.flatnonzero(rng.random(days) < 0.9) + rng.uniform(0.25, 0.75)
    crawls = crawls + rng.uniform(-0.2, 0.2, crawls.size) if crawls.size > 1 else np.array([0.5, days + 0.5])
    gaps = np.diff(crawls)
    changed = rng.random(gaps.size) < -np.expm1(-rate_per_day * gaps)
    changed[-1] |= not changed.any()
    return float(crawls[0]), [[gap, int(flag)] for gap, flag in zip(gaps.tolist(), changed.tolist(), strict=True)]


def _write_rows(path: Path, rows: Iterable[tuple[object, ...]]) -> None:
    text = "".join("\t".join(map(str, row)) + "\n" for row in rows)
    path.write_text(text, encoding="utf-8", newline="\n")
