"""Many clients of RocketMQ's protocol that ask for messages and do not read them."""

from __future__ import annotations

import re
import socket
import threading
from contextlib import ExitStack
from typing import Final

from penstock.rocketmq.protocol import frames
from penstock.rocketmq.protocol.command import Command
from tools.harness.rocketmq.raw_client import RawClient

from .conftest import PATIENCE_S, Victim, pull_fields, running, send_fields, wait_until
from .test_memory import held
from .test_rocketmq import encoded

MIB: Final = 1024 * 1024
BUDGET: Final = 8 * MIB
CROWD: Final = 32
PULLS: Final = 33
"""Of each client; more than a connection takes at once."""
RSS_MAX: Final = 10 * BUDGET
"""Without a bound, the answers take up to a GiB."""
FLAGS: Final = (f"--max-answer-memory={BUDGET}", "--rocketmq-address=127.0.0.1:0")


def rocketmq_port(victim: Victim) -> int:
    log, listening = victim.daemon.log, re.compile(r"RocketMQ: listening on \S+:(\d+)")
    assert wait_until(lambda: listening.search(log()) is not None)
    return int(listening.findall(log())[0])


def read_answers(sock: socket.socket, bodies: list[int]) -> None:
    """Read the answers of one client; adds the sizes of their bodies."""
    reader = frames.FrameReader()
    while len(bodies) < PULLS:
        data = sock.recv(256 * 1024)
        if not data:
            return
        reader.feed(data)
        commands: list[Command] = reader.next_commands(PULLS)
        bodies += [len(command.body) for command in commands]


def test_pulled_messages_that_nobody_reads(stack: ExitStack) -> None:
    with running(*FLAGS) as victim:
        port = rocketmq_port(victim)
        client = RawClient(port)
        assert client.ask(**send_fields("large"), body=bytes(MIB)).code == 0
        before = victim.rss
        pulls = encoded(**pull_fields("large", 0)) * PULLS
        socks = [stack.enter_context(victim.connect_slowly_reading(port, pulls))
                 for _ in range(CROWD)]  # fmt: skip
        assert wait_until(lambda: held(victim)["answers_refused"] > 0)
        assert BUDGET <= held(victim)["answer_bytes"] < BUDGET + 4 * MIB
        assert victim.rss - before < RSS_MAX
        assert client.ask(**send_fields("small"), body=b"small").code == 0
        victim.check_alive()
        bodies: list[list[int]] = [[] for _ in socks]
        threads = [threading.Thread(target=read_answers, args=each)
                   for each in zip(socks, bodies, strict=True)]  # fmt: skip
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(4 * PATIENCE_S)
        assert [len(each) for each in bodies] == [PULLS] * CROWD
        assert min(map(min, bodies)) > MIB
        assert victim.rss - before < RSS_MAX
        assert wait_until(lambda: not held(victim)["answer_bytes"])
        client.close()
