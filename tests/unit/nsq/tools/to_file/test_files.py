"""nsq_to_file's files: names, rotation, moves that overwrite nothing, what counts as durable.

Names, lines and their order are those of the recorded runs of Go's program (tests/conformance).
"""

from __future__ import annotations

import errno
import gzip
import logging
import os
import stat
import time
import zlib
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta, timezone
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from unittest.mock import patch

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from penstock.core.units import HOUR, SECOND
from penstock.nsq.tools.to_file import file_system
from penstock.nsq.tools.to_file.command_line import ToFileFlags
from penstock.nsq.tools.to_file.filename import Filenames, host_name, strftime, with_revision
from penstock.nsq.tools.to_file.rotation import Rotation
from penstock.nsq.tools.to_file.topic_files import GzipOutput, WriteFailed, Writer
from penstock.testing.clock import FakeClock

# --- names


WHEN = datetime(2026, 11, 21, 1, 16, 29, tzinfo=timezone(timedelta(hours=-3, minutes=-30), "XYZ"))


@pytest.mark.parametrize(
    ("hour", "layout", "text"),
    [
        (0, "%H %I %p", "00 12 AM"),
        (12, "%H %I %p", "12 12 PM"),
        (15, "%H %I %p", "15 03 PM"),
        (1, "%Z %z", "XYZ -0330"),
        (1, "%%Y %q", "%Y %q"),
        (1, "2006 _2 Jan 1 PM 15:04", "2006 _2 Jan 1 PM 15:04"),
        (1, "", ""),
    ],
)
def test_strftime_knows_these_directives_and_no_other(hour: int, layout: str, text: str) -> None:
    """The recorded runs have each directive at their time of day."""
    assert strftime(layout, WHEN.replace(hour=hour)) == text


def test_revisions_have_six_digits_at_least() -> None:
    assert with_revision("a<REV>.log", 0) == "a-000000.log"
    assert with_revision("<REV>a<REV>", 1_234_567) == "-1234567a-1234567"
    assert with_revision("a.log", 3) == "a.log"


@pytest.mark.parametrize(
    ("identifier", "host"),
    [
        ("", "node"),
        ("x", "x"),
        ("id-<SHORT_HOST>-<HOSTNAME>-<SHORT_HOST>", "id-node-node.example.org-node"),
    ],
)
def test_host_names(identifier: str, host: str) -> None:
    assert host_name(identifier, "node.example.org") == host


@pytest.fixture
def in_tokyo(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    with monkeypatch.context() as patch:
        patch.setenv("TZ", "JST-9")
        time.tzset()
        yield
    time.tzset()


@pytest.mark.usefixtures("in_tokyo")
def test_all_tokens_in_local_time() -> None:
    layout = "<TOPIC>/<HOST>.<PID><REV>.<DATETIME>-<DATETIME>.<OTHER>"
    names = Filenames(layout, "%H%z", topic="t", host="h", pid=42, suffix=".gz")
    assert names.at(0) == "t/h.42<REV>.09+0900-09+0900.<OTHER>.gz"
    assert names.at(3599) == names.at(0)
    assert names.at(3600) == "t/h.42<REV>.10+0900-10+0900.<OTHER>.gz"
    assert names.at(0) == "t/h.42<REV>.09+0900-09+0900.<OTHER>.gz"


@pytest.mark.parametrize(("topic", "name"), [(".", "%2E/h"), ("..", "%2E%2E/h"), ("...", ".../h")])
def test_a_topic_is_no_way_out_of_the_folder(topic: str, name: str) -> None:
    names = Filenames("<TOPIC>/<HOST>", "", topic=topic, host="h", pid=1, suffix="")
    assert names.at(0) == name


# --- when a file ends


@pytest.mark.parametrize(
    ("rotation", "name", "age", "nbytes", "reason"),
    [
        (Rotation(), "a", HOUR, 1 << 40, None),
        (Rotation(), "b", 0, 0, "new filename b"),
        (Rotation(10, HOUR), "a", HOUR, 10, None),
        (Rotation(10, HOUR), "a", HOUR + SECOND, 99, "1h0m1s since last open"),
        (Rotation(10, HOUR), "a", 0, 11, "/d/a currently 11 bytes (> 10)"),
        (Rotation(-1, -1), "a", HOUR, 11, None),
    ],
)
def test_reasons(rotation: Rotation, name: str, age: int, nbytes: int, reason: str | None) -> None:
    assert rotation.reason("a", name, age, "/d/a", nbytes) == reason


@pytest.mark.parametrize(
    ("size", "nbytes", "first", "room"),
    [(5, 0, 0, 2), (5, 0, 4, 1), (5, 5, 2, 1), (4, 0, 0, 2), (3, 0, 0, 1), (100, 0, 1, 4),
     (0, 1 << 40, 1, 4)],
)  # fmt: skip
def test_room_ends_with_the_message_that_crosses_the_limit(
    size: int, nbytes: int, first: int, room: int
) -> None:
    bodies = [b"aaa", b"bbb", b"ccc", b"ddd", b"eee"]
    assert Rotation(size=size).room(nbytes, bodies, first) == room


# --- the file system


def failing(number: int) -> Callable[..., Any]:
    def fail(*_: object, **__: object) -> None:
        raise OSError(number, os.strerror(number))

    return fail


@pytest.fixture
def synced(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The paths that were synced, in order."""
    found: list[str] = []

    def fsync(fd: int) -> None:
        found.append(Path(f"/proc/self/fd/{fd}").readlink().as_posix())

    monkeypatch.setattr(os, "fsync", fsync)
    return found


@pytest.mark.parametrize(
    ("directory", "name", "path"),
    [
        ("/x/", "a.log", "/x/a.log"),
        ("/x", "/a//b.log", "/x/a/b.log"),
        (".", "a", "a"),
        ("", "a", "a"),
        ("../x", "a", "../x/a"),
    ],
)
def test_join(directory: str, name: str, path: str) -> None:
    assert file_system.join(directory, name) == path


def test_same_directory(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path / "real")
    assert file_system.same_directory(f"{tmp_path}/real/", f"{tmp_path}/x/../link")
    assert not file_system.same_directory(f"{tmp_path}/real", f"{tmp_path}/other")


def test_directories_are_made_and_durable(tmp_path: Path, synced: list[str]) -> None:
    before = os.umask(0)
    try:
        file_system.make_directories(f"{tmp_path}/a/b")
    finally:
        os.umask(before)
    file_system.make_directories(f"{tmp_path}/a/b")
    assert synced == [str(tmp_path), f"{tmp_path}/a"]
    assert stat.S_IMODE((tmp_path / "a" / "b").stat().st_mode) == 0o770


def test_a_file_in_the_way_of_a_directory_is_named(tmp_path: Path) -> None:
    (tmp_path / "f").write_text("plain")
    with pytest.raises(file_system.DiskError) as caught:
        file_system.make_directories(f"{tmp_path}/f/sub")
    assert str(caught.value) == f"mkdir {tmp_path}/f: not a directory"


def test_a_new_file_is_durable_and_has_everybodys_mode(tmp_path: Path, synced: list[str]) -> None:
    before = os.umask(0o022)
    try:
        fd = file_system.create(f"{tmp_path}/a")
    finally:
        os.umask(before)
    file_system.write(fd, "a", b"one\n")
    file_system.close(fd, "a")
    assert synced == [str(tmp_path)]
    assert stat.S_IMODE((tmp_path / "a").stat().st_mode) == 0o644
    with pytest.raises(file_system.ExistsError):
        file_system.create(f"{tmp_path}/a")
    fd = file_system.open_to_append(f"{tmp_path}/a")
    file_system.write(fd, "a", b"two\n")
    assert file_system.size_of(fd, "a") == 8
    file_system.close(fd, "a")
    assert (tmp_path / "a").read_text() == "one\ntwo\n"


def test_words_of_a_failed_open(tmp_path: Path) -> None:
    with pytest.raises(file_system.DiskError) as caught:
        file_system.open_to_append(str(tmp_path))
    assert str(caught.value) == f"open {tmp_path}: is a directory"
    assert caught.value.number == errno.EISDIR


def test_a_write_that_is_cut_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fd = file_system.create(f"{tmp_path}/a")
    whole = os.write
    monkeypatch.setattr(os, "write", lambda fd, data: whole(fd, data[:3]))
    file_system.write(fd, "a", b"0123456789")
    file_system.close(fd, "a")
    assert (tmp_path / "a").read_bytes() == b"0123456789"


@pytest.mark.parametrize(
    ("content", "whole"), [(b"", True), (b"a\n", True), (b"a", False), (b"a\nb", False)]
)
def test_ends_in_line(tmp_path: Path, content: bytes, whole: bool) -> None:
    (tmp_path / "a").write_bytes(content)
    assert file_system.ends_in_line(f"{tmp_path}/a") is whole


def test_a_file_that_may_not_be_read_is_taken_as_it_is(tmp_path: Path) -> None:
    assert file_system.ends_in_line(f"{tmp_path}/nothing")


def test_move(tmp_path: Path, synced: list[str]) -> None:
    one, two = (tmp_path / name for name in ("one", "two"))
    one.mkdir()
    two.mkdir()
    (one / "a").write_text("text")
    file_system.move(f"{one}/a", f"{two}/a")
    assert not (one / "a").exists()
    assert (two / "a").read_text() == "text"
    assert synced == [str(two), str(one)]


def test_move_never_overwrites(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("new")
    (tmp_path / "b").write_text("old")
    with pytest.raises(file_system.ExistsError):
        file_system.move(f"{tmp_path}/a", f"{tmp_path}/b")
    assert (tmp_path / "a").read_text() == "new"
    assert (tmp_path / "b").read_text() == "old"


def test_move_without_hard_links(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "link", failing(errno.EPERM))
    test_move_never_overwrites(tmp_path)
    (tmp_path / "b").unlink()
    file_system.move(f"{tmp_path}/a", f"{tmp_path}/b")
    assert not (tmp_path / "a").exists()
    assert (tmp_path / "b").read_text() == "new"


def test_move_to_another_file_system_is_left_to_copy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "a").write_text("text")
    (tmp_path / "a").chmod(0o640)
    with monkeypatch.context() as patch:
        patch.setattr(os, "link", failing(errno.EXDEV))
        with pytest.raises(file_system.DiskError) as caught:
            file_system.move(f"{tmp_path}/a", f"{tmp_path}/b")
    assert file_system.is_elsewhere(caught.value)
    copy = file_system.copy(f"{tmp_path}/a", f"{tmp_path}/b")
    assert Path(copy).read_text() == "text"
    assert stat.S_IMODE(Path(copy).stat().st_mode) == 0o640
    assert (tmp_path / "a").exists()
    file_system.remove(copy)
    assert not Path(copy).exists()


def test_copies_to_one_target_do_not_meet(tmp_path: Path) -> None:
    """Two tools with a folder for work each finish files of one name at the full hour."""
    for name in ("one", "two"):
        (tmp_path / name).write_text(name)
    target = f"{tmp_path}/target"
    one, two = (file_system.copy(f"{tmp_path}/{name}", target) for name in ("one", "two"))
    file_system.move(one, target)
    with pytest.raises(file_system.ExistsError):
        file_system.move(two, target)
    assert Path(target).read_text() == "one"
    assert Path(two).read_text() == "two"


def test_a_copy_that_finds_no_room_is_not_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "a").write_text("text")
    monkeypatch.setattr(os, "fsync", failing(errno.ENOSPC))
    with pytest.raises(file_system.DiskError, match="no space left on device"):
        file_system.copy(f"{tmp_path}/a", f"{tmp_path}/b")
    assert [path.name for path in tmp_path.iterdir()] == ["a"]


def test_directories_that_cannot_be_synced_are_let_be(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "fsync", failing(errno.EINVAL))
    file_system.sync_directory(str(tmp_path))
    monkeypatch.setattr(os, "fsync", failing(errno.EIO))
    with pytest.raises(file_system.DiskError, match=r"sync .*: input/output error"):
        file_system.sync_directory(str(tmp_path))


def test_exists_tells_absent_from_unknown(tmp_path: Path) -> None:
    (tmp_path / "f").touch()
    assert file_system.exists(f"{tmp_path}/f")
    assert not file_system.exists(f"{tmp_path}/g")
    with pytest.raises(file_system.DiskError, match="not a directory"):
        file_system.exists(f"{tmp_path}/f/g")


# --- a topic's files


def members(data: bytes) -> list[bytes]:
    """What each whole member of a gzip file holds."""
    found = []
    while data:
        reader = zlib.decompressobj(31)
        text = reader.decompress(data)
        assert reader.eof, "a torn member"
        found.append(text)
        data = reader.unused_data
    return found


def open_gzip(path: Path, level: int = 6) -> GzipOutput:
    return GzipOutput(file_system.create(str(path)), str(path), level)


def test_gzip_has_a_member_a_sync_and_an_empty_one_at_the_end(tmp_path: Path) -> None:
    path = tmp_path / "a.gz"
    output = open_gzip(path)
    output.write(b"one\n")
    output.write(b"two\n")
    output.sync()
    assert members(path.read_bytes()) == [b"one\ntwo\n"]
    output.write(b"three\n")
    output.sync()
    assert output.size == 14
    output.finish()
    output.sync()
    output.close()
    assert members(path.read_bytes()) == [b"one\ntwo\n", b"three\n", b""]
    assert gzip.decompress(path.read_bytes()) == b"one\ntwo\nthree\n"


def test_what_is_not_synced_does_not_damage_what_is(tmp_path: Path) -> None:
    path = tmp_path / "a.gz"
    output = open_gzip(path)
    output.write(b"one\n")
    output.sync()
    noise = os.urandom(3 << 20)
    output.write(noise)
    output.write(noise)
    torn = path.read_bytes()
    output.close()
    assert len(torn) > 1 << 20, "memory does not hold it all"
    reader = zlib.decompressobj(31)
    assert reader.decompress(torn) == b"one\n"
    assert zlib.decompressobj(31).decompress(reader.unused_data)[:1000] == noise[:1000]


@pytest.mark.parametrize("level", [1, 6, 9])
def test_levels(tmp_path: Path, level: int) -> None:
    output = open_gzip(tmp_path / "a.gz", level)
    output.write(b"text\n" * 1000)
    output.sync()
    output.close()
    data = (tmp_path / "a.gz").read_bytes()
    assert members(data) == [b"text\n" * 1000]
    assert len(data) < 500


class Desk:
    """A writer with its directory, its clock and what it said."""

    def __init__(self, home: Path, **options: Any) -> None:
        self.home = home
        self.clock = FakeClock()
        self.said: list[str] = []
        options.setdefault("output_dir", str(home))
        options.setdefault("work_dir", options["output_dir"])
        options.setdefault("filename_format", "a<REV>.log")
        self.flags = ToFileFlags(**options)
        self.writer = self.new_writer()

    def new_writer(self) -> Writer:
        """As a program that starts again."""
        flags = self.flags
        names = Filenames(flags.layout, flags.datetime_format, topic="t", host="h", pid=1,
                          suffix=flags.suffix)  # fmt: skip
        return Writer(flags, names, self.clock, self.say)

    def say(self, level: int, text: str) -> None:
        word = {logging.INFO: "", logging.WARNING: "WARNING "}[level]
        self.said.append(word + text.replace(f"{self.home}/", ""))

    def files(self) -> dict[str, str]:
        """The text of every file, by its path."""
        found = {}
        for path in sorted(self.home.rglob("*")):
            if path.is_file():
                data = path.read_bytes()
                text = gzip.decompress(data) if data.startswith(b"\x1f\x8b") else data
                found[path.relative_to(self.home).as_posix()] = text.decode()
        return found


@pytest.mark.parametrize("size", [1, 7, 64, 1000])
def test_rotation_is_the_same_however_messages_are_grouped(tmp_path: Path, size: int) -> None:
    bodies = [b"x" * (index * 37 % 23) for index in range(100)]
    one_by_one, together = tmp_path / "one", tmp_path / "all"
    desks = [Desk(home, rotate_size=size, gzip=True) for home in (one_by_one, together)]
    for body in bodies:
        desks[0].writer.take([body])
    desks[1].writer.take(bodies[:30])
    desks[1].writer.take(bodies[30:])
    for desk in desks:
        desk.writer.close_file()
        assert desk.writer.durable == len(bodies)
    assert desks[0].files() == desks[1].files()
    assert "".join(desks[0].files().values()).encode() == b"\n".join([*bodies, b""])


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    return Desk(tmp_path)


@pytest.fixture
def moving(tmp_path: Path) -> Desk:
    """One with a work directory beside the output directory."""
    return Desk(tmp_path, work_dir=f"{tmp_path}/wip", output_dir=f"{tmp_path}/done")


def test_half_a_line_of_a_crash_does_not_swallow_the_next_message(desk: Desk) -> None:
    (desk.home / "a.log").write_text("whole\nhal")
    desk.writer.take([b"m", b"", b"x\ny"])
    assert desk.files() == {"a.log": "whole\nhal\nm\n\nx\ny\n"}


def test_a_name_that_is_taken_meanwhile_is_not_overwritten(moving: Desk) -> None:
    moving.writer.take([b"a"])
    for number in range(2):
        (moving.home / "done" / f"a-00000{number}.log").write_text("intruder\n")
    moving.writer.close_file()
    assert moving.files() == {
        "done/a-000000.log": "intruder\n",
        "done/a-000001.log": "intruder\n",
        "done/a-000002.log": "a\n",
    }
    assert moving.said[2:] == [
        "moving finished file wip/a-000000.log to done/a-000000.log",
        "WARNING destination file already exists: done/a-000000.log",
        "WARNING destination file already exists: done/a-000001.log",
        "renamed finished file wip/a-000000.log to done/a-000002.log to avoid overwrite",
    ]


@pytest.mark.parametrize(
    ("gzip", "files"),
    [
        (False, {"done/a-000000.log": "a\nb\n"}),
        (True, {"wip/a-000000.log.gz": "a\n", "done/a-000001.log.gz": "b\n"}),
    ],
    ids=["continued", "compressed-stays-as-it-is"],
)
def test_what_a_crash_left(tmp_path: Path, gzip: bool, files: dict[str, str]) -> None:
    desk = Desk(tmp_path, work_dir=f"{tmp_path}/wip", output_dir=f"{tmp_path}/done", gzip=gzip)
    desk.writer.take([b"a"])
    desk.writer = desk.new_writer()  # the one before was killed
    desk.writer.take([b"b"])
    desk.writer.close_file()
    assert desk.files() == files


def test_a_crash_in_the_middle_of_a_move_doubles_and_loses_nothing(
    moving: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    def killed(path: str) -> None:
        raise KeyboardInterrupt

    moving.writer.take([b"a"])
    with monkeypatch.context() as patch:
        patch.setattr(os, "unlink", killed)
        with pytest.raises(KeyboardInterrupt):
            moving.writer.close_file()
    moving.writer = moving.new_writer()
    moving.writer.take([b"b"])
    moving.writer.close_file()
    assert moving.files() == {
        "done/a-000000.log": "a\n",
        "wip/a-000000.log": "a\n",
        "done/a-000001.log": "b\n",
    }


def test_to_another_file_system(moving: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    within = os.link

    def link(source: str, target: str) -> None:
        if os.path.dirname(source) != os.path.dirname(target):
            raise OSError(errno.EXDEV, os.strerror(errno.EXDEV))
        within(source, target)

    monkeypatch.setattr(os, "link", link)
    moving.writer.take([b"a"])
    (moving.home / "done" / "a-000000.log").write_text("intruder\n")
    moving.writer.close_file()
    assert moving.files() == {"done/a-000000.log": "intruder\n", "done/a-000001.log": "a\n"}
    assert "copying wip/a-000000.log to another file system" in moving.said


@pytest.mark.parametrize(
    ("options", "call", "number", "text"),
    [
        ({}, "write", errno.ENOSPC,
         "writing message to disk: write a.log: no space left on device"),
        ({"gzip": True}, "write", errno.ENOSPC,
         "failed syncing messages: write a-000000.log.gz: no space left on device"),
        ({}, "fsync", errno.EIO, "failed syncing messages: sync a.log: input/output error"),
    ],
    ids=["full", "full-while-compressing", "a-failed-sync"],
)  # fmt: skip
def test_a_disk_that_fails(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, options: dict[str, Any], call: str,
    number: int, text: str,
) -> None:  # fmt: skip
    desk = Desk(tmp_path, **options)
    desk.writer.take([b"a"])
    monkeypatch.setattr(os, call, failing(number))
    with pytest.raises(WriteFailed) as caught:
        desk.writer.take([b"b"], sync=True)
    assert str(caught.value).replace(f"{tmp_path}/", "") == text
    assert desk.writer.durable == 1


class Writing(RuleBasedStateMachine):
    """A writer beside the list of its messages: none is lost or doubled, whatever ends a file; a
    crash takes at most what is not durable.
    """

    @initialize(
        moves=st.booleans(),
        options=st.fixed_dictionaries(
            {
                "gzip": st.booleans(),
                "skip_empty_files": st.booleans(),
                "rotate_size": st.sampled_from([0, 1, 5, 40]),
                "rotate_interval": st.sampled_from([0, HOUR]),
                "datetime_format": st.sampled_from(["", "%Y%m%d%H%M%S"]),
                "max_in_flight": st.sampled_from([1, 3, 200]),
            }
        ),
    )
    def begin(self, moves: bool, options: dict[str, Any]) -> None:
        self.folder = TemporaryDirectory()
        home = self.folder.name
        if moves:
            options |= {"work_dir": f"{home}/wip", "output_dir": f"{home}/done"}
        layout = "<DATETIME>a<REV>.log"
        self.desk = Desk(Path(home), filename_format=layout, **options)
        self.given: list[str] = []
        self.may_lack: set[str] = set()
        self.patched = patch.object(os, "fsync", lambda fd: None)
        self.patched.start()

    @property
    def not_durable(self) -> list[str]:
        writer = self.desk.writer
        return self.given[len(self.given) - writer.written + writer.durable :]

    @rule(paddings=st.lists(st.integers(0, 9), max_size=6), sync=st.booleans())
    def take(self, paddings: list[int], sync: bool) -> None:
        first = len(self.given)
        bodies = [f"{first + at}{padding * 'x'}" for at, padding in enumerate(paddings)]
        self.desk.writer.take([body.encode() for body in bodies], sync=sync)
        self.given += bodies
        assert len(self.not_durable) < (1 if sync else self.desk.flags.max_in_flight)

    @rule(end=st.sampled_from(["sync", "tick", "close_file"]))
    def end(self, end: str) -> None:
        getattr(self.desk.writer, end)()
        assert self.not_durable == []

    @rule(seconds=st.sampled_from([1, 3600, 3601]))
    def wait(self, seconds: int) -> None:
        self.desk.clock.advance(seconds * SECOND)

    @rule()
    def crash(self) -> None:
        self.may_lack |= set(self.not_durable)
        if self.desk.writer._output is not None:
            os.close(self.desk.writer._output._fd)
        self.desk.writer = self.desk.new_writer()

    @invariant()
    def nothing_is_lost_or_doubled(self) -> None:
        files = self.desk.files()
        lines = [line for text in files.values() for line in text.split("\n")[:-1]]
        assert len(lines) == len(set(lines))
        assert set(lines) <= set(self.given)
        assert set(self.given) - set(lines) <= self.may_lack | set(self.not_durable)
        flags = self.desk.flags
        assert all(files.values()) or not flags.skip_empty_files
        for text in files.values():
            before_the_last = text[: text[:-1].rfind("\n") + 1]
            assert len(before_the_last) <= flags.rotate_size or not flags.rotate_size

    def teardown(self) -> None:
        self.desk.writer.close_file()
        self.nothing_is_lost_or_doubled()
        self.patched.stop()
        self.folder.cleanup()


TestWriting = Writing.TestCase
TestWriting.settings = settings(stateful_step_count=20, deadline=None)
