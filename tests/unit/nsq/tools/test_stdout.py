from __future__ import annotations

import asyncio
import os
from pathlib import Path

import pytest

from penstock.net.tasks import spawn
from penstock.nsq.tools.errors import OutputClosed
from penstock.nsq.tools.stdout import Stdout


async def test_a_file_gets_all_of_it(tmp_path: Path) -> None:
    with (tmp_path / "f").open("wb") as file:
        output = Stdout(file.fileno())
        await output.write(b"one\n")
        await output.write(b"two\n")
        await output.closed()  # there is no reader who could go
    assert (tmp_path / "f").read_bytes() == b"one\ntwo\n"


async def test_a_slow_reader_does_not_hold_up_the_loop() -> None:
    reader, writer = os.pipe()
    data = bytes(1_000_000)  # more than a pipe holds
    try:
        writing = spawn(Stdout(writer).write(data), "write")
        await asyncio.sleep(0.01)
        assert not writing.done()
        got = 0
        while got < len(data):
            got += len(await asyncio.to_thread(os.read, reader, 1 << 16))
        await writing
    finally:
        os.close(reader)
        os.close(writer)


async def test_a_pipe_that_does_not_wait_gets_all_of_it() -> None:
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    data = bytes(1_000_000)  # more than a pipe holds

    async def write() -> None:
        try:
            await Stdout(writer).write(data)
        finally:
            os.close(writer)  # after which the reader gets what is left, and the end

    writing = spawn(write(), "write")
    try:
        got = 0
        while part := await asyncio.to_thread(os.read, reader, 1 << 16):
            got += len(part)
        await writing
        assert got == len(data)
    finally:
        os.close(reader)


async def test_a_reader_who_goes_is_noticed() -> None:
    reader, writer = os.pipe()
    try:
        output = Stdout(writer)
        waiting = asyncio.gather(output.closed(), return_exceptions=True)
        os.close(reader)
        assert isinstance((await waiting)[0], OutputClosed)
        with pytest.raises(OutputClosed):
            await output.write(b"x")
    finally:
        os.close(writer)
