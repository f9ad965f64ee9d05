"""The images' files and the compose file, on a machine without containers.

The first stage of the broker's image is followed for real, in a folder (`dockerfile.build`);
`make nightly-images` follows every step of both images, which takes root and minutes.
"""

from __future__ import annotations

import json
import subprocess
from fnmatch import fnmatch
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import pytest
import yaml

from penstock.cli import mqbroker, mqnamesrv
from penstock.rocketmq.broker.broker_settings import BrokerSettings
from penstock.rocketmq.namesrv.namesrv_settings import NamesrvSettings
from penstock.testing.daemons import run_nsqd
from tests.own_network import network_outside
from tools.deploy.dockerfile import Step, build, steps
from tools.deploy.manifests import ROOT

from .words import has_registry, options_of

pytestmark = pytest.mark.nightly

DOCKER = ROOT / "deploy" / "docker"
FILES = sorted(DOCKER.glob("*Dockerfile"))


def name(file: Path) -> str:
    return file.name


def value(found: list[Step], word: str) -> str:
    """The last one of an instruction, which wins."""
    return [step.rest for step in found if step.word == word][-1]


@pytest.mark.parametrize("file", FILES, ids=name)
def test_the_base_is_a_plain_name_with_a_version(file: Path) -> None:
    bases = [step.rest.split()[0] for step in steps(file) if step.word == "FROM"]
    assert len(bases) == 2
    for base in bases:
        assert not has_registry(base)
        assert ":" in base
        assert not base.endswith(":latest")


@pytest.mark.parametrize("file", FILES, ids=name)
def test_the_context_has_what_is_copied_and_no_more(file: Path) -> None:
    first, *kept = (ROOT / ".dockerignore").read_text().split()
    assert first == "*"
    allowed = [pattern.removeprefix("!") for pattern in kept if pattern.startswith("!")]
    copied = [
        source.rstrip("/")
        for step in steps(file)
        if step.word == "COPY" and not step.rest.startswith("--from")
        for source in step.rest.split()[:-1]
    ]
    assert sorted(copied) == sorted(allowed)
    assert all((ROOT / source).exists() for source in copied)


@pytest.mark.parametrize("file", FILES, ids=name)
def test_the_program_runs_as_a_user_without_rights(file: Path) -> None:
    found = steps(file)
    uid, gid = value(found, "USER").split(":")
    assert uid == gid
    assert any(f"useradd --system --uid {uid} " in step.rest for step in found)
    assert value(found, "VOLUME") == value(found, "WORKDIR") == "/data"


def test_the_ignored_files_hold_no_bytecode() -> None:
    patterns = (ROOT / ".dockerignore").read_text().split()
    assert any(fnmatch("src/penstock/__pycache__", each) for each in patterns if each[0] != "!")


def test_the_steps_of_the_brokers_image_make_programs_that_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = DOCKER / "Dockerfile"
    monkeypatch.setenv("EXTRAS", "acl")
    with network_outside():
        environment = build(file, tmp_path)
    program, *flags = json.loads(value(steps(file), "CMD"))
    with run_nsqd(program=str(environment / "bin" / program)) as nsqd:
        assert urlopen(f"http://{nsqd.http}/ping", timeout=30).read() == b"OK"
    assert options_of([program, *flags]).data_path == value(steps(file), "VOLUME")
    for other in ("nsqlookupd", "nsqadmin", "mqnamesrv", "mqbroker", "penstock"):
        words = [str(environment / "bin" / other), "--version"]
        assert subprocess.check_output(words, cwd=tmp_path, timeout=60)
    installed = {each.name.partition("-")[0] for each in environment.glob("lib/*/site-packages/*")}
    assert {"penstock", "yaml"} <= installed
    assert "pyspark" not in installed


def services() -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load((DOCKER / "compose.yaml").read_text())
    return dict(found["services"])


def test_compose_has_the_daemons_of_the_manuals_chapter() -> None:
    started = [name for name, each in services().items() if "profiles" not in each]
    assert started == ["nsqlookupd", "nsqd", "nsqadmin"]
    assert {each["image"] for each in services().values()} == {"penstock"}


@pytest.mark.parametrize("service", ["mqnamesrv", "mqbroker"])
def test_a_service_of_rocketmqs_profile_is_asked_at_its_port(service: str) -> None:
    definition = services()[service]
    assert definition["profiles"] == ["rocketmq"]
    program, *flags = definition["command"]
    words = {"mqnamesrv": mqnamesrv, "mqbroker": mqbroker}[program].flags().parse_args(flags)
    settings = NamesrvSettings() if program == "mqnamesrv" else BrokerSettings()
    port = settings.listen_port
    assert definition["ports"] == [f"127.0.0.1:{port}:{port}"]
    assert f"create_connection(('127.0.0.1', {port})" in definition["healthcheck"]["test"][-1]
    compile(definition["healthcheck"]["test"][-1], service, "exec")
    assert definition["volumes"] == [f"{service}:/data"], "~ is /data in the image"
    if program == "mqbroker":
        assert words.namesrvAddr == f"mqnamesrv:{NamesrvSettings().listen_port}"


@pytest.mark.parametrize("service", ["nsqlookupd", "nsqd", "nsqadmin"])
def test_a_service_of_compose_is_asked_at_the_port_that_it_opens(service: str) -> None:
    definition = services()[service]
    options = options_of(definition["command"])
    port = options.http_address.rpartition(":")[2]
    assert f"127.0.0.1:{port}/" in definition["healthcheck"]["test"][-1]
    assert f"127.0.0.1:{port}:{port}" in definition["ports"]
    compile(definition["healthcheck"]["test"][-1], service, "exec")


def test_services_of_compose_find_each_other() -> None:
    nsqd = options_of(services()["nsqd"]["command"])
    admin = options_of(services()["nsqadmin"]["command"])
    assert nsqd.lookupd_tcp_addresses == ("nsqlookupd:4160",)
    assert admin.lookupd_http_addresses == ("nsqlookupd:4161",)
    assert nsqd.broadcast_address in services()
    assert services()["nsqd"]["volumes"] == [f"nsqd:{nsqd.data_path}"]
