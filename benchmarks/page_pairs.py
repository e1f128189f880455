"""``python -m benchmarks.page_pairs FOLDER``: how often hashes decide wrongly on two versions of 218 real pages.

Writes the table of docs/content.md.

`page_pairs.txt` says where each page is in two releases of a package, and whether a reader of it would call it changed:
this was judged by eye, from the differing lines of all visible text. Version numbers of frames, dates of builds, menus,
years of copyright and what a new release of the generator words differently are noise. The pages were drawn at random,
13 a package, of those whose bytes differ. The rules of `streamsched.content` were mended by what this set showed.

The packages are fetched into FOLDER by ``pip download``, ``npm pack`` and ``mvn dependency:copy``; pip asks an sdist
for its metadata, which runs its setup. The pages are not part of the project: they have their packages' licences.
"""

from __future__ import annotations

import subprocess
import sys
import tarfile
import zipfile
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Final, NamedTuple

from benchmarks.report import Row, table, write_block
from streamsched.content import content_hash, page_text, simhash
from streamsched.content.page_text import EXTRACTORS
from streamsched.estimation.change_detection import CHANGE_BITS

DOCUMENT: Final = Path("docs", "content.md")
LABELS: Final = Path(__file__).with_name("page_pairs.txt")


class Source(NamedTuple):
    """Two releases of a package."""

    registry: str
    package: str
    old: str
    new: str


class Pair(NamedTuple):
    """A page in two releases and whether it changed."""

    source: Source
    path: str
    changed: bool


def read_pairs() -> list[Pair]:
    """Return the labelled pairs. A line is a source, in four words, or the label and the path of a page of it."""
    pairs: list[Pair] = []
    sources: list[Source] = []
    for line in LABELS.read_text().splitlines():
        words = line.split(" ")
        if len(words) == len(Source._fields):
            sources.append(Source(*words))
        else:
            label, path = words
            pairs.append(Pair(sources[-1], path, {"change": True, "noise": False}[label]))
    return pairs


def measure(folder: Path) -> list[Row]:
    """Return the rows of wrong decisions, of each extractor, beside those of SimHash."""
    pairs, rows = read_pairs(), []
    for by in EXTRACTORS:
        exact, similar = [], []
        for pair in pairs:
            texts = [
                page_text(_pages(folder, pair.source, version)[pair.path], by=by)
                for version in (pair.source.old, pair.source.new)
            ]
            exact.append(content_hash(texts[0]) != content_hash(texts[1]))
            similar.append((simhash(texts[0]) ^ simhash(texts[1])).bit_count() >= CHANGE_BITS)
        for changed, what in ((False, "noise that counts as a change"), (True, "changes that are missed")):
            ours, rival = _wrong(pairs, exact, changed), _wrong(pairs, similar, changed)
            rows.append(Row(f"{what}, by {by}; rival: by SimHash", ours, rival))
    return rows


def _wrong(pairs: list[Pair], found: list[bool], changed: bool) -> str:
    wrong = [here != changed for pair, here in zip(pairs, found, strict=True) if pair.changed == changed]
    return f"{sum(wrong)} of {len(wrong)} ({100 * sum(wrong) / len(wrong):.1f} %)"


@cache
def _pages(folder: Path, source: Source, version: str) -> dict[str, bytes]:
    """Return the HTML pages of a release by their paths in it."""
    place = folder / source.registry / source.package.replace(":", "_") / version
    if not place.is_dir() or not any(place.iterdir()):
        place.mkdir(parents=True, exist_ok=True)
        _fetch(source, version, place)
    (archive,) = place.iterdir()
    return {path: page for path, page in _members(archive) if path.endswith((".html", ".htm"))}


def _members(archive: Path) -> Iterator[tuple[str, bytes]]:
    if archive.suffix == ".jar":
        with zipfile.ZipFile(archive) as jar:
            yield from ((name, jar.read(name)) for name in jar.namelist())
        return
    with tarfile.open(archive) as packed:
        for member in packed:
            if (content := packed.extractfile(member)) is not None:
                yield member.name.partition("/")[2], content.read()


def _fetch(source: Source, version: str, place: Path) -> None:
    """Fetch the one archive of a release by the client of its registry."""
    name = source.package
    commands = {
        "pypi": [
            *(sys.executable, "-m", "pip", "download", "-q", "--no-deps", "--no-binary", name),
            *("-d", str(place), f"{name}=={version}"),
        ],
        "npm": ["npm", "pack", "--silent", "--pack-destination", str(place), f"{name}@{version}"],
        "maven": [
            *("mvn", "-q", "dependency:copy", f"-Dartifact={name}:{version}:jar:javadoc"),
            f"-DoutputDirectory={place.resolve()}",
        ],
    }
    subprocess.run(commands[source.registry], check=True)


if __name__ == "__main__":
    rows = table(measure(Path(sys.argv[1])))
    print(rows)
    write_block(DOCUMENT, "pairs", f"{rows}\n")
