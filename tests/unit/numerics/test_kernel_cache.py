from __future__ import annotations

import os
import platform
import subprocess
import sys
from pathlib import Path

import llvmlite.binding

from streamsched.numerics.compilation.kernel_cache import LEVELS, Level
from tests.support.paths import ROOT
from tests.support.waiting import pause

MODULE = """
import sys
from streamsched.numerics.jit import kernel

@kernel
def add(left, right):
    return left + right

@kernel
def double(value):
    return add(value, value)

def compiled(function):
    return sum(function.stats.cache_misses.values())

if __name__ == "__main__":
    print(double(int(sys.argv[1])), compiled(double), compiled(add))
"""


def start(folder: Path, value: int, module: str = MODULE) -> subprocess.Popen[str]:
    """Start a process that calls the kernels of the module in `folder`, with a cache beside it."""
    (folder / "kernels.py").write_text(module) if not (folder / "kernels.py").exists() else None
    environment = os.environ | {"NUMBA_CACHE_DIR": str(folder / "cache"), "PYTHONPATH": str(ROOT)}
    command = [sys.executable, str(folder / "kernels.py"), str(value)]
    return subprocess.Popen(command, env=environment, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE)


def finish(process: subprocess.Popen[str]) -> list[int]:
    out, err = process.communicate(timeout=300)
    assert process.returncode == 0, err
    return [int(word) for word in out.split()]


def test_processes_that_need_a_kernel_at_the_same_time_compile_it_once(tmp_path: Path) -> None:
    found = [finish(process) for process in [start(tmp_path, value) for value in range(3)]]
    assert [one[0] for one in found] == [0, 2, 4]
    assert sum(one[1] for one in found) == 1


def test_kernels_that_only_kernels_call_are_neither_compiled_by_themselves_nor_cached(tmp_path: Path) -> None:
    assert finish(start(tmp_path, 1))[2] == 0
    assert len(list((tmp_path / "cache").rglob("kernels.double*.nbc"))) == 1
    assert not list((tmp_path / "cache").rglob("kernels.add*.nbc"))


def test_an_index_that_cannot_be_read_is_made_anew(tmp_path: Path) -> None:
    finish(start(tmp_path, 1))
    for index in (tmp_path / "cache").rglob("*.nbi"):
        index.write_bytes(index.read_bytes()[:20])
    assert finish(start(tmp_path, 3)) == [6, 1, 0]
    assert finish(start(tmp_path, 3)) == [6, 0, 0]


def test_a_process_killed_while_it_compiles_leaves_no_lock(tmp_path: Path) -> None:
    process = start(tmp_path, 1)
    while process.poll() is None and not list((tmp_path / "cache").rglob("*.lock")):
        pause()
    process.kill()
    process.communicate()
    assert finish(start(tmp_path, 2))[0] == 4


def test_a_folder_that_vanishes_after_the_import_does_no_harm(tmp_path: Path) -> None:
    module = MODULE.replace("    print(", "    import shutil; shutil.rmtree(double.stats.cache_path)\n    print(")
    assert finish(start(tmp_path, 4, module)) == [8, 1, 0]


def test_a_full_disk_costs_time_only(tmp_path: Path) -> None:
    refusal = """
    from unittest.mock import patch
    from numba.core.caching import IndexDataCacheFile
    patch.object(IndexDataCacheFile, "_open_for_write", side_effect=OSError(28, "No space left on device")).start()
    print("""
    assert finish(start(tmp_path, 5, MODULE.replace("    print(", refusal))) == [10, 1, 0]


def test_a_filled_cache_is_used_even_if_no_file_can_be_made_in_its_folder(tmp_path: Path) -> None:
    finish(start(tmp_path, 1))
    refusal = """
import tempfile
from unittest.mock import patch
patch.object(tempfile, "TemporaryFile", side_effect=PermissionError).start()  # Numba's check of a folder
import sys
"""
    folder = tmp_path / "again"
    folder.mkdir()
    source = (tmp_path / "kernels.py").read_text()
    runner = f"{refusal}\nimport runpy; sys.argv[0] = {str(tmp_path / 'kernels.py')!r}\n"
    runner += f"runpy.run_path({str(tmp_path / 'kernels.py')!r}, run_name='__main__')\n"
    (folder / "runner.py").write_text(runner)
    environment = os.environ | {"NUMBA_CACHE_DIR": str(tmp_path / "cache"), "PYTHONPATH": str(ROOT)}
    command = [sys.executable, str(folder / "runner.py"), "6"]
    answer = subprocess.run(command, env=environment, text=True, capture_output=True, timeout=300, check=True)
    assert source == MODULE
    assert answer.stdout.split() == ["12", "0", "0"]


def test_without_any_folder_kernels_compile_and_nothing_is_kept(tmp_path: Path) -> None:
    header = """
import tempfile
from unittest.mock import patch
patch.object(tempfile, "TemporaryFile", side_effect=PermissionError).start()  # Numba's check of a folder
"""
    module = header + MODULE.replace(", compiled(double), compiled(add))", ")")
    assert finish(start(tmp_path, 7, module)) == [14]
    assert not list(tmp_path.rglob("*.nbc"))


def run_package(folder: Path) -> list[int]:
    """Return the result of a kernel that calls another module's, and how many were compiled; cached in the tree."""
    environment = {name: value for name, value in os.environ.items() if name != "NUMBA_CACHE_DIR"}
    code = "from package.caller import twice; print(twice(1), sum(twice.stats.cache_misses.values()))"
    command = [sys.executable, "-c", code]
    process = subprocess.Popen(
        command,
        env=environment | {"PYTHONPATH": f"{folder}{os.pathsep}{ROOT}"},
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    return finish(process)


def test_a_change_to_a_kernel_of_another_module_is_compiled_into_its_callers(tmp_path: Path) -> None:
    package = tmp_path / "package"
    package.mkdir()
    (package / "__init__.py").touch()
    head = "from streamsched.numerics.jit import kernel\n"
    callee = head + "@kernel\ndef step(value):\n    return value + 1\n"
    (package / "callee.py").write_text(callee)
    (package / "caller.py").write_text(
        head + "from package.callee import step\n@kernel\ndef twice(value):\n    return step(step(value))\n"
    )
    assert run_package(tmp_path) == [3, 1]
    assert run_package(tmp_path) == [3, 0]
    (package / "callee.py").write_text(callee.replace("+ 1", "+ 10"))
    assert run_package(tmp_path) == [21, 1]


SHIPPING = MODULE.replace(
    "import sys\n",
    """import sys
from pathlib import Path
from streamsched.numerics.compilation import kernel_cache
kernel_cache.SHIPPED = Path(sys.argv[2])
""",
    1,
)


def run_shipping(folder: Path, module: str = SHIPPING, **environment: str) -> list[int]:
    """Run the kernels of `module` with machine code shipped in ``folder / "machine_code"``."""
    (folder / "kernels.py").write_text(module)
    variables = os.environ | {"NUMBA_CACHE_DIR": str(folder / "cache"), "PYTHONPATH": str(ROOT)} | environment
    command = [sys.executable, str(folder / "kernels.py"), "6", str(folder / "machine_code")]
    process = subprocess.Popen(command, env=variables, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    return finish(process)


def test_shipped_machine_code_is_used_where_it_fits_and_only_there(tmp_path: Path) -> None:
    level = LEVELS[platform.machine()]
    shipped = tmp_path / "machine_code" / level.name
    of_level = {"NUMBA_CPU_NAME": level.name, "NUMBA_CPU_FEATURES": ""}
    assert run_shipping(tmp_path, NUMBA_CACHE_DIR=str(shipped), **of_level) == [12, 1, 0]
    if usable(level):
        assert run_shipping(tmp_path) == [12, 0, 0]
        kept = [path for path in (tmp_path / "cache").rglob("*") if path.is_file()]
        assert not kept  # nothing was compiled, and no lock was taken
    lacking = SHIPPING.replace(
        "kernel_cache.SHIPPED =",
        f"kernel_cache.LEVELS = {{{platform.machine()!r}: kernel_cache.Level({level.name!r}, ('no such',))}}\n"
        "kernel_cache.SHIPPED =",
        1,
    )
    changed = SHIPPING.replace("left + right", "left + right + 1", 1)
    assert run_shipping(tmp_path, lacking) == [12, 1, 0]
    assert run_shipping(tmp_path, changed) == [13, 1, 0]
    assert run_shipping(tmp_path, NUMBA_CACHE_DIR=str(tmp_path / "native"), STREAMSCHED_NATIVE="1") == [12, 1, 0]
    assert run_shipping(tmp_path, NUMBA_CACHE_DIR=str(tmp_path / "native")) == [12, 0, 0]
    for path in shipped.rglob("*.nbc"):
        path.write_bytes(path.read_bytes()[:100])
    assert run_shipping(tmp_path, NUMBA_CACHE_DIR=str(tmp_path / "empty")) == [12, 1, 0]


def usable(level: Level) -> bool:
    """Whether this processor has the features of `level`."""
    features = llvmlite.binding.get_host_cpu_features()
    return all(features.get(name, False) for name in level.features)


def test_a_process_that_lets_another_one_compile_waits_and_loads(tmp_path: Path) -> None:
    aside = """
    import subprocess
    from streamsched.numerics.compilation import helper
    if len(sys.argv) == 2:  # this one; the helper has another word
        command = [sys.executable, __file__, "1", "helper"]
        helper.start_helper = lambda words: print(*map(len, words), flush=True) or subprocess.run(command) and None
        helper.allowed_processes = lambda: 2
        helper.compile_aside(["keep"])
    print("""
    assert finish(start(tmp_path, 4, MODULE.replace("    print(", aside))) == [4, 2, 1, 0, 8, 0, 0]
