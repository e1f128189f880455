"""The structure of the code: its sizes, its levels and the order of its rooms."""

from __future__ import annotations

import re
import tomllib
from typing import Any

import pytest

from benchmarks.house import BOUNDS, House, measure_house
from tests.support.paths import ROOT


@pytest.fixture(scope="module")
def house() -> House:
    return measure_house()


@pytest.fixture(scope="module")
def contracts() -> dict[str, list[str]]:
    """The layers of each contract, by the package that it orders."""
    tools: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]
    found = [one for one in tools["importlinter"]["contracts"] if one["type"] == "layers"]
    return {one["containers"][0]: one["layers"] for one in found}


@pytest.mark.parametrize("name", BOUNDS)
def test_the_code_keeps_its_bounds(house: House, name: str) -> None:
    assert [line for line in house.beyond_bounds() if line.startswith(f"{name}:")] == []


def test_every_package_has_a_contract_of_its_own(contracts: dict[str, list[str]]) -> None:
    packages = set()
    for folder in ("streamsched", "connectors", "replay"):
        for path in (ROOT / folder).rglob("__init__.py"):
            parts = path.parent.relative_to(ROOT).parts
            inner = [one for one in path.parent.iterdir() if one.suffix == ".py" and one.name != "__init__.py"]
            if not any((ROOT / folder).joinpath(*parts[1:i]).is_symlink() for i in range(1, len(parts) + 1)) and inner:
                packages.add(".".join(parts if folder == "streamsched" else ("streamsched", *parts)))
    assert packages <= set(contracts)


def test_architecture_shows_the_rooms_in_the_order_that_the_contract_holds(contracts: dict[str, list[str]]) -> None:
    page = (ROOT / "ARCHITECTURE.md").read_text()
    rows = [re.findall(r"`(\w+)/?`", row.split("|")[1]) for row in page.splitlines() if row.startswith("| `")]
    layers = [re.findall(r"\w+", layer) for layer in contracts["streamsched"]]
    assert rows == layers
