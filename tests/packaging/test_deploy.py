"""The files for containers and systemd: as far as they can be checked without running them."""

from __future__ import annotations

import json
import re
import shlex
import shutil
import subprocess
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import pytest
import yaml

from streamsched.cli.commands.cluster import host_command
from streamsched.cli.commands.run import run_command
from streamsched.cli.commands.serve import serve_command
from streamsched.cli.commands.warm import warm_command
from streamsched.service.run_settings import SETTINGS
from streamsched.service.setting_sources import Given, read_run_settings
from tests.support.command_line import finish, start
from tests.support.paths import ROOT

COMMANDS: dict[str, click.Command] = {"run": run_command, "serve": serve_command, "warm": warm_command}
CLUSTER = ROOT / "deploy" / "cluster"
UNIT = ROOT / "deploy" / "systemd" / "streamsched.service"
CONTAINERFILE = (ROOT / "Containerfile").read_text()


@pytest.fixture(scope="module")
def compose() -> dict[str, Any]:
    loaded: dict[str, Any] = yaml.safe_load((ROOT / "compose.yaml").read_text())
    return loaded


def instructions(name: str) -> list[str]:
    """The arguments of an instruction in the Containerfile, wherever it occurs."""
    joined = CONTAINERFILE.replace("\\\n", " ")
    return [line.split(maxsplit=1)[1] for line in joined.splitlines() if line.startswith(f"{name} ")]


def started_commands(compose: dict[str, Any]) -> Iterator[list[str]]:
    """The words after `streamsched` of all that is started."""
    yield compose["services"]["streamsched"]["command"]
    yield json.loads(instructions("CMD")[-1])
    for line in UNIT.read_text().splitlines():
        if line.startswith(("ExecStart=", "ExecStartPre=")):
            program, *words = shlex.split(line.partition("=")[2])
            assert program == "/opt/streamsched/bin/streamsched"
            yield words


def test_commands_have_the_options_that_are_given(compose: dict[str, Any]) -> None:
    commands = list(started_commands(compose))
    assert {name for name, *_ in commands} == COMMANDS.keys()
    for name, *words in commands:
        COMMANDS[name].make_parser(click.Context(COMMANDS[name])).parse_args(list(words))


def test_hosts_of_clusters_have_the_options_that_are_given() -> None:
    composed = yaml.safe_load((CLUSTER / "compose.yaml").read_text())["services"]
    hosts = [service["command"] for name, service in composed.items() if name.startswith("host-")]
    described = list(yaml.safe_load_all((CLUSTER / "statefulset.yaml").read_text()))
    (container,) = described[-1]["spec"]["template"]["spec"]["containers"]
    for words in (*hosts, container["args"]):
        assert words[:2] == ["cluster", "host"]
        host_command.make_parser(click.Context(host_command)).parse_args(list(words[2:]))
    addresses = {word for words in hosts for word in words if word.startswith("--http=")}
    assert (len(hosts), len(addresses)) == (3, 3)
    assert described[-1]["spec"]["serviceName"] == described[0]["metadata"]["name"]
    mounted = {one["name"] for one in container["volumeMounts"]}
    assert mounted == {one["name"] for one in described[-1]["spec"]["template"]["spec"]["volumes"]}


def test_what_compose_names_exists(compose: dict[str, Any]) -> None:
    services = compose["services"]
    for name, service in services.items():
        assert ":" in service["image"], name
        assert set(service.get("secrets", [])) <= set(compose["secrets"])
        assert set(service.get("depends_on", [])) <= set(services)
        for volume in service.get("volumes", []):
            source = volume.split(":")[0]
            assert (ROOT / source).exists() if source.startswith(".") else source in compose["volumes"], volume
        for port in service.get("ports", []):
            assert port.startswith("127.0.0.1:"), port
    used = {secret for service in services.values() for secret in service.get("secrets", [])}
    assert used == set(compose["secrets"])


def test_a_container_that_is_read_only_can_keep_its_kernels(compose: dict[str, Any]) -> None:
    service = compose["services"]["streamsched"]
    (cache,) = re.findall(r"NUMBA_CACHE_DIR=(\S+)", CONTAINERFILE)
    assert service["read_only"]
    assert cache in {volume.split(":")[1] for volume in service["volumes"]}
    assert {"mem_limit", "pids_limit", "ulimits"} <= service.keys()


def test_a_wrong_setting_ends_the_unit_and_does_not_start_it_again(tmp_path: Path) -> None:
    (prevented,) = re.findall(r"^RestartPreventExitStatus=(\d+)$", UNIT.read_text(), re.MULTILINE)
    path = tmp_path / "service.toml"
    path.write_text('state = "state"\nno_such_setting = 1\n')
    assert finish(start("serve", "--config", path)).code == int(prevented)


def test_test_files_named_in_the_rules_exist() -> None:
    named = re.findall(r"tests/[\w/]+\.py", (ROOT / "deploy" / "prometheus" / "streamsched.rules.yml").read_text())
    assert named
    assert all((ROOT / name).exists() for name in named)


def test_images_have_versions_and_no_registry(compose: dict[str, Any]) -> None:
    images = [service["image"] for service in compose["services"].values() if "build" not in service]
    images += [image.split()[0] for image in instructions("FROM")]
    for image in images:
        assert re.fullmatch(r"[a-z0-9-]+(/[a-z0-9-]+)?:v?\d+(\.\d+)*(-slim)?", image), image


def test_secrets_are_where_their_readers_look(compose: dict[str, Any]) -> None:
    prometheus = yaml.safe_load((ROOT / "deploy" / "prometheus" / "prometheus.yml").read_text())
    scrape = prometheus["scrape_configs"][0]
    assert scrape["authorization"]["credentials_file"] == "/run/secrets/metrics_token"
    assert scrape["static_configs"][0]["targets"] == ["streamsched:8080"]
    assert "--tokens=/run/secrets/tokens" in compose["services"]["streamsched"]["command"]
    assert compose["services"]["prometheus"]["secrets"] == ["metrics_token"]
    ignored = (ROOT / ".gitignore").read_text().split()
    assert "/secrets/" in ignored


def test_the_image_has_all_that_the_package_is_built_of() -> None:
    copied = {word.rstrip("/").removeprefix("./") for line in instructions("COPY") for word in line.split()[:-1]}
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    needed = {"pyproject.toml", "constraints.txt", project["project"]["readme"], *project["project"]["license-files"]}
    needed |= {folder.split("/")[0] for folder in project["tool"]["setuptools"]["package-dir"].values()}
    assert needed <= copied
    extras = re.findall(r"'\.\[(.*?)\]'", CONTAINERFILE)[0].split(",")
    assert set(extras) <= set(project["project"]["optional-dependencies"])
    assert all((ROOT / name).exists() for name in copied if not name.startswith(("-", "/")))


def test_settings_in_the_documentation_are_valid(tmp_path: Path) -> None:
    page = (ROOT / "docs" / "deploy.md").read_text()
    text = re.findall(r"```toml\n(.*?)```", page, re.DOTALL)[0]
    path = tmp_path / "service.toml"
    path.write_text(text)
    settings, unknown = read_run_settings({"source": Given("-", "serve")}, path)
    assert (settings.http["address"], unknown) == ("0.0.0.0:8080", [])
    assert {"http.tokens", "politeness.delay"} <= SETTINGS.keys()


def test_systemd_accepts_the_unit(tmp_path: Path) -> None:
    tool = shutil.which("systemd-analyze")
    if tool is None:
        pytest.skip("systemd-analyze is not installed")
    # The program is not installed here: any that is takes its place.
    copy = tmp_path / UNIT.name
    copy.write_text(UNIT.read_text().replace("/opt/streamsched/bin/streamsched", shutil.which("true") or "/bin/true"))
    done = subprocess.run([tool, "verify", "--man=no", copy], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    threshold = "--threshold=20"  # tenths of the exposure, which is 10 without any restriction
    rated = subprocess.run(
        [tool, "security", "--offline=true", threshold, copy], capture_output=True, text=True, check=False
    )
    assert rated.returncode == 0, rated.stdout
