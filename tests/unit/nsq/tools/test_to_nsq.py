"""to_nsq: records of its input, their rate, the bar for a person."""

from __future__ import annotations

import asyncio
import os
import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.nsq.tools.errors import ToolError
from penstock.nsq.tools.to_nsq import records
from penstock.nsq.tools.to_nsq.bar import bar
from penstock.nsq.tools.to_nsq.program import Throttle, run
from penstock.nsq.tools.to_nsq.records import BLOCK_BYTES, Splitter, blocks


async def test_a_file_comes_in_blocks_to_its_end(tmp_path: Path) -> None:
    data = os.urandom(3 * BLOCK_BYTES + 7)
    (tmp_path / "f").write_bytes(data)
    with (tmp_path / "f").open("rb") as file:
        got = [block async for block in blocks(file.fileno())]
    assert b"".join(got) == data
    assert max(map(len, got)) <= BLOCK_BYTES


async def test_a_pipe_gives_what_there_is() -> None:
    reader, writer = os.pipe()
    try:
        coming = blocks(reader)
        os.write(writer, b"one")
        assert await anext(coming) == b"one"
        os.write(writer, b"two")
        assert await anext(coming) == b"two"
        os.close(writer)
        with pytest.raises(StopAsyncIteration):
            await anext(coming)
    finally:
        os.close(reader)


async def test_a_pipe_that_does_not_wait_is_waited_for() -> None:
    reader, writer = os.pipe()
    os.set_blocking(reader, False)
    try:
        coming = blocks(reader)
        waits = asyncio.ensure_future(anext(coming))
        await asyncio.sleep(0.01)
        os.write(writer, b"one")
        assert await waits == b"one"
        os.close(writer)
        with pytest.raises(StopAsyncIteration):
            await anext(coming)
    finally:
        os.close(reader)


async def test_a_directory_cannot_be_read(tmp_path: Path) -> None:
    descriptor = os.open(tmp_path, os.O_RDONLY)
    try:
        with pytest.raises(ToolError, match=r"^read /dev/stdin: is a directory$"):
            await anext(blocks(descriptor))
    finally:
        os.close(descriptor)


def split(blocks: list[bytes], delimiter: bytes = b"\n") -> list[bytes]:
    splitter = Splitter(delimiter)
    return [record for block in blocks for record in splitter.feed(block)] + splitter.end()


def test_empty_records_are_none_and_the_last_is_whole() -> None:
    assert split([b"a\nbb\n\nccc\nlast"]) == [b"a", b"bb", b"ccc", b"last"]
    assert split([b"x"]) == [b"x"]
    assert split([b""]) == []
    assert split([b"a,b\nc,,d,"], b",") == [b"a", b"b\nc", b"d"]


@given(st.lists(st.binary(max_size=8)))
def test_however_the_stream_is_cut(blocks: list[bytes]) -> None:
    whole = [record for record in b"".join(blocks).split(b"\n") if record]
    assert split(blocks) == whole


def test_a_record_without_end_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(records, "RECORD_BYTES_MAX", 10)
    splitter = Splitter(b"\n")
    splitter.feed(b"x" * 10)
    with pytest.raises(ToolError, match="longer than 10 bytes"):
        splitter.feed(b"x")


def test_records_come_evenly() -> None:
    throttle = Throttle(5, 0.0)
    assert throttle.grant(10, 0.0) == 1
    assert throttle.grant(10, 0.0) == 0
    assert throttle.wait == pytest.approx(0.2)
    sent = sum(throttle.grant(1, step / 10) for step in range(1, 21))
    assert sent == 10  # two seconds' worth


def test_a_pause_is_made_up_for_by_one_second_at_most() -> None:
    throttle = Throttle(100, 0.0)
    assert throttle.grant(1000, 3600.0) == 100


def test_a_bar_on_stderr(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    with bar(2000) as advance:
        advance(1500)
        advance(500)
    shown = capsys.readouterr()
    assert shown.out == ""
    assert re.search(r"100% 2\.0/2\.0 kB", shown.err)


def test_options_that_make_no_producer() -> None:
    """What else is refused is among the recorded runs."""
    text = (
        r"^failed to create nsq.Producer - HeartbeatInterval 1m30s must be less than ReadTimeout 1m"
    )
    with pytest.raises(ToolError, match=text):
        run(["--topic=t", "--producer-opt=heartbeat_interval,90s"])
