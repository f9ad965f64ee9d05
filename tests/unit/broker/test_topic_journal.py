"""The journal of a topic: its records, what is written once, again, and after a failure."""

from __future__ import annotations

from typing import Any, Literal

import msgspec
import pytest

from penstock.broker.progress import (
    ChannelRecord,
    ChannelSettings,
    ClockRecord,
    Deferral,
    GoneRecord,
    GroupRecord,
    Progress,
    Record,
    TopicRecord,
    TopicSettings,
    WriterRecord,
    WritersRecord,
    encode_record,
)
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


def channel(
    name: str = "c",
    cursor: int = 0,
    head: int = 0,
    *,
    reset: bool = False,
    deferred: list[Deferral] | None = None,
    over: list[int] | None = None,
) -> ChannelRecord:
    return ChannelRecord(name, cursor, head, [], [], reset, deferred or [], over or [])


def replay(*records: Record) -> Progress:
    return Progress.replay([encode_record(record) for record in records])


def test_no_records() -> None:
    progress = replay()
    assert (progress.head, progress.paused, progress.end()) == (None, False, 0)
    assert (progress.channels, progress.groups) == ({}, {})
    assert progress.deferred("c") == []


def test_a_channels_record_comes_back_whole() -> None:
    record = ChannelRecord(
        "c", 5, 9, [(1, 3, 2), (4, 5, 65535)], [(6, 8)], True, [(99, 6, 8, 0)], []
    )
    progress = replay(record)
    assert progress.channels == {"c": record}
    assert progress.deferred("c") == [(99, 6, 8, 0)]


def test_the_newest_record_counts() -> None:
    progress = replay(
        TopicRecord(3, paused=True), GroupRecord("g", 1), channel(cursor=1), channel("d"),
        TopicRecord(7), GroupRecord("g", 4), channel(cursor=2),
    )  # fmt: skip
    assert (progress.head, progress.paused) == (7, False)
    assert progress.groups == {"g": 4}
    assert progress.channels["c"].cursor == 2
    assert set(progress.channels) == {"c", "d"}


def test_the_newest_settings_of_the_clock_count() -> None:
    assert replay().clock is None
    newest = ClockRecord([(0, 0), (5, -7)], -7, 93, 100)
    assert replay(ClockRecord([(0, 0)], 0, 50, 0), newest).clock == newest


def test_deferrals_are_added_and_removed() -> None:
    progress = replay(
        channel(reset=True, deferred=[(50, 1, 3, 0), (60, 8, 9, 1)]),
        channel(deferred=[(70, 4, 5, 0)], over=[1]),
        channel("d", deferred=[(10, 1, 2, 0)]),
    )
    assert progress.deferred("c") == [(60, 8, 9, 1), (70, 4, 5, 0)]
    assert progress.deferred("d") == [(10, 1, 2, 0)]


def test_a_deferral_that_is_over_twice_or_deferred_again() -> None:
    progress = replay(
        channel(reset=True, deferred=[(50, 1, 2, 0)]),
        channel(over=[1]),
        channel(over=[1, 7]),
        channel(deferred=[(90, 1, 2, 1)]),
    )
    assert progress.deferred("c") == [(90, 1, 2, 1)]


def test_a_reset_forgets_the_deferrals_before() -> None:
    progress = replay(
        channel(reset=True, deferred=[(50, 1, 2, 0)]),
        channel(reset=True, deferred=[(60, 3, 4, 0)]),
    )
    assert progress.deferred("c") == [(60, 3, 4, 0)]


def test_gone_channels_and_groups() -> None:
    progress = replay(
        channel(deferred=[(50, 1, 2, 0)]), channel("d"), GroupRecord("c", 3), GroupRecord("g", 4),
        GoneRecord("c", None), GoneRecord(None, "g"), GoneRecord("unknown", None),
    )  # fmt: skip
    assert set(progress.channels) == {"d"}
    assert progress.groups == {"c": 3}
    assert progress.deferred("c") == []


def test_a_channel_made_again_has_nothing_of_the_old_one() -> None:
    progress = replay(
        channel(cursor=4, deferred=[(50, 1, 2, 0)]), GoneRecord("c", None), channel(cursor=9)
    )
    assert progress.channels["c"].cursor == 9
    assert progress.deferred("c") == []


def test_end_is_behind_all_that_was_given_out() -> None:
    assert replay(TopicRecord(7)).end() == 7
    assert replay(TopicRecord(7), channel(head=9), channel("d", head=8)).end() == 9
    assert replay(TopicRecord(7), channel(head=5), GroupRecord("g", 12)).end() == 12
    assert replay(channel(head=5)).end() == 5


def test_a_record_without_a_later_field_is_read() -> None:
    """A field that is added later has a default."""
    assert replay().paused is False
    assert Progress.replay([msgspec.msgpack.encode(["t", 7])]).head == 7


@pytest.mark.parametrize(
    "data", [b"", b"\xc1", msgspec.msgpack.encode(["z", 1]), b"\x93\xa1x\xa1\xff\xc0"]
)
def test_an_unknown_record_is_refused(data: bytes) -> None:
    with pytest.raises(StorageError, match="cursor journal holds an unknown record"):
        Progress.replay([encode_record(TopicRecord(1)), data])


# --- settings, and journals of before ------------------------------------------------------------
def test_records_as_the_first_version_wrote_them() -> None:
    """Bytes from before there were settings: such journals must open for ever."""
    progress = Progress.replay(
        [
            bytes.fromhex("99a163a163070c91930305029192090ac39194cf17979cfe362a000505060190"),
            bytes.fromhex("93a167a16704"),
            bytes.fromhex("93a1740cc3"),
            bytes.fromhex("93a178a36f6c64c0"),
        ]
    )
    expected = ChannelRecord("c", 7, 12, [(3, 5, 2)], [(9, 10)], True,
                             [(1_700_000_000_000_000_005, 5, 6, 1)], [])  # fmt: skip
    assert progress.channels == {"c": expected}
    assert (progress.head, progress.paused, progress.groups) == (12, True, {"g": 4})
    assert progress.group_ages == {"g": 0}
    assert (progress.settings, progress.channel_settings) == (TopicSettings(), {})


def test_settings_come_back_and_go_with_their_channel() -> None:
    own, other = ChannelSettings("c", 5, "dead"), ChannelSettings("d", 0)
    progress = replay(TopicSettings(7), own, other, TopicSettings(8, 9, "refuse"))
    assert progress.settings == TopicSettings(8, 9, "refuse")
    assert progress.channel_settings == {"c": own, "d": other}
    assert replay(own, other, GoneRecord("c", None)).channel_settings == {"d": other}


def test_the_age_of_a_group_comes_back_and_goes_with_it() -> None:
    records = GroupRecord("g", 4, 9), GroupRecord("h", 4, 7), GroupRecord("g", 5, 1)
    assert replay(*records).group_ages == {"g": 1, "h": 7}
    assert replay(*records, GoneRecord(None, "g")).group_ages == {"h": 7}


def test_the_commits_of_writers_come_back_in_their_order() -> None:
    first, second = WriterRecord("w", 4, 9, 7), WriterRecord("w", 5, 12)
    assert (replay().writers, replay().writers_end) == ([], None)
    progress = replay(first, WritersRecord(10), second, WritersRecord(15))
    assert (progress.writers, progress.writers_end) == ([first, second], 15)


def test_old_writers_and_new_readers_agree_on_the_bytes() -> None:
    """What did not change is still written as it was."""
    assert encode_record(GroupRecord("g", 4, 9)).hex() == "94a167a1670409"
    assert encode_record(TopicRecord(12, paused=True)).hex() == "93a1740cc3"


# --- where records are missing -------------------------------------------------------------------
def gapped(*records: Record | None) -> Progress:
    """Replay these records; None is a gap in which others are missing."""
    whole = [each for each in records if each is not None]
    gaps = {number - records[:number].count(None) for number, r in enumerate(records) if r is None}
    return Progress.replay([encode_record(record) for record in whole], gaps)


def numbered(serial: int, cursor: int, *, reset: bool = False, **rest: Any) -> ChannelRecord:
    record = channel(cursor=cursor, head=cursor, reset=reset, **rest)
    record.serial = serial
    return record


def test_a_channel_whose_records_are_all_there_owes_nothing_more() -> None:
    progress = gapped(numbered(4, 10), None, numbered(5, 30))
    assert progress.doubtful("c") == []


def test_what_a_missing_record_may_have_deferred_is_doubtful() -> None:
    before = numbered(4, 10)
    before.unfinished = [(3, 5, 1)]
    after = numbered(6, 30, deferred=[(99, 20, 22, 1)])
    after.unfinished = [(25, 26, 1)]
    progress = gapped(before, None, after)
    assert progress.doubtful("c") == [(3, 5), (10, 20), (22, 25), (26, 30)]
    assert progress.deferred("c") == [(99, 20, 22, 1)]


def test_what_a_backlog_leaves_out_may_be_deferred_by_a_missing_record() -> None:
    after = numbered(6, 10)
    after.head, after.skips = 30, [(12, 15), (20, 22)]
    assert gapped(numbered(4, 10), None, after).doubtful("c") == [(12, 15), (20, 22)]


def test_a_reset_tells_all() -> None:
    progress = gapped(numbered(4, 10), None, numbered(9, 30, reset=True))
    assert progress.doubtful("c") == []
    progress = gapped(numbered(4, 10), None, numbered(6, 30), numbered(7, 40, reset=True))
    assert progress.doubtful("c") == []


def test_a_channel_whose_first_records_are_missing_owes_all() -> None:
    assert gapped(None, numbered(2, 30)).doubtful("c") == [(0, 30)]
    assert gapped(None, numbered(1, 30, reset=True)).doubtful("c") == []


def test_records_of_earlier_versions_have_no_numbers() -> None:
    assert gapped(channel(cursor=10, head=10), channel(cursor=30, head=30)).doubtful("c") == []
    progress = gapped(channel(cursor=10, head=10), None, channel(cursor=30, head=30))
    assert progress.doubtful("c") == [(10, 30)]
    old = msgspec.msgpack.encode(["c", "c", 7, 9, [], [], True, [], []])
    assert Progress.replay([old]).channels["c"].serial == 0


def test_deleted_channels_are_known() -> None:
    assert replay(channel(), GoneRecord("c", None)).deleted == {"c"}


def test_a_deleted_channel_may_have_been_made_again_by_a_missing_record() -> None:
    assert gapped(channel(), GoneRecord("c", None), None, GoneRecord("d", None)).deleted == {"d"}
    assert gapped(channel(), GoneRecord("c", None), None).deleted == set()
    assert gapped(channel(), None, GoneRecord("c", None)).deleted == {"c"}
