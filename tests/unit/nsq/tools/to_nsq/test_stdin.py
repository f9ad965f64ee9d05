from __future__ import annotations

import os
from pathlib import Path

import pytest

from penstock.nsq.tools.errors import ToolError
from penstock.nsq.tools.to_nsq.stdin import BLOCK_BYTES, blocks


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


async def test_a_directory_cannot_be_read(tmp_path: Path) -> None:
    descriptor = os.open(tmp_path, os.O_RDONLY)
    try:
        with pytest.raises(ToolError, match=r"^read /dev/stdin: is a directory$"):
            await anext(blocks(descriptor))
    finally:
        os.close(descriptor)
