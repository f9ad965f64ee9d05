"""Our RocketMQ client beside PyPI's `rocketmq` (C++) and Java's, on one broker: messages a second.

    make bench-rocketmq-clients                           beside the C++ library
    python bench/rocketmq_clients.py --java FOLDER        and Java's, whose jars are there
    python bench/rocketmq_clients.py --quick --only sync  one short round of one job

The clients take turns, each run has a fresh broker; printed are the median and the range of the
rates, the processor time for a message, and our rate divided by the other's. The C++ library has
neither pipelined sends nor batches that a broker takes apart: single sends stand there.
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

from rocketmq_client_players import BATCH, BODY, TOPIC

from penstock.rocketmq.blocking import RemotingLink
from penstock.rocketmq.client import Config, Message
from penstock.rocketmq.client.blocking import Producer
from penstock.rocketmq.protocol.codes import RequestCode
from penstock.testing.daemons import run_mqbroker, run_mqnamesrv

HERE = Path(__file__).parent
JOBS = {"sync": 10_000, "pipelined": 100_000, "batch": 400_000, "consume": 200_000}
INSTEAD = {("cpp", "pipelined"): "sync", ("cpp", "batch"): "sync"}
PLAY_S_MAX = 300
ROUNDS = 5


def command_of(library: str, job: str, name_server: str, count: int, java: str) -> list[str]:
    """The words that start one run."""
    if library == "java":
        return ["java", "-cp", java, "ClientPlayer", job, name_server, str(count)]
    player = str(HERE / "rocketmq_client_players.py")
    # Without -P the folder of the player, with its own rocketmq.py, hides the package.
    return [sys.executable, "-P", player, library, job, name_server, str(count)]


def fill(name_server: str, count: int) -> None:
    """Send what is to be consumed."""
    config = Config(namesrv_addr=name_server, send_msg_timeout=60.0)
    with Producer("fills", config=config) as producer:
        for _ in range(count // BATCH):
            producer.send_batch([Message(TOPIC, BODY) for _ in range(BATCH)])


def rate(library: str, job: str, count: int, java: str) -> tuple[float, float]:
    """Messages a second and microseconds of processor time, of one run on a fresh broker."""
    with run_mqnamesrv() as name_server, run_mqbroker(name_server=name_server.rocketmq) as broker:
        make_topic(broker.rocketmq)
        wait_for_route(name_server.rocketmq)
        if job == "consume":
            fill(name_server.rocketmq, count)
        command = command_of(library, job, name_server.rocketmq, count, java)
        done = subprocess.run(command, capture_output=True, text=True, timeout=PLAY_S_MAX)
    if done.returncode:
        raise SystemExit(f"{library} {job} failed: {done.stderr[-2000:]}")
    found, processor = map(float, done.stdout.split()[-2:])
    return found, processor


def make_topic(broker: str) -> None:
    link = RemotingLink(broker, 60.0)
    fields = {
        "topic": TOPIC, "defaultTopic": "TBW102", "readQueueNums": 4, "writeQueueNums": 4,
        "perm": 6, "topicFilterType": "SINGLE_TAG", "order": "false",
    }  # fmt: skip
    assert link.ask(RequestCode.UPDATE_AND_CREATE_TOPIC, fields).code == 0
    link.close()


def wait_for_route(name_server: str) -> None:
    link = RemotingLink(name_server, 60.0)
    while link.ask(RequestCode.GET_ROUTEINFO_BY_TOPIC, {"topic": TOPIC}).code:
        time.sleep(0.05)
    link.close()


def compare(libraries: list[str], job: str, count: int, rounds: int, java: str) -> None:
    found: dict[str, list[tuple[float, float]]] = {each: [] for each in libraries}
    for _ in range(rounds):
        for library in libraries:
            way = INSTEAD.get((library, job), job)
            found[library].append(rate(library, way, min(count, JOBS[way]), java))
    rates = {each: statistics.median(one for one, _ in found[each]) for each in libraries}
    for library in libraries:
        processor = statistics.median(one for _, one in found[library])
        ratio = rates["penstock"] / rates[library]
        instead = INSTEAD.get((library, job))
        name = f"{library} ({instead})" if instead else library
        low, high = min(found[library])[0], max(found[library])[0]
        speed = f"{rates[library]:10,.0f}/s ({low:,.0f} to {high:,.0f})"
        print(f"  {name:16} {speed:32} {processor:8.1f} us {ratio:6.2f}", flush=True)


def compile_java(folder: str, classes: str) -> str:
    """The class path of Java's player."""
    command = ["javac", "-d", classes, "-cp", f"{folder}/*", str(HERE / "ClientPlayer.java")]
    subprocess.run(command, check=True)
    return f"{classes}{os.pathsep}{folder}/*"


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--java", help="a folder with the jars of Java's client")
    parser.add_argument("--quick", action="store_true", help="one round, a tenth of the messages")
    parser.add_argument("--only", choices=list(JOBS), action="append")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as classes:
        java = compile_java(options.java, classes) if options.java else ""
        libraries = ["penstock", "cpp", *(["java"] if java else [])]
        for job in options.only or JOBS:
            count = JOBS[job] // (10 if options.quick else 1)
            print(f"{job}, {len(BODY)} bytes", flush=True)
            compare(libraries, job, count, 1 if options.quick else ROUNDS, java)


if __name__ == "__main__":
    main()
