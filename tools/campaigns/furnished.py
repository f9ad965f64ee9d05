"""A data path with known content of every kind, and the check of what is left of it."""

from __future__ import annotations

import asyncio
import json
import random
import struct
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Final

from penstock.net.http.client.once import request
from penstock.rocketmq.protocol.codes import RequestCode, ResponseCode
from penstock.rocketmq.protocol.messages import properties
from penstock.rocketmq.protocol.messages.batch_body import BatchedMessage
from penstock.rocketmq.protocol.messages.message import StoredMessage, decode_all
from penstock.testing.ledger import make_body, read_body
from tools.loads.load import Connection as NsqConnection
from tools.loads.rocketmq_client import Connection as RocketConnection

from .node import Node

FLAGS: Final = ("--max-bytes-per-file=16384", "--max-attempts=50")
PLAIN: Final = "plain"
ROCKET: Final = "rocket"
QUEUES: Final = 2
BATCHES, BATCH = 30, 10
COMMITTED: Final = 30
"""The offset that RocketMQ's group has in each queue, and a group of the log in NSQ's topic."""
SILENCE_S: Final = 0.02
_BOUNDS: Final = (RequestCode.GET_MIN_OFFSET, RequestCode.GET_MAX_OFFSET)
SECONDS_MAX: Final = 120.0
ROCKET_FIRST: Final = 100_000
"""The first number of RocketMQ's topic. In both topics numbers follow the offsets of the log."""


@dataclass
class Contents:
    """The content of the data path."""

    plain: set[int] = field(default_factory=set)
    unfinished: set[int] = field(default_factory=set)
    """Messages that the channel `read` has not finished."""
    rocket: dict[tuple[int, int], int] = field(default_factory=dict)
    """Numbers by queue and offset."""


@dataclass
class Findings:
    """The result of a check: messages that were never sent there, and messages that are missing."""

    wrong: list[str] = field(default_factory=list)
    unread: set[int] = field(default_factory=set)
    read: set[int] = field(default_factory=set)
    rocket: set[int] = field(default_factory=set)
    behind: list[str] = field(default_factory=list)
    """Groups that are behind their committed offsets."""


async def furnish(node: Node, rng: random.Random) -> Contents:
    """Fill the data path of a node that has just started."""
    contents = Contents()
    await _furnish_nsq(node, rng, contents)
    await _furnish_rocketmq(node, rng, contents)
    return contents


async def _furnish_nsq(node: Node, rng: random.Random, contents: Contents) -> None:
    await _post(node, f"/topic/create?topic={PLAIN}")
    for channel in ("read", "unread"):
        await _post(node, f"/channel/create?topic={PLAIN}&channel={channel}")
    producer = await NsqConnection.open(node)
    for first in range(0, BATCHES * BATCH, BATCH):
        bodies = [make_body(number, rng.randint(16, 400)) for number in range(first, first + BATCH)]
        parts = [struct.pack(">i", len(body)) + body for body in bodies]
        await producer.ask(b"MPUB %s\n" % PLAIN.encode(),
                           struct.pack(">i", BATCH) + b"".join(parts))  # fmt: skip
    producer.writer.close()
    contents.plain = set(range(BATCHES * BATCH))
    consumer = await _subscribe(node, "read", BATCHES * BATCH)
    for number in range(BATCHES * BATCH):
        name = (await _message(consumer))[10:26]
        if number % 10 == 9:  # stays deferred
            consumer.writer.write(b"REQ %s 3600000\n" % name)
        elif number < BATCHES * BATCH * 2 // 3:
            consumer.writer.write(b"FIN %s\n" % name)
    contents.unfinished = {
        number for number in contents.plain
        if number % 10 == 9 or number >= BATCHES * BATCH * 2 // 3
    }  # fmt: skip
    async with asyncio.timeout(SECONDS_MAX):
        while await _unfinished(node, "read") > len(contents.unfinished):
            pass
    consumer.writer.close()
    offsets = json.dumps({"offsets": {"0": COMMITTED}}).encode()
    await _ask(node, "POST", f"/log/commit?topic={PLAIN}&group=g", offsets)


async def _furnish_rocketmq(node: Node, rng: random.Random, contents: Contents) -> None:
    rocket = await RocketConnection.open(node.port)
    await rocket.make_topic(ROCKET, QUEUES)
    for batch in range(20):
        queue = batch % QUEUES
        numbers = range(ROCKET_FIRST + batch * 8, ROCKET_FIRST + batch * 8 + 8)
        messages = [_rocket_message(number, rng.randint(16, 400)) for number in numbers]
        sent = await rocket.send_batch(ROCKET, queue, messages)
        contents.rocket |= {
            (queue, each.queue_offset): number for number, each in zip(numbers, sent, strict=True)
        }
    for queue in range(QUEUES):
        await rocket.commit("G", ROCKET, queue, COMMITTED)
    for each in (await rocket.pop(ROCKET, "P", 600_000))[:5]:
        await rocket.ack("P", each)
    later = BatchedMessage(b"later", properties.join({"TIMER_DELAY_MS": "3600000"}))
    half = BatchedMessage(b"half", properties.join({"TRAN_MSG": "true", "PGROUP": "PG"}))
    await rocket.send(ROCKET, 0, [later, half])
    rocket.close()


def _rocket_message(number: int, size: int) -> BatchedMessage:
    return BatchedMessage(make_body(number, size), properties.join({"KEYS": f"k{number}"}))


# --- a look ------------------------------------------------------------------------------------


async def examine(node: Node, contents: Contents) -> Findings:
    """Read all there is in every way."""
    found = Findings()
    await _examine_log_group(node, found)
    await asyncio.gather(
        _examine_channel(node, "unread", found.unread, found.wrong),
        _examine_channel(node, "read", found.read, found.wrong),
        _examine_rocketmq(node, found, contents),
    )
    return found


async def _examine_channel(node: Node, channel: str, seen: set[int], wrong: list[str]) -> None:
    """Consume all messages of the channel, deferred ones at once."""
    consumer = await _subscribe(node, channel, 2500)
    async with asyncio.timeout(SECONDS_MAX):
        while await _unfinished(node, channel):
            await _post(node, f"/channel/deferred/release?topic={PLAIN}&channel={channel}&all=true")
            with suppress(TimeoutError):
                while True:
                    async with asyncio.timeout(SILENCE_S):
                        message = await _message(consumer)
                    number = read_body(message[26:])
                    if number is None or number >= ROCKET_FIRST:
                        wrong.append(f"channel {channel} delivered {message[26:60]!r}")
                    else:
                        seen.add(number)
                    consumer.writer.write(b"FIN %s\n" % message[10:26])
    consumer.writer.close()


async def _examine_rocketmq(node: Node, found: Findings, contents: Contents) -> None:
    rocket = await RocketConnection.open(node.port)
    for queue in range(QUEUES):
        fields = {"topic": ROCKET, "queueId": queue}
        answers = [await rocket.ask(code, fields) for code in _BOUNDS]
        if any(answer.code for answer in answers):
            continue  # the topic is gone
        offset, end = (answer.int64("offset") for answer in answers)
        while offset < end and (pulled := await _pull(rocket, queue, offset)):
            for each in pulled:
                place = queue, each.queue_offset
                if read_body(each.body) != contents.rocket.get(place):
                    found.wrong.append(f"{place} holds {each.body[:30]!r}")
                found.rocket.add(contents.rocket.get(place, -1))
            offset = pulled[-1].queue_offset + 1
        committed = await rocket.committed("G", ROCKET, queue)
        if committed > COMMITTED:
            found.wrong.append(f"the group is at {committed} in queue {queue}, not {COMMITTED}")
        if committed < COMMITTED:
            found.behind.append(f"queue {queue}: {committed}")
    rocket.close()


async def _pull(rocket: RocketConnection, queue: int, offset: int) -> list[StoredMessage]:
    """The messages stored from this offset on, or behind a gap; none at the end."""
    fields = {
        "consumerGroup": "look", "topic": ROCKET, "queueId": queue, "queueOffset": offset,
        "maxMsgNums": 32, "sysFlag": 4, "commitOffset": 0, "suspendTimeoutMillis": 0,
        "subscription": "*", "subVersion": 0,
    }  # fmt: skip
    answer = await rocket.ask(RequestCode.PULL_MESSAGE, fields)
    if answer.code == ResponseCode.SUCCESS:
        return list(decode_all(answer.body))
    following = int((answer.ext or {}).get("nextBeginOffset", offset))
    return await _pull(rocket, queue, following) if following > offset else []


async def _examine_log_group(node: Node, found: Findings) -> None:
    answer = await request("GET", f"http://{node.http}/log/offsets?topic={PLAIN}", SECONDS_MAX)
    groups = json.loads(answer.body)["groups"] if answer.status == 200 else {}
    offset = int(groups.get("g", {}).get("0", -1))
    if offset > COMMITTED:
        found.wrong.append(f"the group of the log is at {offset}, not {COMMITTED}")
    if offset < COMMITTED:
        found.behind.append(f"log: {offset}")


# --- asking ------------------------------------------------------------------------------------


async def _subscribe(node: Node, channel: str, ready: int) -> NsqConnection:
    consumer = await NsqConnection.open(node)
    consumer.writer.write(b"SUB %s %s\nRDY %d\n" % (PLAIN.encode(), channel.encode(), ready))
    return consumer


async def _message(consumer: NsqConnection) -> bytes:
    """The next message, with its head of 26 bytes."""
    while True:
        kind, data = await consumer.frame()
        assert kind != 1, data
        if kind == 2:
            return data


async def _unfinished(node: Node, channel: str) -> int:
    """Messages of the channel that are not finished."""
    answer = await _ask(node, "GET", f"/stats?format=json&topic={PLAIN}&channel={channel}")
    counts = ("depth", "in_flight_count", "deferred_count")
    return sum(
        topic["depth"] + sum(each[count] for each in topic["channels"] for count in counts)
        for topic in json.loads(answer)["topics"]
    )


async def _post(node: Node, path: str) -> None:
    await _ask(node, "POST", path)


async def _ask(node: Node, method: str, path: str, body: bytes = b"") -> bytes:
    answer = await request(method, f"http://{node.http}{path}", SECONDS_MAX, body=body)
    assert answer.status == 200, (path, answer)
    return answer.body
