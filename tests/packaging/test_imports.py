"""What may import what, and what a plain `import streamsched` may cost."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.packaging.conftest import run

SLOW_TO_IMPORT = {
    "kafka",
    "matplotlib",
    "msgpack",
    "msgspec",
    "pydantic",
    "pydantic_settings",
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


@pytest.mark.parametrize(
    ("module", "imported"),
    [
        ("connectors/source.py", "streamsched.replay"),
        ("streamsched/errors.py", "streamsched.connectors"),
        ("streamsched/errors.py", "streamsched.state.page_table"),
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
