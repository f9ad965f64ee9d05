"""RocketMQ's own proxy, fetched from Maven's repository, and Apache's Python client, from PyPI."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from tests.own_network import network_outside
from tools.harness.rocketmq.java import JVM
from tools.harness.rocketmq.programs import take_ports, wait_until

ROOT: Final = Path(__file__).parents[2]
POM: Final = ROOT / "tests" / "fixtures" / "rocketmq" / "proxy" / "pom.xml"
HOME: Final = ROOT / "build" / "interop"
CLIENT: Final = "rocketmq-python-client==5.1.2"
FETCH_S_MAX: Final = 900.0
START_S_MAX: Final = 300.0
TRIES: Final = 3


def missing() -> str | None:
    """Why it cannot be run here; None when it can."""
    absent = [name for name in ("java", "mvn") if shutil.which(name) is None]
    return f"not on PATH: {', '.join(absent)}" if absent else None


def jars() -> Path:
    """The folder with the jars of the proxy, fetched at the first time."""
    return _fetched("rocketmq-proxy", [
        "mvn", "-B", "-q", "-f", str(POM), "dependency:copy-dependencies",
        "-DincludeScope=runtime", "-DoutputDirectory={folder}",
    ])  # fmt: skip


def python() -> Path:
    """The Python that has Apache's client, in an environment of its own."""
    home = HOME / "rocketmq-python"
    if not home.exists():
        subprocess.run([sys.executable, "-m", "venv", home], check=True, timeout=FETCH_S_MAX)
    found = home / "bin" / "python"
    mark = home / CLIENT
    if not mark.exists():
        _run([str(found), "-m", "pip", "install", "-q", CLIENT])
        mark.touch()
    return found


def _fetched(name: str, command: list[str]) -> Path:
    """A folder that a command fills, whole or not at all."""
    home = HOME / name
    if not home.exists():
        HOME.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=HOME, ignore_cleanup_errors=True) as folder:
            fresh = Path(folder) / name
            _run([word.format(folder=fresh) for word in command])
            fresh.rename(home)
    return home


def _run(command: list[str]) -> None:
    """Run what fetches packages. Raises AssertionError with its words when it has failed thrice."""
    said = ""
    for _ in range(TRIES):
        with network_outside():
            ended = subprocess.run(command, capture_output=True, text=True, timeout=FETCH_S_MAX)
        if not ended.returncode:
            return
        said = ended.stdout + ended.stderr
    raise AssertionError(f"{' '.join(command)} has failed:\n{said}")


def page_settings() -> dict[str, object]:
    """The content of rmq-proxy.json on the page about the broker."""
    page = (ROOT / "docs" / "rocketmq.md").read_text(encoding="utf-8")
    (block,) = re.findall(r"```json\n(.*?)```", page, re.DOTALL)
    return dict(json.loads(block))


@contextmanager
def run_proxy(home: Path, name_server: str) -> Iterator[str]:
    """Run the proxy with the page's settings, quicker about transactions; its address."""
    grpc_port = take_ports(2)
    own = {"grpcServerPort": grpc_port, "remotingListenPort": grpc_port + 1,
           "localServeAddr": "127.0.0.1", "transactionHeartbeatPeriodSecond": 1}  # fmt: skip
    home.mkdir(parents=True)
    settings, log = home / "rmq-proxy.json", home / "log.txt"
    settings.write_text(json.dumps(page_settings() | own))
    command = [
        "nice", "java", *JVM, f"-Duser.home={home}", "-cp", f"{jars()}/*",
        "org.apache.rocketmq.proxy.ProxyStartup", "-n", name_server, "-pm", "cluster",
        "-pc", str(settings),
    ]  # fmt: skip
    with log.open("w") as output:
        process = subprocess.Popen(
            command, stdout=output, stderr=subprocess.STDOUT,
            env={**os.environ, "RMQ_PROXY_HOME": str(home)},
        )  # fmt: skip
    try:
        wait_until(lambda: _has_started(process, log), "the start of the proxy", START_S_MAX)
        yield f"127.0.0.1:{grpc_port}"
    finally:
        process.kill()
        process.wait()


def _has_started(process: subprocess.Popen[bytes], log: Path) -> bool:
    said = log.read_text(encoding="utf-8", errors="replace")
    assert process.poll() is None, said[-3000:]
    return "rocketmq-proxy startup successfully" in said
