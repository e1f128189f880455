"""`make wheel`: what is installed from it runs a first program and a service without compiling a kernel."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

from deploy.build_wheel import build_wheel
from tests.packaging.conftest import run

PROGRAM = """
from streamsched import OutcomeBatch, Scheduler
s = Scheduler(cycle="1d")
s.discover(["https://a.example/", "https://b.example/news", "https://b.example/about"], now=1_700_000_000)
b = s.next_batch(k=2, now=1_700_086_400, lease="10m")
s.observe(OutcomeBatch(b.urls, fetched_at=[1_700_086_460, 1_700_086_461], fingerprint=[17, 42]))
s.explain("https://b.example/about", now=1_700_172_800)
"""
SERVED = """
from streamsched.client import Client
with Client("http://{address}") as client:
    client.discover(["https://a.example/", "https://b.example/"])
    assert len(client.next_batch(2).pages) == 2
"""


@pytest.mark.soak
def test_nothing_is_compiled_after_an_installation(tmp_path: Path) -> None:
    wheel = build_wheel(tmp_path / "dist")
    python = f"cp{sys.version_info[0]}{sys.version_info[1]}"
    system = sysconfig.get_platform().replace("-", "_").replace(".", "_")
    assert wheel.name.endswith(f"-{python}-{python}-{system}.whl")
    package = tmp_path / "package"
    install = ("-m", "pip", "install", "--quiet", "--no-deps", "--no-index", "--no-compile", "--target", package)
    run(sys.executable, *install, wheel, cwd=tmp_path)
    files = files_below(package)
    subprocess.run(["chmod", "-R", "a-w", str(package)], check=True)
    home = tmp_path / "home"
    home.mkdir(mode=0o500)
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("NUMBA_", "XDG_"))}
    environment = kept | {
        "PYTHONPATH": str(package),
        "PYTHONDONTWRITEBYTECODE": "1",
        "HOME": str(home),
        "STREAMSCHED_COMPILE_PROCESSES": "1",
    }

    def run_python(*arguments: str) -> str:
        command = [sys.executable, "-P", *arguments]
        done = subprocess.run(command, cwd=tmp_path, env=environment, text=True, capture_output=True, check=False)
        assert done.returncode == 0, done.stderr
        return done.stderr

    assert run_python("-c", PROGRAM) == ""  # a compilation would say so
    command = [sys.executable, "-P", "-m", "streamsched", "serve", "--state", str(tmp_path / "state")]
    service = subprocess.Popen(
        [*command, "--http", "127.0.0.1:0", "--log-format", "json", "--log-level", "info"],
        cwd=tmp_path,
        env=environment,
        text=True,
        stderr=subprocess.PIPE,
    )
    assert service.stderr is not None
    lines = []
    for line in service.stderr:
        lines.append(line)
        if json.loads(line)["event"] == "serving http":
            break
    try:
        run_python("-c", SERVED.format(address=json.loads(lines[-1])["address"]))
    finally:
        service.terminate()
        lines += service.communicate(timeout=60)[1].splitlines()
    assert not [line for line in lines if "compil" in json.loads(line)["event"]]
    assert files_below(package) == files  # not even locks, where root may write all the same
    assert not files_below(home)


def files_below(folder: Path) -> list[Path]:
    return sorted(path for path in folder.rglob("*") if path.is_file())
