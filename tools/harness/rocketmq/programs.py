"""A name server and a broker for third-party clients: ours, or those that the environment names.

`PENSTOCK_MQNAMESRV` and `PENSTOCK_MQBROKER` hold the command of another name server or broker,
RocketMQ's own for one; each is called with `-c FILE`. With one of them set the two kinds are mixed.
"""

from __future__ import annotations

import os
import random
import shlex
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any

from penstock.core.settings import java_properties
from penstock.rocketmq.protocol import fastjson
from penstock.rocketmq.protocol.codes import RequestCode as Q
from penstock.rocketmq.protocol.command import Command
from penstock.testing.daemons import hold
from tools.harness.forking import Process, start

from .raw_client import RawClient
from .signing_client import SigningClient

POLL_S = 0.05
START_S_MAX = 120.0
STOP_S_MAX = 60.0
BROKER = "broker-a"
CLUSTER = "DefaultCluster"
DELAY_LEVELS = "1s " * 18
"""Retries come as soon as they can; the levels of the delay queues are whole seconds."""
PORT_MIN = 20_000
PORT_MAX = 30_000


def take_ports(count: int) -> int:
    """The first of this number of ports in a row, which are held until this process ends.

    None is among those of outgoing connections: a server that is started again must find its port
    free. Another run of the tests beside this one is given others.
    """
    while True:
        first = random.randrange(PORT_MIN, PORT_MAX)
        held = [hold(port) for port in range(first, first + count)]
        taken = [each for each in held if each is not None]
        if len(taken) == count:
            for each in taken:
                each.detach()
            return first
        for each in taken:
            each.close()


def wait_until(done: Callable[[], bool], what: str, seconds: float = START_S_MAX) -> None:
    """Polls. Refused and broken connections mean not yet."""
    for _ in range(int(seconds / POLL_S)):
        with suppress(OSError, EOFError):
            if done():
                return
        time.sleep(POLL_S)
    raise AssertionError(f"{what}: not within {seconds:g} s")


class Program:
    """One server, running or not; its port stays the same."""

    def __init__(self, variable: str, module: str, home: Path, **properties: object) -> None:
        home.mkdir(parents=True)
        given = os.environ.get(variable)
        self.is_ours = given is None
        command = shlex.split(given) if given else [sys.executable, "-m", module]
        file = home / "program.properties"
        file.write_text(java_properties.dumps(properties))
        self.command = [*command, "-c", str(file)]
        self.log_path = home / "log.txt"
        self.process: Process | None = None

    def start(self) -> None:
        with self.log_path.open("ab") as log:
            self.process = start(self.command, log)

    def kill(self) -> None:
        """SIGKILL, and wait."""
        process, self.process = self.process, None
        if process is not None:
            process.kill()
            process.wait()

    def stop(self) -> int:
        """SIGTERM, and wait; returns the exit code."""
        assert self.process is not None
        process, self.process = self.process, None
        process.terminate()
        try:
            return process.wait(STOP_S_MAX)
        except subprocess.TimeoutExpired:
            process.kill()
            if self.is_ours:
                raise
            return process.wait()  # Java's broker of 5.3 may not end by itself


class Servers:
    """A name server and a broker that is registered there."""

    def __init__(
        self, home: Path, account: tuple[str, str] | None = None, **properties: object
    ) -> None:
        """``account`` is the pair of keys of the test's own requests, if there are access rules."""
        self._account = account
        self.port = take_ports(5)
        self.broker_port = self.port + 3  # Java's broker takes one more above, and one two below
        self.address = f"127.0.0.1:{self.port}"
        self.name_server = Program(
            "PENSTOCK_MQNAMESRV", "penstock.cli.mqnamesrv", home / "namesrv",
            listenPort=self.port, bindAddress="127.0.0.1", kvConfigPath=home / "kv.json",
        )  # fmt: skip
        store = home / "store"
        self.broker = Program(
            "PENSTOCK_MQBROKER", "penstock.cli.mqbroker", home / "broker",
            **{"listenPort": self.broker_port, "brokerIP1": "127.0.0.1", "brokerName": BROKER,
               "brokerClusterName": CLUSTER, "brokerId": 0, "namesrvAddr": self.address,
               "storePathRootDir": store, "storePathCommitLog": store / "commitlog",
               "enablePropertyFilter": "true", "messageDelayLevel": DELAY_LEVELS.strip(),
               "transactionTimeOut": 1000, "transactionCheckInterval": 1000,
               # A client whose first heartbeat comes before it knows a broker beats 30 s later.
               "transactionCheckMax": 10_000,
               **properties},
        )  # fmt: skip

    def start(self) -> None:
        """Start both; returns when the broker is registered."""
        self.name_server.start()
        self.broker.start()
        self.wait()

    def wait(self) -> None:
        """Until both can be used."""
        wait_until(self.is_registered, "registration of the broker")

    def is_registered(self) -> bool:
        """Whether the broker listens, and the name server leads to it."""
        for program in (self.name_server, self.broker):
            assert program.process is not None
            assert program.process.poll() is None, f"{program.command} ended"
        RawClient(self.broker_port).close()
        return self.ask_name_server(Q.GET_ROUTEINFO_BY_TOPIC, topic="TBW102").code == 0

    def restart(self, server: str) -> None:
        """Kill `broker` or `namesrv` and start it again, and wait until it can be used."""
        program = self.broker if server == "broker" else self.name_server
        program.kill()
        program.start()
        self.wait()

    def close(self) -> None:
        """Stop both gracefully."""
        codes = [each.stop() for each in (self.broker, self.name_server) if each.process]
        ours = self.broker.is_ours and self.name_server.is_ours  # Java ends with 143
        assert not ours or codes == [0, 0], self.logs()

    def kill(self) -> None:
        self.broker.kill()
        self.name_server.kill()

    def logs(self) -> str:
        """The end of what both wrote."""
        ends = (
            program.log_path.read_text(errors="replace")[-3000:]
            for program in (self.name_server, self.broker)
        )
        return "\n".join(ends)

    def ask_name_server(self, code: Q, **fields: Any) -> Command:
        return ask(self.port, code, **fields)

    def ask(self, code: Q, body: bytes = b"", **fields: object) -> Command:
        """Ask the broker."""
        if self._account is None:
            return ask(self.broker_port, code, body, **fields)
        with closing(SigningClient(self.broker_port, *self._account)) as client:
            return client.ask(code, body, **fields)

    def create_topic(self, topic: str, queues: int = 4, perm: int = 6) -> None:
        """Returns when clients find it."""
        answer = self.ask(
            Q.UPDATE_AND_CREATE_TOPIC, topic=topic, defaultTopic="TBW102", readQueueNums=queues,
            writeQueueNums=queues, perm=perm, topicFilterType="SINGLE_TAG", topicSysFlag=0,
            order="false",
        )  # fmt: skip
        assert answer.code == 0, answer.remark
        wait_until(
            lambda: self.ask_name_server(Q.GET_ROUTEINFO_BY_TOPIC, topic=topic).code == 0, topic
        )

    def create_group(self, group: str, retries: int) -> None:
        config = {"groupName": group, "consumeEnable": True, "consumeBroadcastEnable": True,
                  "retryMaxTimes": retries, "retryQueueNums": 1, "brokerId": 0,
                  "whichBrokerWhenConsumeSlowly": 1}  # fmt: skip
        answer = self.ask(Q.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, fastjson.dumps(config))
        assert answer.code == 0, answer.remark

    def max_offset(self, topic: str, queue: int) -> int:
        answer = self.ask(Q.GET_MAX_OFFSET, topic=topic, queueId=queue)
        assert answer.code == 0, answer.remark
        return int((answer.ext or {})["offset"])


def ask(port: int, code: Q, body: bytes = b"", **fields: object) -> Command:
    client = RawClient(port)
    try:
        return client.ask(code, body, **fields)
    finally:
        client.close()


@contextmanager
def run_servers(
    home: Path, account: tuple[str, str] | None = None, **properties: object
) -> Iterator[Servers]:
    """Both servers until the end of the block; properties are the broker's."""
    servers = Servers(home, account, **properties)
    try:
        servers.start()
        yield servers
    except BaseException as error:
        servers.kill()  # the first failure is the one to report
        error.add_note(servers.logs())
        raise
    else:
        servers.close()
