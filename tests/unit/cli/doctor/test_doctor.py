"""``penstock doctor``: a fault of a configuration or a data path is found alone, with a remedy."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest
from xxhash import xxh3_64_intdigest

from penstock.broker.progress import TopicRecord, encode_record
from penstock.cli.doctor.config import examine_config
from penstock.cli.doctor.data_path import (
    examine_data_path,
    examine_permissions,
    examine_tables,
    holder_of,
    program_name,
)
from penstock.cli.doctor.doctor_command import repair_data_path
from penstock.cli.doctor.queue import Queue
from penstock.cli.doctor.report import Finding, Level, Report, error, warning
from penstock.core.clock import SYSTEM_CLOCK
from penstock.core.units import HOUR
from penstock.rocketmq.broker.state import seal
from penstock.storage.files.disk import DirectoryLock, OsDisk
from penstock.storage.files.disk_space import DiskSpace
from penstock.storage.files.dry_disk import DryDisk
from penstock.storage.log import LogOptions
from penstock.storage.recovery.damage import Damage, DamageRecord
from penstock.storage.store import Store
from tests.unit.cli.doctor.patients import MESSAGES, TOPIC, everything, healthy, segments


def examined_config(tmp_path: Path, name: str, text: str) -> Report:
    file = tmp_path / name
    file.write_text(text.replace("TMP", str(tmp_path)))
    return examine_config(file)


@pytest.mark.parametrize(
    ("name", "text", "program"),
    [
        ("nsqd.toml", 'tcp_address = "127.0.0.1:4150"\nmsg_timeout = "30s"\ndata_path = "TMP"',
         "nsqd"),
        ("nsqd.cfg", 'nsqlookupd_tcp_addresses = [\n    "127.0.0.1:4160"\n]\ndata_path = "TMP"',
         "nsqd"),
        ("admin.conf", '# nsqadmin\nnsqd_http_addresses = ["127.0.0.1:4151"]', "nsqadmin"),
        ("look.toml", 'tombstone_lifetime = "45s"\nhttp_address = ":4161"', "nsqlookupd"),
        ("admin.toml", 'nsqlookupd_http_addresses = ["127.0.0.1:4161"]', "nsqadmin"),
        ("notepad.toml", '\ufefftombstone_lifetime = "45s"\nhttp_address = ":4161"', "nsqlookupd"),
        ("broker.conf", "listenPort=10911\nbrokerName=a\nflushDiskType=SYNC_FLUSH", "mqbroker"),
        ("names.conf", "listenPort=9876\norderMessageEnable=true", "mqnamesrv"),
    ],
)  # fmt: skip
def test_a_right_file_has_no_finding(tmp_path: Path, name: str, text: str, program: str) -> None:
    report = examined_config(tmp_path, name, text)
    assert report.findings == []
    assert report.checked == [f"configuration {tmp_path / name} of {program}"]


@pytest.mark.parametrize(
    ("name", "text", "code", "said"),
    [
        ("a.toml", 'tcp_adress = ":4150"', "config-key", "did you mean tcp_address?"),
        ("a.toml", 'msg_timeout = "1day"', "config-value", "msg_timeout = '1day': "),
        ("a.toml", "max_deflate_level = 12", "config-value", "--max-deflate-level must be [1,9]"),
        ("a.toml", 'msg_timeout = "20m"', "time-outs", "max_msg_timeout 15m0s"),
        ("a.toml", 'data_path = "TMP/no"', "no-data-path", "is not a directory"),
        ("a.toml", f'data_path = "TMP/{"n" * 300}"', "unreadable", "reached: file name too long"),
        ("a.toml", 'tls_cert = "TMP/no.pem"\ntls_key = "TMP/no.key"', "config-value", "no.pem"),
        ("a.toml", 'tcp_address = "4150"', "config-value", "tcp_address: address 4150: missing"),
        ("a.toml", 'replication_secret_file = "TMP/no"', "config-value", "TMP/no: No such file"),
        ("a.toml", 'rocketmq_address = ":0"\nrocketmq_config = "TMP/no"', "config-value", "TMP/no"),
        ("a.toml", 'rocketmq_address = ":0"\nauth_http_addresses = ["127.0.0.1:1"]',
         "config-value", "opens to everybody what --auth-http-address closes"),
        ("a.toml", 'nsqlookupd_http_addresses = [":1"]\nnsqd_http_addresses = [":2"]',
         "config-value", "use --nsqd-http-address or --lookupd-http-address not both"),
        ("a.toml", "tcp_address = :4150", "config", "Invalid value"),
        ("nsqd.cfg", 'tcp_address = ":4150"\ndata_pth = "TMP"', "config-key", "mean data_path?"),
        ("nsqd.cfg", "tcp_address = :4150", "config", "Invalid value"),
        ("a.toml", "a=" + "[" * 100_000, "config", "recursion"),
        ("a.conf", "listenprot=1", "config-key", "did you mean listenPort?"),
        ("a.conf", "listenPort=x", "config-value", "listenPort must be a number, not 'x'"),
        ("a.conf", "kvConfigPath=TMP/kv\norderMesageEnable=true", "config-key",
         "did you mean orderMessageEnable?"),
        ("a.conf", "kvConfigPath=TMP/kv\ntls.server.mode=on", "config-value",
         "tls.server.mode must be disabled, permissive or enforcing"),
        ("a.conf", "brokerName=\\u00", "config-value", "\\u"),
        ("a.conf", "brokerRole=SLAVE", "config-value", "a brokerId greater than 0"),
    ],
)  # fmt: skip
def test_a_fault_of_a_configuration_is_found_alone(
    tmp_path: Path, name: str, text: str, code: str, said: str
) -> None:
    report = examined_config(tmp_path, name, text)
    assert [each.code for each in report.findings] == [code]
    assert said.replace("TMP", str(tmp_path)) in report.findings[0].what
    assert report.findings[0].remedy


def test_a_file_that_is_not_there_is_found_and_a_secret_is_not_repeated(tmp_path: Path) -> None:
    report = examine_config(tmp_path / "no.toml")
    assert [(each.code, each.what) for each in report.findings] == [
        ("config", f"no such file or directory: '{tmp_path / 'no.toml'}'")
    ]
    report = examined_config(tmp_path, "a.toml", 'statsd_interval = "http://me:hush@host"')
    assert "hush" not in report.findings[0].what


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


def append(file: Path, data: bytes) -> None:
    file.write_bytes(file.read_bytes() + data)


def leave_damage_unaccepted(path: Path, folder: Path) -> None:
    record = DamageRecord(OsDisk(), str(folder))
    record.report(Damage("log", "cut short", first=MESSAGES - 1, next=MESSAGES), b"")


def leave_temporaries(path: Path, folder: Path) -> None:
    (path / "nsqd.dat.0123abcd.tmp").write_bytes(b"half")
    (folder / "queue.json.00000000.tmp").write_bytes(b"")


def age_the_journal(path: Path, folder: Path) -> None:
    record = encode_record(TopicRecord(0))
    old = len(record).to_bytes(4, "little") + xxh3_64_intdigest(record).to_bytes(8, "little")
    (folder / "cursors.journal").write_bytes(old + record)


def leave_queues_of_go(path: Path, folder: Path) -> None:
    (path / "clicks.diskqueue.meta.dat").write_text("1\n0,0\n0,9\n")
    (path / "clicks.diskqueue.000000.dat").write_bytes(bytes(9))


FAULTS: dict[str, tuple[Callable[[Path, Path], object], str, Level]] = {
    "damaged segment": (damage_a_segment, "damage", Level.ERROR),
    "damaged journal": (damage_the_journal, "damage", Level.ERROR),
    "lost journal": (lambda path, folder: (folder / "cursors.journal").unlink(), "damage",
                     Level.ERROR),
    "lost segment": (lambda path, folder: segments(folder)[1].unlink(), "damage", Level.ERROR),
    "torn tail": (lambda path, folder: append(segments(folder)[-1], b"a batch cut short"),
                  "torn-tail", Level.WARNING),
    "damaged index": (lambda path, folder: flip(sorted(folder.glob("*.index"))[0], 20), "index",
                      Level.WARNING),
    "damaged identity": (lambda path, folder: (folder / "queue.json").write_bytes(bytes(30)),
                         "identity", Level.WARNING),
    "temporaries": (leave_temporaries, "leftovers", Level.WARNING),
    "deleted topic": (lambda path, folder: (path / "topics" / "gone@0.deleted").mkdir(),
                      "leftovers", Level.WARNING),
    "damaged metadata": (lambda path, folder: (path / "nsqd.dat").write_text('{"topics":['),
                         "metadata", Level.ERROR),
    "topic without files": (
        lambda path, folder: (path / "nsqd.dat").write_text('{"topics":[{"name":"paid"}]}'),
        "no-files", Level.WARNING),
    "unaccepted damage": (leave_damage_unaccepted, "damage-pending", Level.ERROR),
    "journal of before": (age_the_journal, "old-format", Level.WARNING),
    "queues of Go": (leave_queues_of_go, "old-format", Level.WARNING),
}  # fmt: skip


@pytest.mark.parametrize(("plant", "code", "level"), FAULTS.values(), ids=FAULTS)
def test_a_fault_is_found_alone_and_nothing_changes(
    tmp_path: Path, plant: Callable[[Path, Path], object], code: str, level: Level
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
    assert holder_of(str(tmp_path)).endswith(f" (process {os.getpid()})")
    lock.release()
    assert [each.code for each in report.findings] == ["locked"]
    assert f" (process {os.getpid()})" in report.findings[0].what
    assert examined(tmp_path).findings == []
    # Others' locks, a process that cannot be seen, a system that lists no locks.
    assert holder_of(str(tmp_path)) == "another process"
    locks, inode = tmp_path / "locks", tmp_path.stat().st_ino
    locks.write_text(f"1: POSIX ADVISORY WRITE 1 08:01:{inode} 0 EOF\n"
                     f"2: FLOCK ADVISORY WRITE 999999999 08:01:{inode} 0 EOF\n")  # fmt: skip
    assert holder_of(str(tmp_path), locks) == "process 999999999"
    assert holder_of(str(tmp_path), tmp_path / "no") == "another process"


def test_a_data_path_that_is_not_there_or_cannot_be_reached_is_found(tmp_path: Path) -> None:
    assert [each.code for each in examined(tmp_path / "no").findings] == ["no-data-path"]
    (tmp_path / "file").touch()
    (found,) = examined(tmp_path / "file").findings
    assert (found.what, found.remedy) == ("it is not a directory", "Name one: --data-path.")
    (found,) = examined(tmp_path / ("n" * 300)).findings
    assert (found.code, found.what) == ("unreadable", "it cannot be reached: file name too long")


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
    ("name", "text", "code", "said"),
    [
        ("ids.json", '{"version": 99}', "later-format", "ids.json has format 99, of a later Pen"),
        ("topics/orders.v1@0", "", "unreadable", "topics/orders.v1@0: Not a directory"),
    ],
)
def test_a_store_that_cannot_be_opened_is_found(
    tmp_path: Path, name: str, text: str, code: str, said: str
) -> None:
    (tmp_path / name).parent.mkdir(exist_ok=True)
    (tmp_path / name).write_text(text)
    report = examined(tmp_path)
    assert report.checked == [f"data path {tmp_path}"]
    assert [each.code for each in report.findings] == [code]
    assert report.findings[0].what.startswith(f"{tmp_path}/{said}")


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
    assert list(examine_tables(OsDisk(), str(tmp_path))) == []
    folder.mkdir()
    (folder / "topics.json").write_bytes(table)
    if previous is not None:
        (folder / "topics.json.bak").write_bytes(previous)
    (folder / "plain_acl.yml").write_text("no table")
    found = list(examine_tables(OsDisk(), str(tmp_path)))
    assert [each.level for each in found] == ([level] if level else [])
    assert all(said in each.what and each.where == f"{folder}/topics.json" for each in found)


@pytest.mark.parametrize(("quick", "lost"), [(False, 1), (True, 0)])
def test_a_batch_that_an_index_vouches_for(tmp_path: Path, quick: bool, lost: int) -> None:
    damage_a_segment(tmp_path, healthy(tmp_path))
    disk = DryDisk()
    store = Store(disk, str(tmp_path), LogOptions())
    queue = Queue(disk, store, TOPIC, 0)
    found = list(queue.examine(SYSTEM_CLOCK.wall_ns(), quick=quick))
    store.close()
    assert queue.messages == MESSAGES
    assert [each.code for each in found] == ["damage"] * lost
    assert all("1 message is lost, offset " in each.what for each in found)
    assert all(f"topic/damage/accept?topic={TOPIC}" in each.remedy for each in found)
    assert len(examined(tmp_path, quick=quick).findings) == lost


def test_a_note_is_no_fault() -> None:
    findings = [error("a", "w", "x", "r"), warning("b", "w", "x", "r"),
                Finding(Level.NOTE, "c", "w", "x", "r")]  # fmt: skip
    report = Report(findings, ["w"])
    assert [each.code for each in report.faults] == ["a", "b"]
    assert msgspec.json.decode(msgspec.json.encode(report))["findings"][0] == {
        "level": "error", "code": "a", "where": "w", "what": "x", "remedy": "r"
    }  # fmt: skip


@pytest.mark.parametrize(("accept", "left"), [(False, ["damage-pending"]), (True, [])])
def test_a_torn_tail_goes_and_damage_stays_until_it_is_accepted(
    tmp_path: Path, accept: bool, left: list[str]
) -> None:
    folder = healthy(tmp_path)
    segments(folder)[1].unlink()
    newest = segments(folder)[-1]
    size = newest.stat().st_size
    with newest.open("ab") as file:
        file.write(b"torn")
    repair_data_path(str(tmp_path), accept_damage=accept)
    assert newest.stat().st_size == size
    assert len(list((folder / "quarantine").iterdir())) == 1
    report = examine_data_path(str(tmp_path), SYSTEM_CLOCK.wall_ns())
    assert [each.code for each in report.findings] == left


def test_a_folder_that_is_not_a_data_path_is_left_alone(tmp_path: Path) -> None:
    """A start removes ``*.tmp`` of its own form, here of another program."""
    other = tmp_path / "notes.txt.0123abcd.tmp"
    other.touch()
    repair_data_path(str(tmp_path), accept_damage=True)
    assert list(tmp_path.iterdir()) == [other]
    repair_data_path(str(tmp_path / "no"), accept_damage=True)
