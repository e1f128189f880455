"""Any byte of a state directory flipped; any file cut, gone, swapped, or replaced by what is none."""

from __future__ import annotations

import os
import random
import shutil
import stat
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from streamsched.persistence.image_format import read_image
from tests.soak.orderly import call
from tests.soak.saved_crawl import (
    CHANGING,
    READING,
    SavedCrawl,
    answer_of,
    content_of,
    make_saved_crawl,
    quick_and_small,
)
from tests.support.command_line import DAY, NOW, Answer

WAITS = {"unfinished_bytes", "waits_for"}  # by which `verify` says that other commands show the state before a call


@pytest.fixture(scope="module")
def crawl(tmp_path_factory: pytest.TempPathFactory, small_tables: None) -> Iterator[SavedCrawl]:  # noqa: ARG001
    with quick_and_small():
        yield make_saved_crawl(tmp_path_factory.mktemp("crawl"))


@pytest.fixture
def folder(crawl: SavedCrawl, tmp_path: Path) -> Path:
    return Path(shutil.copytree(crawl.folder, tmp_path / "state"))


def state_files(folder: Path) -> list[Path]:
    """All files but the lock, whose bytes nobody reads."""
    return sorted(path for path in folder.iterdir() if path.name != ".lock")


def place_in(path: Path, rng: random.Random) -> int:
    """A place in what the file holds: not in the zeros of a sketch, rarely in the room that a log has left."""
    size = path.stat().st_size
    if path.suffix == ".log":
        return rng.randrange(min(size, len(path.read_bytes().rstrip(b"\0")) + 20))
    zeros = [part for part in read_image(path).parts if part.name == "candidates"] if path.suffix == ".state" else []
    outside = [
        i for i in (rng.randrange(size) for _ in range(99)) if not any(i - z.offset in range(z.nbytes) for z in zeros)
    ]
    return outside[0] if outside else rng.randrange(size)


def test_the_state_is_worth_an_attack(crawl: SavedCrawl) -> None:
    kinds = [path.suffix for path in state_files(crawl.folder)]
    assert kinds.count(".state") >= 5
    assert kinds.count(".log") >= 4
    assert kinds.count(".json") == kinds.count(".jsonl") == 1
    assert crawl.answers["digest"] != crawl.earlier_answers["digest"]
    assert crawl.answers["final"] != crawl.earlier_answers["final"]
    assert not any(isinstance(answer, int) for answer in crawl.answers.values())


@pytest.mark.cases(ordinary=8, whole=420)
def test_flipped_byte(crawl: SavedCrawl, folder: Path, rng: random.Random) -> None:
    suffix = rng.choice([".state", ".state", ".log", ".log", ".json", ".jsonl"])
    path = rng.choice([path for path in state_files(folder) if path.suffix == suffix])
    raw, place = bytearray(path.read_bytes()), place_in(path, rng)
    raw[place] ^= rng.choice([1 << rng.randrange(8), rng.randrange(1, 256)])
    path.write_bytes(raw)
    answers = check_all(crawl, folder, {path.name})
    if suffix == ".state":
        assert answers["verify"].code == 4, (path.name, place)
        assert path.name in answers["verify"].err


def cut(path: Path, other: Path, rng: random.Random) -> set[str]:  # noqa: ARG001  all of one shape
    held = len(path.read_bytes().rstrip(b"\0")) or 1
    os.truncate(path, rng.choice([rng.randrange(held), rng.randrange(held), 0, 1, held - 1]))
    return {path.name}


def remove(path: Path, other: Path, rng: random.Random) -> set[str]:  # noqa: ARG001
    path.unlink()
    return {path.name}


def swap(path: Path, other: Path, rng: random.Random) -> set[str]:  # noqa: ARG001
    aside = path.with_name(".aside")
    path.rename(aside)
    other.rename(path)
    aside.rename(other)
    return {path.name, other.name}


def overwrite(path: Path, other: Path, rng: random.Random) -> set[str]:  # noqa: ARG001
    shutil.copyfile(other, path)
    return {path.name, other.name}


def replace_by_folder(path: Path, other: Path, rng: random.Random) -> set[str]:  # noqa: ARG001
    path.unlink()
    path.mkdir()
    return {path.name}


def replace_by_fifo(path: Path, other: Path, rng: random.Random) -> set[str]:  # noqa: ARG001
    path.unlink()
    os.mkfifo(path)
    return {path.name}


def replace_by_link(path: Path, other: Path, rng: random.Random) -> set[str]:  # noqa: ARG001
    path.unlink()
    path.symlink_to(rng.choice([path.name, "nowhere", "/dev/zero", "/dev/null", "."]))
    return {path.name}


def forbid(path: Path, other: Path, rng: random.Random) -> set[str]:  # noqa: ARG001
    path.chmod(0)
    return {path.name} if os.geteuid() else set()  # no mode keeps root from a file


def add_under_a_later_name(path: Path, other: Path, rng: random.Random) -> set[str]:  # noqa: ARG001
    if path.suffix == ".state":
        base, _, step = path.stem.partition("+")
        name = f"{base}+{int(step or 0) + 1 + rng.randrange(3):04d}" if rng.random() < 0.5 else "snapshot-00000009"
    else:
        name = f"calls-{int(path.stem.partition('-')[2] or 0) + rng.choice([1, 2, 1000]):012d}"
    copy = path.with_name(name + path.suffix)
    if path.suffix in (".state", ".log"):
        shutil.copyfile(path, copy)
    return {path.name, copy.name}


def append(path: Path, other: Path, rng: random.Random) -> set[str]:  # noqa: ARG001
    with path.open("ab") as file:
        file.write(rng.choice([b"\0" * 99, rng.randbytes(99), path.read_bytes()]))
    return {path.name}


KINDS: list[Callable[[Path, Path, random.Random], set[str]]] = [
    cut, cut, cut, remove, remove, swap, overwrite, replace_by_folder, replace_by_fifo, replace_by_link, forbid,
    add_under_a_later_name, append,
]  # fmt: skip


@pytest.mark.cases(ordinary=13, whole=390)
def test_file_cut_gone_or_swapped(crawl: SavedCrawl, folder: Path, rng: random.Random, case: int) -> None:
    damage = KINDS[case % len(KINDS)]
    path = rng.choice(state_files(folder))
    others = [one for one in state_files(folder) if one != path]
    other = rng.choice([one for one in others if one.suffix == path.suffix] or others)
    check_all(crawl, folder, damage(path, other, rng))


def check_all(crawl: SavedCrawl, folder: Path, hurt: set[str]) -> dict[str, Answer]:
    """Call every command; each answers rightly, or names what is hurt. Reading ones leave the files as they are."""
    before = describe(folder)
    answers = {name: answer_of(name, folder, crawl.source, folder.parent) for name in READING}
    assert describe(folder) == before
    for name in CHANGING:
        copy = folder.parent / "copy"
        shutil.copytree(folder, copy, symlinks=True, copy_function=copy_special)
        answers[name] = answer_of(name, copy, crawl.source, folder.parent)
        if name == "run" and answers["run"].code == 0:
            check_final(crawl, copy, answers["run"], hurt)
        shutil.rmtree(copy)
    for name, answer in answers.items():
        check_answer(crawl, name, answer, hurt)
    check_verdict(crawl, answers, hurt)
    check_repair(crawl, folder, answers["verify"].code, hurt)
    return answers


def check_repair(crawl: SavedCrawl, folder: Path, verdict: int, hurt: set[str]) -> None:
    """Repair drops what cannot be read of the log, and nothing else: a state that once was, and is sound again."""
    later = str(NOW + 10 * DAY)  # when no lease lasts longer than repair lets it
    answer = call("state", "repair", "--drop-lost-calls", "--now", later, "--state", folder, "--json")
    digest = call("state", "digest", "--state", folder)
    assert digest.code == 4 or digest.out.strip() in crawl.digests
    if answer.code:  # an entry that cannot be removed, or no whole image is left
        assert answer.code == 4
        assert is_explained(crawl, answer, hurt)
        return
    assert answer.json["changed"] == {}
    assert bool(answer.json["dropped"]) == (verdict != 0)
    assert digest.code == 0
    assert verdict or digest.out.strip() == crawl.whole_digest
    assert call("next", "-k", "3", "--now", later, "--state", folder).code in (0, 1)  # it takes calls again
    assert call("state", "verify", "--now", later, "--state", folder).code == 0


def check_answer(crawl: SavedCrawl, name: str, answer: Answer, hurt: set[str]) -> None:
    """The answer is that to the whole state; or it is an error or that to an older state, and names what is hurt."""
    content = content_of(answer)
    if content == crawl.answers[name]:
        return
    if name == "verify" and isinstance(content, dict) and without_waits(content) == crawl.answers[name]:
        return  # it says what it found
    if name == "evolutions" and hurt & {"evolutions.jsonl", "elites.json"}:
        return  # records are for people; their bytes have no checksum
    assert is_explained(crawl, answer, hurt), (name, answer, hurt)
    assert answer.code in (0, 1, 4)
    if name == "digest" and answer.code == 0:
        assert answer.out.strip() in crawl.digests
    if name == "next" and answer.code < 4:
        assert content == crawl.earlier_answers["next"], "leases were lost"


def check_final(crawl: SavedCrawl, folder: Path, answer: Answer, hurt: set[str]) -> None:
    """`run` ended well: the state is as if nothing had been hurt, but for a last call that is said to be lost."""
    digest = call("state", "digest", "--state", folder)
    assert digest.code == 0, digest
    if digest.out != crawl.answers["final"]:
        assert is_explained(crawl, answer, hurt), answer
        assert digest.out == crawl.earlier_answers["final"]


def check_verdict(crawl: SavedCrawl, answers: dict[str, Answer], hurt: set[str]) -> None:
    """`verify` fails if and only if it reports damage; `run` and `next` make the right state of what it calls sound.

    That a stream has to be read again is no damage; commands that only read show the state before that.
    """
    verdict = answers["verify"]
    damage = [line for line in verdict.err.splitlines() if str(crawl.source) not in line]
    assert (verdict.code == 0) == (damage == []), verdict
    if verdict.code == 0:
        expected = [crawl.answers] + ([crawl.earlier_answers] if "unfinished_bytes" in verdict.json else [])
        wrong = {name for name, answer in answers.items() if content_of(answer) not in [one[name] for one in expected]}
        assert not wrong & CHANGING.keys()
        said = verdict.err or verdict.json.keys() & WAITS
        assert said or not wrong - ({"evolutions"} if hurt & {"evolutions.jsonl", "elites.json"} else set())


def is_explained(crawl: SavedCrawl, answer: Answer, hurt: set[str]) -> bool:
    """Whether a command says why it does not answer as to the whole state: it names a file that is hurt, or the stream

    that has to be read again; an error names any file of the directory, such as the one after a missing one.
    """
    names = {*hurt, str(crawl.source)} | ({"/state"} if answer.code == 4 else set())
    return any(name in answer.err for name in names)


def without_waits(content: dict[str, object]) -> dict[str, object]:
    return {name: value for name, value in content.items() if name not in WAITS}


def describe(folder: Path) -> dict[str, object]:
    """Type, size, time of the last change and bytes of each file; special files are not opened."""
    found: dict[str, object] = {}
    for path in folder.iterdir():
        about = path.lstat()
        raw = path.read_bytes() if stat.S_ISREG(about.st_mode) else b""
        found[path.name] = (about.st_mode, about.st_size, about.st_mtime_ns, raw)
    return found


def copy_special(source: str, target: str) -> None:
    """Copy a file; of a FIFO make another one."""
    if stat.S_ISFIFO(os.lstat(source).st_mode):
        os.mkfifo(target)
    else:
        shutil.copy2(source, target)
