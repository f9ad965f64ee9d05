"""What programs may not import before they serve, as somebody waits for each start.

A program that needs one of these has a reason, and takes it from its list.
"""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest

FOREIGN = {
    "cramjam", "cyclopts", "html", "http.client", "multiprocessing", "pyarrow", "pyspark", "re2",
    "rich", "tomllib", "tracemalloc", "unittest", "yaml", "zlib_ng",
}  # fmt: skip
NUMPY = {"numpy._core", "numpy.typing"}
HEAVY = FOREIGN | NUMPY | {"penstock.admin", "penstock.spark"}

DAEMONS = {
    "nsqd": HEAVY | {"penstock.rocketmq.broker"},
    "nsqlookupd": HEAVY | {"numpy", "xxhash", "penstock.broker", "penstock.storage"},
    "mqnamesrv": HEAVY | {"numpy", "penstock.broker", "penstock.nsq"},
    "mqbroker": HEAVY | {"penstock.nsq"},
}
TOOLS = ("nsq_to_nsq", "stat", "tail", "to_file", "to_http", "to_nsq")
OF_NO_TOOL = FOREIGN - {"http.client"} | NUMPY | {
    "xxhash", "penstock.broker", "penstock.storage", "penstock.admin", "penstock.spark",
}  # fmt: skip


def words(program: str, folder: Path) -> list[str]:
    """Flags with which a daemon listens on free ports of this host, with its files in a folder."""
    if program.startswith("mq"):
        properties = folder / "daemon.properties"
        properties.write_text(
            "bindAddress=127.0.0.1\nlistenPort=0\nbrokerIP1=127.0.0.1\n"
            f"storePathRootDir={folder}\nkvConfigPath={folder}/kvConfig.json\n"
        )
        return ["-c", str(properties)]
    data = [f"--data-path={folder}"] if program == "nsqd" else []
    return ["--tcp-address=127.0.0.1:0", "--http-address=127.0.0.1:0", *data]


def imported(lines: list[str]) -> set[str]:
    """The modules that ``-X importtime`` names."""
    found = (re.match(r"import time: +\d+ \| +\d+ \| +(\S+)$", line) for line in lines)
    return {match[1] for match in found if match}


@pytest.mark.parametrize("program", DAEMONS)
def test_a_daemon_listens_before_it_imports_what_it_can_do_without(
    program: str, tmp_path: Path
) -> None:
    last_port = "TCP: listening" if program == "mqnamesrv" else "(HTTP|RocketMQ): listening"
    command = [sys.executable, "-X", "importtime", "-m", f"penstock.cli.{program}"]
    with subprocess.Popen(
        [*command, *words(program, tmp_path)], stderr=subprocess.PIPE, text=True, cwd=tmp_path,
        stdout=subprocess.DEVNULL,
    ) as daemon:  # fmt: skip
        assert daemon.stderr is not None
        lines = [daemon.stderr.readline()]
        while not re.search(last_port, lines[-1]):
            assert lines[-1], lines
            lines.append(daemon.stderr.readline())
        daemon.kill()
    names = imported(lines)
    assert "asyncio" in names
    assert not names & DAEMONS[program]


@pytest.mark.parametrize("tool", TOOLS)
def test_a_tool_imports_no_daemon(tool: str) -> None:
    code = f"import sys, penstock.nsq.tools.{tool}\nprint(*sys.modules)"
    names = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True, text=True)
    assert not set(names.stdout.split()) & OF_NO_TOOL


def test_a_program_does_not_look_for_garbage_while_it_is_imported() -> None:
    code = "import penstock.cli.nsqd, penstock.nsq.nsqd.daemon, gc\nprint(gc.get_stats())"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True, text=True)
    young, *_ = ast.literal_eval(done.stdout)
    assert young["collections"] < 20  # by default 80; the interpreter has some before any module
