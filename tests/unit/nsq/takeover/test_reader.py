"""Reading a queue of Go's nsqd: in chunks, around damage, never losing what can be read."""

from __future__ import annotations

import pytest

from penstock.core.errors import ConfigError, StorageError
from penstock.nsq.takeover.diskqueue import find_queues
from penstock.nsq.takeover.reader import QueueReader
from penstock.testing.disk import FaultyDisk
from tools.harness.go_files import DATA, MESSAGE_MAX, Message, data, disk_with, messages, queue


def reader(disk: FaultyDisk, message_max: int = MESSAGE_MAX) -> QueueReader:
    (files,) = find_queues(disk.list(DATA))
    return QueueReader(disk, DATA, files, message_max)


def bodies(found: QueueReader, nbytes: int = 1 << 20) -> list[bytes]:
    return [identity[28:] for records in found.chunks(nbytes) for identity in records.identities()]


def texts(*found: list[Message]) -> list[bytes]:
    return [message.body for each in found for message in each]


@pytest.mark.parametrize("nbytes", [1, 10, 60, 1 << 20])
def test_files_are_read_in_their_order(nbytes: int, caplog: pytest.LogCaptureFixture) -> None:
    one, two = messages(range(9)), messages(range(9, 15), size=7)
    done = len(data(one[:2]))
    made = reader(disk_with(queue("t", one, two, first=999_999, read=(999_999, done))))
    assert made.nbytes == len(data(one[2:] + two))
    assert bodies(made, nbytes) == texts(one[2:], two)
    assert made.damaged == []
    assert [r.message for r in caplog.records] == [
        "IMPORT: queue t: holds 13 messages, 15 by its meta file"
    ]


def test_what_was_not_synced_is_salvaged(caplog: pytest.LogCaptureFixture) -> None:
    found = messages(range(6))
    made = reader(disk_with(queue("t", found, unsynced=2 * len(data(found[:1])))))
    assert bodies(made) == texts(found)
    assert not caplog.records


def test_without_a_meta_file_all_is_read() -> None:
    disk = disk_with(queue("t", messages(range(3)), messages(range(3, 5))))
    disk.remove(f"{DATA}/t.diskqueue.meta.dat")
    assert bodies(reader(disk)) == texts(messages(range(5)))


def test_a_meta_file_that_makes_no_sense_is_none(caplog: pytest.LogCaptureFixture) -> None:
    disk = disk_with(queue("t", messages(range(3))), {"t.diskqueue.meta.dat": b"\0\0\0"})
    assert bodies(reader(disk)) == texts(messages(range(3)))
    assert "t.diskqueue.meta.dat makes no sense" in caplog.text


def test_a_torn_end_and_a_missing_file(caplog: pytest.LogCaptureFixture) -> None:
    one, three = messages(range(4)), messages(range(6, 8))
    disk = disk_with(queue("t", one, messages([5]), three))
    disk.cut(f"{DATA}/t.diskqueue.000000.dat", len(data(one)) - 5)
    disk.remove(f"{DATA}/t.diskqueue.000001.dat")
    made = reader(disk)
    assert bodies(made) == texts(one[:3], three)
    assert made.damaged == ["t.diskqueue.000000.dat"]
    assert "t.diskqueue.000001.dat should be there and cannot be found" in caplog.text
    assert "000000.dat ends in the middle of a record at byte 150; what is before" in caplog.text
    assert "the 45 bytes from there on are not" in caplog.text
    assert "holds 5 messages, 7 by its meta file" in caplog.text


@pytest.mark.parametrize("nbytes", [1, 1 << 20])
def test_behind_damage_the_next_file_follows(nbytes: int, caplog: pytest.LogCaptureFixture) -> None:
    one, two = messages(range(4)), messages(range(4, 6))
    disk = disk_with(queue("t", one, two))
    disk.overwrite(f"{DATA}/t.diskqueue.000000.dat", b"\x7f\xff\xff\xff", len(data(one[:1])))
    made = reader(disk)
    assert bodies(made, nbytes) == texts(one[:1], two)
    assert made.damaged == ["t.diskqueue.000000.dat"]
    assert "has a record with the impossible length 2147483647 at byte 50" in caplog.text
    assert "the 150 bytes from there on are not" in caplog.text


@pytest.mark.parametrize("nbytes", [1, 1 << 20])
def test_a_message_above_the_limit_of_now_is_no_damage(nbytes: int) -> None:
    found = [*messages([1]), *messages([2], size=MESSAGE_MAX + 1), *messages([3])]
    made = reader(disk_with(queue("t", found)))
    with pytest.raises(ConfigError) as refused:
        bodies(made, nbytes)
    assert str(refused.value) == (
        "/data/t.diskqueue.000000.dat holds a message of 1025 bytes, more than --max-msg-size "
        "1024: start with --max-msg-size=1025 or more"
    )
    assert bodies(reader(disk_with(queue("t", found)), 1025), nbytes) == texts(found)


def test_a_length_beyond_the_file_is_damage() -> None:
    found = messages([1, 2])
    disk = disk_with(queue("t", found))
    disk.overwrite(f"{DATA}/t.diskqueue.000000.dat", (5000).to_bytes(4, "big"), 50)
    made = reader(disk)
    assert bodies(made) == texts(found[:1])
    assert made.damaged


def test_a_disk_that_cannot_be_read_is_told() -> None:
    disk = disk_with(queue("t", messages(range(3))))
    made = reader(disk)
    disk.fail("read", within="000000.dat")
    with pytest.raises(StorageError, match=r"t\.diskqueue\.000000\.dat"):
        bodies(made)
