"""The start of mqadmin: how long one of its commands takes, from the start to the exit.

    python bench/mqadmin.py
    python bench/mqadmin.py --java DIR          Java's mqadmin as well: DIR holds its jars

The tools take turns, each asking our name server for its topics, and the median of the rounds
counts. CPU is user and system of the whole process, which tells more on a busy machine.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from penstock.testing.daemons import run_mqnamesrv

OURS = [str(Path(sys.executable).parent / "mqadmin")]
ROUNDS = 11
JVM = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC")


def run(command: list[str], home: str) -> tuple[float, float]:
    """Seconds of one run, and of its CPU."""
    began = time.perf_counter()
    process = subprocess.Popen(
        command, cwd=home, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        env={**os.environ, "ROCKETMQ_HOME": home},
    )  # fmt: skip
    _, status, used = os.wait4(process.pid, 0)
    seconds = time.perf_counter() - began
    process.returncode = os.waitstatus_to_exitcode(status)
    assert process.returncode == 0, command
    return seconds, used.ru_utime + used.ru_stime


def java(jars: str, home: str) -> list[str]:
    """Java's mqadmin, which needs a file about its log."""
    conf = Path(home) / "conf"
    conf.mkdir()
    (conf / "logback_tools.xml").write_text("<configuration/>")
    (conf / "rmq.tools.logback.xml").write_text("<configuration/>")
    program = "org.apache.rocketmq.tools.command.MQAdminStartup"
    return ["java", *JVM, f"-Duser.home={home}", "-cp", f"{jars}/*", program]


def main() -> None:
    """Print the medians."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--java", help="a folder with the jars of rocketmq-tools")
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as home, run_mqnamesrv() as name_server:
        tools = {"penstock": OURS} | ({"java": java(given.java, home)} if given.java else {})
        words = ["topicList", "-n", name_server.rocketmq]
        found: dict[str, list[tuple[float, float]]] = {name: [] for name in tools}
        for _ in range(given.rounds):
            for name, command in tools.items():
                found[name].append(run([*command, *words], home))
    for name, runs in found.items():
        seconds, cpu = (statistics.median(each) for each in zip(*runs, strict=True))
        least, most = min(runs)[0], max(runs)[0]
        print(f"{name:10} {seconds:.2f} s ({least:.2f} to {most:.2f}), {cpu:.2f} s of CPU")


if __name__ == "__main__":
    main()
