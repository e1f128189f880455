"""The wheel and the source distribution hold the tree, all of it, once."""

from __future__ import annotations

import hashlib
import os
import sys
import tarfile
import zipfile
from collections import Counter
from pathlib import Path

import pytest

from tests.packaging.conftest import run

INSTALLED_AS = {
    "streamsched": "streamsched",
    "connectors": "streamsched/connectors",
    "replay": "streamsched/replay",
}
DOCS = "streamsched/http/console/docs"  # the pages of docs/, which the tree has there by a symlink


def files_of_tree(tree: Path) -> dict[str, str]:
    """Return installed path -> digest for every file below the folders of INSTALLED_AS; symlinks are not followed."""
    found = {}
    for folder, prefix in INSTALLED_AS.items():
        for path in (tree / folder).rglob("*"):
            if path.is_file():
                found[f"{prefix}/{path.relative_to(tree / folder).as_posix()}"] = digest(path.read_bytes())
    pages = (tree / "docs").glob("*.md")
    return found | {f"{DOCS}/{path.name}": digest(path.read_bytes()) for path in pages}


def files_of_wheel(wheel: Path) -> dict[str, str]:
    """Return path -> digest for every file of `wheel` but its metadata."""
    with zipfile.ZipFile(wheel) as archive:
        names = [name for name in archive.namelist() if ".dist-info/" not in name]
        assert len(names) == len(set(names))
        return {name: digest(archive.read(name)) for name in names}


def digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def test_wheel_holds_the_tree_and_nothing_else(tree: Path, wheel: Path) -> None:
    expected = files_of_tree(tree)
    assert f"{DOCS}/console.md" in expected
    assert {f"{prefix}/__init__.py" for prefix in INSTALLED_AS.values()} <= expected.keys()
    assert files_of_wheel(wheel) == expected


def test_sdist_holds_each_file_once(tree: Path, sdist: Path) -> None:
    with tarfile.open(sdist) as archive:
        top = sdist.name.removesuffix(".tar.gz")
        names = Counter(member.name.removeprefix(f"{top}/") for member in archive if member.isfile())
    expected = {str(path.relative_to(tree)) for folder in INSTALLED_AS for path in files_below(tree / folder)}
    expected |= {f"{DOCS}/{path.name}" for path in (tree / "docs").glob("*.md")}
    assert not [name for name, count in names.items() if count > 1]
    assert {name for name in names if name.split("/")[0] in INSTALLED_AS} == expected
    assert {"LICENSE", "NOTICE", "README.md", "SECURITY.md", "pyproject.toml"} <= names.keys()


def files_below(folder: Path) -> list[Path]:
    return [path for path in folder.rglob("*") if path.is_file()]


def test_sdist_builds_the_same_wheel(sdist: Path, wheel: Path, tmp_path: Path) -> None:
    with tarfile.open(sdist) as archive:
        archive.extractall(tmp_path, filter="data")
    unpacked = tmp_path / sdist.name.removesuffix(".tar.gz")
    run(sys.executable, "-m", "build", "--no-isolation", "--wheel", "--outdir", tmp_path / "wheel", cwd=unpacked)
    assert files_of_wheel(next((tmp_path / "wheel").glob("*.whl"))) == files_of_wheel(wheel)


def test_a_forgotten_package_would_be_noticed(wheel: Path, tmp_path: Path) -> None:
    """The comparison above has to see a subfolder that pyproject.toml does not list."""
    for folder, prefix in INSTALLED_AS.items():
        (tmp_path / folder / "forgotten").mkdir(parents=True)
        (tmp_path / folder / "forgotten" / "module.py").touch()
        path = f"{prefix}/forgotten/module.py"
        assert path in files_of_tree(tmp_path)
        assert path not in files_of_wheel(wheel)


IMPORT_ALL = """
import importlib, pkgutil, pathlib
import streamsched, streamsched.connectors, streamsched.replay
names = [module.name for module in pkgutil.walk_packages(streamsched.__path__, "streamsched.")]
modules = [importlib.import_module(name) for name in names if not name.endswith("__main__")]
assert {streamsched.connectors, streamsched.replay} <= set(modules)
print(*{str(pathlib.Path(module.__file__)) for module in [streamsched, *modules]}, sep="\\n")
"""


def test_wheel_imports_from_anywhere(installed: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", str(installed))
    imported = run(sys.executable, "-P", "-c", IMPORT_ALL, cwd=tmp_path).split()
    assert len(imported) > len(INSTALLED_AS)
    assert [path for path in imported if not path.startswith(str(installed))] == []


def test_editable_install_imports_from_anywhere(tree: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    options = ("--quiet", "--no-deps", "--no-index", "--no-build-isolation", "--no-compile")
    run(sys.executable, "-m", "pip", "install", *options, "--target", tmp_path, "--editable", tree, cwd=tmp_path)
    # -S leaves out the .pth files of the environment that runs the tests, where the project may be installed too.
    libraries = next(path for path in sys.path if path.endswith("site-packages"))
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(tmp_path), libraries]))
    program = f"import site; site.addsitedir({str(tmp_path)!r})\n{IMPORT_ALL}"
    imported = run(sys.executable, "-P", "-S", "-c", program, cwd=tmp_path).split()
    assert len(imported) > len(INSTALLED_AS)
    assert [path for path in imported if not path.startswith(str(tree))] == []
