"""The command line as processes of their own: pipes, terminals, full disks, two at once, cold caches."""

from __future__ import annotations

import errno
import os
import pty
import re
import subprocess
import sys
import termios
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path

import pytest

from streamsched import Scheduler
from streamsched.cli import main
from streamsched.persistence.state_directory import has_state
from tests.support.cases import how_many
from tests.support.command_line import Command, change_log, crawl, finish, outcome, start, write
from tests.support.http_service import make_client, started
from tests.support.paths import ROOT
from tests.support.waiting import CALL_S, pause

LINES = crawl()
NOTICE = re.compile(r"streamsched: compiling kernels for this machine.*\n")
COLOUR = re.compile(r"\x1b\[[\d;]*(?:3\d|4\d|9\d)m")


@contextmanager
def closed_pipe() -> Iterator[int]:
    """The writing end of a pipe that nobody reads."""
    reading, writing = os.pipe()
    os.close(reading)
    try:
        yield writing
    finally:
        os.close(writing)


@contextmanager
def terminal(columns: int) -> Iterator[tuple[int, int]]:
    """A terminal of that width: what sees it, and what is it."""
    seeing, being = pty.openpty()
    termios.tcsetwinsize(being, (40, columns))
    try:
        yield seeing, being
    finally:
        os.close(seeing)


def see(terminal_end: int) -> str:
    """All that is shown until the last process has left the terminal."""
    shown = b""
    while True:
        try:
            more = os.read(terminal_end, 1 << 16)
        except OSError as error:
            if error.errno != errno.EIO:  # which is how Linux says so
                raise
            more = b""
        if not more:
            return shown.decode().replace("\r\n", "\n")
        shown += more


def test_the_script_and_the_module_are_the_same_command() -> None:
    """The installed script calls `main` and exits with what it returns."""
    script = "import sys; from streamsched.cli import main; sys.argv[0] = 'streamsched'; sys.exit(main())"
    words = ["next", "--state", "nowhere"]
    called = subprocess.run(
        [sys.executable, "-c", script, *words], cwd=ROOT, text=True, capture_output=True, check=False
    )
    answer = finish(start(*words))
    assert (answer.code, answer.out, answer.err) == (called.returncode, called.stdout, called.stderr)
    assert answer.code == 4
    assert answer.err


def test_standard_input_to_state_to_batch(streamsched: Command, tmp_path: Path) -> None:
    """The whole way: outcomes through a pipe, a batch from the state, its outcomes back from a file."""
    state = tmp_path / "state"
    answer = finish(start("run", "--source", "-", "--state", state), says="\n".join(LINES) + "\n")
    assert (answer.code, answer.err) == (0, "")
    assert answer.lines[0] == f"applied        {len(LINES)}"
    assert Scheduler.load(state).positions == {}
    first, second = (finish(start("next", "--state", state, "-k", "5")) for _ in range(2))
    assert len({*first.lines, *second.lines}) == 10
    assert streamsched("run", "--source", write(tmp_path / "a.jsonl", LINES), "--state", state).code == 0
    assert len(streamsched("next", "--state", state, "-k", "99").lines) == 2


@pytest.mark.longer
@pytest.mark.parametrize("format_name", [None, "jsonl"][: how_many(1, 2)])  # without one it reads ahead to find it out
@pytest.mark.parametrize("is_named", [False, True])
def test_a_service_does_not_wait_for_its_pipe(tmp_path: Path, is_named: bool, format_name: str | None) -> None:
    """It answers before the crawler has written a byte, and ends on SIGTERM then too."""
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    words = ("run", "--source", pipe if is_named else "-", "--state", tmp_path / "state")
    given = ("--format", format_name) if format_name else ()
    with started(*words, *given) as (process, address), make_client(address) as client:
        assert client.post("/v1/discover", json={"urls": ["https://a.example/"]}).json()["added"] == 1
        assert process.stdin is not None
        with pipe.open("w") if is_named else nullcontext(process.stdin) as writing:
            writing.write("\n".join(LINES) + "\n")
            writing.flush()
        while client.get("/v1/hosts/h0.example").status_code != 200:
            pause(CALL_S)
    with started(*words) as (process, _):
        process.terminate()
        assert process.wait(timeout=120) == 0


def test_two_at_once_cannot_both_change_a_state(streamsched: Command, tmp_path: Path) -> None:
    state = tmp_path / "state"
    process = start("run", "--source", "-", "--format", "jsonl", "--state", state)
    assert process.stdin is not None
    process.stdin.write(outcome(0, 0) + "\n")
    process.stdin.flush()
    while process.poll() is None and not (state.exists() and has_state(state) and len(Scheduler.load(state))):
        pause(CALL_S)
    for words in (
        ["next", "--state"],
        ["run", "--source", "/dev/null", "--state"],
        ["replay", "none.tsv", "--save-state"],
    ):
        streamsched(*words, state).check_refused(
            4, f"{state}: another streamsched process is changing this state: try again"
        )
    assert streamsched("next", "--state", state, "--peek").lines == ["https://h0.example/p0"]
    assert streamsched("state", "verify", "--state", state).code == 0
    assert finish(process, says=outcome(1, 0) + "\n").code == 0
    assert len(streamsched("next", "--state", state).lines) == 2


@pytest.mark.parametrize("command", ["next", "replay"])
def test_a_reader_that_has_seen_enough_is_no_error(state: Path, tmp_path: Path, command: str) -> None:
    words: dict[str, list[str | Path]] = {
        "next": ["next", "--state", state, "--peek"],
        "replay": ["replay", change_log(tmp_path / "log.tsv"), "--policy", "age", "--workers", "1"],
    }
    with closed_pipe() as writing:
        answer = finish(start(*words[command], stdout=writing))
    assert (answer.code, NOTICE.sub("", answer.err)) == (0, "")


def test_a_reader_may_leave_amid_a_long_batch(tmp_path: Path) -> None:
    """As `streamsched next ... | head -1`: more than a pipe holds, of which one line is read."""
    lines = [outcome(page, 0, url=f"https://h.example/{page:0200}") for page in range(2_000)]
    source, state = write(tmp_path / "outcomes.jsonl", lines), tmp_path / "state"
    assert main(["run", "--source", str(source), "--state", str(state)]) == 0
    process = start("next", "--state", state, "-k", "2000")
    assert process.stdout is not None
    assert process.stdout.readline().startswith("https://h.example/")
    process.stdout.close()
    assert process.wait() == 0
    assert process.stderr is not None
    assert process.stderr.read() == ""
    process.stderr.close()
    assert process.stdin is not None
    process.stdin.close()


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="the system has no full device")
def test_a_full_disk_is_told(state: Path) -> None:
    with Path("/dev/full").open("w") as full:
        answer = finish(start("next", "--state", state, "--peek", stdout=full))
    assert (answer.code, answer.err) == (
        3,
        "streamsched: the system refused a read or a write: [Errno 28] No space left on device\n",
    )


def test_output_in_an_encoding_that_lacks_a_character(tmp_path: Path) -> None:
    source = write(tmp_path / "outcomes.jsonl", [outcome(0, 0, url="https://h.example/ä")])
    assert main(["run", "--source", str(source), "--state", str(tmp_path / "state")]) == 0
    answer = finish(start("next", "--state", tmp_path / "state", PYTHONIOENCODING="ascii"))
    assert (answer.code, answer.out, answer.err) == (0, "https://h.example/\\xe4\n", "")


def test_streams_that_are_closed(state: Path) -> None:
    script = f'exec "$0" -m streamsched next --peek --state {state} >&- 2>&-'
    assert subprocess.run(["sh", "-c", script, sys.executable], cwd=ROOT, check=False).returncode == 0


@pytest.mark.cases(ordinary=0, whole=1)
@pytest.mark.usefixtures("rng")
def test_a_cold_cache_is_told_on_standard_error_once(state: Path, tmp_path: Path) -> None:
    asked = ("state", "digest", "--state", state)
    cold, warm = (finish(start(*asked, NUMBA_CACHE_DIR=str(tmp_path / "cache"))) for _ in range(2))
    assert NOTICE.fullmatch(cold.err)
    assert warm.err == ""
    assert cold.out == warm.out == f"{Scheduler.load(state).digest()}\n"


@pytest.mark.parametrize("plain", [False, True])
def test_a_terminal_gets_progress_and_a_table_that_fits(tmp_path: Path, plain: bool) -> None:
    """In colour, unless NO_COLOR asks for none."""
    words = ("replay", change_log(tmp_path / "log.tsv"), "--policy", "age", "--policy", "posterior", "--workers", "1")
    colour = {"NO_COLOR": "1"} if plain else {}
    with terminal(80) as (seeing, being):
        process = start(*words, stdin=being, stdout=being, stderr=being, TERM="xterm-256color", **colour)
        os.close(being)
        shown = see(seeing)
        assert process.wait() == 0
    assert "Replaying" in shown
    assert bool(COLOUR.search(shown)) != plain
    table = re.sub(r"\x1b\[[\d;?]*\w", "", shown[shown.index("20 pages") :]).splitlines()
    assert max(map(len, table)) <= 80
    assert "…" not in "".join(table)
    assert any(line.startswith("posterior") for line in table)


def test_run_shows_a_terminal_how_far_it_is(tmp_path: Path) -> None:
    source = write(tmp_path / "outcomes.jsonl", LINES)
    with terminal(80) as (seeing, being):
        process = start("run", "--source", source, "--state", tmp_path / "state", stdin=being, stderr=being)
        os.close(being)
        shown = see(seeing)
        assert finish(process).code == 0
    assert f"{len(LINES)} outcomes, 12 pages" in shown
