"""Plain and gzip files."""

from __future__ import annotations

import gzip
import os
import zlib
from pathlib import Path

import pytest

from penstock.nsq.tools.to_file import file_system
from penstock.nsq.tools.to_file.open_file import GzipOutput, Output


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
