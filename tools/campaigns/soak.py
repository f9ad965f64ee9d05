"""Soak: hours of churn at one daemon, whose memory, descriptors, threads and tasks stay flat.

Topics, channels, groups and connections come and go all the time, always under new names: anything
that the daemon keeps of deleted ones shows as a slope. A ledger checks each message.
"""

from __future__ import annotations

import asyncio
import json
import random
import re
import statistics
import struct
import subprocess
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import NamedTuple, TextIO

from penstock.net.http.client.once import request
from penstock.rocketmq.protocol.codes import RequestCode
from penstock.rocketmq.protocol.messages import properties
from penstock.rocketmq.protocol.messages.batch_body import BatchedMessage
from penstock.storage.cache import CACHE_BYTES_MAX
from penstock.testing.ledger import Ledger, make_body
from tools.loads.load import Connection as NsqConnection
from tools.loads.rocketmq_client import Connection as RocketConnection

from .node import Node, run_node
from .report import Result, say

REST_S = 0.5
"""Rest of each churner between two rounds."""
MESSAGES = 20
SECONDS_MAX = 60.0
HTTP_S_MAX = 30.0
TASK = re.compile(r"^task ", re.MULTILINE)
GROWTH = {"rss_kb": 8192, "descriptors": 20, "threads": 4, "tasks": 10}
"""The most by which the last quarter of the time may exceed the second quarter."""
CACHED = 4
"""Bytes of memory allowed for a byte on disk: RocketMQ's system topics are kept for hours, and the
newest batches are cached, of which small ones take more memory than their content.
"""
FLAGS = ("--max-attempts=3", "--max-bytes-per-file=4194304", "--metrics", "--retention-time=60s")


class Sample(NamedTuple):
    """A look at the daemon's process."""

    second: int
    rss_kb: int
    descriptors: int
    threads: int
    tasks: int
    disk_kb: int
    rounds: int
    messages: int

    @classmethod
    async def take(cls, node: Node, second: int, rounds: int, messages: int) -> Sample:
        process = Path(f"/proc/{node.pid}")
        status = dict(re.findall(r"^(\w+):\s+(\d+)", (process / "status").read_text(), re.M))
        state = await ask(node, "GET", "/debug/pprof/goroutine?debug=1")
        return cls(
            second, int(status["VmRSS"]), len(list((process / "fd").iterdir())),
            int(status["Threads"]), len(TASK.findall(state.decode())),
            _used_kb(node.data_path), rounds, messages,
        )  # fmt: skip


def _used_kb(folder: Path) -> int:
    """The disk usage by `du`, which tolerates that files are deleted meanwhile."""
    done = subprocess.run(["du", "-sk", folder], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    return int(done.stdout.split()[0])


async def ask(node: Node, method: str, path: str, body: bytes = b"") -> bytes:
    """The body of an answer that must be 200."""
    answer = await request(method, f"http://{node.http}{path}", HTTP_S_MAX, body=body)
    assert answer.status == 200, (path, answer)
    return answer.body


class Churn:
    """Clients of both dialects that come, work on names used by no other, and delete everything."""

    def __init__(self, node: Node, rng: random.Random) -> None:
        self.node = node
        self.rng = rng
        self.ledger = Ledger()
        self.rounds = 0

    async def run(self, seconds: float) -> None:
        """Run all churners side by side for this time."""
        end = time.monotonic() + seconds
        async with asyncio.TaskGroup() as group:
            for work in (self.nsq, self.dead_letters, self.http, self.rocketmq, self.rude):
                group.create_task(self._repeat(work, end))

    async def _repeat(self, work: Callable[[str], Awaitable[None]], end: float) -> None:
        number = 0
        while time.monotonic() < end:
            number += 1
            async with asyncio.timeout(SECONDS_MAX):
                await work(f"{work.__name__}-{number}")
            self.rounds += 1
            await asyncio.sleep(self.rng.uniform(0.5, 1.5) * REST_S)

    def bodies(self, count: int = MESSAGES) -> list[bytes]:
        """Bodies that the ledger counts as acknowledged, because a failed send ends the soak."""
        numbers = self.ledger.attempt(count)
        self.ledger.acknowledge(numbers)
        return [make_body(number, self.rng.randint(16, 2000)) for number in numbers]

    # --- NSQ -----------------------------------------------------------------------------------

    async def nsq(self, topic: str) -> None:
        """A topic with a channel: publish in every way, requeue, touch, finish, delete."""
        consumer = await NsqConnection.open(self.node)
        consumer.writer.write(b"SUB %s c\nRDY 50\n" % topic.encode())
        await publish(self.node, topic, self.bodies(), self.bodies(3))
        await self._finish(consumer, 3 + MESSAGES)
        consumer.writer.close()
        await ask(self.node, "POST", f"/channel/delete?topic={topic}&channel=c")
        await ask(self.node, "POST", f"/topic/delete?topic={topic}")

    async def _finish(self, consumer: NsqConnection, count: int) -> None:
        again: set[bytes] = set()
        while count:
            kind, data = await consumer.frame()
            if kind != 2:
                assert (kind, data) == (0, b"OK")
                continue
            name = data[10:26]
            if name not in again and self.rng.random() < 0.2:
                again.add(name)
                consumer.writer.write(b"TOUCH %s\nREQ %s %d\n" % (name, name, 20))
                continue
            assert self.ledger.see(data[26:])
            consumer.writer.write(b"FIN %s\n" % name)
            count -= 1

    async def dead_letters(self, topic: str) -> None:
        """Messages that are requeued until they move to the dead letters."""
        dead = f"{topic}.dead"
        for name in (topic, dead):
            await ask(self.node, "POST", f"/topic/create?topic={name}")
        rest = await NsqConnection.open(self.node)
        rest.writer.write(b"SUB %s c\nRDY 50\n" % dead.encode())
        consumer = await NsqConnection.open(self.node)
        consumer.writer.write(b"SUB %s c\nRDY 50\n" % topic.encode())
        refusing = asyncio.ensure_future(refuse(consumer))
        await publish(self.node, topic, self.bodies(5), [])
        await self._finish(rest, 5)
        refusing.cancel()
        consumer.writer.close()
        rest.writer.close()
        for name in (topic, dead):
            await ask(self.node, "POST", f"/topic/delete?topic={name}")

    async def http(self, topic: str) -> None:
        """The HTTP API: create, publish, look, empty, a group of the log, delete."""
        where = f"topic={topic}"
        await ask(self.node, "POST", f"/topic/create?{where}")
        await ask(self.node, "POST", f"/channel/create?{where}&channel=c")
        await ask(self.node, "POST", f"/pub?{where}", b"x" * 1000)
        await ask(self.node, "POST", f"/mpub?{where}", b"a\nb\nc")
        await ask(self.node, "GET", f"/log/fetch?{where}&offset=0")
        await ask(self.node, "POST", f"/log/commit?{where}&group=g", b'{"offsets":{"0":2}}')
        await ask(self.node, "GET", "/stats?format=json")
        await ask(self.node, "GET", "/metrics")
        await ask(self.node, "POST", f"/channel/pause?{where}&channel=c")
        await ask(self.node, "POST", f"/channel/empty?{where}&channel=c")
        await ask(self.node, "POST", f"/topic/delete?{where}")

    # --- RocketMQ ------------------------------------------------------------------------------

    async def rocketmq(self, topic: str) -> None:
        """A topic and its groups: send, batch, transaction, delay, pull, pop; all are deleted."""
        rocket = await RocketConnection.open(self.node.port)
        await self._heartbeat(rocket, topic)
        await rocket.make_topic(topic, 2)
        sent = self.bodies()
        await rocket.send(topic, 0, [_message(body) for body in sent[:10]])
        await rocket.send_batch(topic, 1, [_message(body) for body in sent[10:]])
        (half,) = self.bodies(1)
        (delayed,) = self.bodies(1)
        await self._transact(rocket, topic, half)
        await rocket.send(topic, 0, [_message(delayed, TIMER_DELAY_MS=200)])
        for queue in range(2):
            offset = 0
            while offset < (12, 10)[queue]:
                for each in await rocket.pull(topic, queue, offset, f"pull-{topic}", 500):
                    assert self.ledger.see(each.body)
                    offset += 1
            await rocket.commit(f"pull-{topic}", topic, queue, offset)
        await self._pop(rocket, topic, MESSAGES + 2)
        await self._leave(rocket, topic)

    async def _heartbeat(self, rocket: RocketConnection, topic: str) -> None:
        beat = {"clientID": topic, "producerDataSet": [{"groupName": f"produce-{topic}"}]}
        answer = await rocket.ask(RequestCode.HEART_BEAT, {}, json.dumps(beat).encode())
        assert answer.code == 0, answer

    async def _transact(self, rocket: RocketConnection, topic: str, body: bytes) -> None:
        group = f"produce-{topic}"
        half = _message(body, TRAN_MSG="true", PGROUP=group)
        (sent,) = await rocket.send(topic, 0, [half])
        answer = await rocket.ask(RequestCode.END_TRANSACTION, {
            "producerGroup": group, "tranStateTableOffset": sent.queue_offset,
            "commitLogOffset": int(sent.message_id[16:], 16), "commitOrRollback": 8, "msgId": "x",
        })  # fmt: skip
        assert answer.code == 0, answer

    async def _pop(self, rocket: RocketConnection, topic: str, count: int) -> None:
        group = f"pop-{topic}"
        while count > 0:
            found = await rocket.pop(topic, group, 60_000, 500)
            for each in found:
                assert self.ledger.see(each.body)
                await rocket.ack(group, each)
            count -= len(found)

    async def _leave(self, rocket: RocketConnection, topic: str) -> None:
        left = {"clientID": topic, "producerGroup": f"produce-{topic}"}
        assert (await rocket.ask(RequestCode.UNREGISTER_CLIENT, left)).code == 0
        for group in (f"pull-{topic}", f"pop-{topic}"):
            fields = {"groupName": group, "cleanOffset": "true"}
            assert (await rocket.ask(RequestCode.DELETE_SUBSCRIPTIONGROUP, fields)).code == 0
        fields = {"topic": topic}
        assert (await rocket.ask(RequestCode.DELETE_TOPIC_IN_BROKER, fields)).code == 0
        rocket.close()

    async def rude(self, name: str) -> None:
        """Connections that end in the middle of a request, of each protocol."""
        beginnings = (
            (self.node.tcp_port, b"  V2SUB rude c\nRDY 5\nPUB rude\n\0\0\1\0half"),
            (self.node.http_port, b"POST /pub?topic=rude HTTP/1.1\r\nHost: x\r\nContent-Length: 9"),
            (self.node.port, struct.pack(">ii", 1000, 200) + b"{"),
        )
        for port, data in beginnings:
            _, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(data)
            await writer.drain()
            writer.transport.abort()


def _message(body: bytes, **more: object) -> BatchedMessage:
    text = properties.join({"KEYS": body[:16].decode(), **{n: str(v) for n, v in more.items()}})
    return BatchedMessage(body, text)


async def publish(node: Node, topic: str, bodies: list[bytes], deferred: list[bytes]) -> None:
    """Publish bodies with one MPUB and each deferred one with a DPUB, over a new connection."""
    producer = await NsqConnection.open(node)
    parts = [struct.pack(">i", len(body)) + body for body in bodies]
    await producer.ask(b"MPUB %s\n" % topic.encode(),
                       struct.pack(">i", len(parts)) + b"".join(parts))  # fmt: skip
    for body in deferred:
        await producer.ask(b"DPUB %s 50\n" % topic.encode(), body)
    producer.writer.close()


async def refuse(consumer: NsqConnection) -> None:
    """Requeue every message that comes."""
    while True:
        kind, data = await consumer.frame()
        if kind == 2:
            consumer.writer.write(b"REQ %s 0\n" % data[10:26])


async def soak(seconds: float, every_s: float, table: Path, rng: random.Random) -> Result:
    """Churn for this time, and write a line of figures to the table for each sample."""
    with run_node(*FLAGS, circumstances=None) as node:
        churn = Churn(node, rng)
        start = time.monotonic()
        samples: list[Sample] = []

        async def look(file: TextIO) -> None:
            second = round(time.monotonic() - start)
            seen = churn.ledger.report().seen
            samples.append(await Sample.take(node, second, churn.rounds, seen))
            print(*samples[-1], sep=",", file=file, flush=True)
            say(f"{second} of {seconds:.0f} s: {samples[-1]}")

        running = asyncio.ensure_future(churn.run(seconds))
        with table.open("w") as file:
            print(*Sample._fields, sep=",", file=file, flush=True)
            while not running.done():
                await look(file)
                await asyncio.wait([running], timeout=every_s)
            running.result()
            await look(file)  # on a busy machine the first one may have taken all of the time
        assert node.stop() == 0
    return _result(samples, churn)


def _result(samples: list[Sample], churn: Churn) -> Result:
    """The row of the table; a figure is flat if the last quarter hardly exceeds the second."""
    quarter = max(1, len(samples) // 4)
    faults = []
    words = []
    for name, allowed in GROWTH.items():
        figures = [getattr(sample, name) for sample in samples]
        early = statistics.median(figures[quarter : 2 * quarter] or figures)
        late = statistics.median(figures[-quarter:])
        words.append(f"{name} {early:.0f} to {late:.0f}")
        if name == "rss_kb":
            disk = [sample.disk_kb for sample in samples]
            allowed += min(CACHE_BYTES_MAX >> 10, CACHED * (disk[-1] - disk[quarter - 1]))
        if late > early + allowed:
            faults.append(f"{name} grew from {early:.0f} to {late:.0f}")
    report = churn.ledger.report()
    if report.lost or report.invented:
        faults.append(str(report))
    return Result("soak with churn", f"{samples[-1].second} s, {churn.rounds} rounds",
                  f"{report.seen} messages, all found; {', '.join(words)}", faults)  # fmt: skip
