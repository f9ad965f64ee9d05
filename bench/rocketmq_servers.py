"""The two RocketMQ installations under test: a name server and a broker each, ours or Java's."""

from __future__ import annotations

import os
import random
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from report import OURS

from penstock.rocketmq.protocol import frames
from penstock.rocketmq.protocol.codes import RequestCode
from penstock.rocketmq.protocol.command import Command

START_S_MAX = 90.0
POLL_S = 0.1
OWN_TOPIC = "BenchmarkTest"
"""The topic of upstream's benchmark programs; every broker has it, with many queues."""

JAVA_OPTIONS = (
    "-server", "-Xms4g", "-Xmx4g", "-XX:+UseG1GC", "-XX:G1HeapRegionSize=16m",
    "-XX:G1ReservePercent=25", "-XX:InitiatingHeapOccupancyPercent=30", "-XX:+AlwaysPreTouch",
    "-XX:MaxDirectMemorySize=4g", "-XX:-UseLargePages",
)  # fmt: skip
"""As upstream's `runbroker.sh` starts it, with half its heap."""
JAVA_OPENINGS = (
    "--add-exports=java.base/jdk.internal.ref=ALL-UNNAMED",
    "--add-opens=java.base/sun.nio.ch=ALL-UNNAMED",
    "--add-opens=java.base/java.nio=ALL-UNNAMED",
    "--add-opens=java.base/java.lang=ALL-UNNAMED",
)
"""What RocketMQ 4.9 needs of a JDK above 8."""
_LOGBACK = '<configuration><root level="OFF"/></configuration>\n'


@dataclass(frozen=True)
class Installation:
    """How to start a name server and a broker: each command line is followed by ``-c FILE``."""

    name: str
    name_server: list[str]
    broker: list[str]

    @contextmanager
    def run(self, flush: str) -> Iterator[Running]:
        """Both programs with a fresh store; they are killed at the end."""
        with ExitStack() as stack:
            home = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="bench-rocketmq-")))
            name_port, broker_port = _free_port(), _free_port()
            _write_logback(home)
            _write(home / "namesrv.conf", listenPort=name_port, bindAddress="127.0.0.1",
                   kvConfigPath=home / "kvConfig.json")  # fmt: skip
            _write(home / "broker.conf", listenPort=broker_port, brokerIP1="127.0.0.1",
                   namesrvAddr=f"127.0.0.1:{name_port}", storePathRootDir=home / "store",
                   storePathCommitLog=home / "store" / "commitlog",
                   brokerName="bench", flushDiskType=flush)  # fmt: skip
            stack.enter_context(_process(self.name_server, home, "namesrv"))
            _wait_for_port(name_port)
            broker = stack.enter_context(_process(self.broker, home, "broker"))
            running = Running(name_port, broker_port, broker)
            running.wait_for_route(OWN_TOPIC)
            yield running


@dataclass(frozen=True)
class Running:
    """Ports, and the process of the broker."""

    name_port: int
    broker_port: int
    process: subprocess.Popen[bytes]

    @property
    def pid(self) -> int:
        return self.process.pid

    def topic(self, queues: int | None) -> str:
        """A topic with so many queues; None: the one that the broker has by itself."""
        if queues is None:
            return OWN_TOPIC
        name = f"Bench{queues}"
        fields = {
            "topic": name, "defaultTopic": "TBW102", "readQueueNums": str(queues),
            "writeQueueNums": str(queues), "perm": "6", "topicFilterType": "SINGLE_TAG",
            "topicSysFlag": "0", "order": "false",
        }  # fmt: skip
        answer = ask(self.broker_port, RequestCode.UPDATE_AND_CREATE_TOPIC, fields)
        if answer.code:
            raise RuntimeError(f"{name} cannot be created: {answer.remark}")
        self.wait_for_route(name)
        return name

    def wait_for_route(self, topic: str) -> None:
        """Until the name server knows the topic's broker."""
        for _ in range(int(START_S_MAX / POLL_S)):
            route = ask(self.name_port, RequestCode.GET_ROUTEINFO_BY_TOPIC, {"topic": topic})
            if not route.code:
                return
            if self.process.poll() is not None:
                raise RuntimeError("the broker has ended")
            time.sleep(POLL_S)
        raise RuntimeError(f"no route of {topic} within {START_S_MAX:g} s")

    def stored(self, topic: str, queues: int) -> int:
        """Messages in the queues of a topic."""
        with _Connection(self.broker_port) as connection:
            return sum(
                int(connection.ask(
                    RequestCode.GET_MAX_OFFSET, {"topic": topic, "queueId": str(queue)}
                ).text("offset"))
                for queue in range(queues)
            )  # fmt: skip


def ours(interpreter: str = sys.executable, name: str = OURS) -> Installation:
    """The programs of this environment, or of that of another interpreter."""
    python = [interpreter, "-m"]
    return Installation(
        name, [*python, "penstock.cli.mqnamesrv"], [*python, "penstock.cli.mqbroker"]
    )


def javas(jars: Path, options: tuple[str, ...] = JAVA_OPTIONS) -> Installation:
    """Upstream's programs, from a folder with the jars of the server."""
    java = ["java", *JAVA_OPENINGS, "-cp", f"{jars}/*"]
    package = "org.apache.rocketmq"
    return Installation(
        "java",
        [*java, "-Xmx512m", f"{package}.namesrv.NamesrvStartup"],
        [*java, *options, f"{package}.broker.BrokerStartup"],
    )


def ask(port: int, code: int, fields: dict[str, str]) -> Command:
    """One request over a connection of its own."""
    with _Connection(port) as connection:
        return connection.ask(code, fields)


class _Connection:
    def __init__(self, port: int) -> None:
        self._socket = socket.create_connection(("127.0.0.1", port), 10)
        self._reader = frames.FrameReader()

    def __enter__(self) -> _Connection:
        return self

    def __exit__(self, *_: object) -> None:
        self._socket.close()

    def ask(self, code: int, fields: dict[str, str]) -> Command:
        self._socket.sendall(frames.encode(Command(code, 1, fields)))
        while (answer := self._reader.next_command()) is None:
            data = self._socket.recv(65536)
            if not data:
                raise RuntimeError(f"the server ended the connection after a request {code}")
            self._reader.feed(data)
        return answer


@contextmanager
def _process(command: list[str], home: Path, program: str) -> Iterator[subprocess.Popen[bytes]]:
    if command[0] == "java":
        command = ["java", f"-Duser.home={home}", *command[1:]]
    with (home / f"{program}.log").open("wb") as log:
        process = subprocess.Popen(
            [*command, "-c", str(home / f"{program}.conf")],
            env={**os.environ, "ROCKETMQ_HOME": str(home)}, stdout=log, stderr=log,
        )  # fmt: skip
    try:
        yield process
    except BaseException:
        print((home / f"{program}.log").read_text(errors="replace")[-2000:], file=sys.stderr)
        raise
    finally:
        process.kill()
        process.wait()


def _wait_for_port(port: int) -> None:
    for _ in range(int(START_S_MAX / POLL_S)):
        try:
            socket.create_connection(("127.0.0.1", port), 1).close()
        except OSError:
            time.sleep(POLL_S)
        else:
            return
    raise RuntimeError(f"nothing listens at port {port}")


def _free_port() -> int:
    """A port that is free, as are the two a Java broker takes beside its own (-2 and +1); below
    those that the system gives to clients.
    """
    while True:
        port = random.randrange(20_000, 32_000)
        try:
            for each in (port - 2, port, port + 1):
                with socket.socket() as probe:
                    probe.bind(("127.0.0.1", each))
        except OSError:
            continue
        return port


def _write(path: Path, **properties: object) -> None:
    path.write_text("".join(f"{name}={value}\n" for name, value in properties.items()))


def _write_logback(home: Path) -> None:
    """Java's programs do not start without these files."""
    (home / "conf").mkdir()
    for program in ("namesrv", "broker"):
        (home / "conf" / f"logback_{program}.xml").write_text(_LOGBACK)
