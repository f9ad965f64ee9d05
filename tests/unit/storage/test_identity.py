"""What a queue and a node are known by: the identity of a queue, ids that are taken, epochs."""

from __future__ import annotations

import re

import pytest

from penstock.core.chance import SystemChance
from penstock.core.errors import LaterFormatError, StorageError
from penstock.core.ids import COUNTER_MAX, Epoch, epochs_of, fork, id_base
from penstock.storage import identity
from penstock.storage.batch import Batch
from penstock.storage.durability import Durability
from penstock.storage.epochs import EPOCHS_MAX, LogEpochs
from penstock.storage.extent import NOTHING
from penstock.storage.identity import note_journal, read_identity, segments_in
from penstock.storage.journal import JOURNAL_FILE, Journal
from penstock.storage.journal_frames import encode_frames, mark
from penstock.storage.taken_ids import TakenIds
from penstock.testing.disk import FaultyDisk
from tests.unit.storage.logs import (
    DIRECTORY,
    ID_BASE,
    everything,
    fill,
    frames,
    new_disk,
    new_log,
    reopen,
)

FIRST = f"{DIRECTORY}/{0:020d}.log"
IDENTITY = f"{DIRECTORY}/queue.json"


@pytest.mark.parametrize(
    "spoil",
    [
        None,
        b"",
        b"{",
        b'{"id_base":"x"}',
        b'{"id_base":-1}',
        b'{"id_base":9223372036854775808}',
        b'{"id_base":5001}',
    ],
)
def test_a_lost_identity_is_taken_from_the_messages(spoil: bytes | None) -> None:
    disk = new_disk()
    written = fill(new_log(disk, max_bytes_per_file=150), 1, 1)
    disk.cut(FIRST, 70)  # the first segment tells nothing
    if spoil is None:
        disk.remove(IDENTITY)
    else:
        disk.replace_file(IDENTITY, spoil)
    log, _ = reopen(disk, id_base=99)
    assert log.id_base == ID_BASE
    assert everything(log) == frames(written[1:])
    assert reopen(disk, id_base=98)[0].id_base == ID_BASE


@pytest.mark.parametrize("is_planted", [False, True])
def test_a_first_batch_longer_than_a_window_tells_the_identity(
    monkeypatch: pytest.MonkeyPatch, is_planted: bool
) -> None:
    """Whatever a batch of another queue in its body says."""
    monkeypatch.setattr(identity, "WINDOW_BYTES", 100)
    disk = new_disk()
    log = new_log(disk)
    if is_planted:
        planted = bytes(Batch.build(7, 99, 1, 1, 1, [b"x"]).raw) + bytes(500)
        written = [Batch.build(0, ID_BASE, 1, 1, len(planted), [planted])]
        log.append(written)
    else:
        written = fill(log, 20, 20)
    disk.remove(IDENTITY)
    log, _ = reopen(disk, id_base=99)
    assert log.id_base == ID_BASE
    assert everything(log) == frames(written)


@pytest.mark.parametrize(("journal_of", "found"), [(ID_BASE, ID_BASE), (ID_BASE + 7, ID_BASE + 7)])
def test_the_journal_says_whose_identity_it_is_where_no_segment_bears_it_out(
    journal_of: int, found: int
) -> None:
    disk = new_disk()
    fill(new_log(disk), 1)  # its messages have ids from ID_BASE on
    disk.replace_file(IDENTITY, b'{"id_base":%d,"version":2}' % (ID_BASE + 7))
    disk.replace_file(f"{DIRECTORY}/{JOURNAL_FILE}", mark(journal_of, NOTHING))
    assert read_identity(disk, DIRECTORY, 99).id_base == found


def test_a_queue_without_identity_and_messages_is_new() -> None:
    disk = new_disk()
    new_log(disk)
    disk.remove(IDENTITY)
    assert reopen(disk, id_base=99)[0].id_base == 99


@pytest.mark.parametrize("spoiled", [None, b"{"])
def test_a_queue_without_messages_is_named_by_its_journal(spoiled: bytes | None) -> None:
    disk = new_disk()
    new_log(disk)
    path = f"{DIRECTORY}/{JOURNAL_FILE}"
    disk.replace_file(path, encode_frames([b"a"], ID_BASE, NOTHING) + mark(ID_BASE, NOTHING))
    disk.remove(IDENTITY)
    if spoiled is not None:
        disk.replace_file(IDENTITY, spoiled)
    assert reopen(disk, id_base=99)[0].id_base == ID_BASE
    assert Journal(disk, path, ID_BASE).records == [b"a"]


def test_a_journal_of_several_queues_names_none() -> None:
    disk = new_disk()
    new_log(disk)
    frames_of_two = mark(ID_BASE, NOTHING) + mark(ID_BASE + 7, NOTHING)
    disk.replace_file(f"{DIRECTORY}/{JOURNAL_FILE}", frames_of_two)
    disk.remove(IDENTITY)
    assert reopen(disk, id_base=99)[0].id_base == 99


def test_a_new_queue_has_its_journal_before_its_first_segment() -> None:
    disk = FaultyDisk("/data", DIRECTORY)
    assert read_identity(disk, DIRECTORY, 9).has_journal
    assert read_identity(disk, DIRECTORY, 10).id_base == 9


def test_one_of_an_earlier_version_has_a_journal_from_when_that_is_noted() -> None:
    disk = FaultyDisk("/data", DIRECTORY)
    disk.replace_file(IDENTITY, b'{"id_base":9,"version":1}')
    identity = read_identity(disk, DIRECTORY, 10)
    assert not identity.has_journal
    note_journal(disk, DIRECTORY, identity)
    assert disk.content(IDENTITY) == b'{"id_base":9,"version":2}'
    note_journal(disk, DIRECTORY, identity)
    assert read_identity(disk, DIRECTORY, 10).has_journal


def test_segments_are_listed_in_order() -> None:
    disk = FaultyDisk("/data", DIRECTORY)
    for first in (7, 0, 3):
        disk.replace_file(f"{DIRECTORY}/{first:020d}.log", b"")
    disk.replace_file(f"{DIRECTORY}/notes.log", b"")
    assert segments_in(disk, DIRECTORY) == [0, 3, 7]


# --- The ids of deleted queues, which no later queue gets ----------------------------------------


NODE = 3
WALL = 1_700_000_000_000_000_000
WALL_BASE = id_base(NODE, WALL)
TAKEN = "/data/ids.json"


@pytest.fixture
def disk() -> FaultyDisk:
    return FaultyDisk("/data")


def test_a_new_queue_begins_with_the_time(disk: FaultyDisk) -> None:
    taken = TakenIds(disk, "/data")
    assert taken.new_base(NODE, WALL) == WALL_BASE
    taken.take(WALL_BASE + 5, durably=True)
    assert taken.new_base(NODE, WALL + 10**9) == WALL_BASE + 10**6


@pytest.mark.parametrize("given", [0, 1, 10**6])
@pytest.mark.parametrize("set_back_ns", [0, 10**9, WALL])
def test_a_deleted_queues_ids_are_not_given_again_whatever_the_clock_says(
    disk: FaultyDisk, given: int, set_back_ns: int
) -> None:
    TakenIds(disk, "/data").take(WALL_BASE + given, durably=True)
    disk.crash(SystemChance())  # a power cut
    assert TakenIds(disk, "/data").new_base(NODE, WALL - set_back_ns) == WALL_BASE + given + 1


def test_what_was_taken_stays_taken(disk: FaultyDisk) -> None:
    taken = TakenIds(disk, "/data")
    taken.take(WALL_BASE + 7, durably=True)
    taken.take(WALL_BASE + 2, durably=True)
    assert TakenIds(disk, "/data").new_base(NODE, 0) == WALL_BASE + 8


def test_another_node_id_keeps_its_bits(disk: FaultyDisk) -> None:
    taken = TakenIds(disk, "/data")
    taken.take(WALL_BASE, durably=True)
    assert taken.new_base(NODE + 1, 0) == id_base(NODE + 1, WALL) + 1
    taken.take(id_base(NODE, 0) + COUNTER_MAX, durably=True)
    assert TakenIds(disk, "/data").new_base(NODE, 0) == id_base(NODE, 0) + COUNTER_MAX


def test_ids_of_what_is_in_memory_only_are_taken_until_the_end(disk: FaultyDisk) -> None:
    taken = TakenIds(disk, "/data")
    taken.take(WALL_BASE, durably=False)
    assert taken.new_base(NODE, WALL) == WALL_BASE + 1
    assert disk.paths() == []


def test_a_full_disk_refuses_no_deletion(
    disk: FaultyDisk, caplog: pytest.LogCaptureFixture
) -> None:
    taken = TakenIds(disk, "/data")
    disk.fill()
    taken.take(WALL_BASE, durably=True)
    assert "cannot write down the ids of a deleted topic - /data/ids.json: " in caplog.text
    assert taken.new_base(NODE, WALL) == WALL_BASE + 1


@pytest.mark.parametrize("spoiled", [b"", b"{", b"[]", b'{"least":-1}', b'{"least":1e30}'])
def test_a_damaged_file_is_named_and_counts_as_missing(
    disk: FaultyDisk, spoiled: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    disk.replace_file(TAKEN, spoiled)
    taken = TakenIds(disk, "/data")
    assert f"{TAKEN}: " in caplog.text
    assert taken.new_base(NODE, WALL) == WALL_BASE
    taken.take(WALL_BASE, durably=True)
    assert TakenIds(disk, "/data").new_base(NODE, WALL) == WALL_BASE + 1


# --- The epochs of logs: where they went on with other messages than before ----------------------


BASE = 0x0A61_B2C3_D4E5_F607
PLAIN = "0a61b2c3d4e5f607"


def test_a_data_path_that_was_never_restored_has_no_file_and_the_ids_of_before(
    disk: FaultyDisk,
) -> None:
    epochs = LogEpochs(disk, "/data")
    epochs.opened({"t": (BASE, 7)})
    assert epochs.log_id("t", BASE) == PLAIN
    assert disk.list("/data") == []


def test_an_epoch_begins_where_the_logs_end_when_they_are_opened(disk: FaultyDisk) -> None:
    LogEpochs(disk, "/data").restored()
    assert LogEpochs(disk, "/data").log_id("t", BASE) == PLAIN
    LogEpochs(disk, "/data").opened({"t": (BASE, 1500), "u": (5, 0)})
    again = LogEpochs(disk, "/data")
    again.opened({"t": (BASE, 2000)})
    told = again.log_id("t", BASE)
    assert re.fullmatch(rf"{PLAIN}-5dc\.[0-9a-f]{{8}}", told)
    # A topic that was made again, or is new, has none.
    assert again.log_id("t", BASE + 1) == "0a61b2c3d4e5f608"
    assert again.log_id("v", BASE) == PLAIN
    # A reader of queues counts otherwise.
    assert epochs_of(again.log_id("t", BASE, lambda offset: offset // 4))[0].first == 375


def test_each_restore_is_another_epoch(disk: FaultyDisk) -> None:
    ids = []
    for end in (1500, 1500, 1700):
        LogEpochs(disk, "/data").restored()
        epochs = LogEpochs(disk, "/data")
        epochs.opened({"t": (BASE, end)})
        ids.append(epochs.log_id("t", BASE))
    assert [each.first for each in epochs_of(ids[2])] == [1500, 1500, 1700]
    assert ids[2].startswith(ids[1])
    assert fork(ids[1], ids[2]) == (1700, True)
    assert fork(PLAIN, ids[2]) == (1500, True)


def test_the_oldest_epochs_are_forgotten(disk: FaultyDisk) -> None:
    epochs = LogEpochs(disk, "/data")
    for end in range(EPOCHS_MAX + 5):
        epochs.promoted({"t": (BASE, end)})
    told = epochs_of(LogEpochs(disk, "/data").log_id("t", BASE))
    assert [each.first for each in told] == list(range(5, EPOCHS_MAX + 5))


def test_a_copy_that_becomes_primary_counts_from_its_ends(disk: FaultyDisk) -> None:
    epochs = LogEpochs(disk, "/data")
    epochs.restored()  # it was set up from a backup of the primary, and has copied it since
    epochs.promoted({"t": (BASE, 10)})
    (epoch,) = epochs_of(LogEpochs(disk, "/data").log_id("t", BASE))
    assert epoch == Epoch(10, epoch.mark, restored=False)


def test_an_epoch_is_taken_back(disk: FaultyDisk) -> None:
    epochs = LogEpochs(disk, "/data")
    epochs.restored()
    epochs.opened({"t": (BASE, 5)})
    before = epochs.log_id("t", BASE)
    take_back = epochs.promoted({"t": (BASE, 10)})
    assert epochs.log_id("t", BASE) != before
    take_back()
    assert epochs.log_id("t", BASE) == LogEpochs(disk, "/data").log_id("t", BASE) == before


def test_an_epoch_that_cannot_be_written_has_not_begun(disk: FaultyDisk) -> None:
    epochs = LogEpochs(disk, "/data")
    disk.fail("replace")
    with pytest.raises(StorageError):
        epochs.promoted({"t": (BASE, 10)})
    assert epochs.log_id("t", BASE) == PLAIN


def test_a_damaged_file_is_reported_and_a_later_one_refused(
    disk: FaultyDisk, caplog: pytest.LogCaptureFixture
) -> None:
    disk.replace_file("/data/epochs.json", b"{")
    assert LogEpochs(disk, "/data").log_id("t", BASE) == PLAIN
    assert "readers of the log are not told that it was restored" in caplog.text
    disk.replace_file("/data/epochs.json", b'{"version":2}')
    with pytest.raises(LaterFormatError):
        LogEpochs(disk, "/data")


def test_the_levels_have_the_names_that_users_give() -> None:
    assert [Durability(name).name for name in ("memory", "write", "fsync")] == [
        "MEMORY", "WRITE", "FSYNC"]  # fmt: skip
