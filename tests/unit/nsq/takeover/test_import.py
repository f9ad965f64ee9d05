"""Go's queues become our log: each message once, for the right channels, whatever happens."""

from __future__ import annotations

from collections import Counter

import pytest

from penstock.broker.broker import Broker
from penstock.broker.progress import ChannelRecord, Progress, Record, TopicRecord, encode_record
from penstock.core.chance import SystemChance
from penstock.core.errors import ConfigError, DiskFullError, PenstockError, StorageError
from penstock.core.units import SECOND
from penstock.nsq.protocol.bodies import Bodies
from penstock.nsq.takeover import importer, moves
from penstock.nsq.takeover.cursors import Queued, records
from penstock.nsq.takeover.importer import IMPORTED, import_queues
from penstock.nsq.takeover.moves import STAGING, Move
from penstock.storage.durability import Durability
from penstock.storage.log import LogOptions
from penstock.storage.store import Store
from penstock.testing.clock import FakeClock
from penstock.testing.disk import FaultyDisk, Operation
from tools.harness.go_files import (
    DATA,
    MESSAGE_MAX,
    NOW,
    Delivered,
    Message,
    data,
    delivered,
    disk_with,
    expected,
    messages,
    nsqd_dat,
    open_broker,
    open_store,
    queue,
    take_over,
)


class Killed(BaseException):
    """kill -9, as far as a test can do it: nothing that would clean up has an effect."""


class KillerDisk(FaultyDisk):
    """Raises Killed at an operation, and at every one behind it until ``crash``.

    ``counts`` says how many of each kind there were.
    """

    def __init__(self, *directories: str) -> None:
        self.counts: Counter[Operation] = Counter()
        super().__init__(*directories)
        self._left: int | None = None

    def kill_at(self, step: int) -> None:
        """Let so many operations pass."""
        self._left = step

    def meet_faults(self, operation: Operation, path: str) -> None:
        self.counts[operation] += 1
        if self._left is not None:
            if self._left == 0:
                raise Killed
            self._left -= 1
        super().meet_faults(operation, path)

    def heal(self) -> None:
        self._left = None
        super().heal()


ALL = messages(range(40))
LATE = messages(range(90, 95), size=9)
AGAIN = messages([7], 1) + messages([3], 4)

CONTENT: dict[str, bytes] = {
    **nsqd_dat({"t": ["a", "b", "idle"], "u": [], "v": ["c"]}, paused=["v"]),
    **queue("t", LATE),
    **queue("t:a", ALL[:30], ALL[30:], first=4),
    **queue("t:b", ALL[20:] + AGAIN),
    **queue("u", messages(range(3))),
    **queue("v", messages([2, 3])),
    **queue("v:c", messages([1])),
}
EXPECTED: Delivered = {
    "t": {
        "a": expected(ALL + LATE),
        "b": expected(ALL[20:] + AGAIN + LATE),
        "idle": expected(LATE),
    },
    "u": {"": expected(messages(range(3)))},
    "v": {"c": expected(messages([1, 2, 3]))},
}
QUEUED = 5 + 40 + 22 + 3 + 2 + 1

SMALL = {
    **nsqd_dat({"t": ["a", "b"]}),
    **queue("t", LATE),
    **queue("t:a", ALL[:30], ALL[30:]),
    **queue("t:b", ALL[20:] + AGAIN),
}
EXPECTED_SMALL = {"t": {name: EXPECTED["t"][name] for name in ("a", "b")}}


def go_names(disk: FaultyDisk, directory: str = DATA) -> list[str]:
    return [name for name in disk.list(directory) if ".diskqueue." in name]


def test_every_message_arrives_where_it_belongs(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO", "penstock.nsqd")
    disk = disk_with(CONTENT)
    names = go_names(disk)
    assert take_over(disk) == QUEUED
    assert delivered(disk) == EXPECTED
    assert go_names(disk, f"{DATA}/{IMPORTED}") == names
    assert disk.list(DATA) == [IMPORTED, "nsqd.dat", "topics"]
    said = [record.message for record in caplog.records if "IMPORT" in record.message]
    assert said[0] == ("IMPORT: found the queues of a Go nsqd: 3 topics, 4 channels, 0.0 MB; "
                       "importing them before listening")  # fmt: skip
    assert said[1].startswith("IMPORT: imported: 73 messages, 0.0 of 0.0 MB, ")
    assert said[2] == (
        "IMPORT: done; Go's files are now in /data/go-nsqd-imported, which you may delete"
    )


def test_a_take_over_at_the_level_fsync_is_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importer, "SYNC_BYTES", 100)
    disk = disk_with(CONTENT)
    store = Store(disk, DATA, LogOptions(1 << 20, 100, Durability.FSYNC))
    assert import_queues(store, FakeClock(NOW), 5, MESSAGE_MAX) == QUEUED
    store.close()
    assert delivered(disk) == EXPECTED


def test_depths_and_pauses_are_those_of_go_and_each_message_is_stored_once() -> None:
    disk = disk_with(CONTENT)
    take_over(disk)
    topics = open_broker(disk).topics
    assert {n: (t.paused, t.depth) for n, t in topics.items()} == {
        "t": (False, 0), "u": (False, 3), "v": (True, 2),
    }  # fmt: skip
    depths = {name: channel.state.depth for name, channel in topics["t"].channels.items()}
    assert depths == {"a": 45, "b": 27, "idle": 5}
    assert topics["v"].channels["c"].state.depth == 1
    assert topics["t"].log.next_offset == 40 + 2 + 5


def test_the_second_start_has_nothing_to_do() -> None:
    disk = disk_with(CONTENT)
    take_over(disk)
    before = {path: disk.content(path) for path in disk.paths()}
    assert take_over(disk) == 0
    assert {path: disk.content(path) for path in disk.paths()} == before


def test_without_go_files_nothing_is_touched() -> None:
    disk = disk_with(nsqd_dat({"t": ["c"]}))
    assert take_over(disk) == 0
    assert disk.paths() == [f"{DATA}/nsqd.dat"]


def test_channels_that_nsqd_dat_does_not_know_are_made() -> None:
    disk = disk_with(queue("t:c", messages([1])), queue("u", messages([2])))
    take_over(disk)
    assert delivered(disk) == {
        "t": {"c": expected(messages([1]))},
        "u": {"": expected(messages([2]))},
    }


def test_large_queues_are_cut_into_segments() -> None:
    found = messages(range(3000), size=1000)
    disk = disk_with(nsqd_dat({"t": ["a", "b"]}), queue("t:a", found), queue("t:b", found))
    take_over(disk)
    assert len([p for p in disk.paths(".log") if "/t@0/" in p]) == 3
    assert delivered(disk)["t"] == {"a": expected(found), "b": expected(found)}


def test_the_memory_for_many_channels_is_shared_out() -> None:
    names = [f"c{n}" for n in range(40)]
    found = {n: messages(range(i, 100 + i)) for i, n in enumerate(names)}
    disk = disk_with(nsqd_dat({"t": names}), *(queue(f"t:{n}", m) for n, m in found.items()))
    take_over(disk)
    assert delivered(disk)["t"] == {name: expected(held) for name, held in found.items()}


class HurryingClock(FakeClock):
    """Every look at it takes two seconds."""

    def monotonic_ns(self) -> int:
        self.advance(2 * SECOND)
        return super().monotonic_ns()


def test_it_tells_how_far_it_is_and_syncs_on_the_way(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    caplog.set_level("INFO", "penstock.nsqd")
    monkeypatch.setattr(importer, "SYNC_BYTES", 10)
    disk = disk_with(*(queue(f"t{n}", messages(range(10))) for n in range(6)))
    take_over(disk)
    lazily = disk.sync_count
    disk = disk_with(*(queue(f"t{n}", messages(range(10))) for n in range(6)))
    monkeypatch.setattr(importer, "SYNC_BYTES", 10**9)
    store = open_store(disk)
    caplog.clear()
    import_queues(store, HurryingClock(NOW), 5, MESSAGE_MAX)
    store.close()
    assert disk.sync_count < lazily
    told = [m for m in caplog.messages if m.startswith("IMPORT: so far: ")]
    assert told[0].startswith("IMPORT: so far: 30 messages, 0.0 of 0.0 MB, ")
    assert len(told) == 2


# --- a data path that is ours already


def publish(broker: Broker, topic: str, *bodies: bytes) -> None:
    broker.topic(topic).stage(Bodies.from_list(bodies), 0, lambda _error: None)
    assert broker.topic(topic).commit()[1] is None


def test_a_topic_that_we_have_goes_on_behind_its_messages(caplog: pytest.LogCaptureFixture) -> None:
    disk = disk_with({})
    broker = open_broker(disk)
    broker.topic("t").channel("ours")
    publish(broker, "t", b"one", b"two")
    broker.close()
    for name, content in {
        **nsqd_dat({"t": ["a"]}), **queue("t:a", messages([5, 6])), **queue("t", LATE)
    }.items():  # fmt: skip
        disk.replace_file(f"{DATA}/{name}", content)
    assert take_over(disk) == 7
    assert "topic t is in our log too; what Go's nsqd has of it is appended" in caplog.text
    first = [Message(NOW, 0, b"one"), Message(NOW, 0, b"two")]
    found = delivered(disk)["t"]
    assert found == {"ours": expected(first + LATE), "a": expected(messages([5, 6]) + LATE)}


def test_one_without_new_messages_keeps_its_log_as_it_is() -> None:
    disk = disk_with({})
    broker = open_broker(disk)
    publish(broker, "t", b"one")
    broker.close()
    for name, content in {**nsqd_dat({"t": ["a"]}), **queue("t:a")}.items():
        disk.replace_file(f"{DATA}/{name}", content)
    assert take_over(disk) == 0
    assert delivered(disk)["t"] == {"a": [Message(NOW, 1, b"one")]}


def test_a_second_import_does_not_take_the_names_of_the_first() -> None:
    disk = disk_with(queue("t", messages([1])))
    take_over(disk)
    for name, content in queue("t", messages([2])).items():
        disk.replace_file(f"{DATA}/{name}", content)
    take_over(disk)
    assert delivered(disk)["t"][""] == expected(messages([1, 2]))
    assert disk.content(f"{DATA}/{IMPORTED}/t.diskqueue.000000.dat") == data(messages([1]))
    assert disk.content(f"{DATA}/{IMPORTED}-2/t.diskqueue.000000.dat") == data(messages([2]))


# --- trouble


def test_damaged_files_are_set_aside_with_their_mark() -> None:
    disk = disk_with(queue("t", messages(range(4)), messages([9])))
    disk.overwrite(f"{DATA}/t.diskqueue.000000.dat", b"\xff", 100)
    assert take_over(disk) == 3
    assert delivered(disk)["t"][""] == expected(messages([0, 1, 9]))
    assert "t.diskqueue.000000.dat.bad" in disk.list(f"{DATA}/{IMPORTED}")


def test_files_of_before_1_0_are_named(caplog: pytest.LogCaptureFixture) -> None:
    disk = disk_with({"nsqd.77.dat": b"{}"})
    assert take_over(disk) == 0
    assert "nsqd.77.dat is of an nsqd before 1.0 and not read; rename it to nsqd.dat" in caplog.text
    caplog.clear()
    assert take_over(disk_with({"nsqd.77.dat": b"{}"}, nsqd_dat({}))) == 0
    assert not caplog.records


@pytest.mark.parametrize("text", [b"", b"{", b'{"topics":[{}]}'])
def test_nsqd_dat_is_read_first_and_must_make_sense(text: bytes) -> None:
    disk = disk_with(CONTENT, {"nsqd.dat": text})
    before = disk.paths()
    with pytest.raises(PenstockError) as refused:
        take_over(disk)
    assert type(refused.value) is PenstockError
    assert str(refused.value).startswith(
        "failed to load metadata - failed to parse metadata in /data/nsqd.dat - "
    )
    assert disk.paths() == before


def test_a_message_above_the_limit_changes_nothing() -> None:
    disk = disk_with(CONTENT, queue("w", messages([1], size=MESSAGE_MAX + 9)))
    before = disk.paths()
    with pytest.raises(ConfigError, match="start with --max-msg-size=1033 or more"):
        take_over(disk)
    assert disk.paths() == before
    assert take_over(disk, 2000) == QUEUED + 1


@pytest.mark.parametrize("room", [0, 100, 1000, 3000])
def test_a_full_disk_changes_nothing(room: int) -> None:
    disk = disk_with(CONTENT)
    before = disk.paths()
    disk.fill(room)
    with pytest.raises(StorageError, match="failed to import the queues of Go's nsqd - /data/"):
        take_over(disk)
    assert disk.paths() == before
    disk.heal()
    take_over(disk)
    assert delivered(disk) == EXPECTED


@pytest.mark.parametrize(
    "operation",
    ["open", "append", "read", "sync", "replace", "list", "make_directory", "rename",
     "sync_directory"],
)  # fmt: skip
def test_after_any_error_the_next_start_does_it(operation: Operation) -> None:
    count = operations_of(SMALL)[operation]
    failures = 0
    for nth in range(1, count + 1, max(1, count // 10)):
        disk = disk_with(SMALL)
        disk.fail(operation, nth)
        try:
            take_over(disk)
        except StorageError:
            failures += 1
        disk.heal()
        take_over(disk)
        assert delivered(disk) == EXPECTED_SMALL
    assert failures


def operations_of(content: dict[str, bytes]) -> Counter[Operation]:
    disk = killer_with(content)
    take_over(disk)
    return disk.counts


def killer_with(content: dict[str, bytes]) -> KillerDisk:
    disk = KillerDisk(DATA)
    for name, held in content.items():
        disk.replace_file(f"{DATA}/{name}", held)
    disk.counts.clear()
    return disk


@pytest.mark.parametrize("seed", [None, 1, 2, 3])
def test_a_crash_anywhere_loses_nothing_and_doubles_nothing(seed: int | None) -> None:
    steps = operations_of(SMALL).total()
    for step in range(0, steps, 1 if seed is None else 3):
        disk = killer_with(SMALL)
        disk.kill_at(step)
        with pytest.raises(Killed):
            take_over(disk)
        disk.crash("written" if seed is None else SystemChance(1000 * seed + step))
        take_over(disk)
        assert delivered(disk) == EXPECTED_SMALL, step
        assert STAGING not in disk.list(DATA)
        assert not go_names(disk)
    assert steps > 50


@pytest.mark.parametrize("seed", [None, 4])
def test_nor_does_one_while_appending_to_a_topic_of_ours(seed: int | None) -> None:
    first = [Message(NOW, 0, b"one"), Message(NOW, 0, b"two")]
    go = {**nsqd_dat({"t": ["a"]}), **queue("t:a", messages([5, 6])), **queue("t", LATE)}
    for step in range(0, 1000, 2):
        disk = KillerDisk(DATA)
        broker = open_broker(disk)
        broker.topic("t").channel("ours")
        publish(broker, "t", b"one", b"two")
        broker.close()
        for name, content in go.items():
            disk.replace_file(f"{DATA}/{name}", content)
        disk.kill_at(step)
        try:
            take_over(disk)
            break
        except Killed:
            disk.crash("written" if seed is None else SystemChance(1000 * seed + step))
        take_over(disk)
        assert delivered(disk)["t"] == {
            "ours": expected(first + LATE),
            "a": expected(messages([5, 6]) + LATE),
        }
    assert 50 < step < 998


# --- all files are moved or none


DATA = "/data"
MOVES = [
    Move(f"{STAGING}/a/one", "topics/a/one", 3),
    Move(f"{STAGING}/a/two", "topics/a/two", 4),
    Move("old", "done/old", 5),
]


def prepared(disk: FaultyDisk) -> None:
    disk.replace_file(f"{DATA}/old", b"olden")
    disk.make_directory(f"{DATA}/topics/a")
    disk.replace_file(f"{DATA}/topics/a/two", b"previous")
    moves.begin(disk, DATA)
    disk.make_directory(f"{DATA}/{STAGING}/a")
    disk.replace_file(f"{DATA}/{STAGING}/a/one", b"one")
    disk.replace_file(f"{DATA}/{STAGING}/a/two", b"four")


def contents(disk: FaultyDisk) -> dict[str, bytes]:
    return {path.removeprefix(DATA + "/"): disk.content(path) for path in disk.paths()}


NOT_MOVED = {"old": b"olden", "topics/a/two": b"previous"}
MOVED = {"done/old": b"olden", "topics/a/one": b"one", "topics/a/two": b"four"}


def test_files_are_moved_and_the_staging_directory_goes() -> None:
    disk = FaultyDisk(DATA)
    prepared(disk)
    moves.commit(disk, DATA, MOVES)
    assert contents(disk) == MOVED
    assert disk.list(DATA) == ["done", "topics"]
    assert not moves.resume(disk, DATA)


def test_what_was_not_committed_is_dropped() -> None:
    disk = FaultyDisk(DATA)
    prepared(disk)
    assert not moves.resume(disk, DATA)
    assert contents(disk) == NOT_MOVED


@pytest.mark.parametrize("seed", range(-1, 6))
def test_a_crash_anywhere_leaves_all_or_nothing(seed: int) -> None:
    outcomes = set()
    for step in range(100):
        disk = KillerDisk(DATA)
        prepared(disk)
        disk.kill_at(step)
        try:
            moves.commit(disk, DATA, MOVES)
        except Killed:
            disk.crash("written" if seed < 0 else SystemChance(seed * 1000 + step))
        else:
            break
        resumed = moves.resume(disk, DATA)
        assert contents(disk) in ([MOVED] if resumed else [MOVED, NOT_MOVED])
        assert STAGING not in disk.list(DATA)
        outcomes.add(contents(disk) == MOVED)
    assert step > 10
    assert outcomes == {True, False}


def test_a_crash_while_resuming_is_resumed() -> None:
    for step in range(100):
        disk = KillerDisk(DATA)
        prepared(disk)
        disk.kill_at(4)  # behind the plan, before the first move
        with pytest.raises(Killed):
            moves.commit(disk, DATA, MOVES)
        disk.crash("written")
        disk.kill_at(step)
        try:
            assert moves.resume(disk, DATA)
            break
        except Killed:
            disk.crash(SystemChance(step))
        moves.resume(disk, DATA)
        assert contents(disk) == MOVED
    assert step > 10


def test_a_file_that_has_changed_meanwhile_stays(caplog: pytest.LogCaptureFixture) -> None:
    disk = FaultyDisk(DATA)
    prepared(disk)
    disk.replace_file(f"{DATA}/old", b"another")
    moves.commit(disk, DATA, MOVES)
    left = {name: data for name, data in MOVED.items() if name != "done/old"}
    assert contents(disk) == {**left, "old": b"another"}
    assert "/data/old has changed since it was imported and stays" in caplog.text


def test_a_full_disk_moves_nothing() -> None:
    disk = FaultyDisk(DATA)
    prepared(disk)
    disk.fill()
    with pytest.raises(DiskFullError):
        moves.commit(disk, DATA, MOVES)
    assert contents(disk) == NOT_MOVED


@pytest.mark.parametrize("plan", [b"{", b'{"moves":[["\xff","",1]]}', b'{"x":' + b"[" * 5000])
def test_a_damaged_plan_is_told(plan: bytes) -> None:
    disk = FaultyDisk(DATA)
    prepared(disk)
    disk.replace_file(f"{DATA}/{STAGING}/moves.json", plan)
    with pytest.raises(StorageError, match=r"moves\.json is damaged"):
        moves.resume(disk, DATA)


# --- what the cursor journal of an imported topic says


def queued(*ranges: tuple[int, int, int]) -> Queued:
    held = Queued()
    for first, next_, attempts in ranges:
        held.add(first, next_, attempts)
    return held


def channel_record(
    name: str, cursor: int, head: int, *, unfinished: object = (), skips: object = ()
) -> ChannelRecord:
    return ChannelRecord(name, cursor, head, list(unfinished), list(skips), False, [], [])  # type: ignore[call-overload]


PAUSED = [TopicRecord(20, True), channel_record("a", 10, 20)]


@pytest.mark.parametrize(
    ("known", "held", "first", "end", "start", "paused", "found"),
    [
        pytest.param(
            [], {"c": queued((0, 4, 0), (4, 6, 2), (6, 7, 2), (7, 8, 3), (10, 12, 0)),
                 "d": Queued()}, 0, 12, 0, False,
            [TopicRecord(12, False),
             channel_record("c", 0, 12, unfinished=[(4, 7, 2), (7, 8, 3)], skips=[(4, 10)]),
             channel_record("d", 0, 12, skips=[(0, 12)])],
            id="a-channel-skips-what-it-had-not-and-requeues-what-was-delivered"),
        pytest.param([], {}, 0, 0, 0, False, [TopicRecord(0, False)],
                     id="without-channels-the-backlog-is-kept-for-the-first"),
        pytest.param([], {"c": Queued()}, 0, 0, 0, True,
                     [TopicRecord(0, True), channel_record("c", 0, 0)],
                     id="channels-without-messages-start-at-the-backlog"),
        pytest.param(
            [TopicRecord(90),
             channel_record("a", 70, 90, unfinished=[(60, 61, 1)], skips=[(80, 81)])],
            {"b": queued((100, 110, 0))}, 100, 110, 50, False,
            [TopicRecord(110, False),
             channel_record("a", 70, 110, unfinished=[(60, 61, 1)],
                            skips=[(80, 81), (100, 110)]),
             channel_record("b", 100, 110)],
            id="our-own-channels-go-on-and-pass-over-what-is-not-theirs"),
        pytest.param([TopicRecord(20)], {"b": queued((50, 55, 0))}, 50, 55, 0, False,
                     [TopicRecord(55, False), channel_record("b", 20, 55)],
                     id="our-own-backlog-goes-to-the-first-channels"),
        pytest.param([], {"b": Queued()}, 50, 50, 30, False,
                     [TopicRecord(30, False), channel_record("b", 30, 30)],
                     id="what-was-let-go-of-is-no-backlog"),
        pytest.param(PAUSED, {}, 50, 50, 0, True, PAUSED,
                     id="a-paused-topic-holds-its-backlog-back"),
        pytest.param(
            PAUSED, {"b": queued((50, 51, 0))}, 50, 51, 0, False,
            [TopicRecord(51, False), channel_record("a", 10, 51, skips=[(50, 51)]),
             channel_record("b", 20, 51)],
            id="once-unpaused-by-go-new-channels-get-the-backlog-too"),
    ],
)  # fmt: skip
def test_what_the_journal_says(
    known: list[Record], held: dict[str, Queued], first: int, end: int, start: int, paused: bool,
    found: list[Record],
) -> None:  # fmt: skip
    before = Progress.replay(encode_record(record) for record in known)
    assert records(before, held, first, end, start=start, paused=paused) == found
