"""Build the distributions once, in a copy of the tree, so that nothing left in `build/` can slip into them."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.paths import ROOT

NOT_SOURCE = shutil.ignore_patterns(".*", "*.egg-info", "__pycache__")
NOT_SOURCE_AT_THE_TOP = {"build", "dist", "out", "tests", "data"}


def run(*command: str | Path, cwd: Path) -> str:
    """Run `command` and return what it printed; fails the test with that where the command fails."""
    done = subprocess.run(command, cwd=cwd, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
    assert done.returncode == 0, done.stdout
    return done.stdout


@pytest.fixture(scope="session")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of what the distributions are made of, symlinks as they are."""
    copy = tmp_path_factory.mktemp("packaging") / "tree"

    def ignore(folder: str, names: list[str]) -> set[str]:
        return NOT_SOURCE(folder, names) | (NOT_SOURCE_AT_THE_TOP if Path(folder) == ROOT else set())

    shutil.copytree(ROOT, copy, symlinks=True, ignore=ignore)
    return copy


@pytest.fixture(scope="session")
def sdist(tree: Path) -> Path:
    run(sys.executable, "-m", "build", "--no-isolation", "--sdist", "--outdir", tree.parent / "sdist", cwd=tree)
    return next((tree.parent / "sdist").glob("*.tar.gz"))


@pytest.fixture(scope="session")
def wheel(tree: Path) -> Path:
    run(sys.executable, "-m", "build", "--no-isolation", "--wheel", "--outdir", tree.parent / "wheel", cwd=tree)
    return next((tree.parent / "wheel").glob("*.whl"))


@pytest.fixture(scope="session")
def installed(wheel: Path) -> Path:
    """A directory that holds the wheel installed, without its dependencies."""
    target = wheel.parent / "installed"
    install = (sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-index", "--no-compile")
    run(*install, "--target", target, wheel, cwd=wheel.parent)
    return target
