"""What may import what, and what a plain `import streamsched` may cost."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from tests.packaging.conftest import run
from tests.support.paths import ROOT

SLOW_TO_IMPORT = {
    "kafka",
    "matplotlib",
    "msgpack",
    "rich",
    "river",
    "scipy",
    "sklearn",
    "structlog",
}
LINT_IMPORTS = (sys.executable, "-c", "from importlinter.cli import lint_imports_command as c; c()", "--no-cache")


def loaded_by(statement: str, cwd: Path) -> set[str]:
    """Return the names of the modules that a fresh interpreter holds after `statement`."""
    return set(run(sys.executable, "-c", f"{statement}; import sys; print(*sys.modules)", cwd=cwd).split())


def test_import_leaves_slow_libraries_alone(tree: Path) -> None:
    loaded = loaded_by("import streamsched", tree) - loaded_by("import numba", tree)  # numba looks at SciPy's version
    assert "streamsched" in loaded
    assert {name for name in loaded if name.split(".")[0] in SLOW_TO_IMPORT} == set()


def test_architecture_shows_the_rooms_in_the_order_that_the_contract_holds() -> None:
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    (layers,) = (one["layers"] for one in contracts if one["type"] == "layers")
    page = (ROOT / "ARCHITECTURE.md").read_text().partition("## Rooms")[2].partition("\n## ")[0]
    rows = [re.findall(r"`(\w+)/?`", row.split("|")[1]) for row in page.splitlines() if row.startswith("| `")]
    assert rows == [re.findall(r"\w+", layer) for layer in layers]


@pytest.mark.parametrize(
    ("module", "imported"),
    [
        ("connectors/source.py", "streamsched.replay"),
        ("streamsched/errors.py", "streamsched.connectors"),
        ("streamsched/errors.py", "streamsched.state"),
    ],
)
def test_import_against_the_direction_is_noticed(tree: Path, tmp_path: Path, module: str, imported: str) -> None:
    copy = tmp_path / "tree"
    shutil.copytree(tree, copy, symlinks=True)
    with (copy / module).open("a") as source:
        source.write(f"import {imported}\n")
    done = subprocess.run(LINT_IMPORTS, cwd=copy, text=True, capture_output=True, check=False)
    assert done.returncode == 1
    assert re.search(rf"is not allowed to import {imported}\b", done.stdout)
