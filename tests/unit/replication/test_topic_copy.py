"""One topic of a follower: batches, commits, gaps, records; a copy that is only read."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Sequence
from typing import cast

import pytest

from penstock.broker.publish.commit import unplaced
from penstock.core.errors import StorageError
from penstock.net.budget import Memory
from penstock.node.http.log_views import NSQ_VIEW
from penstock.node.node_options import NodeOptions
from penstock.nsq.nsqd.nsq_staging import stamped
from penstock.nsq.protocol.bodies import Bodies
from penstock.replication.copied_node import CopiedNode
from penstock.replication.messages import Batches, JournalPiece, ReplicationError
from penstock.replication.standby_api import CopiedTopics
from penstock.storage.batch import Batch
from penstock.storage.journal_frames import read_frames
from penstock.storage.log import Log
from penstock.storage.queues.one_queue import OneQueue, Queues
from penstock.storage.retention import Retention
from penstock.testing.clock import FakeClock
from penstock.testing.disk import FaultyDisk
from tests.unit.replication.pieces import Primary, exchange, new_copy, stored, until_whole


def test_batches_come_byte_for_byte_and_what_is_here_already_is_left_out() -> None:
    primary, copy = Primary(), new_copy()
    topic = primary.publish("t", b"1", b"2", b"3")
    until_whole(primary, copy)
    whole = stored(topic.log)
    assert stored(copy.topics["t"].log) == whole
    copy.topics["t"].append(Batches("t", topic.log.id_base, 0, 3, 0), whole)
    assert stored(copy.topics["t"].log) == whole


def test_a_batch_of_another_log_or_with_a_wrong_byte_is_refused() -> None:
    primary, copy = Primary(), new_copy()
    topic = primary.publish("t", b"1")
    until_whole(primary, copy)
    later = stored(primary.publish("t", b"2").log)[-len(stored(topic.log)) // 2 :]
    head = Batches("t", topic.log.id_base, 0, 2, 0)
    spoiled = bytearray(later)
    spoiled[-1] ^= 1
    with pytest.raises(ReplicationError, match="damaged on the way"):
        copy.topics["t"].append(head, spoiled)
    other = stored(primary.publish("u", b"1").log)
    with pytest.raises(ReplicationError, match="another log"):
        copy.topics["t"].append(head, other)
    assert copy.topics["t"].log.next_offset == 1


def test_a_commit_is_seen_when_all_of_it_is_here() -> None:
    primary, copy = Primary(), new_copy()
    topic = primary.publish("t", b"before")
    until_whole(primary, copy)
    made = topic.begin_commit("w", 1, 0)
    for number in range(5):
        made.add(unplaced(Bodies.single(b"%d" % number + bytes(500)), 0), stamped)
    made.finish()
    topic.end_commit(made, 0)
    seen = set()
    while not copy.is_whole or copy.topics["t"].log.next_offset == 1:
        exchange(primary, copy, nbytes=600)
        seen.add(copy.topics["t"].log.next_offset)
    assert seen == {1, 6}
    assert stored(copy.topics["t"].log) == stored(topic.log)


def test_a_commit_that_is_cut_off_comes_again() -> None:
    primary, copy = Primary(), new_copy()
    topic = primary.publish("t", b"before")
    until_whole(primary, copy)
    made = topic.begin_commit("w", 1, 0)
    for _ in range(3):
        made.add(unplaced(Bodies.single(bytes(500)), 0), stamped)
    made.finish()
    topic.end_commit(made, 0)
    exchange(primary, copy, nbytes=600)
    assert copy.topics["t"].held().next > 1
    copy.topics["t"].cancel_commit()
    assert copy.topics["t"].held().next == 1
    until_whole(primary, copy)
    assert stored(copy.topics["t"].log) == stored(topic.log)


def test_records_wait_for_what_they_refer_to() -> None:
    primary, copy = Primary(), new_copy()
    topic = primary.publish("t", b"1")
    until_whole(primary, copy)
    primary.publish("t", b"2")
    assert topic.journal.file is not None
    frames = topic.journal.file.frames_from(0, 1 << 20)
    of_t = copy.topics["t"]
    of_t.take_records(JournalPiece("t", topic.log.id_base, "new", 0, 0), frames)
    of_t.settle()
    assert of_t.is_waiting
    assert of_t.held().position == len(frames)
    until_whole(primary, copy)
    assert not of_t.is_waiting


def test_a_journal_that_comes_in_pieces_counts_when_all_of_it_is_here() -> None:
    primary, copy = Primary(), new_copy()
    topic = primary.publish("t", b"1")
    for name in range(10):
        topic.channel(f"channel-{name}")
    until_whole(primary, copy)
    topic.delete_channel("channel-0")
    assert topic.journal.file is not None
    frames = topic.journal.file.frames_from
    size = topic.journal.file.size
    of_t = copy.topics["t"]
    before = of_t.journal.size
    position = 0
    while position < size:
        assert of_t.journal.size == before
        piece = frames(position, size // 3)
        left = size - position - len(piece)
        of_t.take_records(JournalPiece("t", topic.log.id_base, "new", position, left), piece)
        position += len(piece)
        assert of_t.is_waiting
        assert of_t.held().position == position
        of_t.settle()
    assert not of_t.is_waiting
    assert read_frames(of_t.journal.frames_from(0, size), topic.log.id_base).records == (
        read_frames(frames(0, size), topic.log.id_base).records
    )


def test_what_the_primary_has_lost_is_passed_over_and_written_down() -> None:
    primary, copy = Primary(), new_copy()
    topic = primary.publish("t", b"1")
    until_whole(primary, copy)
    assert isinstance(topic.log, Log)
    topic.log.skip_to(4)
    until_whole(primary, copy)
    log = copy.topics["t"].log
    assert log.next_offset == 4
    assert list(log.damage.lost_ranges()) == [(1, 4)]
    assert not log.damage.pending


def bounds(queues: Queues, count: int) -> list[tuple[int, int]]:
    return [queues.bounds(queue) for queue in range(count)]


def test_the_index_of_several_queues_grows_with_the_copy_and_is_there_again() -> None:
    primary, copy = Primary(), new_copy()
    topic = primary.publish_to("t", 0, 0)
    until_whole(primary, copy)
    assert isinstance(copy.topics["t"].queues, OneQueue)
    primary.broker.split(topic, 3, 3)
    primary.publish_to("t", 2, 0, 2)
    until_whole(primary, copy)
    primary.publish_to("t", 1)
    until_whole(primary, copy)
    copied = copy.topics["t"].queues
    assert bounds(copied, 3) == bounds(topic.queues, 3) == [(0, 3), (0, 1), (0, 2)]
    assert list(copied.locate(2, 0, 9)) == [2, 4]
    disk = copy.store.disk
    copy.close()
    assert isinstance(disk, FaultyDisk)
    again = new_copy(disk)
    assert bounds(again.topics["t"].queues, 3) == bounds(topic.queues, 3)


def test_queues_of_a_log_that_has_lost_its_beginning_begin_where_the_primary_s_do() -> None:
    primary = Primary(file_bytes=2048)
    topic = primary.publish("t")
    primary.broker.split(topic, 3, 3)
    primary.publish_to("t", *[0, 1, 0] * 20, 2)
    topic.queues.secure(40)
    topic.log.trim(40, 0, Retention())
    topic.queues.trim()
    start = topic.log.start_offset
    assert 0 < start <= 40
    copy = new_copy()
    until_whole(primary, copy)
    copied = copy.topics["t"]
    assert copied.log.start_offset == start
    assert bounds(copied.queues, 3) == bounds(topic.queues, 3)
    assert copied.fault is None
    primary.publish_to("t", 1, 2)
    until_whole(primary, copy)
    assert bounds(copied.queues, 3) == bounds(topic.queues, 3)
    disk = copy.store.disk
    copy.close()
    assert isinstance(disk, FaultyDisk)
    again = new_copy(disk)
    assert not again.is_retaking
    assert bounds(again.topics["t"].queues, 3) == bounds(topic.queues, 3)


def test_no_messages_are_here_before_it_is_known_where_their_queues_begin() -> None:
    primary = Primary(file_bytes=2048)
    topic = primary.publish("t")
    primary.broker.split(topic, 2, 2)
    primary.publish_to("t", *[0, 1, 0] * 20)
    topic.queues.secure(40)
    topic.log.trim(40, 0, Retention())
    disk = FaultyDisk("/data")
    copy = new_copy(disk)
    exchange(primary, copy)
    disk.fail("rename", within="queues")
    with pytest.raises(StorageError):
        exchange(primary, copy)
    disk.crash("written")
    copy = new_copy(disk)
    until_whole(primary, copy)
    copied = copy.topics["t"]
    assert bounds(copied.queues, 2) == bounds(topic.queues, 2)
    assert copied.fault is None


@pytest.mark.parametrize("before", [30, 40])
def test_a_topic_gets_more_queues_when_the_primary_has_just_deleted_messages(before: int) -> None:
    primary, copy = Primary(file_bytes=1000), new_copy(file_bytes=1000)
    for _ in range(40):
        topic = primary.publish_to("t", 0)
        until_whole(primary, copy)
    topic.log.trim(before, 0, Retention())
    primary.broker.split(topic, 3, 3)
    primary.publish_to("t", 1, 0, 2)
    until_whole(primary, copy)
    copied = copy.topics["t"]
    assert bounds(copied.queues, 3) == [(0, 41), (0, 1), (0, 1)]
    primary.publish_to("t", 1)
    until_whole(primary, copy)
    assert copied.log.start_offset == topic.log.start_offset > 0
    assert bounds(copied.queues, 3) == bounds(topic.queues, 3)
    assert copied.fault is None


def test_what_is_deleted_is_in_the_index_first() -> None:
    primary, copy = Primary(file_bytes=2048), new_copy(file_bytes=2048)
    topic = primary.publish("t")
    primary.broker.split(topic, 2, 2)
    for _ in range(30):
        primary.publish_to("t", 0, 1)
        until_whole(primary, copy)
    topic.queues.secure(40)
    topic.log.trim(40, 0, Retention())
    topic.queues.trim()
    primary.publish_to("t", 1)
    until_whole(primary, copy)
    assert copy.topics["t"].log.start_offset == topic.log.start_offset > 0
    disk = copy.store.disk
    copy.close()
    assert isinstance(disk, FaultyDisk)
    again = new_copy(disk)
    assert not again.is_retaking
    assert bounds(again.topics["t"].queues, 2) == bounds(topic.queues, 2)


# --- A copy as a node that is only read ----------------------------------------------------------


class Heard:
    """What an observer of a broker is told."""

    def __init__(self) -> None:
        self.batches: list[tuple[str, int]] = []

    def appended(self, topic: str, batches: Sequence[Batch]) -> None:
        self.batches.append((topic, sum(each.count for each in batches)))


async def test_topics_are_shown_when_they_may_be_and_grow() -> None:
    primary, copy = Primary(), new_copy()
    options = NodeOptions()
    node = CopiedNode(copy, options, FakeClock(), Memory.of())
    heard = Heard()
    node.broker.observe(heard)
    primary.publish("t", b"1", b"2")
    until_whole(primary, copy)
    assert list(node.copied.grow(lambda name: False)) == []
    assert not node.broker.topics
    [topic] = node.copied.grow(lambda name: True)
    assert (topic.name, topic.log.next_offset) == ("t", 2)
    primary.publish("t", b"3")
    until_whole(primary, copy)
    assert list(node.copied.grow(lambda name: True)) == []
    assert heard.batches == [("t", 1)]
    assert topic.queues.bounds(0) == (0, 3)
    node.broker.split(topic, 4, 4)
    assert topic.queues.firsts is None
    primary.publish("t", b"4")
    until_whole(primary, copy)
    copy.topics["t"].log._tail.clear()  # as those of a long answer are not kept in memory
    cast(FaultyDisk, copy.store.disk).fail("read", within=".log")
    with pytest.raises(StorageError):
        list(node.copied.grow(lambda name: True))
    assert list(node.copied.grow(lambda name: True)) == []
    assert heard.batches == [("t", 1), ("t", 1)], "heard of once it can be read"
    primary.broker.delete_topic("t")
    until_whole(primary, copy)
    assert "t" not in node.broker.topics
    with pytest.raises(StorageError, match="a copy takes no messages"):
        node.broker.topic("t")
    node.topic_list.changed()
    await node.topic_list.write()
    node.topic_list.tick(0)


# --- The logs of a copy as topics that can only be read ------------------------------------------


def test_topics_come_and_go_with_the_copy() -> None:
    primary, copy = Primary(), new_copy()
    topics = CopiedTopics(copy, FakeClock())
    assert not list(topics)
    topic = primary.publish("t", b"1", b"2")
    until_whole(primary, copy)
    assert list(topics) == ["t"]
    read = NSQ_VIEW.read(topics["t"], 0, 0, 1 << 20)
    assert b"".join(read) == stored(topic.log)
    assert topics["t"] is topics["t"]
    primary.broker.delete_topic("t")
    primary.publish("t", b"other")
    before = topics["t"]
    until_whole(primary, copy)
    assert topics["t"] is not before
    last = weakref.ref(topics["t"])
    primary.broker.delete_topic("t")
    until_whole(primary, copy)
    gc.collect()
    assert last() is None  # with the newest messages of its log
    assert "t" not in topics
    assert len(topics) == 0
