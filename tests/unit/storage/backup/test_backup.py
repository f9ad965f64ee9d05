"""Backups of a data path share their bytes, and put back all or nothing."""

from __future__ import annotations

import errno
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from penstock.broker.broker import Broker, BrokerOptions
from penstock.broker.topic import Topic
from penstock.core.chance import SystemChance
from penstock.core.clock import SYSTEM_CLOCK
from penstock.core.errors import LockedError, StorageError
from penstock.nsq.protocol.bodies import Bodies
from penstock.storage.backup import manifest as manifests
from penstock.storage.backup.backup import Taken, put_back, take
from penstock.storage.epochs import EPOCHS_FILE
from penstock.storage.files.disk import OsDisk
from penstock.storage.log import LogOptions
from penstock.storage.store import Store
from penstock.testing.clock import FakeClock
from tests.unit.cli.doctor.patients import healthy, opened, segments
from tools.harness.small_logs import publish

OTHERS = ("nsqd.dat", "ids.json", "config")
DISK = OsDisk()


@pytest.fixture
def data(tmp_path: Path) -> Path:
    path = tmp_path / "data"
    healthy(path)
    (path / "config").mkdir()
    (path / "config" / "topics.json").write_text("{}")
    (path / "config" / "topics.json.0123abcd.tmp").write_text("half")
    return path


def taken(path: Path, keep: int = 0) -> Taken:
    folder = str(path.parent / "backups")
    return take(DISK, str(path), folder, SYSTEM_CLOCK.wall_ns(), OTHERS, keep)


def restored(path: Path, moment: str, name: str = "restored") -> Path:
    target = path.parent / name
    put_back(DISK, str(path.parent / "backups"), moment, str(target))
    return target


def files(path: Path) -> dict[str, bytes]:
    """All files but the one that says that a data path was restored."""
    return {str(each.relative_to(path)): each.read_bytes()
            for each in path.rglob("*") if each.is_file() and each.suffix != ".tmp"
            and each.name != EPOCHS_FILE}  # fmt: skip


def add(path: Path, count: int) -> None:
    with opened(path) as (log, _):
        for number in range(count):
            publish(log, b"new %04d" % number * 9, timestamp_ns=SYSTEM_CLOCK.wall_ns())


def test_what_is_put_back_is_what_was_there(data: Path) -> None:
    made = taken(data)
    target = restored(data, made.moment)
    assert files(target) == files(data)
    assert b'"restored":true,"ends":null' in (target / EPOCHS_FILE).read_bytes()
    assert made.copied == made.manifest.nbytes == sum(map(len, files(data).values()))


def test_another_backup_copies_what_is_new(data: Path) -> None:
    first = taken(data)
    assert taken(data).copied == 0
    before = files(data)
    add(data, 7)
    new = files(data)
    grown = sum(len(new[name]) - len(before.get(name, b"")) for name in new
                if name.endswith(".log"))  # fmt: skip
    replaced = sum(len(new[name]) for name in new
                   if not name.endswith(".log") and new[name] != before.get(name))  # fmt: skip
    second = taken(data)
    assert grown > 700
    assert second.copied == grown + replaced
    assert files(restored(data, first.moment, "first")) == before
    assert files(restored(data, second.moment, "second")) == new


def test_topics_that_are_being_deleted_are_left_out(data: Path) -> None:
    before = files(data)
    for name in ("halfway", "orders"):
        shutil.copytree(data / "topics" / "orders@0", data / "topics" / f"{name}@0.deleted")
    assert files(restored(data, taken(data).moment)) == before


def test_a_topic_that_is_deleted_while_it_is_read_is_left_out(data: Path) -> None:
    before = files(data)
    gone = data / "topics" / "gone@0"
    shutil.copytree(data / "topics" / "orders@0", gone)

    class Deleting(OsDisk):
        def read_file(self, path: str) -> bytes | None:
            content = super().read_file(path)
            if path.startswith(str(gone)):
                shutil.rmtree(gone, ignore_errors=True)
            return content

    folder = str(data.parent / "backups")
    made = take(Deleting(), str(data), folder, SYSTEM_CLOCK.wall_ns(), OTHERS)
    assert files(restored(data, made.moment)) == before


def test_a_log_with_another_history_does_not_pass_for_the_one_that_is_known(data: Path) -> None:
    first, before = taken(data), files(data)
    shutil.rmtree(data / "topics")
    healthy(data)
    second = taken(data)
    assert files(restored(data, first.moment, "first")) == before
    assert files(restored(data, second.moment, "second")) == files(data) != before


def test_what_a_backup_that_was_cut_short_has_left_does_not_count(data: Path) -> None:
    first = taken(data)
    for stored in (data.parent / "backups" / "growing").rglob("*.log"):
        with stored.open("ab") as file:
            file.write(b"of a backup that was cut short")
    add(data, 3)
    second = taken(data)
    assert files(restored(data, second.moment)) == files(data)
    assert set(manifests.moments(DISK, str(data.parent / "backups"))) == {
        first.moment, second.moment
    }  # fmt: skip


def test_older_backups_are_forgotten_with_what_only_they_hold(data: Path) -> None:
    first = taken(data)
    shutil.rmtree(data / "topics")
    healthy(data)
    second = taken(data)
    vault = data.parent / "backups" / "growing"
    held = sum(each.stat().st_size for each in vault.rglob("*.log"))
    add(data, 1)
    third = taken(data, keep=2)
    assert manifests.moments(DISK, str(data.parent / "backups")) == [second.moment, third.moment]
    assert sum(each.stat().st_size for each in vault.rglob("*.log")) < held
    assert files(restored(data, third.moment)) == files(data)
    with pytest.raises(StorageError, match=f"has no backup {first.moment}"):
        restored(data, first.moment, "gone")


def test_nothing_is_put_back_over_anything(data: Path) -> None:
    made = taken(data)
    before = files(data)
    with pytest.raises(StorageError, match="is not empty; a backup is restored into a new"):
        put_back(DISK, str(data.parent / "backups"), made.moment, str(data))
    assert files(data) == before
    (data.parent / "empty").mkdir()
    assert files(restored(data, made.moment, "empty")) == before


def test_a_mount_is_filled_in_its_place(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No folder can be renamed to it, as to a volume of a container."""
    made = taken(data)
    volume = data.parent / "volume"
    (volume / ".restoring" / "topics").mkdir(parents=True)  # of an earlier attempt
    (volume / "lost+found").mkdir()
    with pytest.raises(StorageError, match="is not empty"):
        restored(data, made.moment, "volume")
    monkeypatch.setattr("os.path.ismount", lambda path: path == str(volume))
    assert files(restored(data, made.moment, "volume")) == files(data)
    assert not list(data.parent.glob("*.restoring"))
    assert not (volume / ".restoring").exists()
    with pytest.raises(StorageError, match="is not empty"):
        restored(data, made.moment, "volume")


@pytest.mark.parametrize("harm", ["cut", "lost", "changed"])
def test_a_backup_that_is_not_whole_puts_nothing_back(data: Path, harm: str) -> None:
    made = taken(data)
    folder = data.parent / "backups"
    stored = max((folder / "growing").rglob("*.log"), key=lambda each: each.stat().st_size)
    if harm == "cut":
        stored.write_bytes(stored.read_bytes()[:-1])
    elif harm == "lost":
        stored.unlink()
    else:
        next((folder / "files").iterdir()).write_bytes(b"changed")
    with pytest.raises(StorageError, match=r"backups/.* is (cut short|missing|damaged or)"):
        restored(data, made.moment)
    assert not (data.parent / "restored").exists()
    assert stored.exists() is (harm != "lost")


def test_a_backup_is_put_back_from_where_nothing_can_be_written(
    data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made, folder = taken(data), str(data.parent / "backups")
    opened = os.open

    def refusing(path: str, flags: int, *args: int) -> int:
        if path.startswith(folder) and flags & (os.O_WRONLY | os.O_RDWR):
            raise OSError(errno.EROFS, os.strerror(errno.EROFS))
        return opened(path, flags, *args)

    monkeypatch.setattr(os, "open", refusing)
    assert files(restored(data, made.moment)) == files(data)


def test_a_link_to_a_folder_is_filled_where_it_leads(data: Path) -> None:
    made = taken(data)
    (data.parent / "large").mkdir()
    (data.parent / "link").symlink_to(data.parent / "large")
    assert files(restored(data, made.moment, "link")) == files(data)
    assert (data.parent / "link").is_symlink()
    assert files(data.parent / "large") == files(data)


def test_a_backup_names_nothing_outside_of_the_data_path(data: Path) -> None:
    made, folder = taken(data), str(data.parent / "backups")
    evil = manifests.Entry("../evil", made.manifest.entries[0].stored, 1)
    manifests.save(DISK, folder, "evil", manifests.Manifest("x", 0, [evil]))
    with pytest.raises(StorageError, match=r"names '\.\./evil', outside of the data path"):
        restored(data, "evil")
    assert not (data.parent / "evil").exists()


@pytest.mark.parametrize("stored", ["../../secret", "/{}/secret", "x/../../../secret", "", "."])
def test_nothing_outside_of_the_backup_is_read_or_written(data: Path, stored: str) -> None:
    """By a backup that somebody else has made, say."""
    taken(data)
    folder, secret = str(data.parent / "backups"), data.parent / "secret"
    secret.write_text("secret")
    evil = manifests.Entry("topics/got", stored.format(data.parent), 6, is_growing=True)
    manifests.save(DISK, folder, "evil", manifests.Manifest("x", 0, [evil]))
    with pytest.raises(StorageError, match=r"names '.*', outside of the backup: take a backup"):
        restored(data, "evil")
    with pytest.raises(StorageError, match="outside of the backup"):
        taken(data)
    assert not (data.parent / "restored").exists()
    assert secret.read_text() == "secret"


@pytest.mark.parametrize("is_folder", [False, True])
def test_a_link_out_of_the_backup_is_not_followed(data: Path, is_folder: bool) -> None:
    made = taken(data)
    stored = next((data.parent / "backups" / "growing").rglob("*.log"))
    link = stored.parent if is_folder else stored
    link.rename(data.parent / "elsewhere")
    link.symlink_to(data.parent / "elsewhere")
    with pytest.raises(StorageError, match="is a link that leads out of the backup"):
        restored(data, made.moment)
    assert not (data.parent / "restored").exists()


def test_two_backups_at_a_time_are_refused(data: Path) -> None:
    taken(data)
    lock = DISK.lock(str(data.parent / "backups"))
    with pytest.raises(LockedError, match="another backup is being taken there"):
        taken(data)
    lock.release()
    taken(data)


def test_backups_are_in_order_though_the_clock_is_set_back(data: Path) -> None:
    folder, now = str(data.parent / "backups"), SYSTEM_CLOCK.wall_ns()
    made = [take(DISK, str(data), folder, now - 10**12 * step, OTHERS).moment for step in range(3)]
    assert manifests.moments(DISK, folder) == made
    assert len(segments(data / "topics" / "orders@0")) > 1


class Moving(OsDisk):
    """A disk on which something happens once, before the journal of the topic orders is read."""

    def __init__(self, happens: Callable[[], None]) -> None:
        self._happens = [happens]

    def read_file(self, path: str) -> bytes | None:
        if path.endswith("orders@0/cursors.journal") and self._happens:
            self._happens.pop()()
        return super().read_file(path)


def broker_over(path: Path, file_bytes: int = 1 << 20) -> Broker:
    path.mkdir(exist_ok=True)
    store = Store(OsDisk(), str(path), LogOptions(file_bytes))
    return Broker(store, FakeClock(), SystemChance(1), BrokerOptions())


def put(topic: Topic, body: bytes) -> None:
    topic.stage(Bodies.single(body), 0, lambda error: None)
    assert topic.commit()[1] is None


@pytest.mark.parametrize("is_first", [True, False])
def test_a_message_that_moves_to_another_topic_meanwhile_is_in_one_of_them(
    tmp_path: Path, is_first: bool
) -> None:
    """The folder of a dead-letter topic comes before that of its topic."""
    path = tmp_path / "data"
    broker = broker_over(path)
    orders = broker.topic("orders")
    channel = orders.channel("c")
    if not is_first:
        put(broker.topic("orders.dead"), b"earlier")
    put(orders, b"spent")

    def move() -> None:
        put(broker.topic("orders.dead"), b"spent")
        channel.empty()
        broker.save()

    made = take(Moving(move), str(path), str(tmp_path / "backups"), SYSTEM_CLOCK.wall_ns(), OTHERS)
    broker.close()
    again = broker_over(restored(path, made.moment))
    assert again.topics["orders"].channels["c"].state.depth == 0
    assert again.topics["orders.dead"].depth == (1 if is_first else 2)
    again.close()


def test_a_topic_that_is_made_again_meanwhile_stays_as_it_was_read_first(tmp_path: Path) -> None:
    path = tmp_path / "data"
    broker = broker_over(path)
    put(broker.topic("orders"), b"first")
    put(broker.topic("again"), b"old")

    def make_again() -> None:
        broker.delete_topic("again")
        put(broker.topic("again"), b"new")
        put(broker.topic("again"), b"new")

    folder = str(tmp_path / "backups")
    made = take(Moving(make_again), str(path), folder, SYSTEM_CLOCK.wall_ns(), OTHERS)
    broker.close()
    again = broker_over(restored(path, made.moment))
    assert again.topics["again"].depth == 1
    assert not list(again.damaged)
    again.close()


def test_a_log_of_which_nothing_is_left_that_was_read_stays_as_it_was_read(tmp_path: Path) -> None:
    path = tmp_path / "data"
    broker = broker_over(path, file_bytes=100)
    put(broker.topic("orders"), b"x")
    busy = broker.topic("busy")
    channel = busy.channel("c")
    put(busy, b"read")

    def consume() -> None:
        for _ in range(3):
            put(busy, bytes(100))
        channel.empty()
        broker.save()
        broker.trim()
        assert busy.log.start_offset > 1

    folder = str(tmp_path / "backups")
    made = take(Moving(consume), str(path), folder, SYSTEM_CLOCK.wall_ns(), OTHERS)
    broker.close()
    again = broker_over(restored(path, made.moment))
    assert again.topics["busy"].channels["c"].state.depth == 1
    assert not list(again.damaged)
    again.close()


@pytest.mark.parametrize("is_split", [True, False])
def test_a_topic_that_gets_more_queues_meanwhile_has_one_or_their_index(
    tmp_path: Path, is_split: bool
) -> None:
    path = tmp_path / "data"
    broker = broker_over(path, file_bytes=100)
    put(broker.topic("orders"), b"x")
    busy = broker.topic("busy")
    channel = busy.channel("c")
    for _ in range(3):
        put(busy, bytes(100))
    channel.empty()
    broker.save()
    broker.trim()
    assert busy.log.start_offset > 0
    one = busy.queues.bounds(0)
    if is_split:
        broker.split(busy, 2, 2)

    def split() -> None:
        broker.split(busy, 2, 2)
        busy.stage(Bodies.single(b"y"), 0, lambda error: None, 1)
        assert busy.commit()[1] is None

    folder = str(tmp_path / "backups")
    made = take(Moving(split), str(path), folder, SYSTEM_CLOCK.wall_ns(), OTHERS)
    bounds = [busy.queues.bounds(queue) for queue in range(2)]
    broker.close()
    again = broker_over(restored(path, made.moment))
    expected = bounds if is_split else [one, (0, 0)]
    assert [again.topics["busy"].queues.bounds(queue) for queue in range(2)] == expected
    assert not list(again.damaged)
    again.close()
