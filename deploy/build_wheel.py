"""Builds a wheel that holds the kernels of a first program, `serve` and `run` as machine code: ``make wheel``.

The wheel is for this Python, this system and a common level of this kind of processor, see
`streamsched.numerics.compilation.kernel_cache.LEVELS`. It is the wheel that setuptools builds, with the cache that
`streamsched.warm` fills for that level, in `streamsched/machine_code`. Usage: ``python deploy/build_wheel.py FOLDER``.
"""

from __future__ import annotations

import os
import platform
import subprocess
import sys
import sysconfig
import tempfile
from pathlib import Path

from streamsched.numerics.compilation.kernel_cache import LEVELS, SHIPPED

ROOT = Path(__file__).resolve().parents[1]


def build_wheel(folder: Path) -> Path:
    """Build the wheel into `folder` and return its path. Takes minutes.

    Raises SystemExit if there is no level for this kind of processor, CalledProcessError if a step fails.
    """
    level = LEVELS.get(platform.machine())
    if level is None:
        raise SystemExit(f"machine: expected one of {', '.join(LEVELS)}, found {platform.machine()}")
    with tempfile.TemporaryDirectory() as name:
        work = Path(name)
        run("build", "--no-isolation", "--outdir", work / "pure", ROOT)  # by way of the source distribution
        (pure,) = (work / "pure").glob("*.whl")
        run("wheel", "unpack", "--dest", work, pure)
        (tree,) = (path for path in work.iterdir() if (path / "streamsched").is_dir())
        compile_kernels(tree, level.name)
        (about,) = tree.glob("*.dist-info/WHEEL")
        about.write_text(about.read_text().replace("Root-Is-Purelib: true", "Root-Is-Purelib: false"))
        (work / "whole").mkdir()
        run("wheel", "pack", "--dest-dir", work / "whole", tree)
        (whole,) = (work / "whole").glob("*.whl")
        python = f"cp{sys.version_info[0]}{sys.version_info[1]}"
        system = sysconfig.get_platform().replace("-", "_").replace(".", "_")
        run("wheel", "tags", "--remove", "--python-tag", python, "--abi-tag", python, "--platform-tag", system, whole)
        (tagged,) = (work / "whole").glob("*.whl")
        folder.mkdir(parents=True, exist_ok=True)
        target = folder / tagged.name
        target.write_bytes(tagged.read_bytes())
        return target


def compile_kernels(tree: Path, level: str) -> None:
    """Compile the kernels of the package in `tree` for `level` into its folder of machine code."""
    shipped = tree / "streamsched" / SHIPPED.name / level
    shipped.mkdir(parents=True)
    environment = {
        **os.environ,
        "PYTHONPATH": str(tree),
        "PYTHONDONTWRITEBYTECODE": "1",
        "NUMBA_CACHE_DIR": str(shipped),
        "NUMBA_CPU_NAME": level,
        "NUMBA_CPU_FEATURES": "",
    }
    command = [sys.executable, "-P", "-m", "streamsched", "warm"]
    subprocess.run(command, cwd=tree, env=environment, check=True)
    for lock in shipped.rglob("*.lock"):
        lock.unlink()


def run(module: str, *arguments: str | Path) -> None:
    """Run a module of this Python."""
    subprocess.run([sys.executable, "-m", module, *map(str, arguments)], check=True, stdout=subprocess.DEVNULL)


if __name__ == "__main__":
    sys.stdout.write(f"{build_wheel(Path(sys.argv[1]))}\n")
