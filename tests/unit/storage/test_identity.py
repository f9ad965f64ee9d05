"""The identity that a queue keeps for life."""

from __future__ import annotations

import pytest

from penstock.storage import identity
from penstock.storage.extent import NOTHING
from penstock.storage.identity import note_journal, read_identity, segments_in
from penstock.storage.journal import JOURNAL_FILE, Journal
from penstock.storage.journal_frames import encode_frames, mark
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
PATH = f"{DIRECTORY}/queue.json"


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
        disk.remove(PATH)
    else:
        disk.replace_file(PATH, spoil)
    log, _ = reopen(disk, id_base=99)
    assert log.id_base == ID_BASE
    assert everything(log) == frames(written[1:])
    assert reopen(disk, id_base=98)[0].id_base == ID_BASE


def test_a_first_batch_longer_than_a_window_tells_the_identity(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(identity, "WINDOW_BYTES", 100)
    disk = new_disk()
    written = fill(new_log(disk), 20, 20)
    assert len(written[0].raw) > 100
    disk.remove(PATH)
    log, _ = reopen(disk, id_base=99)
    assert log.id_base == ID_BASE
    assert everything(log) == frames(written)


@pytest.mark.parametrize(("journal_of", "found"), [(ID_BASE, ID_BASE), (ID_BASE + 7, ID_BASE + 7)])
def test_the_journal_says_whose_identity_it_is_where_no_segment_bears_it_out(
    journal_of: int, found: int
) -> None:
    disk = new_disk()
    fill(new_log(disk), 1)  # its messages have ids from ID_BASE on
    disk.replace_file(PATH, b'{"id_base":%d,"version":2}' % (ID_BASE + 7))
    disk.replace_file(f"{DIRECTORY}/{JOURNAL_FILE}", mark(journal_of, NOTHING))
    assert read_identity(disk, DIRECTORY, 99).id_base == found


def test_a_queue_without_identity_and_messages_is_new() -> None:
    disk = new_disk()
    new_log(disk)
    disk.remove(PATH)
    assert reopen(disk, id_base=99)[0].id_base == 99


@pytest.mark.parametrize("spoiled", [None, b"{"])
def test_a_queue_without_messages_is_named_by_its_journal(spoiled: bytes | None) -> None:
    disk = new_disk()
    new_log(disk)
    path = f"{DIRECTORY}/{JOURNAL_FILE}"
    disk.replace_file(path, encode_frames([b"a"], ID_BASE, NOTHING) + mark(ID_BASE, NOTHING))
    disk.remove(PATH)
    if spoiled is not None:
        disk.replace_file(PATH, spoiled)
    assert reopen(disk, id_base=99)[0].id_base == ID_BASE
    assert Journal(disk, path, ID_BASE).records == [b"a"]


def test_a_journal_of_several_queues_names_none() -> None:
    disk = new_disk()
    new_log(disk)
    frames_of_two = mark(ID_BASE, NOTHING) + mark(ID_BASE + 7, NOTHING)
    disk.replace_file(f"{DIRECTORY}/{JOURNAL_FILE}", frames_of_two)
    disk.remove(PATH)
    assert reopen(disk, id_base=99)[0].id_base == 99


def test_the_ids_of_a_queue_stay() -> None:
    disk = new_disk()
    fill(new_log(disk), 1)
    assert reopen(disk, id_base=99)[0].id_base == ID_BASE


def test_a_new_queue_has_its_journal_before_its_first_segment() -> None:
    disk = FaultyDisk("/data", DIRECTORY)
    assert read_identity(disk, DIRECTORY, 9).has_journal
    assert read_identity(disk, DIRECTORY, 10).id_base == 9


def test_one_of_an_earlier_version_has_a_journal_from_when_that_is_noted() -> None:
    disk = FaultyDisk("/data", DIRECTORY)
    disk.replace_file(PATH, b'{"id_base":9,"version":1}')
    identity = read_identity(disk, DIRECTORY, 10)
    assert not identity.has_journal
    note_journal(disk, DIRECTORY, identity)
    assert disk.content(PATH) == b'{"id_base":9,"version":2}'
    note_journal(disk, DIRECTORY, identity)
    assert read_identity(disk, DIRECTORY, 10).has_journal


def test_segments_are_listed_in_order() -> None:
    disk = FaultyDisk("/data", DIRECTORY)
    for first in (7, 0, 3):
        disk.replace_file(f"{DIRECTORY}/{first:020d}.log", b"")
    disk.replace_file(f"{DIRECTORY}/notes.log", b"")
    assert segments_in(disk, DIRECTORY) == [0, 3, 7]
