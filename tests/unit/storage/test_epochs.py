"""The epochs of logs: where they went on with other messages than before."""

from __future__ import annotations

import re

import pytest

from penstock.core.errors import LaterFormatError, StorageError
from penstock.core.ids import Epoch, epochs_of, fork
from penstock.storage.epochs import EPOCHS_MAX, LogEpochs
from penstock.testing.disk import FaultyDisk

BASE = 0x0A61_B2C3_D4E5_F607
PLAIN = "0a61b2c3d4e5f607"


@pytest.fixture
def disk() -> FaultyDisk:
    return FaultyDisk("/data")


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
