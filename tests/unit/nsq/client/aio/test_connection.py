"""Who takes nothing is told apart from who takes slowly."""

from __future__ import annotations

import asyncio
from typing import Any

from penstock.nsq.client.aio.connection import Outflow


class Pipe(asyncio.Transport):
    def __init__(self) -> None:
        super().__init__()
        self.held = 0
        self.limit: int | None = None

    def write(self, data: Any) -> None:
        self.held += len(data)

    def is_closing(self) -> bool:
        return False

    def get_write_buffer_size(self) -> int:
        return self.held

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        self.limit = high


async def test_nothing_taken() -> None:
    told = asyncio.get_running_loop().create_future()
    outflow, pipe = Outflow(0.02, told.set_result), Pipe()
    outflow.write(b"nobody there yet")
    outflow.start(pipe)
    assert pipe.limit == 0
    outflow.write(b"x" * 10)
    outflow.pause()
    async with asyncio.timeout(30):
        assert await told == "the server took nothing of what was sent for 0.02 s"


async def test_a_little_taken_each_time() -> None:
    stalls: list[str] = []
    outflow, pipe = Outflow(60, stalls.append), Pipe()
    outflow.start(pipe)
    outflow.write(b"x" * 10)
    outflow.pause()
    for _ in range(9):
        pipe.held -= 1
        outflow.write(b"yy")  # more than was taken
        outflow._look()
    assert stalls == []
    outflow._look()
    assert len(stalls) == 1
    outflow.resume()
    assert outflow._watch is None
    outflow.pause()
    outflow.stop()
    assert outflow._watch is None
    outflow.write(b"gone")
    assert pipe.held == 10 - 9 + 18
