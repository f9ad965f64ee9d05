"""The journal of a topic: what is written once, again, and after a failure."""

from __future__ import annotations

from typing import Literal

import pytest

from penstock.broker.progress import GoneRecord, Progress, Record, TopicRecord
from penstock.broker.topic_journal import TopicJournal
from penstock.core.errors import StorageError
from penstock.storage.journal import Journal
from penstock.storage.memory_log import MemoryLog
from tests.unit.storage.logs import DIRECTORY, ID_BASE, new_disk, new_log

PATH = f"{DIRECTORY}/cursors.journal"


class World:
    """A journal whose topic has a head and nothing else."""

    def __init__(self) -> None:
        self.disk = new_disk()
        self.log = new_log(self.disk)
        self.head = 0
        self.asked: list[bool] = []
        self.saved = 0
        file = Journal(self.disk, PATH, self.log.id_base)
        self.journal = TopicJournal("t", self.log, file, self.records, self.count)

    def records(self, everything: bool) -> list[Record]:
        self.asked.append(everything)
        return [TopicRecord(self.head, False)]

    def count(self) -> None:
        self.saved += 1

    def found(self) -> Progress:
        file = Journal(self.disk, PATH, self.log.id_base)
        return Progress.replay(file.records, file.gaps)


@pytest.fixture
def world() -> World:
    return World()


def test_a_change_is_written_once(world: World) -> None:
    world.journal.save()
    assert not world.journal.is_due
    world.head = 7
    world.journal.changed = True
    assert world.journal.is_due
    world.journal.save()
    assert not world.journal.is_due
    assert (world.found().head, world.asked, world.saved) == (7, [False, False], 2)


def test_an_event_goes_with_one_save(world: World) -> None:
    world.journal.note(GoneRecord("c", None))
    world.journal.save()
    size = len(world.disk.content(PATH))
    world.journal.save()
    assert world.found().deleted == {"c"}
    assert len(world.disk.content(PATH)) < 2 * size


def test_after_a_failed_write_all_is_written(world: World) -> None:
    world.journal.save()
    world.disk.fail("append", within=".journal")
    with pytest.raises(StorageError):
        world.journal.save()
    assert not world.journal.written
    assert world.journal.is_due
    world.head = 3
    world.journal.save()
    assert world.journal.written
    assert (world.found().head, world.asked[-1]) == (3, True)


def test_after_a_failed_sync_all_is_written(world: World) -> None:
    world.disk.fail("sync", within=".journal")
    assert not world.journal.save_now()
    assert world.journal.save_now()
    assert world.asked == [False, True]


@pytest.mark.parametrize("action", ["append", "sync"])
def test_after_a_failure_an_event_is_written_with_all(
    world: World, action: Literal["append", "sync"]
) -> None:
    world.journal.note(GoneRecord("c", None))
    world.disk.fail(action, within=".journal")
    assert not world.journal.save_now()
    assert world.journal.save_now()
    assert world.found().deleted == {"c"}
    world.journal.write_whole()
    world.journal.save()
    assert world.found().deleted == set()  # it was synced


def test_what_cannot_be_saved_quietly_waits(world: World) -> None:
    world.disk.fail("append", within=".journal")
    world.journal.save_quietly()
    assert not world.journal.written


def test_a_deleted_topic_is_asked_no_more(world: World) -> None:
    world.journal.abandon()
    world.journal.save()
    world.journal.sync()
    world.journal.note_start(0)
    world.journal.close()
    assert (world.asked, world.saved) == ([], 0)


def test_a_topic_in_memory_has_nothing_to_write() -> None:
    journal = TopicJournal("t#ephemeral", MemoryLog(ID_BASE), None, lambda _: [], lambda: None)
    assert journal.save_now()
    journal.note_start(0)
    journal.close()


def test_the_file_is_there_until_the_topic_is_deleted(world: World) -> None:
    world.journal.save()
    assert world.journal.file is not None
    assert world.journal.file.size > 0
    world.journal.abandon()
    assert world.journal.file is None


def test_what_is_synced_with_others_is_durable_unless_more_was_saved_meanwhile(
    world: World,
) -> None:
    world.journal.note(GoneRecord("c", None))
    saved = world.journal.save_for_sync()
    assert saved is not None
    world.journal.note(GoneRecord("d", None))
    world.journal.save()
    world.journal.note_synced(saved)  # says nothing of what came behind it
    world.journal.write_whole()
    world.journal.save()
    assert world.found().deleted == {"c", "d"}
    saved = world.journal.save_for_sync()
    assert saved is not None
    world.journal.note_synced(saved)
    world.journal.write_whole()
    world.journal.save()
    assert world.found().deleted == set()


def test_what_cannot_be_saved_for_a_sync_is_logged(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    world.disk.fail("append", within=".journal")
    assert world.journal.save_for_sync() is None
    assert "TOPIC(t): failed to write down progress" in caplog.text
    assert not world.journal.written


def test_a_topic_in_memory_has_nothing_to_sync(world: World) -> None:
    journal = TopicJournal("t", world.log, None, world.records, world.count)
    assert journal.save_for_sync() == (0, 0)
    journal.note_synced((0, 0))
