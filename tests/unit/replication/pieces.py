"""A primary's topic and an empty copy, on disks in memory."""

from __future__ import annotations

from penstock.broker.broker import Broker, BrokerOptions
from penstock.broker.topic import Topic
from penstock.core.chance import SystemChance
from penstock.nsq.protocol.bodies import Bodies
from penstock.replication.copy import Copy
from penstock.replication.feed import CopiedTopic, Feed, Source
from penstock.replication.messages import Hello
from penstock.storage.log import Log, LogOptions
from penstock.storage.store import Store
from penstock.testing.clock import FakeClock
from penstock.testing.disk import FaultyDisk

HELLO = Hello("run", "history", 1)
ROOM = 1 << 20


class Primary:
    """A broker whose topics are served."""

    def __init__(self, file_bytes: int = 1 << 20) -> None:
        self.disk = FaultyDisk("/data")
        self.store = Store(self.disk, "/data", LogOptions(file_bytes))
        self.clock = FakeClock()
        self.broker = Broker(self.store, self.clock, SystemChance(1), BrokerOptions())
        self.files: dict[str, bytes] = {}
        self.source = Source(self.served, lambda: self.files, HELLO)

    def publish(self, name: str, *bodies: bytes) -> Topic:
        """Publish each body as a batch by itself, and write the journal."""
        self.clock.advance(1_000_000_000)  # the ids of a new topic begin with the time
        topic = self.broker.topic(name)
        for body in bodies:
            topic.stage(Bodies.single(body), 0, lambda _: None)
            assert topic.commit()[1] is None
        self.broker.save()
        return topic

    def publish_to(self, name: str, *queues: int) -> Topic:
        """Publish a message to each of these queues, one after the other."""
        topic = self.broker.topic(name)
        for queue in queues:
            topic.stage(Bodies.single(b"x" * 100), 0, lambda _: None, queue)
            assert topic.commit()[1] is None
        return topic

    def served(self) -> list[CopiedTopic]:
        return [CopiedTopic(topic.name, topic.log, topic.journal.file, topic.queues)
                for topic in self.broker.topics.values()
                if isinstance(topic.log, Log) and topic.journal.file is not None]  # fmt: skip

    def answer(self, copy: Copy, nbytes: int = ROOM) -> bytes:
        """The bytes of the answer to a copy's next request."""
        return b"".join(Feed(self.source, copy.request("history", 1, nbytes)).answer())


def new_copy(disk: FaultyDisk | None = None, file_bytes: int = 1 << 20) -> Copy:
    return Copy(Store(disk or FaultyDisk("/data"), "/data", LogOptions(file_bytes)))


def exchange(primary: Primary, copy: Copy, nbytes: int = ROOM) -> None:
    """One request and its answer; a Hello is followed."""
    hello = copy.take(primary.answer(copy, nbytes))
    if hello is not None:
        copy.begin_run(hello)


def until_whole(primary: Primary, copy: Copy, nbytes: int = ROOM) -> int:
    """Exchange until the copy is whole; the number of exchanges."""
    for number in range(1, 1000):
        exchange(primary, copy, nbytes)
        if copy.is_whole:
            return number
    raise AssertionError("the copy is never whole")


def stored(log: object) -> bytes:
    """The bytes of a whole log."""
    assert isinstance(log, Log)
    return b"".join(log.read_raw(log.start_offset, 1 << 30))
