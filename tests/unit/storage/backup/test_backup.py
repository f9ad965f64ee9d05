"""Backups of a data path share their bytes, and put back all or nothing."""

from __future__ import annotations

import errno
import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from penstock.broker.broker import Broker, BrokerOptions
from penstock.broker.topic import Topic
from penstock.core.chance import SystemChance
from penstock.core.clock import SYSTEM_CLOCK
from penstock.core.errors import LockedError, StorageError
from penstock.nsq.protocol.bodies import Bodies
from penstock.storage.backup import manifest as manifests
from penstock.storage.backup.backup import Backup, put_back, take
from penstock.storage.backup.manifest import Entry, Manifest
from penstock.storage.backup.vault import TAIL_BYTES, Vault
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


def backups(path: Path) -> str:
    return str(path.parent / "backups")


def taken(path: Path, keep: int = 0, *, disk: OsDisk = DISK) -> Backup:
    return take(disk, str(path), backups(path), SYSTEM_CLOCK.wall_ns(), OTHERS, keep)


def restored(path: Path, moment: str, name: str = "restored") -> Path:
    target = path.parent / name
    put_back(DISK, backups(path), moment, str(target))
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
    logs = {name for name in new if name.endswith(".log")}
    grown = sum(len(new[name]) - len(before.get(name, b"")) for name in logs)
    replaced = sum(len(new[name]) for name in new.keys() - logs if new[name] != before.get(name))
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

    made = taken(data, disk=Deleting())
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
    assert set(manifests.moments(DISK, backups(data))) == {first.moment, second.moment}


def test_older_backups_are_forgotten_with_what_only_they_hold(data: Path) -> None:
    first = taken(data)
    shutil.rmtree(data / "topics")
    healthy(data)
    second = taken(data)
    vault = data.parent / "backups" / "growing"
    held = sum(each.stat().st_size for each in vault.rglob("*.log"))
    add(data, 1)
    third = taken(data, keep=2)
    assert manifests.moments(DISK, backups(data)) == [second.moment, third.moment]
    assert sum(each.stat().st_size for each in vault.rglob("*.log")) < held
    assert files(restored(data, third.moment)) == files(data)
    with pytest.raises(StorageError, match=f"has no backup {first.moment}"):
        restored(data, first.moment, "gone")


def test_nothing_is_put_back_over_anything(data: Path) -> None:
    made = taken(data)
    before = files(data)
    with pytest.raises(StorageError, match="is not empty; a backup is restored into a new"):
        put_back(DISK, backups(data), made.moment, str(data))
    assert files(data) == before


@pytest.mark.parametrize("is_link", [False, True])
def test_an_empty_folder_is_filled_where_it_is(data: Path, is_link: bool) -> None:
    made = taken(data)
    (data.parent / "empty").mkdir()
    if is_link:
        (data.parent / "link").symlink_to(data.parent / "empty")
    restored(data, made.moment, "link" if is_link else "empty")
    assert files(data.parent / "empty") == files(data)
    assert (data.parent / "link").is_symlink() is is_link


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
    made = taken(data)
    opened = os.open

    def refusing(path: str, flags: int, *args: int) -> int:
        if path.startswith(backups(data)) and flags & (os.O_WRONLY | os.O_RDWR):
            raise OSError(errno.EROFS, os.strerror(errno.EROFS))
        return opened(path, flags, *args)

    monkeypatch.setattr(os, "open", refusing)
    assert files(restored(data, made.moment)) == files(data)


def test_a_backup_names_nothing_outside_of_the_data_path(data: Path) -> None:
    made = taken(data)
    evil = manifests.Entry("../evil", made.manifest.entries[0].stored, 1)
    manifests.save(DISK, backups(data), "evil", manifests.Manifest("x", 0, [evil]))
    with pytest.raises(StorageError, match=r"names '\.\./evil', outside of the data path"):
        restored(data, "evil")
    assert not (data.parent / "evil").exists()


@pytest.mark.parametrize("stored", ["../../secret", "/{}/secret", "x/../../../secret", "", "."])
def test_nothing_outside_of_the_backup_is_read_or_written(data: Path, stored: str) -> None:
    """By a backup that somebody else has made, say."""
    taken(data)
    secret = data.parent / "secret"
    secret.write_text("secret")
    evil = manifests.Entry("topics/got", stored.format(data.parent), 6, is_growing=True)
    manifests.save(DISK, backups(data), "evil", manifests.Manifest("x", 0, [evil]))
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
    lock = DISK.lock(backups(data))
    with pytest.raises(LockedError, match="another backup is being taken there"):
        taken(data)
    lock.release()
    taken(data)


def test_backups_are_in_order_though_the_clock_is_set_back(data: Path) -> None:
    folder, now = backups(data), SYSTEM_CLOCK.wall_ns()
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


@contextmanager
def backed_up_while(path: Path, broker: Broker, happens: Callable[[], None]) -> Iterator[Broker]:
    """The broker over a backup that was taken while this happened to the broker at ``path``."""
    made = taken(path, disk=Moving(happens))
    broker.close()
    again = broker_over(restored(path, made.moment))
    yield again
    assert not list(again.damaged)
    again.close()


def consumed(topic: Topic, broker: Broker, count: int) -> None:
    """Put in large messages, and let go of all there is."""
    for _ in range(count):
        put(topic, bytes(100))
    topic.channel("c").empty()
    broker.save()
    broker.trim()
    assert topic.log.start_offset > 0


def put(topic: Topic, body: bytes) -> None:
    topic.stage(Bodies.single(body), 0, lambda error: None)
    assert topic.commit()[1] is None


@pytest.mark.parametrize("is_first", [True, False])
def test_a_message_that_moves_to_another_topic_meanwhile_is_in_one_of_them(
    tmp_path: Path, is_first: bool
) -> None:
    """The folder of a dead-letter topic comes before that of its topic."""
    broker = broker_over(tmp_path / "data")
    orders = broker.topic("orders")
    channel = orders.channel("c")
    if not is_first:
        put(broker.topic("orders.dead"), b"earlier")
    put(orders, b"spent")

    def move() -> None:
        put(broker.topic("orders.dead"), b"spent")
        channel.empty()
        broker.save()

    with backed_up_while(tmp_path / "data", broker, move) as again:
        assert again.topics["orders"].channels["c"].state.depth == 0
        assert again.topics["orders.dead"].depth == (1 if is_first else 2)


def test_a_topic_that_is_made_again_meanwhile_stays_as_it_was_read_first(tmp_path: Path) -> None:
    broker = broker_over(tmp_path / "data")
    put(broker.topic("orders"), b"first")
    put(broker.topic("again"), b"old")

    def make_again() -> None:
        broker.delete_topic("again")
        put(broker.topic("again"), b"new")
        put(broker.topic("again"), b"new")

    with backed_up_while(tmp_path / "data", broker, make_again) as again:
        assert again.topics["again"].depth == 1


def test_a_log_of_which_nothing_is_left_that_was_read_stays_as_it_was_read(tmp_path: Path) -> None:
    broker = broker_over(tmp_path / "data", file_bytes=100)
    put(broker.topic("orders"), b"x")
    busy = broker.topic("busy")
    busy.channel("c")
    put(busy, b"read")
    with backed_up_while(tmp_path / "data", broker, lambda: consumed(busy, broker, 3)) as again:
        assert again.topics["busy"].channels["c"].state.depth == 1


@pytest.mark.parametrize("is_split", [True, False])
def test_a_topic_that_gets_more_queues_meanwhile_has_one_or_their_index(
    tmp_path: Path, is_split: bool
) -> None:
    broker = broker_over(tmp_path / "data", file_bytes=100)
    put(broker.topic("orders"), b"x")
    busy = broker.topic("busy")
    busy.channel("c")
    consumed(busy, broker, 3)
    expected = [busy.queues.bounds(0), (0, 0)]
    if is_split:
        broker.split(busy, 2, 2)

    def split() -> None:
        broker.split(busy, 2, 2)
        busy.stage(Bodies.single(b"y"), 0, lambda error: None, 1)
        assert busy.commit()[1] is None
        if is_split:
            expected[:] = [busy.queues.bounds(queue) for queue in range(2)]

    with backed_up_while(tmp_path / "data", broker, split) as again:
        assert [again.topics["busy"].queues.bounds(queue) for queue in range(2)] == expected


# --- Manifests are read back as they were written, and refused in a line -------------------------


def test_what_is_saved_is_loaded_until_it_is_removed(tmp_path: Path) -> None:
    made = Manifest("/data", 7, [Entry("a", "b", 3), Entry("c", "d", 4, is_growing=True)])
    folder = str(tmp_path)
    for moment in ("2", "1"):
        manifests.save(DISK, folder, moment, made)
    assert manifests.moments(DISK, folder) == ["1", "2"]
    assert manifests.load(DISK, folder, "2") == made
    assert made.nbytes == 7
    manifests.remove(DISK, folder, "1")
    assert manifests.moments(DISK, folder) == ["2"]
    with pytest.raises(StorageError, match="has no backup 1"):
        manifests.load(DISK, folder, "1")


@pytest.mark.parametrize(
    ("data", "said"),
    [
        ('{"data_path":"/data",', "is damaged: "),
        ('{"data_path":"/data","wall_ns":1,"version":2}', "has format 2, of a later Penstock"),
    ],
)
def test_a_manifest_that_cannot_be_used(tmp_path: Path, data: str, said: str) -> None:
    (tmp_path / "manifests").mkdir()
    (tmp_path / "manifests" / "1.json").write_text(data)
    with pytest.raises(StorageError, match=said):
        manifests.load(DISK, str(tmp_path), "1")


# --- The vault keeps bytes once, and knows another history by its end ----------------------------


def grown(vault: Vault, data: bytes) -> Entry:
    def read(position: int, nbytes: int) -> bytes:
        return data[position : position + nbytes]

    return vault.grow("q/f", "q/f", read, lambda known: len(data))


def vault_of(folder: Path, *entries: Entry) -> Vault:
    return Vault(DISK, str(folder), [Manifest("/data", 0, list(entries))])


def content(folder: Path, entry: Entry) -> bytes:
    Vault(DISK, str(folder), []).restore(entry, str(folder / "target"))
    data = (folder / "target").read_bytes()
    (folder / "target").unlink()
    return data


def test_a_file_is_kept_once_by_its_content(tmp_path: Path) -> None:
    vault = vault_of(tmp_path)
    entries = [vault.keep(name, b"same") for name in ("a", "b")]
    assert (vault.copied, {each.stored for each in entries}) == (4, {entries[0].stored})
    assert [content(tmp_path, each) for each in entries] == [b"same"] * 2


def test_a_growing_file_takes_the_new_bytes_only(tmp_path: Path) -> None:
    first = grown(vault_of(tmp_path), b"x" * 2 * TAIL_BYTES)
    vault = vault_of(tmp_path, first)
    second = grown(vault, b"x" * 2 * TAIL_BYTES + b"new")
    assert (vault.copied, second.stored) == (3, first.stored)
    assert content(tmp_path, first) == b"x" * 2 * TAIL_BYTES
    assert content(tmp_path, second)[-4:] == b"xnew"


@pytest.mark.parametrize("other", [b"x", b"xy1", b"xx2 and on", b""])
def test_another_history_gets_a_file_of_its_own(tmp_path: Path, other: bytes) -> None:
    first = grown(vault_of(tmp_path), b"xx1")
    second = grown(vault_of(tmp_path, first), other)
    assert second.stored == "q/f-1"
    third = grown(vault_of(tmp_path, first, second), other + b"!")
    assert third.stored == second.stored
    assert [content(tmp_path, each) for each in (first, second, third)] == [
        b"xx1", other, other + b"!"
    ]  # fmt: skip


def test_what_becomes_shorter_while_it_is_copied_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(StorageError, match="has become shorter"):
        vault_of(tmp_path).grow("f", "f", lambda position, nbytes: b"", lambda known: 3)


def test_what_nothing_lists_is_pruned(tmp_path: Path) -> None:
    vault = vault_of(tmp_path)
    kept, gone = vault.keep("a", b"1"), vault.keep("b", b"2")
    growing = grown(vault, b"3")
    vault.prune([Manifest("/data", 0, [kept])])
    assert content(tmp_path, kept) == b"1"
    for each in (gone, growing):
        with pytest.raises(StorageError, match="missing"):
            content(tmp_path, each)
