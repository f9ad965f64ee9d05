"""Writers of a topic and their commits: what is committed is known while the topic lives."""

from __future__ import annotations

from contextlib import suppress

import pytest

from penstock.broker.dead_letters import Origins, decode_origins, encode_origins
from penstock.broker.progress import TopicSettings, WriterRecord
from penstock.broker.publish import writers
from penstock.broker.publish.bounds import TopicFullError
from penstock.broker.publish.commit import BatchPlace, unplaced
from penstock.broker.publish.writers import CommitNote, decode_commit, encode_commit
from penstock.broker.topic import Topic
from penstock.core.errors import DiskFullError, ExitingError, ReadOnlyError, StorageError
from penstock.core.units import SECOND
from penstock.nsq.nsqd.nsq_staging import stamped
from penstock.nsq.protocol.bodies import Bodies
from penstock.storage.batch import Batch, iter_batches
from penstock.storage.durability import Durability
from tests.unit.broker.conftest import Reader, World, log_of

JOURNAL = "/data/topics/t@0/cursors.journal"


def commit(
    topic: Topic, batch: int, *bodies: bytes, writer: str = "w", delays: tuple[int, ...] = (0,)
) -> None:
    """Commit these bodies once for each delay."""
    records = Bodies.from_list(bodies or (b"%d" % batch,))
    made = topic.begin_commit(writer, batch, 0)
    for delay in delays:
        made.add(unplaced(records, delay), stamped)
    made.finish()
    topic.end_commit(made, records.nbytes * len(delays))


def batches_of(topic: Topic) -> list[Batch]:
    log = log_of(topic)
    raws = log.read_raw(log.start_offset, 1 << 30)
    return [batch for raw in raws for batch in iter_batches(raw)]


def test_a_note_of_a_commit_is_none_of_dead_letters_nor_the_other_way_round() -> None:
    for name in ("w", "topic"):
        letters = encode_origins(Origins(name, "c", [1], [2]))
        assert decode_commit(letters) is None
    note = encode_commit("w", 7)
    assert decode_commit(note) == CommitNote("w", 7)
    assert decode_origins(note) is None
    assert decode_commit(b"") is None
    assert decode_commit(b"\xc1") is None


def test_a_commit_is_one_write_whose_last_batch_has_the_note(world: World) -> None:
    topic = world.topic
    commit(topic, 4, b"a", b"bb", delays=(0, SECOND, 0))
    first, second, third = batches_of(topic)
    assert [each.delay_ns for each in (first, second, third)] == [0, SECOND, 0]
    assert [(each.went_before, each.goes_on) for each in (first, second, third)] == [
        (False, True), (True, True), (True, False)
    ]  # fmt: skip
    assert not len(first.note)
    assert not len(second.note)
    assert decode_commit(third.note) == CommitNote("w", 4)
    assert (topic.message_count, topic.message_bytes) == (6, 9)


def test_batches_of_one_size_have_no_table_but_for_the_last(world: World) -> None:
    commit(world.topic, 0, b"aa", b"bb", delays=(0, SECOND))
    first, last = batches_of(world.topic)
    assert (first.stride, last.stride) == (36, 0)
    assert [bytes(last.slice(o, o + 1))[34:] for o in (2, 3)] == [b"aa", b"bb"]


def test_committed_messages_are_delivered_each_after_its_delay(world: World) -> None:
    reader = Reader(world, world.channel(), 9)
    commit(world.topic, 0, b"a", b"b", delays=(0, 3 * SECOND))
    assert reader.offsets() == [0, 1]
    world.wait(3 * SECOND)
    assert reader.offsets() == [2, 3]


def test_the_last_batch_of_each_writer_is_known(world: World) -> None:
    for batch in (1, 5):
        commit(world.topic, batch)
    commit(world.topic, 9, writer="v")
    known = world.topic.writers
    assert (known.last("w"), known.last("v"), known.last("u")) == (5, 9, None)
    assert [record.name for record in known] == ["w", "v"]


def test_the_last_commit_of_a_writer_says_where_it_ends_and_when_it_was(world: World) -> None:
    world.fill(2)
    world.clock.advance(SECOND)
    commit(world.topic, 5, b"a", b"b")
    made = world.topic.writers.record("w")
    assert made == WriterRecord("w", 5, 4, world.clock.wall_ns())
    assert world.topic.writers.record("v") is None


@pytest.mark.parametrize("is_saved", [False, True])
def test_what_was_committed_is_known_after_a_kill(world: World, is_saved: bool) -> None:
    commit(world.topic, 1)
    if is_saved:
        world.broker.save()
    commit(world.topic, 2, writer="v")
    world.kill()
    assert (world.topic.writers.last("w"), world.topic.writers.last("v")) == (1, 2)


def test_what_was_committed_is_known_when_retention_has_deleted_it() -> None:
    world = World(file_bytes=300)
    commit(world.topic, 7)
    channel = world.channel()
    world.fill(20)
    channel.empty()
    world.broker.save()
    world.broker.trim()
    assert world.topic.log.start_offset > 0
    for _ in range(2):
        world.kill()
        assert world.topic.writers.last("w") == 7


def test_a_commit_is_not_deleted_before_the_journal_has_it() -> None:
    world = World(file_bytes=300)
    world.fill(4)
    commit(world.topic, 7)
    channel = world.channel()
    world.fill(20)
    channel.empty()
    world.topic.writers._unwritten["w"] = 4  # as if no save had come since
    assert world.topic.floor() == 4
    world.broker.trim()
    assert world.topic.log.start_offset <= 4
    world.broker.save()
    assert world.topic.floor() == 25


def test_the_memory_survives_the_compaction_of_the_journal(world: World) -> None:
    commit(world.topic, 7)
    world.broker.save()
    world.topic.journal.write_whole()  # then all is written once more
    world.broker.save()
    world.kill()
    assert world.topic.writers.last("w") == 7


@pytest.mark.parametrize("seed", range(8))
def test_a_damaged_journal_is_made_up_for_by_the_notes(world: World, seed: int) -> None:
    commit(world.topic, 7)
    for _ in range(3):
        world.fill(1)
        world.broker.save()
    size = len(world.disk.content(JOURNAL))
    world.disk.crash("written")
    world.disk.flip(JOURNAL, 8 * size * seed // 8)
    world.open()
    assert world.topic.writers.last("w") == 7


def test_a_start_reads_the_log_for_commits_only_where_there_are_writers(world: World) -> None:
    world.fill(3)
    world.broker.save()
    world.fill(3)
    world.kill()
    assert not world.topic.writers.begun
    assert world.topic.writers.records(6, everything=True) == []
    commit(world.topic, 1)
    world.kill()
    assert world.topic.writers.begun


def test_the_oldest_writer_is_forgotten_beyond_the_limit(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writers, "WRITERS_MAX", 2)
    for batch, writer in enumerate("abac"):
        commit(world.topic, batch, writer=writer)
    for _ in range(2):
        assert [world.topic.writers.last(each) for each in "abc"] == [2, None, 3]
        world.broker.save()
        world.kill()


def test_a_full_disk_leaves_nothing_of_a_commit_and_the_next_try_is_right(world: World) -> None:
    commit(world.topic, 0)
    world.disk.fill(100)
    with pytest.raises(DiskFullError):
        commit(world.topic, 1, bytes(500), delays=(0, SECOND))
    assert (world.topic.writers.last("w"), world.topic.log.next_offset) == (0, 1)
    assert not world.topic.writers.pending
    world.disk.heal()
    commit(world.topic, 1, bytes(500), delays=(0, SECOND))
    assert (world.topic.writers.last("w"), world.topic.log.next_offset) == (1, 3)


def test_the_first_commit_waits_until_it_is_written_down_that_there_are_writers(
    world: World,
) -> None:
    topic = world.topic
    world.disk.fail("append", 1, within=".journal")
    with pytest.raises(StorageError, match="cannot write down that it has writers"):
        commit(topic, 0)
    assert topic.log.next_offset == 0
    commit(topic, 0)
    assert topic.writers.last("w") == 0


def test_a_topic_that_is_full_or_about_to_go_takes_no_commit(world: World) -> None:
    topic = world.topic
    topic.configure(TopicSettings(3))
    commit(topic, 0, b"a", b"b")
    with pytest.raises(TopicFullError):
        commit(topic, 1, b"c", b"d")
    assert (topic.refused_count, topic.writers.last("w")) == (2, 0)
    topic.exiting = True
    with pytest.raises(ExitingError):
        commit(topic, 2)


@pytest.mark.parametrize(("overflow", "left"), [("refuse", [2, 4, 4]), ("drop-oldest", [2, 4, 5])])
def test_commits_count_for_the_bounds_of_their_topic(
    world: World, overflow: str, left: list[int]
) -> None:
    topic = world.topic
    topic.configure(TopicSettings(5, overflow=overflow))
    for batch, expected in enumerate(left):
        with suppress(TopicFullError):
            commit(topic, batch, b"a", b"b")
        assert topic.depth == expected


def test_a_commit_to_a_log_that_has_failed_meanwhile_is_not_known(world: World) -> None:
    topic = world.topic
    made = topic.begin_commit("w", 1, 0)
    made.add(unplaced(Bodies.single(b"a"), 0), stamped)
    made.finish()
    world.disk.fail("sync", within=".log")
    with pytest.raises(StorageError):
        log_of(topic).sync(checkpoint=True)
    with pytest.raises(ReadOnlyError):
        topic.end_commit(made, 1)
    assert (topic.writers.last("w"), topic.writers.pending, topic.message_count) == (None, [], 0)


class FsyncWorld(World):
    def open(self) -> None:
        self.log_options.durability = Durability.FSYNC
        super().open()


def sync(topic: Topic) -> None:
    job = log_of(topic).begin_sync()
    assert job is not None
    job.run()
    topic.end_sync(None)


def test_at_fsync_a_commit_counts_when_it_is_synced() -> None:
    world = FsyncWorld()
    commit(world.topic, 1)
    world.broker.save()
    assert world.topic.writers.last("w") is None
    sync(world.topic)
    assert world.topic.writers.last("w") == 1


def test_a_commit_that_only_the_last_sync_shows_is_written_down() -> None:
    world = FsyncWorld()
    commit(world.topic, 1)
    world.restart()
    assert world.topic.writers.last("w") == 1


def test_a_commit_that_a_power_cut_has_taken_is_not_taken_for_done() -> None:
    """At the level write, where the journal may be synced and the log not."""
    world = World()
    commit(world.topic, 1)
    log_of(world.topic).sync()
    assert world.topic.journal.save_now()
    size = world.disk.synced(log_of(world.topic).segments[0].file.path)
    commit(world.topic, 2)
    assert world.topic.journal.save_now()
    path = log_of(world.topic).segments[0].file.path
    world.disk.crash("written")
    world.disk.cut(path, size)
    world.open()
    assert world.topic.writers.last("w") == 1
    for _ in range(2):  # what is synced later has nothing to do with it
        world.restart()
        assert world.topic.writers.last("w") == 1


def test_a_new_topic_of_the_same_name_knows_no_writers(world: World) -> None:
    commit(world.topic, 7)
    world.broker.save()
    world.broker.delete_topic("t")
    assert world.topic.writers.last("w") is None
    world.kill()
    assert world.topic.writers.last("w") is None


def test_an_empty_topic_still_knows_its_writers(world: World) -> None:
    commit(world.topic, 7)
    world.topic.empty()
    world.restart()
    assert world.topic.writers.last("w") == 7


def test_a_committed_message_that_is_spent_is_no_dead_letter_yet(world: World) -> None:
    channel = world.channel()
    channel.limit_attempts(1, "t.dead")
    commit(world.topic, 0, b"a")
    reader = Reader(world, channel, 9)
    assert reader.offsets() == [0]
    reader.requeue(0)
    parcel = channel.take_spent(world.now)
    assert parcel is not None
    assert len(parcel.frames) == 1


def test_a_commit_is_spread_over_the_queues_of_a_topic_and_stays_in_one_piece(
    world: World,
) -> None:
    topic = world.topic
    world.broker.split(topic, 3, 3)
    world.fill(2)
    commit(topic, 0, b"a", b"b", delays=(0, SECOND, 0, SECOND))
    found = batches_of(topic)[2:]
    assert [each.queue for each in found] == [2, 0, 1, 2]
    assert [each.goes_on for each in found] == [True, True, True, False]
    assert [topic.queues.bounds(queue) for queue in range(3)] == [(0, 3), (0, 3), (0, 4)]
    world.kill()
    world.broker.split(world.topic, 3, 3)
    bounds = [world.topic.queues.bounds(queue) for queue in range(3)]
    assert bounds == [(0, 3), (0, 3), (0, 4)]


# --- A commit on its way into the log; what it leaves behind is tested with the writers ----------


def test_an_unplaced_batch_has_its_messages_and_delay_and_no_place() -> None:
    for bodies in ([b"a", b"b"], [b"a", b"bb"]):
        batch = unplaced(Bodies.from_list(bodies), SECOND)
        assert (batch.first_offset, batch.first_id, batch.timestamp_ns) == (0, 0, 0)
        assert (batch.count, batch.delay_ns) == (2, SECOND)
        batch.verify()


def test_ids_go_on_with_each_batch(world: World) -> None:
    made = world.topic.begin_commit("w", 0, 0)
    base = log_of(world.topic).id_base
    assert made.next_id == base
    made.add(unplaced(Bodies.from_list([b"a", b"b"]), 0), stamped)
    assert made.next_id == base + 2
    made.add(unplaced(Bodies.single(b"c"), 0), stamped)
    assert made.next_id == base + 3


def test_batches_of_a_commit_take_turns_over_the_queues(world: World) -> None:
    topic = world.topic
    topic.spread = 3
    made = topic.begin_commit("w", 0, 0)
    for _ in range(4):
        made.add(unplaced(Bodies.single(b"a"), 0), stamped)
    made.finish()
    first, *others = [batch.queue for batch in made.written.batches]
    assert others == [(first + turn) % 3 for turn in (1, 2, 3)]


def test_batches_of_a_shard_stay_in_their_queue_and_know_their_offsets(world: World) -> None:
    topic = world.topic
    topic.spread = 3
    made = topic.begin_commit("w", 0, 0)
    spots = []

    def note(batch: Batch, spot: BatchPlace) -> int:
        spots.append((spot.queue, spot.queue_offset))
        return 5

    for shard in (1, 2, 1, 5, 3, 1):
        assert made.add(unplaced(Bodies.from_list([b"a", b"b"]), 0, shard), note) == 5
    assert spots == [(0, 0), (1, 0), (0, 2), (1, 2), (2, 0), (0, 4)]
    made.finish()
    assert [batch.queue for batch in made.written.batches] == [0, 1, 0, 1, 2, 0]


def test_a_commit_that_ends_when_its_topic_does_is_cut_off(world: World) -> None:
    topic = world.topic
    made = topic.begin_commit("w", 0, 0)
    made.add(unplaced(Bodies.single(b"a"), 0), stamped)
    made.finish()
    topic.exiting = True
    with pytest.raises(ExitingError):
        topic.end_commit(made, 1)
    with pytest.raises(ExitingError):
        topic.begin_commit("w", 0, 0)
    assert log_of(topic).segments[-1].file.read(0, 100) == b""


def test_a_disk_that_fills_up_leaves_nothing_of_a_commit(world: World) -> None:
    made = world.topic.begin_commit("w", 0, 0)
    made.add(unplaced(Bodies.single(b"a"), 0), stamped)
    world.disk.fill(10)
    with pytest.raises(DiskFullError):
        made.finish()
    made.cancel()
    assert log_of(world.topic).segments[-1].file.read(0, 100) == b""
