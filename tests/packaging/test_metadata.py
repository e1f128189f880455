"""What the distribution says about itself is what it can do."""

from __future__ import annotations

import re
import tomllib
from importlib.metadata import Distribution, PathDistribution, metadata
from pathlib import Path

import pytest

from tests.support.paths import ROOT

MINOR = re.compile(r"Programming Language :: Python :: 3\.(\d+)")


@pytest.fixture(scope="module")
def distribution(installed: Path) -> Distribution:
    return PathDistribution(next(installed.glob("streamsched-*.dist-info")))


def minors(classifiers: list[str] | None) -> list[int]:
    """Return the minor versions of Python 3 that `classifiers` name, ascending."""
    return sorted(int(found[1]) for found in map(MINOR.fullmatch, classifiers or []) if found)


def test_supported_pythons_are_those_of_numba_from_3_11(distribution: Distribution) -> None:
    supported = [minor for minor in minors(metadata("numba").get_all("Classifier")) if minor >= 11]
    assert minors(distribution.metadata.get_all("Classifier")) == supported
    assert distribution.metadata["Requires-Python"] in {
        f">=3.11,<3.{supported[-1] + 1}",
        f"<3.{supported[-1] + 1},>=3.11",
    }


def test_make_looks_for_the_supported_pythons(distribution: Distribution) -> None:
    supported = minors(distribution.metadata.get_all("Classifier"))
    makefile = (ROOT / "Makefile").read_text()
    assert f"(3, {supported[0]}) <= sys.version_info[:2] <= (3, {supported[-1]})" in makefile
    assert f"in python3 {' '.join(f'python3.{minor}' for minor in reversed(supported))};" in makefile


def test_name_version_and_licence(distribution: Distribution) -> None:
    assert distribution.metadata["Name"] == "streamsched"
    assert re.fullmatch(r"\d+\.\d+\.\d+", distribution.version)
    assert distribution.metadata["License-Expression"] == "Apache-2.0"
    assert distribution.metadata.get_all("License-File") == ["LICENSE", "NOTICE"]


def test_command_line_is_installed(distribution: Distribution) -> None:
    scripts = distribution.entry_points.select(group="console_scripts")
    assert {script.name: script.value for script in scripts} == {"streamsched": "streamsched.cli:main"}
    assert callable(next(iter(scripts)).load())


def test_types_are_shipped(installed: Path) -> None:
    assert (installed / "streamsched" / "py.typed").is_file()


def test_no_generic_name_lands_beside_the_package(installed: Path) -> None:
    entries = {entry.name for entry in installed.iterdir() if not entry.name.endswith(".dist-info")}
    assert entries == {"bin", "streamsched"}


def test_constraints_pin_every_requirement() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"]
    lines = (ROOT / "constraints.txt").read_text().splitlines()
    pins = [line for line in lines if line and not line.startswith("#")]
    pattern = re.compile(r"([a-z0-9-]+)==[\w.]+( ; python_version (<|>=) \"3\.\d+\")?")
    assert [pin for pin in pins if not pattern.fullmatch(pin)] == []
    required = {
        re.split(r"[\[<>=]", requirement)[0]
        for requirement in [*project["dependencies"], *extras["dev"], *extras["bench"]]
    }
    assert required <= {pin.split("==")[0] for pin in pins}
