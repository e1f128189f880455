"""Set up what every test relies on: a cache of compiled kernels that cannot lie, and settings that repeat."""

from __future__ import annotations

import ast
import fcntl
import gc
import hashlib
import os
import shutil
from pathlib import Path

import pytest
from hypothesis import settings

pytest_plugins = ["tests.support.cases"]

ROOT = Path(__file__).resolve().parent
KERNEL_FOLDERS = ("streamsched", "connectors", "replay", "tests")
LONGEST = ("conformance", "property", "integration")

# Compilers and Hypothesis keep millions of objects: at Python's own threshold a tenth of the time goes to collections.
gc.set_threshold(100_000, 20, 20)

# Kernels compile for a second at their first call, which is no reason to fail; and a run that fails in CI must fail
# at the same example everywhere.
settings.register_profile("local", deadline=None)
settings.register_profile("ci", deadline=None, derandomize=True)
settings.load_profile("ci" if os.environ.get("CI") else "local")


def kernel_sources() -> list[Path]:
    """Return the files that define kernels, and all that these import for constants and types. Sorted, each once."""
    found = (path for folder in KERNEL_FOLDERS for path in (ROOT / folder).glob("**/*.py"))
    waiting = [path.resolve() for path in found if path.name == "jit.py" or b"numerics.jit" in path.read_bytes()]
    sources: set[Path] = set()
    while waiting:
        path = waiting.pop()
        if path not in sources:
            sources.add(path)
            waiting += imported_files(ast.parse(path.read_bytes()))
    return sorted(sources)


def imported_files(tree: ast.Module) -> list[Path]:
    """Return the files of this checkout that a module imports names from."""
    modules = [node.module.split(".") for node in tree.body if isinstance(node, ast.ImportFrom) and node.module]
    candidates = (ROOT.joinpath(*parts).with_suffix(".py") for parts in modules)
    return [path.resolve() for path in candidates if path.is_file()]


def code_of(path: Path) -> bytes:
    """Return what the file `path` does: its syntax tree, without docstrings and comments."""
    tree = ast.parse(path.read_bytes())
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef) and ast.get_docstring(node) is not None:
            del node.body[0]
    return ast.dump(tree).encode()


def point_to_cache(base: Path) -> None:
    """Point Numba at a cache directory below `base` that belongs to the present code of the kernels.

    The directory's name carries a digest of that code. Numba compares only the file that defines a kernel, so it would
    miss a change to a kernel that this one calls. All workers of a run share the directory: `KernelCache` locks it.
    """
    digest = hashlib.sha256(b"\0".join(code_of(path) for path in kernel_sources())).hexdigest()[:16]
    base.mkdir(parents=True, exist_ok=True)
    with (base / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        for stale in set(base.iterdir()) - {base / digest, base / "lock"}:
            shutil.rmtree(stale, ignore_errors=True)
        (base / digest).mkdir(exist_ok=True)
    os.environ["NUMBA_CACHE_DIR"] = str(base / digest)


# Before any test module imports numba, which reads the variable then.
point_to_cache(ROOT / "build" / "kernels")
os.environ["STREAMSCHED_COMPILE_PROCESSES"] = "1"  # the workers of a run compile beside each other


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Run the folders with the longest tests first, so that no worker is left with one at the end."""
    items.sort(key=lambda item: next((i for i, name in enumerate(LONGEST) if name in item.path.parts), len(LONGEST)))


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers() -> int:
    """One worker more than cores: tests wait for brokers, processes, and kernels that another worker compiles."""
    return (os.cpu_count() or 1) + 1
