"""A data path that becomes a copy: what it takes, refuses, deletes and puts aside."""

from __future__ import annotations

import pytest

from penstock.broker.broker import Broker, BrokerOptions
from penstock.core.chance import SystemChance
from penstock.node.metadata import describe
from penstock.replication.copy import Copy, small_files
from penstock.replication.feed import Source
from penstock.replication.messages import Hello, ReplicationError
from penstock.storage.durability import Durability
from penstock.storage.log import LogOptions
from penstock.storage.store import Store
from penstock.testing.clock import FakeClock
from penstock.testing.disk import FaultyDisk
from tests.unit.replication.pieces import (
    HELLO,
    Primary,
    exchange,
    new_copy,
    stored,
    until_whole,
)


def test_a_copy_opened_again_goes_on_where_it_was() -> None:
    primary, copy = Primary(), new_copy()
    primary.publish("t", b"1", b"2")
    until_whole(primary, copy)
    disk = copy.store.disk
    copy.close()
    topic = primary.publish("t", b"3")
    again = new_copy(disk)  # type: ignore[arg-type]
    assert again.topics["t"].log.next_offset == 2
    until_whole(primary, again)
    assert stored(again.topics["t"].log) == stored(topic.log)


@pytest.mark.parametrize("segment", [0, 1, 2])
def test_messages_that_a_power_cut_took_before_later_ones_are_copied_again(segment: int) -> None:
    primary, copy = Primary(file_bytes=2048), new_copy(file_bytes=2048)
    topic = primary.publish("t", *[bytes(100)] * 60)
    until_whole(primary, copy, nbytes=700)
    disk = copy.store.disk
    assert isinstance(disk, FaultyDisk)
    disk.crash("written")
    paths = sorted(disk.paths(".log"))
    assert len(paths) > segment + 1
    disk.open(paths[segment]).truncate(0)
    again = new_copy(disk, file_bytes=2048)
    assert again.is_retaking
    until_whole(primary, again)
    assert stored(again.topics["t"].log) == stored(topic.log)


def test_small_files_are_written_once_all_that_they_name_is_here() -> None:
    primary, copy = Primary(), new_copy()
    primary.publish("t", *[bytes(1000)] * 5)
    primary.files = {"nsqd.dat": b"names", "../elsewhere": b"no"}
    exchange(primary, copy)
    exchange(primary, copy, nbytes=1500)
    assert copy.store.read_file("nsqd.dat") is None
    primary.files.pop("../elsewhere")
    until_whole(primary, copy)
    assert copy.store.read_file("nsqd.dat") == b"names"
    assert copy.store.read_file("../elsewhere") is None


def test_what_the_primary_deletes_is_deleted_and_a_new_topic_of_the_name_is_another() -> None:
    primary, copy = Primary(), new_copy()
    primary.publish("t", b"1")
    until_whole(primary, copy)
    primary.broker.delete_topic("t")
    topic = primary.publish("t", b"other")
    until_whole(primary, copy)
    assert copy.topics["t"].log.id_base == topic.log.id_base
    assert stored(copy.topics["t"].log) == stored(topic.log)
    assert copy.put_aside == {}


def test_a_log_with_more_than_the_primary_is_put_aside_and_copied_again() -> None:
    primary, copy = Primary(), new_copy()
    topic = primary.publish("t", b"1", b"2")
    until_whole(primary, copy)
    copy.topics["t"].log.skip_to(5)
    copy.begin_run(HELLO)
    copy.moment = "now"
    until_whole(primary, copy)
    assert copy.put_aside == {"t": 3}
    assert stored(copy.topics["t"].log) == stored(topic.log)
    assert any("/aside/now/topics/t@0/" in path for path in copy.store.disk.paths())  # type: ignore[attr-defined]


def test_a_topic_that_a_new_primary_never_had_is_put_aside_not_deleted() -> None:
    primary, copy = Primary(), new_copy()
    primary.publish("t", b"1")
    until_whole(primary, copy)
    copy.close()
    copy = new_copy(copy.store.disk)  # type: ignore[arg-type]
    successor = Primary()
    successor.publish("u", b"1")
    copy.never_drop = True
    until_whole(successor, copy)
    assert copy.topics.keys() == {"u"}
    assert copy.put_aside == {"t": 1}


def test_a_data_path_with_messages_of_its_own_is_refused_before_anything_is_changed() -> None:
    primary, copy = Primary(), new_copy()
    primary.publish("mine", b"1")
    until_whole(primary, copy)
    stranger = Primary()
    stranger.publish("t", b"1")
    copy.refuse_foreign = True
    copy.begin_run(HELLO)
    with pytest.raises(ReplicationError, match="such as mine"):
        exchange(stranger, copy)
    assert copy.topics.keys() == {"mine"}


def test_what_the_primary_has_deleted_since_a_backup_is_put_aside() -> None:
    primary, copy = Primary(), new_copy()
    primary.publish("deleted", b"1")
    primary.publish("t", b"1")
    until_whole(primary, copy)
    primary.broker.delete_topic("deleted")
    copy.refuse_foreign = copy.never_drop = True
    copy.begin_run(HELLO)
    until_whole(primary, copy)
    assert copy.topics.keys() == {"t"}
    assert copy.put_aside == {"deleted": 1}


def test_an_answer_to_an_earlier_request_is_refused() -> None:
    primary, copy = Primary(), new_copy()
    primary.publish("t", b"1")
    exchange(primary, copy)
    answer = primary.answer(copy)
    copy.request("history", 1, 100)
    with pytest.raises(ReplicationError, match="earlier request"):
        copy.take(answer)


def test_a_copy_that_retention_has_overtaken_begins_at_the_primary_s_start() -> None:
    primary, copy = Primary(file_bytes=2000), new_copy(file_bytes=2000)
    primary.publish("t", b"1")
    until_whole(primary, copy)
    topic = primary.publish("t", *[bytes(900)] * 10)
    topic.channel("c")
    topic.skip_to(topic.log.next_offset)
    for channel in topic.channels.values():
        channel.empty()
    primary.broker.save()
    primary.broker.trim()
    assert topic.log.start_offset > 1
    until_whole(primary, copy)
    assert copy.topics["t"].log.start_offset == topic.log.start_offset
    assert stored(copy.topics["t"].log) == stored(topic.log)
    assert not list(copy.topics["t"].log.damage.lost_ranges())


def test_a_topic_that_is_begun_again_is_whole_with_its_journal_alone() -> None:
    primary, disk = Primary(file_bytes=2000), FaultyDisk("/data")
    copy = new_copy(disk, file_bytes=2000)
    primary.publish("t", b"1").channel("c")
    until_whole(primary, copy)
    topic = primary.publish("t", *[bytes(900)] * 10)
    topic.channels["c"].empty()
    primary.broker.save()
    primary.broker.trim()
    assert topic.log.start_offset > 1
    primary.files = {"nsqd.dat": describe(primary.broker)}
    until_whole(primary, copy)
    disk.crash("written")
    promoted = Broker(Store(disk, "/data", LogOptions(2000)), FakeClock(), SystemChance(1),
                      BrokerOptions()).topics["t"]  # fmt: skip
    assert promoted.channels["c"].state.depth == 0


def test_tables_of_rocketmq_are_copied_and_no_other_file_is() -> None:
    primary, copy = Primary(), new_copy()
    primary.files = {"config/topics.json": b"{}", "config/broker.properties": b"listenPort=1",
                     "config/../nsqd.dat": b"{}", "../passwd": b"x", "rocketmq-serials.json": b"{}",
                     "other/topics.json": b"{}"}  # fmt: skip
    until_whole(primary, copy)
    assert copy.changed_files == {"config/topics.json", "rocketmq-serials.json"}
    assert small_files(copy.store) == {
        "config/topics.json": b"{}", "rocketmq-serials.json": b"{}",
    }  # fmt: skip
    primary.files["config/topics.json"] = b"{ }"
    copy.changed_files.clear()
    until_whole(primary, copy)
    assert copy.changed_files == {"config/topics.json"}
    assert small_files(copy.store)["config/topics.json"] == b"{ }"


def test_who_reads_a_topic_hears_before_its_files_go() -> None:
    primary, copy = Primary(), new_copy()
    primary.publish("t", b"1")
    until_whole(primary, copy)
    left: list[str] = []
    copy.leaving.append(left.append)
    primary.broker.delete_topic("t")
    until_whole(primary, copy)
    assert left == ["t"]


def test_a_table_waits_until_the_messages_that_it_may_refer_to_are_kept() -> None:
    primary = Primary()
    copy = Copy(Store(FaultyDisk("/data"), "/data", LogOptions(durability=Durability.FSYNC)))
    primary.publish("t", b"1")
    until_whole_and_synced(primary, copy)
    primary.publish("t", b"2")
    primary.files = {"config/delayOffset.json": b"{}"}
    exchange(primary, copy)
    assert not copy.changed_files
    copy.topics["t"].log.sync()
    copy.settle()
    assert copy.changed_files == {"config/delayOffset.json"}


def until_whole_and_synced(primary: Primary, copy: Copy) -> None:
    while not copy.is_whole:
        exchange(primary, copy)
        copy.sync()
        copy.settle()


def test_a_node_that_steps_back_hands_over_topics_that_have_lost_messages() -> None:
    """Were they put aside there, its successor would take them for deleted."""
    primary, copy = Primary(), new_copy()
    topic = primary.publish("t", b"0", b"1")
    topic.log.sync()  # type: ignore[union-attr]
    topic.log.skip_to(3)  # type: ignore[union-attr]
    primary.publish("t", b"3")
    until_whole(primary, copy)
    last = primary.publish("t", b"4").log
    primary.broker.close()
    store = Store(primary.disk, "/data", LogOptions())
    fenced = Copy(store, never_drop=True)
    assert (fenced.topics.keys(), fenced.put_aside) == ({"t"}, {})
    primary.source = Source(fenced.served, dict, Hello("another run", "history", 1))
    until_whole(primary, copy)
    assert copy.topics["t"].log.id_base == last.id_base
    assert copy.topics["t"].log.next_offset == last.next_offset == 5


def test_of_a_damaged_topic_nobody_says_that_the_primary_lacks_its_messages(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """An old primary that comes back has not heard yet what its successor has."""
    primary = Primary()
    topic = primary.publish("t", b"0", b"1")
    topic.log.sync()  # type: ignore[union-attr]
    topic.log.skip_to(3)  # type: ignore[union-attr]
    primary.broker.close()
    caplog.clear()
    returned = Copy(Store(primary.disk, "/data", LogOptions()), never_drop=True)
    returned.begin_run(Hello("another run", "history", 2, {"t": (topic.log.id_base, 3)}))
    assert (returned.topics, returned.put_aside, returned.is_retaking) == ({}, {}, True)
    assert any("/aside/" in path for path in primary.disk.paths())
    assert "the damaged copy is taken again" in caplog.text
    assert "that the primary has not" not in caplog.text


def damaged_copy(primary: Primary) -> Copy:
    """A copy of a topic that has lost the first of three messages."""
    copy = new_copy()
    primary.publish("t", b"1", b"2", b"3")
    until_whole(primary, copy)
    disk = copy.store.disk
    assert isinstance(disk, FaultyDisk)
    copy.close()
    (path,) = disk.paths(".log")
    disk.flip(path, 70)
    disk.remove(path.removesuffix(".log") + ".index")
    return new_copy(disk)


def test_what_is_left_of_a_damaged_copy_stays_until_the_primary_answers() -> None:
    """If that is gone for good, there is nothing else."""
    primary = Primary()
    copy = damaged_copy(primary)
    assert copy.is_retaking
    log = copy.topics["t"].log
    assert (log.read_raw(0, 1 << 20) != [], log.next_offset) == (True, 3)
    until_whole(primary, copy)
    assert (copy.is_retaking, copy.put_aside) == (False, {})
    assert stored(copy.topics["t"].log) == stored(primary.broker.topics["t"].log)


def test_a_damaged_data_path_of_its_own_is_refused_before_anything_is_changed() -> None:
    copy = damaged_copy(Primary())
    stranger = Primary()
    stranger.publish("u", b"1")
    copy.refuse_foreign = copy.never_drop = True
    exchange(stranger, copy)
    with pytest.raises(ReplicationError, match="such as t"):
        exchange(stranger, copy)
    assert copy.topics.keys() == {"t"}


def test_a_damaged_topic_of_a_backup_is_copied_again() -> None:
    primary = Primary()
    copy = damaged_copy(primary)
    copy.refuse_foreign = copy.never_drop = True
    primary.publish("t", b"4")
    until_whole(primary, copy)
    assert stored(copy.topics["t"].log) == stored(primary.broker.topics["t"].log)
    assert not copy.topics["t"].log.damage.known


@pytest.mark.parametrize("seed", range(12))
def test_a_channel_that_nsqd_dat_names_is_in_the_journal_after_a_power_cut(seed: int) -> None:
    primary, disk = Primary(), FaultyDisk("/data")
    copy = new_copy(disk)
    topic = primary.publish("t", b"1")
    until_whole(primary, copy)
    topic.channel("c")
    primary.broker.save()
    primary.files = {"nsqd.dat": describe(primary.broker)}
    until_whole(primary, copy)
    until_whole(primary, copy)
    assert copy.store.read_file("nsqd.dat") == primary.files["nsqd.dat"]
    disk.crash(SystemChance(seed))
    store = Store(disk, "/data", LogOptions())
    assert "c" in Broker(store, FakeClock(), SystemChance(1), BrokerOptions()).topics["t"].channels
