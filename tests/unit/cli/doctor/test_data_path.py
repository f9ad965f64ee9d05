"""Each fault of a data path is found, a healthy one has none, and looking changes nothing."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest
from xxhash import xxh3_64_intdigest

from penstock.broker.progress import TopicRecord, encode_record
from penstock.cli.doctor.data_path import (
    examine_data_path,
    examine_permissions,
    examine_tables,
    holder_of,
    program_name,
)
from penstock.cli.doctor.report import Level, Report
from penstock.cli.doctor.run import repair_data_path
from penstock.core.clock import SYSTEM_CLOCK
from penstock.core.units import HOUR
from penstock.rocketmq.broker.state import seal
from penstock.storage.files.disk import DirectoryLock, OsDisk
from penstock.storage.files.disk_space import DiskSpace
from penstock.storage.recovery.damage import Damage, DamageRecord
from tests.unit.cli.doctor.patients import MESSAGES, everything, healthy, segments

GOOD = seal.sealed(b'{"dataVersion":{}}')


def examined(path: Path, **options: int) -> Report:
    return examine_data_path(str(path), SYSTEM_CLOCK.wall_ns(), **options)  # type: ignore[arg-type]


def flip(file: Path, position: int, count: int = 8) -> None:
    with file.open("r+b") as opened:
        opened.seek(position)
        found = opened.read(count)
        opened.seek(position)
        opened.write(bytes(each ^ 0xFF for each in found))


def test_a_healthy_data_path_has_no_finding_and_is_read_whole(tmp_path: Path) -> None:
    folder = healthy(tmp_path)
    assert len(segments(folder)) > 2
    report = examined(tmp_path)
    assert report.findings == []
    assert report.checked == [f"data path {tmp_path}: 1 topic, {MESSAGES} messages"]


def damage_a_segment(path: Path, folder: Path) -> None:
    flip(segments(folder)[0], 300)


def damage_the_journal(path: Path, folder: Path) -> None:
    flip(folder / "cursors.journal", 4)


def lose_the_journal(path: Path, folder: Path) -> None:
    (folder / "cursors.journal").unlink()


def lose_a_segment(path: Path, folder: Path) -> None:
    segments(folder)[1].unlink()


def tear_the_tail(path: Path, folder: Path) -> None:
    with segments(folder)[-1].open("ab") as newest:
        newest.write(b"a batch cut short")


def damage_an_index(path: Path, folder: Path) -> None:
    flip(sorted(folder.glob("*.index"))[0], 20)


def damage_the_identity(path: Path, folder: Path) -> None:
    (folder / "queue.json").write_bytes(b"\0" * 30)


def leave_temporaries(path: Path, folder: Path) -> None:
    (path / "nsqd.dat.0123abcd.tmp").write_bytes(b"half")
    (folder / "queue.json.00000000.tmp").write_bytes(b"")


def leave_a_deleted_topic(path: Path, folder: Path) -> None:
    (path / "topics" / "gone@0.deleted").mkdir()


def damage_nsqd_dat(path: Path, folder: Path) -> None:
    (path / "nsqd.dat").write_text('{"topics":[')


def list_a_topic_without_files(path: Path, folder: Path) -> None:
    (path / "nsqd.dat").write_text('{"topics":[{"name":"paid"}]}')


def leave_damage_unaccepted(path: Path, folder: Path) -> None:
    record = DamageRecord(OsDisk(), str(folder))
    record.report(Damage("log", "cut short", first=MESSAGES - 1, next=MESSAGES), b"")


def age_the_journal(path: Path, folder: Path) -> None:
    record = encode_record(TopicRecord(0))
    old = len(record).to_bytes(4, "little") + xxh3_64_intdigest(record).to_bytes(8, "little")
    (folder / "cursors.journal").write_bytes(old + record)


def leave_queues_of_go(path: Path, folder: Path) -> None:
    (path / "clicks.diskqueue.meta.dat").write_text("1\n0,0\n0,9\n")
    (path / "clicks.diskqueue.000000.dat").write_bytes(bytes(9))


@pytest.mark.parametrize(
    ("plant", "code", "level"),
    [
        (damage_a_segment, "damage", Level.ERROR),
        (damage_the_journal, "damage", Level.ERROR),
        (lose_the_journal, "damage", Level.ERROR),
        (lose_a_segment, "damage", Level.ERROR),
        (tear_the_tail, "torn-tail", Level.WARNING),
        (damage_an_index, "index", Level.WARNING),
        (damage_the_identity, "identity", Level.WARNING),
        (leave_temporaries, "leftovers", Level.WARNING),
        (leave_a_deleted_topic, "leftovers", Level.WARNING),
        (damage_nsqd_dat, "metadata", Level.ERROR),
        (list_a_topic_without_files, "no-files", Level.WARNING),
        (leave_damage_unaccepted, "damage-pending", Level.ERROR),
        (age_the_journal, "old-format", Level.WARNING),
        (leave_queues_of_go, "old-format", Level.WARNING),
    ],
)
def test_a_fault_is_found_alone_and_nothing_changes(
    tmp_path: Path, plant: Callable[[Path, Path], None], code: str, level: Level
) -> None:
    plant(tmp_path, healthy(tmp_path))
    before = everything(tmp_path)
    report = examined(tmp_path)
    assert [(each.code, each.level) for each in report.findings] == [(code, level)]
    assert report.findings[0].remedy
    assert everything(tmp_path) == before


def test_messages_from_the_future_are_found(tmp_path: Path) -> None:
    healthy(tmp_path)
    report = examine_data_path(str(tmp_path), SYSTEM_CLOCK.wall_ns() - HOUR)
    assert [each.code for each in report.findings] == ["clock"]


def test_a_disk_that_is_nearly_full_is_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    healthy(tmp_path)
    space = DiskSpace(total=1 << 40, used=(1 << 40) * 93 // 100, free=(1 << 40) * 7 // 100)
    monkeypatch.setattr(DiskSpace, "of", lambda _: space)
    report = examined(tmp_path)
    assert [each.code for each in report.findings] == ["disk-space"]
    assert "is 94% full, 73,400 MiB are free" in report.findings[0].what
    assert examined(tmp_path, used_max=95).findings == []


def test_a_lock_that_is_held_is_found_with_who_holds_it(tmp_path: Path) -> None:
    healthy(tmp_path)
    lock = DirectoryLock(str(tmp_path))
    report = examined(tmp_path)
    lock.release()
    assert [each.code for each in report.findings] == ["locked"]
    assert f" (process {os.getpid()})" in report.findings[0].what
    assert examined(tmp_path).findings == []


def test_a_data_path_that_is_not_there_is_found(tmp_path: Path) -> None:
    assert [each.code for each in examined(tmp_path / "no").findings] == ["no-data-path"]


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("notes.txt", "it is not a data path: it has no file of nsqd or mqbroker"),
        ("config", "it is not a data path: it has no file of nsqd or mqbroker"),
        ("topics", "it is not a data path: it has no file of nsqd or mqbroker"),
        ("", "it is empty: no node has run on it"),
    ],
)
def test_any_other_folder_is_not_called_sound(tmp_path: Path, name: str, said: str) -> None:
    tmp_path.chmod(0o777)
    if name:
        (tmp_path / name).touch(0o444)
    report = examined(tmp_path)
    assert report.checked == []
    assert [(each.code, each.level, each.what) for each in report.findings] == [
        ("no-data-path", Level.ERROR, said)
    ]
    assert "--data-path" in report.findings[0].remedy
    assert "chown" not in report.findings[0].remedy


@pytest.mark.parametrize(
    "name",
    ["nsqd.dat", "ids.json", "rocketmq-serials.json", "replication.json", "config/topics.json",
     "topics/orders.v1@0", "topics/orders@0.deleted", "clicks.diskqueue.meta.dat"],
)  # fmt: skip
def test_any_file_of_a_node_makes_a_data_path(tmp_path: Path, name: str) -> None:
    (tmp_path / name).parent.mkdir(exist_ok=True)
    (tmp_path / name).write_text("{}")
    assert "no-data-path" not in [each.code for each in examined(tmp_path).findings]


def test_what_only_the_start_in_memory_has_copied_is_not_called_copied(tmp_path: Path) -> None:
    folder = healthy(tmp_path)
    damage_the_journal(tmp_path, folder)
    (folder / "damage.json").write_bytes(b"torn")
    found = examined(tmp_path).findings
    assert [each.code for each in found] == ["damage", "damage"]
    assert not any("copied" in each.what for each in found)
    assert all("the doctor has changed nothing" in each.remedy for each in found)
    repair_data_path(str(tmp_path), accept_damage=False)
    found = examined(tmp_path).findings
    assert [each.code for each in found] == ["damage-pending", "damage-pending"]
    copies = [each.what.rpartition("; copied to ")[2] for each in found]
    assert all((folder / each).exists() for each in copies), copies


def test_a_data_path_that_cannot_be_reached_is_not_called_missing(tmp_path: Path) -> None:
    (found,) = examined(tmp_path / ("n" * 300)).findings
    assert (found.code, found.what) == ("unreadable", "it cannot be reached: file name too long")


def test_a_quick_look_takes_what_an_index_vouches_for_on_trust(tmp_path: Path) -> None:
    damage_a_segment(tmp_path, healthy(tmp_path))
    assert examined(tmp_path, quick=True).findings == []


def test_the_process_that_holds_the_lock(tmp_path: Path) -> None:
    lock = DirectoryLock(str(tmp_path))
    assert holder_of(str(tmp_path)).endswith(f" (process {os.getpid()})")
    lock.release()
    assert holder_of(str(tmp_path)) == "another process"


@pytest.mark.parametrize(
    ("words", "program"),
    [
        (["/opt/penstock/bin/python3", "/opt/penstock/bin/nsqd", "--data-path=/d"], "nsqd"),
        (["python3.13", "-m", "penstock.cli.nsqd", "--data-path=/d"], "nsqd"),
        (["python3", "-X", "dev", "-I", "-m", "penstock.cli.mqbroker"], "mqbroker"),
        (["/usr/local/bin/nsqd", "-data-path", "/d"], "nsqd"),
        (["python3", "-c", ""], "python3"),
        (["python3"], "python3"),
        ([""], ""),
    ],
)
def test_a_process_has_the_name_of_its_program(words: list[str], program: str) -> None:
    assert program_name([*words, ""]) == program


def test_a_process_that_cannot_be_seen_has_its_number_alone(tmp_path: Path) -> None:
    locks = tmp_path / "locks"
    inode = tmp_path.stat().st_ino
    locks.write_text(f"1: POSIX ADVISORY WRITE 1 08:01:{inode} 0 EOF\n"
                     f"2: FLOCK ADVISORY WRITE 999999999 08:01:{inode} 0 EOF\n")  # fmt: skip
    assert holder_of(str(tmp_path), locks) == "process 999999999"


def test_a_system_that_lists_no_locks(tmp_path: Path) -> None:
    assert holder_of(str(tmp_path), tmp_path / "no") == "another process"


@pytest.mark.parametrize(
    ("name", "mode", "level", "said"),
    [
        ("topics/file", 0o400, Level.ERROR, "its owner may not read and write"),
        ("topics/file", 0o200, Level.ERROR, "its owner may not read and write"),
        ("topics", 0o600, Level.ERROR, "its owner may not read and write"),
        ("topics/file", 0o666, Level.WARNING, "may be changed by everybody"),
        ("topics", 0o777, Level.WARNING, "may be changed by everybody"),
        ("topics/file", 0o640, None, ""),
    ],
)
def test_a_mode(tmp_path: Path, name: str, mode: int, level: Level | None, said: str) -> None:
    (tmp_path / "topics").mkdir()
    (tmp_path / "topics/file").touch(0o600)
    (tmp_path / name).chmod(mode)
    found = list(examine_permissions(str(tmp_path)))
    (tmp_path / name).chmod(0o700)
    assert [(each.level, each.what) for each in found] == ([(level, said)] if level else [])
    assert all(each.where == str(tmp_path / name) for each in found)


def test_a_link_is_no_file_that_everybody_may_change(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir(0o700)
    (tmp_path / "data").mkdir(0o700)
    (tmp_path / "data/topics").symlink_to(tmp_path / "elsewhere")
    assert list(examine_permissions(str(tmp_path / "data"))) == []


def test_a_folder_that_is_closed_to_us_ends_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "ids.json").touch(0o600)
    (tmp_path / "nsqd.dat").touch()
    lstat = os.lstat

    def closed(each: str) -> os.stat_result:
        if each.endswith("ids.json"):
            raise PermissionError(13, "Permission denied", each)
        return lstat(each)

    monkeypatch.setattr("penstock.cli.doctor.data_path.os.lstat", closed)
    (tmp_path / "nsqd.dat").chmod(0o666)
    (found,) = examine_permissions(str(tmp_path))
    assert found.where == str(tmp_path / "nsqd.dat")


def test_several_files_of_another_user_are_one_finding(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "of nsqd"
    path.mkdir()
    (path / "topics").mkdir()
    for name in ("topics/a", "topics/b", "ids.json", "notes.txt"):
        (path / name).touch(0o600)
    lstat = os.lstat

    def of_another(each: str) -> os.stat_result:
        found = lstat(each)
        return os.stat_result((*found[:4], found.st_uid + 1, *found[5:]))

    monkeypatch.setattr("penstock.cli.doctor.data_path.os.lstat", of_another)
    (found,) = examine_permissions(str(path))
    assert found.what == "belongs to another user than the data path does"
    assert found.where == f"{path}/ids.json and 3 others"
    both = f"'{path}'/ids.json '{path}'/topics"
    assert found.remedy == (
        f"chown -R USER {both} && chmod -R u+rwX,o-w {both}, where USER runs nsqd."
    )


def test_the_folder_itself_is_mended_without_what_else_is_in_it(tmp_path: Path) -> None:
    healthy(tmp_path)
    (tmp_path / "of somebody else").touch(0o400)
    tmp_path.chmod(0o777)
    (found,) = examine_permissions(str(tmp_path))
    assert found.where == str(tmp_path)
    assert found.remedy == (
        f"chown USER {tmp_path} && chmod u+rwX,o-w {tmp_path}, where USER runs nsqd."
    )


@pytest.mark.parametrize(
    ("table", "previous", "level", "said"),
    [
        (GOOD, None, None, ""),
        (b'{"dataVersion":{}}', None, None, ""),
        (GOOD.replace(b"data", b"dada"), GOOD, Level.WARNING, "not as the broker wrote it"),
        (GOOD[:9], GOOD, Level.WARNING, "it is damaged"),
        (b"", GOOD, Level.WARNING, "it is damaged"),
        (GOOD[:9], GOOD[:9], Level.ERROR, "and so is topics.json.bak"),
        (GOOD[:9], None, Level.ERROR, "and so is topics.json.bak, or it is missing"),
    ],
)
def test_a_table_and_its_previous_content(
    tmp_path: Path, table: bytes, previous: bytes | None, level: Level | None, said: str
) -> None:
    folder = tmp_path / "config"
    folder.mkdir()
    (folder / "topics.json").write_bytes(table)
    if previous is not None:
        (folder / "topics.json.bak").write_bytes(previous)
    (folder / "plain_acl.yml").write_text("no table")
    found = list(examine_tables(OsDisk(), str(tmp_path)))
    assert [each.level for each in found] == ([level] if level else [])
    assert all(said in each.what and each.where == f"{folder}/topics.json" for each in found)


def test_a_data_path_without_tables_has_none(tmp_path: Path) -> None:
    assert list(examine_tables(OsDisk(), str(tmp_path))) == []
