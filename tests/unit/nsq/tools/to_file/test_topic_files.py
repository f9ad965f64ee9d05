"""A topic's files: rotation, revisions, moves, syncs and what counts as durable.

Names, lines and their order are those of the recorded runs of Go's program.
"""

from __future__ import annotations

import errno
import gzip
import logging
import os
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from penstock.core.units import HOUR, SECOND
from penstock.nsq.tools.to_file import file_system
from penstock.nsq.tools.to_file.filename import Filenames
from penstock.nsq.tools.to_file.options import ToFileFlags
from penstock.nsq.tools.to_file.topic_files import GzipOutput, Output, WriteFailed, Writer
from penstock.testing.clock import FakeClock


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


def test_plain(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_text("old\n")
    output = Output(file_system.open_to_append(str(path)), str(path))
    assert output.size == 4
    output.end_torn_line()
    output.write(b"one\n")
    assert output.size == 8
    assert path.read_bytes() == b"old\none\n", "written at once"
    output.sync()
    output.finish()
    output.close()


def test_half_a_line_of_a_crash_gets_its_end(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_bytes(b"whole\nhal")
    output = Output(file_system.open_to_append(str(path)), str(path))
    output.end_torn_line()
    output.write(b"one\n")
    output.close()
    assert path.read_bytes() == b"whole\nhal\none\n"


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


def test_an_empty_gzip_file_is_one_empty_member(tmp_path: Path) -> None:
    output = open_gzip(tmp_path / "a.gz")
    output.finish()
    output.close()
    assert members((tmp_path / "a.gz").read_bytes()) == [b""]


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


@pytest.mark.parametrize("level", range(1, 10))
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
        names = Filenames(
            flags.layout,
            flags.datetime_format,
            topic="t",
            host="h",
            pid=1,
            suffix=flags.suffix,
        )
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


Make = Callable[..., Desk]


@pytest.fixture
def make(tmp_path: Path) -> Make:
    return lambda **options: Desk(tmp_path, **options)


def test_a_message_is_a_line_and_durable_when_synced(make: Make) -> None:
    desk = make(filename_format="<TOPIC><REV>.log")
    writer = desk.writer
    writer.take([b"one"])
    assert (writer.written, writer.durable) == (1, 1), "the first of a file is synced at once"
    writer.take([b"two", b"", b"x\ny"])
    assert (writer.written, writer.durable) == (4, 1)
    assert desk.files() == {"t.log": "one\ntwo\n\nx\ny\n"}
    writer.sync()
    assert writer.durable == 4
    writer.sync()
    writer.hang_up()
    assert desk.said == ["opening t.log", "syncing 1 records to disk", "syncing 3 records to disk"]


def test_sync_on_demand_and_when_the_batch_is_full(make: Make) -> None:
    desk = make(max_in_flight=3)
    desk.writer.take([b"1", b"2", b"3"])
    assert desk.writer.durable == 1
    desk.writer.take([b"4"])
    assert desk.writer.durable == 4
    desk.writer.take([b"5"], sync=True)
    assert desk.writer.durable == 5
    assert [line for line in desk.said if "sync" in line] == [
        "syncing 1 records to disk",
        "syncing 3 records to disk",
        "syncing 1 records to disk",
    ]


def test_rotation_by_size_inside_a_delivery(make: Make) -> None:
    desk = make(rotate_size=5)
    desk.writer.take([b"aaa", b"bbb", b"ccc", b"ddd", b"eee"])
    desk.writer.hang_up()
    assert desk.files() == {
        "a-000000.log": "aaa\nbbb\n",
        "a-000001.log": "ccc\nddd\n",
        "a-000002.log": "eee\n",
    }
    assert desk.said == [
        "opening a-000000.log",
        "syncing 1 records to disk",
        "a-000000.log currently 8 bytes (> 5), rotating...",
        "opening a-000001.log",
        "syncing 2 records to disk",
        "a-000001.log currently 8 bytes (> 5), rotating...",
        "opening a-000002.log",
        "syncing 2 records to disk",
    ]


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
        desk.writer.hang_up()
        assert desk.writer.durable == len(bodies)
    assert desks[0].files() == desks[1].files()
    assert "".join(desks[0].files().values()).encode() == b"\n".join([*bodies, b""])


def test_rotation_by_age_at_a_message_and_at_a_tick(make: Make) -> None:
    desk = make(rotate_interval=HOUR)
    desk.writer.take([b"a"])
    desk.clock.advance(HOUR)
    desk.writer.take([b"b"])
    desk.clock.advance(1)
    desk.writer.take([b"c"])
    desk.clock.advance(HOUR + SECOND)
    desk.writer.tick()
    assert desk.files() == {"a-000000.log": "a\nb\n", "a-000001.log": "c\n", "a-000002.log": ""}
    assert [line for line in desk.said if "rotating" in line] == [
        "1h0m0.000000001s since last open, rotating...",
        "1h0m1s since last open, rotating...",
    ]


def test_rotation_by_name_begins_revisions_anew(make: Make) -> None:
    desk = make(gzip=True, filename_format="<DATETIME><REV>", datetime_format="%S")
    desk.writer.take([b"a"])
    desk.writer.hang_up()
    desk.writer.take([b"b"])
    desk.clock.advance(SECOND)
    desk.writer.take([b"c"])
    desk.writer.hang_up()
    assert desk.files() == {"20-000000.gz": "a\n", "20-000001.gz": "b\n", "21-000000.gz": "c\n"}
    assert "new filename 21<REV>.gz, rotating..." in desk.said


def test_a_tick_makes_an_empty_file_unless_told_otherwise(make: Make, tmp_path: Path) -> None:
    desk = make()
    desk.writer.tick()
    desk.writer.tick()
    assert desk.files() == {"a.log": ""}
    assert desk.said == ["opening a.log"]
    other = Desk(tmp_path / "other", skip_empty_files=True)
    other.writer.tick()
    assert other.files() == {}


def test_a_tick_closes_a_file_that_is_done_when_empty_ones_are_skipped(make: Make) -> None:
    desk = make(skip_empty_files=True, rotate_size=1)
    desk.writer.take([b"aa", b"bb"])
    desk.writer.tick()
    desk.writer.tick()
    assert desk.writer.durable == 2
    assert desk.files() == {"a-000000.log": "aa\n", "a-000001.log": "bb\n"}
    desk.writer.take([b"cc"])
    assert desk.files()["a-000002.log"] == "cc\n"


def test_a_tick_syncs(make: Make) -> None:
    desk = make()
    desk.writer.take([b"a", b"b"])
    assert desk.writer.durable == 1
    desk.writer.tick()
    assert desk.writer.durable == 2


@pytest.mark.parametrize("options", [{"gzip": True}, {"rotate_interval": HOUR}])
def test_files_that_exist_are_not_touched(make: Make, options: dict[str, Any]) -> None:
    desk = make(filename_format="a<REV>", **options)
    suffix = desk.flags.suffix
    (desk.home / f"a-000000{suffix}").write_text("old\n")
    desk.writer.take([b"m"])
    desk.writer.hang_up()
    assert desk.files() == {f"a-000000{suffix}": "old\n", f"a-000001{suffix}": "m\n"}
    assert desk.said[:2] == [
        f"WARNING working file already exists: a-000000{suffix}",
        f"opening a-000001{suffix}",
    ]


def test_a_small_file_is_continued_and_a_large_one_is_not(make: Make) -> None:
    desk = make(rotate_size=5)
    (desk.home / "a-000000.log").write_text("oldold\n")
    (desk.home / "a-000001.log").write_text("old\n")
    desk.writer.take([b"m", b"n"])
    desk.writer.hang_up()
    assert desk.files() == {
        "a-000000.log": "oldold\n",
        "a-000001.log": "old\nm\n",
        "a-000002.log": "n\n",
    }
    assert desk.said[:3] == [
        "opening a-000000.log",
        "a-000000.log currently 7 bytes (> 5), rotating...",
        "opening a-000001.log",
    ]


def test_half_a_line_of_a_crash_does_not_swallow_the_next_message(make: Make) -> None:
    desk = make()
    (desk.home / "a.log").write_text("whole\nhal")
    desk.writer.take([b"m"])
    assert desk.files() == {"a.log": "whole\nhal\nm\n"}


def test_hanging_up_appends_later(make: Make) -> None:
    desk = make()
    desk.writer.take([b"a"])
    desk.writer.hang_up()
    desk.writer.hang_up()
    desk.writer.take([b"b"])
    assert desk.files() == {"a.log": "a\nb\n"}


def test_directories_in_names_are_made(make: Make) -> None:
    desk = make(filename_format="<TOPIC>/<HOST>/a")
    desk.writer.take([b"m"])
    assert desk.files() == {"t/h/a": "m\n"}


class TestMoves:
    """A work directory beside the output directory."""

    @pytest.fixture
    def desk(self, tmp_path: Path) -> Desk:
        return Desk(tmp_path, work_dir=f"{tmp_path}/wip", output_dir=f"{tmp_path}/done")

    def test_a_finished_file_moves_and_the_next_can_be_opened(self, desk: Desk) -> None:
        desk.writer.take([b"a"])
        assert desk.files() == {"wip/a-000000.log": "a\n"}
        desk.writer.hang_up()
        assert desk.files() == {"done/a-000000.log": "a\n"}
        desk.writer.take([b"b"])
        desk.writer.hang_up()
        assert desk.files() == {"done/a-000000.log": "a\n", "done/a-000001.log": "b\n"}
        assert "moving finished file wip/a-000000.log to done/a-000000.log" in desk.said

    def test_a_name_that_is_taken_is_seen_before(self, desk: Desk, tmp_path: Path) -> None:
        (tmp_path / "done").mkdir()
        (tmp_path / "done" / "a-000000.log").write_text("old\n")
        desk.writer.take([b"a"])
        desk.writer.hang_up()
        assert desk.files() == {"done/a-000000.log": "old\n", "done/a-000001.log": "a\n"}
        assert desk.said[0] == "WARNING output file already exists: done/a-000000.log"

    def test_a_name_that_is_taken_meanwhile_is_not_overwritten(
        self, desk: Desk, tmp_path: Path
    ) -> None:
        desk.writer.take([b"a"])
        for number in range(2):
            (tmp_path / "done" / f"a-00000{number}.log").write_text("intruder\n")
        desk.writer.hang_up()
        assert desk.files() == {
            "done/a-000000.log": "intruder\n",
            "done/a-000001.log": "intruder\n",
            "done/a-000002.log": "a\n",
        }
        assert desk.said[2:] == [
            "moving finished file wip/a-000000.log to done/a-000000.log",
            "WARNING destination file already exists: done/a-000000.log",
            "WARNING destination file already exists: done/a-000001.log",
            "renamed finished file wip/a-000000.log to done/a-000002.log to avoid overwrite",
        ]

    def test_what_a_crash_left_is_continued(self, desk: Desk) -> None:
        desk.writer.take([b"a"])
        desk.writer = desk.new_writer()  # the one before was killed
        desk.writer.take([b"b"])
        desk.writer.hang_up()
        assert desk.files() == {"done/a-000000.log": "a\nb\n"}

    def test_what_a_crash_left_compressed_stays_as_it_is(self, tmp_path: Path) -> None:
        home = tmp_path / "gzip"
        desk = Desk(home, work_dir=f"{home}/wip", output_dir=f"{home}/done", gzip=True)
        desk.writer.take([b"a"])
        desk.writer = desk.new_writer()
        desk.writer.take([b"b"])
        desk.writer.hang_up()
        assert desk.files() == {"wip/a-000000.log.gz": "a\n", "done/a-000001.log.gz": "b\n"}

    def test_a_crash_in_the_middle_of_a_move_doubles_and_loses_nothing(
        self, desk: Desk, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def killed(path: str) -> None:
            raise KeyboardInterrupt

        desk.writer.take([b"a"])
        with monkeypatch.context() as patch:
            patch.setattr(os, "unlink", killed)
            with pytest.raises(KeyboardInterrupt):
                desk.writer.hang_up()
        desk.writer = desk.new_writer()
        desk.writer.take([b"b"])
        desk.writer.hang_up()
        assert desk.files() == {
            "done/a-000000.log": "a\n",
            "wip/a-000000.log": "a\n",
            "done/a-000001.log": "b\n",
        }

    def test_to_another_file_system(self, desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
        within = os.link

        def link(source: str, target: str) -> None:
            if os.path.dirname(source) != os.path.dirname(target):
                raise OSError(errno.EXDEV, os.strerror(errno.EXDEV))
            within(source, target)

        monkeypatch.setattr(os, "link", link)
        desk.writer.take([b"a"])
        (desk.home / "done" / "a-000000.log").write_text("intruder\n")
        desk.writer.hang_up()
        assert desk.files() == {"done/a-000000.log": "intruder\n", "done/a-000001.log": "a\n"}
        assert "copying wip/a-000000.log to another file system" in desk.said


def failing(number: int) -> Callable[..., Any]:
    def fail(*_: object, **__: object) -> None:
        raise OSError(number, os.strerror(number))

    return fail


def test_a_full_disk(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    desk = make()
    desk.writer.take([b"a"])
    monkeypatch.setattr(os, "write", failing(errno.ENOSPC))
    with pytest.raises(WriteFailed) as caught:
        desk.writer.take([b"b"], sync=True)
    path = f"{desk.home}/a.log"
    assert str(caught.value) == (f"writing message to disk: write {path}: no space left on device")
    assert desk.writer.durable == 1


def test_a_full_disk_while_compressing(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    desk = make(gzip=True)
    desk.writer.take([b"a"])
    desk.writer.take([b"b"])
    monkeypatch.setattr(os, "write", failing(errno.ENOSPC))
    with pytest.raises(WriteFailed, match=r"failed syncing messages: write .*: no space left"):
        desk.writer.sync()
    assert desk.writer.durable == 1


def test_a_failed_sync(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    desk = make()
    desk.writer.take([b"a", b"b"])
    monkeypatch.setattr(os, "fsync", failing(errno.EIO))
    with pytest.raises(WriteFailed) as caught:
        desk.writer.sync()
    path = f"{desk.home}/a.log"
    assert str(caught.value) == f"failed syncing messages: sync {path}: input/output error"
    assert desk.writer.durable == 1


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("d", "unable to open {home}/d: open {home}/d: is a directory"),
        ("f/sub/a", "unable to create dir: mkdir {home}/f: not a directory"),
    ],
)
def test_what_is_in_the_way(make: Make, name: str, text: str) -> None:
    desk = make(filename_format=name)
    (desk.home / "d").mkdir()
    (desk.home / "f").write_text("plain file\n")
    with pytest.raises(WriteFailed) as caught:
        desk.writer.take([b"a"])
    assert str(caught.value) == text.format(home=desk.home)
    assert desk.writer.written == 0
