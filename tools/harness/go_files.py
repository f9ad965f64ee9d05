"""Data paths as Go's nsqd leaves them, made by hand, and what a broker of ours delivers of them."""

from __future__ import annotations

import json
import struct
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from typing import Any, NamedTuple

from penstock.broker.broker import Broker, BrokerOptions
from penstock.broker.channels.consumer import Consumer, Delivery
from penstock.core.chance import SystemChance
from penstock.node import metadata
from penstock.nsq.nsqd.tcp.outbox import frames_of
from penstock.nsq.protocol.frames import FrameReader, MessageBlock
from penstock.nsq.takeover.importer import import_queues
from penstock.storage.files.disk import Disk
from penstock.storage.log import LogOptions
from penstock.storage.store import Store
from penstock.testing.clock import FakeClock
from penstock.testing.disk import FaultyDisk

DATA = "/data"
NOW = 1_700_000_000_000_000_000
MESSAGE_MAX = 1024


class Message(NamedTuple):
    timestamp: int
    attempts: int
    body: bytes

    def record(self) -> bytes:
        """As it stands in a queue file; the id follows from the time, as with Go."""
        head = struct.pack(">qH", self.timestamp, self.attempts)
        data = head + b"%016x" % (self.timestamp // 1000) + self.body
        return struct.pack(">i", len(data)) + data

    def delivered(self) -> Message:
        """As a consumer gets it next."""
        return self._replace(attempts=self.attempts + 1)


def messages(numbers: Iterable[int], attempts: int = 0, size: int = 20) -> list[Message]:
    """Messages in the order of their numbers, each later than the one before."""
    return [
        Message(NOW - 10**12 + number * 1000, attempts, b"%06d" % number + b"." * (size - 6))
        for number in numbers
    ]


def data(found: Iterable[Message]) -> bytes:
    return b"".join([message.record() for message in found])


def queue(
    name: str,
    *files: Sequence[Message],
    first: int = 0,
    read: tuple[int, int] | None = None,
    unsynced: int = 0,
) -> dict[str, bytes]:
    """The files of a queue: data files and, as after a clean stop, a meta file.

    ``unsynced`` bytes at the end are not in the meta file's write position.
    """
    content = {f"{name}.diskqueue.{first + i:06d}.dat": data(f) for i, f in enumerate(files)}
    end = (first + len(files) - 1, len(data(files[-1])) - unsynced) if files else (first, 0)
    depth = sum(len(f) for f in files)
    start = read or (first, 0)
    meta = f"{depth}\n{start[0]},{start[1]}\n{end[0]},{end[1]}\n"
    return {**content, f"{name}.diskqueue.meta.dat": meta.encode()}


def nsqd_dat(topics: dict[str, list[str]], paused: Sequence[str] = ()) -> dict[str, bytes]:
    """nsqd.dat with these topics and their channels, as Go writes it."""
    found: list[dict[str, Any]] = [
        {
            "name": topic,
            "paused": topic in paused,
            "channels": [{"name": c, "paused": c in paused} for c in channels] or None,
        }
        for topic, channels in topics.items()
    ]
    return {"nsqd.dat": json.dumps({"topics": found, "version": "1.3.0"}).encode()}


def disk_with(*contents: dict[str, bytes]) -> FaultyDisk:
    """A disk whose data path holds these files, durably."""
    disk = FaultyDisk(DATA)
    for content in contents:
        for name, held in content.items():
            disk.replace_file(f"{DATA}/{name}", held)
    return disk


def open_store(disk: Disk, data_path: str = DATA) -> Store:
    return Store(disk, data_path, LogOptions(1 << 20, 100))


def take_over(disk: FaultyDisk, message_max: int = MESSAGE_MAX) -> int:
    """Import; how many messages. The lock is released, whatever happens."""
    store = open_store(disk)
    try:
        return import_queues(store, FakeClock(NOW), 5, message_max)
    finally:
        store.close()


def open_broker(disk: Disk, data_path: str = DATA) -> Broker:
    """The broker of the data path with all that nsqd.dat says, as nsqd starts it."""
    broker = Broker(open_store(disk, data_path), FakeClock(NOW), SystemChance(), BrokerOptions(5))
    metadata.load(broker)
    return broker


Delivered = dict[str, dict[str, list[Message]]]


def delivered(disk: Disk, data_path: str = DATA) -> Delivered:
    """All that the channels deliver, by topic and channel, in the order of the bodies.

    Pauses are lifted. What waits in a topic without channels is listed under ``""``.
    """
    broker = open_broker(disk, data_path)
    found: Delivered = {}
    for name, topic in broker.topics.items():
        topic.unpause()
        if not topic.channels:
            topic.channel("")
            topic.distribute()
        found[name] = {}
        for channel in topic.channels.values():
            channel.unpause()
            collected: list[Message] = []
            consumer = Consumer(partial(_collect, collected), 60 * 10**9)
            consumer.ready = 10**9
            channel.add_consumer(consumer)
            channel.refresh(consumer)
            channel.dispatch(NOW)
            assert channel.state.depth == 0
            found[name][channel.name] = sorted(collected, key=lambda m: (m.body, m.attempts))
    return found


def _collect(into: list[Message], deliveries: list[Delivery]) -> None:
    into.extend(decoded(deliveries))


def decoded(deliveries: list[Delivery]) -> Iterator[Message]:
    for delivery in deliveries:
        reader = FrameReader()
        reader.receive_data(bytes(frames_of(delivery)))
        for block in reader.events():
            assert isinstance(block, MessageBlock)
            for message in block:
                yield Message(message.timestamp_ns, message.attempts, message.body)


def expected(found: Iterable[Message]) -> list[Message]:
    """What a channel is to deliver of these queued messages."""
    return sorted((m.delivered() for m in found), key=lambda m: (m.body, m.attempts))
