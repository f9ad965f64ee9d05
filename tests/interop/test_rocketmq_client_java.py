"""Our client and Java's in one group: each queue is one member's, and nothing is skipped.

`PENSTOCK_ROCKETMQ_JAVA` names folders with the jars of Java's client; without it the tests are
skipped.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from pathlib import Path

import pytest

from penstock.rocketmq.client import Message, Producer, PushConsumer, Received
from tools.harness.rocketmq.java import FOLDERS, JVM, compile_java, missing
from tools.harness.rocketmq.servers import QUICK, Servers, run_servers, until

from .java_sources import java_source

QUEUES = 4


class JavaMember:
    """A consumer of Java's client in the group, and what it has printed."""

    def __init__(self) -> None:
        self.seen: list[tuple[int, int, int]] = []
        self.is_ready = False

    async def start(self, folder: Path, home: Path, *arguments: str) -> None:
        class_path = compile_java(folder, home / "classes", java_source("Member"))
        self._log = home / "member.log"
        with self._log.open("wb") as log:
            self._process = await asyncio.create_subprocess_exec(
                "nice", "java", *JVM, "-Drocketmq.client.rebalance.waitInterval=1000",
                f"-Duser.home={home}", "-cp", class_path, "Member", *arguments,
                stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE, stderr=log,
            )  # fmt: skip
        self._reading = asyncio.create_task(self._read())
        await until(lambda: self.is_ready or self._process.returncode is not None)
        assert self.is_ready, self._log.read_text()

    async def _read(self) -> None:
        assert self._process.stdout is not None
        async for line in self._process.stdout:
            words = line.split()
            self.is_ready |= words == [b"ready"]
            if len(words) == 3:
                queue, offset, body = map(int, words)
                self.seen.append((queue, offset, body))

    async def leave(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        assert await self._process.wait() == 0, self._log.read_text()
        await self._reading


async def send(servers: Servers, start: int, count: int) -> None:
    async with Producer("PG", servers.address, config=QUICK) as producer:
        for number in range(start, start + count):
            message = Message("Mixed", b"%d" % number)
            await producer.send(message, queue=lambda every, n=number: every[n % QUEUES])


@pytest.mark.parametrize("kind", ["concurrent", "orderly"])
@pytest.mark.parametrize("version", FOLDERS or ["none"])
async def test_one_group(version: str, kind: str, tmp_path: Path) -> None:
    reason = missing()
    if reason is not None:
        pytest.skip(reason)
    seen: list[tuple[int, int, int]] = []

    def handle(message: Received) -> None:
        seen.append((message.queue.queueId, message.queue_offset, int(message.body)))

    with run_servers() as servers:
        servers.make_topic("Mixed", QUEUES)
        own = PushConsumer("MixedG", servers.address, config=QUICK, orderly=kind == "orderly")
        own.subscribe("Mixed")
        consuming = asyncio.create_task(own.run(handle, concurrency=1))
        await until(lambda: len(queues_of(own)) == QUEUES)
        await send(servers, 0, 40)
        java = JavaMember()
        await java.start(FOLDERS[version], tmp_path, servers.address, "MixedG", "Mixed", kind)
        await until(lambda: len(queues_of(own)) == QUEUES // 2)
        await send(servers, 40, 80)
        await until(lambda: bodies(seen, java.seen) == set(range(120)))
        assert java.seen
        theirs = {queue for queue, _, _ in java.seen}
        assert not theirs & queues_of(own)
        await java.leave()
        await until(lambda: len(queues_of(own)) == QUEUES)
        await send(servers, 120, 40)
        await until(lambda: bodies(seen, java.seen) == set(range(160)))
        await own.close()
        await consuming
    if kind == "orderly":
        assert_in_order(seen, java.seen)


def queues_of(consumer: PushConsumer) -> set[int]:
    return {each.queue.queueId for each in consumer.queues if each.topic == "Mixed"}


def bodies(*found: list[tuple[int, int, int]]) -> set[int]:
    return {body for each in found for _, _, body in each}


def assert_in_order(*found: list[tuple[int, int, int]]) -> None:
    """Each member has seen what it saw of a queue first in its order."""
    for each in found:
        offsets = defaultdict[int, list[int]](list)
        for queue, offset, _ in each:
            if offset not in offsets[queue]:
                offsets[queue].append(offset)
        for seen in offsets.values():
            assert seen == sorted(seen)
