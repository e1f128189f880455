"""The file of elites."""

from __future__ import annotations

from pathlib import Path

import pytest

from streamsched.errors import SnapshotError
from streamsched.evolution.elites import ARCHIVE_NAME, Elites, mend_evolution_times, read_elites, write_elites


def test_what_is_written_is_read(tmp_path: Path) -> None:
    elites = Elites(("NAD * t", "CG"), 17)
    write_elites(tmp_path / "made", elites, number=3)
    assert read_elites(tmp_path / "made", 4) == elites


def test_elites_of_a_record_that_was_never_written(tmp_path: Path) -> None:
    write_elites(tmp_path, Elites(("NAD * t",)), number=3, before=["CG"])
    assert read_elites(tmp_path, 3) == Elites(("CG",))


@pytest.mark.parametrize("content", ["{", "[]", '{"content": "{}", "crc": 1}'])
def test_a_file_that_cannot_be_read_has_no_elites(tmp_path: Path, content: str) -> None:
    assert read_elites(tmp_path, 1) == Elites()
    (tmp_path / ARCHIVE_NAME).write_text(content)
    assert read_elites(tmp_path, 1) == Elites()


def test_a_directory_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / ARCHIVE_NAME).mkdir()
    with pytest.raises(SnapshotError) as caught:
        write_elites(tmp_path, Elites())
    assert caught.value.path == str(tmp_path)


def test_a_first_cycle_in_the_future_is_mended(tmp_path: Path) -> None:
    assert mend_evolution_times(tmp_path, 10.0, 100.0, 95.0) == 0  # neither file exists
    write_elites(tmp_path, Elites(("CG",), 10))
    assert mend_evolution_times(tmp_path, 10.0, 100.0, 95.0) == 0
    write_elites(tmp_path, Elites(("CG",), 11))
    assert mend_evolution_times(tmp_path, 10.0, 100.0, 95.0) == 1
    assert read_elites(tmp_path, 1) == Elites(("CG",), 9)
