"""A primary and its follower over simulated disks and a network that loses, repeats and spoils.

What happens next is drawn by a seed. Bodies are numbered, so a message is known wherever it is.
"""

from __future__ import annotations

import copy as copying
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from functools import partial
from random import Random
from typing import Any

from penstock.broker.broker import Broker, BrokerOptions
from penstock.broker.channels.channel import ChannelOptions
from penstock.broker.channels.consumer import Consumer, Delivery
from penstock.broker.publish.batching import Outcome
from penstock.broker.publish.commit import unplaced
from penstock.broker.topic import Topic
from penstock.core.chance import SystemChance
from penstock.core.errors import StorageError
from penstock.node.replicas import ReplicaOptions, Replicas
from penstock.nsq.nsqd.nsq_staging import stamped
from penstock.nsq.protocol.bodies import Bodies
from penstock.replication.copy import Copy, small_files
from penstock.replication.feed import CopiedTopic, Feed, Source
from penstock.replication.messages import (
    Hello,
    ReplicationError,
    decode_ack,
    decode_fetch,
    encode_ack,
    encode_fetch,
)
from penstock.replication.state import ReplicationState
from penstock.replication.stream import AHEAD
from penstock.storage.batch import Batch
from penstock.storage.durability import Durability
from penstock.storage.log import Log, LogOptions
from penstock.storage.store import Store
from penstock.testing.clock import FakeClock
from penstock.testing.disk import FaultyDisk

SECOND = 10**9
BODY_AT = 34
TOPICS = ("t", "u")
READY = 10
LONG = 1000 * SECOND


class Reader:
    """A consumer that holds what comes until it is told to finish some."""

    def __init__(self, topic: Topic) -> None:
        self.topic = topic
        self.channel = topic.channels["c"]
        self.held: dict[int, bytes] = {}
        self.consumer = Consumer(self.deliver, LONG)

    def deliver(self, deliveries: list[Delivery]) -> None:
        for each in deliveries:
            for offset in range(each.first, each.next):
                self.held[offset] = bytes(each.batch.slice(offset, offset + 1))[BODY_AT:]

    def subscribe(self, ready: int, now: int) -> None:
        self.channel.add_consumer(self.consumer)
        self.consumer.ready = ready
        self.channel.refresh(self.consumer)
        self.channel.dispatch(now)


class Node:
    """A node that takes publishes, on a disk."""

    def __init__(self, disk: FaultyDisk, options: LogOptions, clock: FakeClock, run: str) -> None:
        store = Store(disk, "/data", options)
        self.disk = disk
        self.clock = clock
        self.broker = Broker(store, clock, SystemChance(1),
                             BrokerOptions(channel=ChannelOptions(100, LONG)))  # fmt: skip
        self.readers: dict[str, Reader] = {}
        for topic in self.broker.topics.values():
            topic.distribute()
            self._read(topic)
        self.run = run

    def topic(self, name: str) -> Topic:
        topic = self.broker.topic(name)
        if "c" not in topic.channels:
            topic.channel("c")
            topic.distribute()
        if name not in self.readers:
            self._read(topic)
        return topic

    def _read(self, topic: Topic) -> None:
        if "c" in topic.channels:
            self.readers[topic.name] = Reader(topic)
            self.readers[topic.name].subscribe(READY, self.clock.monotonic_ns())

    def dispatch(self) -> None:
        for reader in self.readers.values():
            reader.channel.dispatch(self.clock.monotonic_ns())

    def served(self) -> list[CopiedTopic]:
        return [CopiedTopic(topic.name, topic.log, topic.journal.file)
                for topic in self.broker.topics.values()
                if isinstance(topic.log, Log) and topic.journal.file is not None]  # fmt: skip

    def source(self, state: ReplicationState) -> Source:
        store = self.broker.store
        hello = Hello(self.run, state.history, state.epoch, state.fork or {})
        return Source(self.served, lambda: small_files(store), hello)


def stored(log: Log, start: int | None = None) -> list[Batch]:
    """All that a reader of a log sees."""
    offset = log.start_offset if start is None else start
    found: list[Batch] = []
    while offset < log.next_offset:
        run, place = log.batches_at(offset)
        if place >= len(run):
            break
        found += run[place:]
        offset = run[-1].next_offset
    return found


def batches_of(log: Log, start: int | None = None) -> list[tuple[int, int, bytes]]:
    """(id base, first offset, bytes) of the batches of a log."""
    return [(log.id_base, each.first_offset, bytes(each.raw)) for each in stored(log, start)]


def written_of(log: Log) -> list[tuple[int, int, bytes]]:
    """The same with what is not visible yet, but may be copied."""
    raw = log.read_raw(log.start_offset, 1 << 30, for_copy=True)
    return [(log.id_base, Batch.parse(memoryview(each), 0).first_offset, bytes(each))
            for each in raw]  # fmt: skip


def bodies_of(log: Log) -> set[bytes]:
    """The bodies of all messages of a log."""
    return {
        bytes(batch.slice(offset, offset + 1))[BODY_AT:]
        for batch in stored(log)
        for offset in range(batch.first_offset, batch.next_offset)
    }


class Pair:
    """The story of one seed."""

    def __init__(self, seed: int) -> None:
        self.rng = Random(seed)
        self.clock = FakeClock()
        level = self.rng.choice((Durability.WRITE, Durability.WRITE, Durability.FSYNC))
        self.is_acked = self.rng.random() < 0.4  # an OK waits for the copy
        self.options = LogOptions(self.rng.choice((600, 3000, 10**6)), 100, level, self.is_acked)
        self.state = ReplicationState("h", 1)
        self.lives = 0
        self.serial = 0
        self.written: set[tuple[int, int, bytes]] = set()  # all batches that any primary has had
        self.finished: set[bytes] = set()
        self.done: set[bytes] = set()  # of those, what the primary knows
        self.saved: set[bytes] = set()  # of those, what its journals have
        self.copied: set[bytes] = set()  # of those, what the follower's have
        self.acknowledged: dict[bytes, int] = {}  # and in which epoch
        self.safe: dict[bytes, str] = {}  # of those, what nothing may have lost; and the topic
        self.whole_with: set[bytes] = set()  # acknowledged when the follower had everything last
        self.lost_there: set[bytes] = set()  # that a primary has lost, and a copy has
        self.only_old: set[bytes] = set()  # acknowledged by a primary that was replaced
        self.says_ok: dict[int, FaultyDisk] = {}  # the node that says OK in an epoch
        self.feed: Feed | None = None  # the connection, if there is one
        self.on_way: list[bytes] = []
        self.sent: list[bytes] = []  # over this connection
        self.late: list[bytes] = []  # of earlier ones
        self.is_settled = True  # the follower was none before, or has nothing of its own
        self.primary_disk, self.follower_disk = FaultyDisk("/data"), FaultyDisk("/data")
        self.open_primary()
        self.open_follower()

    def open_primary(self) -> None:
        self.lives += 1
        self.part()
        self.node = Node(self.primary_disk, self.options, self.clock, f"run-{self.lives}")
        self.replicas = Replicas(self.clock, ReplicaOptions(1, 10**6 * SECOND))
        self.replicas.on_copied = self.on_copied
        self.note_written()

    def open_follower(self) -> None:
        store = Store(self.follower_disk, "/data", replace(self.options, awaits_copies=False))
        self.copy = Copy(store, never_drop=not self.is_settled, moment=f"{self.lives}-open")
        self.part()
        self.late.clear()

    # --- what may happen -----------------------------------------------------------------------

    def step(self) -> None:
        actions: list[tuple[int, Callable[[], None]]] = [
            (20, self.publish), (4, self.commit_parts), (15, self.finish), (10, self.save),
            (40, self.exchange), (3, self.trim), (1, self.delete_topic), (5, self.sync),
            (2, self.kill_follower), (2, self.cut_follower), (2, self.kill_primary),
            (1, self.cut_primary), (3, self.pass_time), (2, self.name),
            (1, self.promote),
        ]  # fmt: skip
        weights, choices = zip(*actions, strict=True)
        action: Callable[[], None] = self.rng.choices(choices, weights)[0]
        action()
        self.note_written()
        self.check()

    def body(self) -> bytes:
        self.serial += 1
        return b"%06d:" % self.serial + b"x" * self.rng.randrange(60)

    def publish(self) -> None:
        topic = self.node.topic(self.rng.choice(TOPICS))
        bodies = [self.body() for _ in range(self.rng.randrange(1, 6))]
        delay = self.rng.choice((0, 0, 0, 20 * SECOND))
        topic.stage(Bodies.from_list(bodies), delay, lambda _: None)
        _, error = topic.commit()
        assert error is None
        self.published(topic, bodies)

    def published(self, topic: Topic, bodies: list[bytes]) -> None:
        if self.options.durability is Durability.FSYNC:
            self.sync_log(topic)
        if not self.is_acked:
            self.acknowledge(topic, bodies, None)
            return
        assert isinstance(topic.log, Log)
        told = partial(self.acknowledge, topic, bodies)
        self.replicas.wait(topic, topic.log.copies_end, [told])

    def on_copied(self, topic: Topic, outcomes: list[Outcome], end: int) -> None:
        topic.show(end)
        for told in outcomes:
            told(None)

    def acknowledge(self, topic: Topic, bodies: list[bytes], error: StorageError | None) -> None:
        if error is not None:
            return
        if self.is_acked:
            self.whole_with.update(bodies)  # the copy has them
        epoch = self.state.epoch
        assert self.says_ok.setdefault(epoch, self.primary_disk) is self.primary_disk
        self.acknowledged |= dict.fromkeys(bodies, epoch)
        self.safe |= dict.fromkeys(bodies, topic.name)
        self.node.dispatch()

    def commit_parts(self) -> None:
        topic = self.node.topic(self.rng.choice(TOPICS))
        groups = [[self.body() for _ in range(3)] for _ in range(self.rng.randrange(1, 5))]
        made = topic.begin_commit("w", self.serial, 0)
        for group in groups:
            made.add(unplaced(Bodies.from_list(group), 0), stamped)
        made.finish()
        topic.end_commit(made, 0)
        self.published(topic, [body for group in groups for body in group])

    def sync_log(self, topic: Topic) -> None:
        assert isinstance(topic.log, Log)
        if (job := topic.log.begin_sync()) is not None:
            job.run()
            topic.end_sync(None)

    def sync(self) -> None:
        for topic in self.node.broker.topics.values():
            self.sync_log(topic)
        with suppress(StorageError):
            self.copy.sync()

    def finish(self) -> None:
        for reader in self.node.readers.values():
            done = [each for each in reader.held if self.rng.random() < 0.6]
            for offset in done:
                reader.channel.finish(reader.consumer, [offset])
                self.done.add(reader.held[offset])
                self.finished.add(reader.held.pop(offset))
        self.node.dispatch()

    def save(self) -> None:
        self.node.broker.save()
        self.saved = set(self.done)

    def trim(self) -> None:
        self.node.broker.trim()

    def delete_topic(self) -> None:
        name = self.rng.choice(TOPICS)
        if name in self.node.broker.topics:
            self.replicas.abandon(self.node.broker.topics[name])
            topic = self.node.broker.delete_topic(name)
            self.node.readers.pop(name, None)
            self.safe = {body: of for body, of in self.safe.items() if of != topic.name}

    def name(self) -> None:
        """Write the small file; here it names the topics, and how far each has been."""
        self.node.broker.store.replace_file("nsqd.dat", b"%d" % self.serial)

    def pass_time(self) -> None:
        self.clock.advance(self.rng.choice((SECOND, 30 * SECOND)))
        for channel in self.node.broker.tick(self.clock.monotonic_ns()):
            channel.dispatch(self.clock.monotonic_ns())

    def kill_follower(self) -> None:
        self.follower_disk.crash("written")
        self.open_follower()

    def cut_follower(self) -> None:
        self.follower_disk.crash(SystemChance(self.rng.getrandbits(32)))
        self.copied.clear()
        self.lose_unsynced(self.whole_with, self.only_old)
        self.open_follower()

    def lose_unsynced(self, *kept: set[bytes] | dict[bytes, str]) -> None:
        """Expect nothing of these any more, unless each OK has waited for a sync."""
        if self.options.durability is not Durability.FSYNC:
            for each in kept:
                each.clear()

    def kill_primary(self) -> None:
        self.primary_disk.crash("written")
        self.copied.clear()
        self.done = set(self.saved)
        self.open_primary()

    def cut_primary(self) -> None:
        """Unsynced messages may go, and others may get their offsets."""
        self.primary_disk.crash(SystemChance(self.rng.getrandbits(32)))
        self.lose_unsynced(self.safe, self.only_old, self.whole_with)
        self.copied.clear()
        self.saved.clear()
        self.done.clear()
        self.open_primary()
        for topic in self.node.broker.topics.values():
            topic.accept_damage()

    def promote(self) -> None:
        """The follower becomes primary; the old one has said OK for some more, and comes back."""
        if not self.copy.topics:
            return
        for copy in self.copy.topics.values():
            copy.cancel_commit()
        fork = self.copy.ends
        for _ in range(self.rng.randrange(3)):
            self.publish()
        self.note_written()
        self.primary_disk.crash("written")
        self.follower_disk.crash("written")
        self.primary_disk, self.follower_disk = self.follower_disk, self.primary_disk
        self.state = ReplicationState("h", self.state.epoch + 1, fork=fork)
        self.is_settled = False
        for forgotten in (self.copied, self.saved, self.done):
            forgotten.clear()
        self.open_primary()
        for topic in self.node.broker.topics.values():
            topic.accept_damage()
        self.open_follower()
        there = {body for served in self.node.served() for body in bodies_of(served.log)}
        missing = self.safe.keys() - there - self.finished
        assert not missing & self.whole_with, "the copy had these"
        for body in missing:
            del self.safe[body]
        self.only_old = (self.only_old | missing) - there
        self.whole_with.clear()

    def check_aside(self) -> None:
        """What only an old primary had is on its disk, in data paths of its own."""
        found = set()
        for each in (self.follower_disk, self.primary_disk):
            disk = copying.deepcopy(each)
            disk.crash("written")
            for moment in disk.list("/data/aside"):
                store = Store(disk, f"/data/aside/{moment}", self.options)
                broker = Broker(store, self.clock, SystemChance(1), BrokerOptions())
                for topic in broker.topics.values():
                    assert isinstance(topic.log, Log)
                    found |= bodies_of(topic.log)
        assert self.only_old <= found
        self.only_old.clear()

    # --- the network ---------------------------------------------------------------------------

    def connect(self) -> Feed:
        """A new connection; the request says all that the copy has."""
        fetch = self.copy.request("h", self.state.epoch, 10**6)
        feed = Feed(self.node.source(self.state), decode_fetch(encode_fetch(fetch)))
        self.replicas.heard("follower", feed.ends)
        return feed

    def part(self) -> None:
        """End the connection, and lose what is on its way; some of that may come late."""
        self.feed = None
        self.late = [*self.late, *self.sent][-6:]
        self.on_way.clear()
        self.sent.clear()

    def exchange(self) -> None:
        """An answer and the word that it is here. It may be lost, cut short or spoiled, and the
        connection with it; or be on its way while others are made.
        """
        feed = self.feed = self.feed or self.connect()
        has_news = feed.has_news()
        self.on_way.append(b"".join(feed.answer(0, self.rng.choice((1, 300, 10**6)))))
        self.sent.append(self.on_way[-1])
        if len(self.on_way) < AHEAD and self.rng.random() < 0.3:
            return
        answer, is_newest = self.on_way.pop(0), not self.on_way
        fate = self.rng.random()
        if fate < 0.1:
            self.part()
            return
        if fate < 0.15:
            answer = answer[: self.rng.randrange(len(answer))]
        elif fate < 0.2:
            answer = self.spoiled(answer)
        elif fate < 0.3 and self.late:
            assert not self.take(self.rng.choice(self.late)), "an answer to an earlier request"
            if self.feed is not feed:
                return  # the copy was opened again
        was_whole, ends = self.copy.is_whole, self.appended()
        took = self.take(answer)
        if took and was_whole and is_newest and not has_news:
            assert self.appended() == ends, "there was no news"
        if took and fate >= 0.2 and is_newest and self.copy.is_whole:
            self.now_whole()
        if not took or fate < 0.2 or self.copy.is_astray:
            self.part()
        elif self.feed is feed:
            feed.acknowledge(decode_ack(encode_ack(self.copy.acknowledge())[4:]))
            self.replicas.heard("follower", feed.ends)

    def appended(self) -> dict[str, int]:
        """The ends of the copy's logs; what a failed disk kept from being synced is there."""
        return {name: each.log.append_offset for name, each in self.copy.topics.items()}

    def spoiled(self, answer: bytes) -> bytes:
        place = self.rng.randrange(len(answer))
        return (
            answer[:place]
            + bytes([answer[place] ^ 1 << self.rng.randrange(8)])
            + answer[place + 1 :]
        )

    def take(self, answer: bytes) -> bool:
        """Take an answer as the shell does; False if it was refused or the disk failed."""
        if self.rng.random() < 0.05:
            operation: Any = self.rng.choice(("append", "replace", "open", "remove", "read"))
            self.follower_disk.fail(operation, self.rng.randrange(1, 4))
        try:
            hello = self.copy.take(answer)
        except (ReplicationError, StorageError):
            self.follower_disk.heal()
            if any(copy.log.failure for copy in self.copy.topics.values()):
                self.kill_follower()
            return False
        self.follower_disk.heal()
        if hello is not None:
            if hello.run == self.node.run:
                self.copy.moment = f"{self.lives}-{self.serial}"
                self.copy.begin_run(hello)
            return False
        if self.options.durability is Durability.FSYNC:
            with suppress(StorageError):
                self.copy.sync()
                self.copy.settle()
        return True

    def now_whole(self) -> None:
        """The follower says that it has everything: it has, byte for byte."""
        places = {(each.name, each.log.id_base): each.log.next_offset
                  for each in self.copy.topics.values()}  # fmt: skip
        self.replicas.heard("follower", places)  # as it says at once
        self.copied = set(self.saved)
        self.whole_with = set(self.acknowledged)
        if not self.is_settled:
            self.is_settled, self.copy.never_drop = True, False
            self.check_aside()
        logs = {served.name: served.log for served in self.node.served()}
        assert logs.keys() == self.copy.topics.keys()
        for name, copy in self.copy.topics.items():
            assert copy.log.id_base == logs[name].id_base
            assert copy.log.next_offset == logs[name].next_offset
            start = max(copy.log.start_offset, logs[name].start_offset)
            self.check_equal(copy.log, logs[name], start)

    def check_equal(self, copy: Log, log: Log, start: int) -> None:
        """The same bytes; but where the primary has lost some since, the copy may have them."""
        there = dict.fromkeys(batches_of(log, start))
        lost = list(log.damage.lost_ranges())
        for batch in stored(copy, start):
            place = log.id_base, batch.first_offset, bytes(batch.raw)
            is_lost = any(first <= batch.first_offset < next_ for first, next_ in lost)
            assert is_lost or place in there
            there.pop(place, None)  # an offset may be given again behind a tail that was cut off
        assert not there

    # --- what must hold ------------------------------------------------------------------------

    def note_written(self) -> None:
        for served in self.node.served():
            self.written.update(written_of(served.log))

    def check(self) -> None:
        """No byte in a copy that the primary did not have at that very place."""
        for copy in self.copy.topics.values():
            found = batches_of(copy.log)
            assert self.written.issuperset(found)
            ends = [first for _, first, _ in found]
            assert ends == sorted(ends)

    def promoted(self) -> Node:
        """A node over what the follower's disk has now, as after a kill of its process."""
        disk = copying.deepcopy(self.follower_disk)
        disk.crash("written")
        return Node(disk, self.options, self.clock, "promoted")

    def note_lost(self) -> None:
        """Messages that the primary has lost, and takes for done; a copy may have them."""
        for served in self.node.served():
            copy = self.copy.topics.get(served.name)
            if copy is None or copy.log.id_base != served.log.id_base:
                continue
            for first, next_ in served.log.damage.lost_ranges():
                for batch in stored(copy.log):
                    frames = range(max(first, batch.first_offset), min(next_, batch.next_offset))
                    self.lost_there |= {bytes(batch.slice(o, o + 1))[BODY_AT:] for o in frames}

    def check_promoted(self) -> None:
        """What a promoted follower owes: all that nobody finished, little of what somebody did."""
        self.note_lost()
        damaged = {name for name, copy in self.copy.topics.items() if copy.fault is not None}
        assert self.copy.is_retaking or not damaged, "it would be promoted without force"
        node = self.promoted()
        for topic in node.broker.topics.values():
            if topic.name in damaged:  # what is left of it, until the primary answers
                continue
            assert not topic.damage.pending, topic.damage.pending
            assert isinstance(topic.log, Log)
            bodies = bodies_of(topic.log)
            owed = self._owed(node, topic)
            if owed is not None:
                assert bodies - owed - self.lost_there <= self.finished, "somebody must get these"
                assert not owed & self.copied, "finished, saved and copied"

    def _owed(self, node: Node, topic: Topic) -> set[bytes] | None:
        if topic.name not in node.readers:
            return None
        reader = node.readers[topic.name]
        reader.consumer.ready = 10**6
        reader.channel.refresh(reader.consumer)
        now = self.clock.monotonic_ns() + 100 * SECOND
        reader.channel.tick(now)
        reader.channel.dispatch(now)
        return set(reader.held.values())
