"""The pages of /debug/pprof over a real HTTP server, as viewers ask for them."""

from __future__ import annotations

import asyncio
import logging
import signal
import sys
import time
import tracemalloc
from collections.abc import AsyncIterator, Awaitable, Callable
from functools import partial
from typing import TypeVar

import pytest

from penstock.net import tcp
from penstock.net.http.client.once import Answer, get, request
from penstock.net.http.server.service import HttpServer
from penstock.net.http.server.v1_api import ApiRouter
from penstock.nsq.debug_pages import add_debug_pages, free_memory
from tests.programs.net.conftest import until
from tests.unit.net.profiles.proto import read

TIMEOUT_S = 30.0

T = TypeVar("T")


class Pages:
    """A server with nothing but the pages."""

    def __init__(self, port: int) -> None:
        self.port = port
        self.root = f"http://127.0.0.1:{port}"

    async def get(self, page: str) -> Answer:
        return await get(f"{self.root}/debug/pprof{page}", TIMEOUT_S)

    async def text(self, page: str) -> str:
        found = await self.get(page)
        assert found.status == 200
        assert found.headers["content-type"] == "text/plain; charset=utf-8"
        assert found.headers["x-content-type-options"] == "nosniff"
        return found.body.decode()

    async def binary(self, page: str) -> bytes:
        found = await self.get(page)
        assert found.status == 200, found.body
        assert found.headers["content-type"] == "application/octet-stream"
        assert found.headers["x-content-type-options"] == "nosniff"
        return found.body

    async def refused(self, page: str, status: int) -> str:
        """What `go tool pprof` shows to its user."""
        found = await self.get(page)
        assert found.status == status
        assert found.headers["x-go-pprof"] == "1"
        assert found.headers["content-type"].startswith("text/plain")
        return found.body.decode()


@pytest.fixture
async def pages() -> AsyncIterator[Pages]:
    router = ApiRouter()
    add_debug_pages(router, index="/debug/pprof/")
    router.add("POST", "/debug/freememory", free_memory)
    server = HttpServer(router)
    listener = await tcp.listen(server, "127.0.0.1:0", "HTTP")
    yield Pages(listener.port)
    server.close_connections()
    await listener.close()
    await asyncio.sleep(0.01)


async def test_the_index_leads_to_every_page(pages: Pages) -> None:
    found = await pages.get("/")
    assert found.headers["content-type"] == "text/html; charset=utf-8"
    body = found.body.decode()
    for page in ("profile", "heap", "goroutine", "threadcreate", "block", "cmdline"):
        assert f'href="/debug/pprof/{page}' in body
    assert "seconds=5&amp;debug=1" in body
    assert (await pages.get("")).status == 301


async def test_small_pages(pages: Pages) -> None:
    assert await pages.text("/cmdline") == "\0".join(sys.argv)
    assert await pages.text("/symbol") == "num_symbols: 0\n"
    assert (await request("POST", f"{pages.root}/debug/pprof/symbol", TIMEOUT_S)).status == 200
    assert (await request("POST", f"{pages.root}/debug/freememory", TIMEOUT_S)).status == 200
    for missing in ("/allocs", "/mutex", "/trace?seconds=1"):  # as in Go's nsqd
        assert (await pages.get(missing)).status == 404


async def test_a_profile_of_the_processor(pages: Pages) -> None:
    async def work() -> None:
        while True:
            sum(range(50_000))
            await asyncio.sleep(0)

    async def while_working(look: Callable[[], Awaitable[T]]) -> T:
        """A look at a second in which this process has worked: it may not get a processor."""
        async with asyncio.timeout(10 * TIMEOUT_S):
            while True:
                began = time.process_time()
                found = await look()
                if time.process_time() - began > 0.2:
                    return found

    working = asyncio.create_task(work())
    began = time.monotonic_ns()
    found = read(await while_working(lambda: pages.binary("/profile?seconds=1")))
    assert found.types[1] == ("cpu", "nanoseconds")
    assert 900_000_000 < found.duration_ns < time.monotonic_ns() - began
    assert found.totals()[1] > 20_000_000  # more than a look or two, on the busiest machine
    assert any(name.endswith(".work") for name in found.functions())
    for page in ("/profile?seconds=1&debug=1", "/profile?seconds=1&format=collapsed"):
        assert ".work" in await while_working(partial(pages.text, page))
    working.cancel()


async def test_memory(pages: Pages) -> None:
    assert "PYTHONTRACEMALLOC" in await pages.refused("/heap", 400)
    text = await pages.text("/heap?debug=1")
    assert "resident memory: " in text
    assert "PYTHONTRACEMALLOC" in text
    kept: list[bytes] = []

    async def keep() -> None:
        await until(tracemalloc.is_tracing)
        kept.extend(bytes(10_000) for _ in range(20))

    keeping = asyncio.create_task(keep())
    found = read(await pages.binary("/heap?seconds=1"))
    await keeping
    assert found.types[1] == ("inuse_space", "bytes")
    here = f"{__name__}.test_memory.<locals>.keep.<locals>.<genexpr>"
    assert sum(values[1] for stack, values, _ in found.samples if stack[0][0] == here) > 200_000
    assert not tracemalloc.is_tracing(), "it stops by itself"


async def test_memory_that_is_watched_from_the_start(pages: Pages) -> None:
    tracemalloc.start(4)
    try:
        assert read(await pages.binary("/heap")).totals()[1] > 0
        assert "watched: " in await pages.text("/heap?debug=1")
        assert tracemalloc.is_tracing(), "whoever started it goes on"
    finally:
        tracemalloc.stop()


async def test_stacks(pages: Pages) -> None:
    async def stand() -> None:
        await asyncio.Event().wait()

    task = asyncio.create_task(stand(), name="stands")
    await asyncio.sleep(0)
    for page in ("/goroutine?debug=1", "/goroutine?debug=2"):
        text = await pages.text(page)
        assert text.startswith("goroutine profile: total ")
        assert "\ntask stands\n" in text
        assert f"{__name__}.test_stacks.<locals>.stand" in text
        assert "\nthread MainThread\n" in text
    found = read(await pages.binary("/goroutine"))
    assert found.types == [("goroutine", "count")]
    assert {"task": "stands"} in [labels for _, _, labels in found.samples]
    threads = read(await pages.binary("/threadcreate"))
    assert {"thread": "MainThread"} in [labels for _, _, labels in threads.samples]
    assert "\nthread MainThread\n" in await pages.text("/threadcreate?debug=1")
    task.cancel()


async def test_waiting_for_locks_is_not_recorded(pages: Pages) -> None:
    assert "records no waiting" in await pages.text("/block?debug=1")
    found = read(await pages.binary("/block"))
    assert found.samples == []
    assert "records no waiting" in found.comments[0]


@pytest.mark.parametrize("seconds", ["0", "301", "-1", "1.5", "x", ""])
async def test_seconds_have_bounds(pages: Pages, seconds: str) -> None:
    for page in ("profile", "heap"):
        text = await pages.refused(f"/{page}?seconds={seconds}", 400)
        assert text == "seconds must be a whole number from 1 to 300\n"
    assert await pages.refused("/profile?x=%zz", 400) == "INVALID_REQUEST\n"


def is_taking() -> bool:
    return signal.getitimer(signal.ITIMER_PROF) != (0, 0) or tracemalloc.is_tracing()


async def ask(pages: Pages, page: str) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """Ask for a profile and wait until it is being taken."""
    reader, writer = await asyncio.open_connection("127.0.0.1", pages.port)
    writer.write(f"GET /debug/pprof{page} HTTP/1.1\r\nHost: x\r\n\r\n".encode())
    await until(is_taking)
    return reader, writer


@pytest.mark.parametrize("page", ["/profile?seconds=300", "/heap?seconds=300"])
async def test_one_at_a_time_and_only_as_long_as_somebody_waits(pages: Pages, page: str) -> None:
    _, writer = await ask(pages, page)
    for other in ("/profile?seconds=1", "/heap?seconds=1"):
        assert "is being taken; try again" in await pages.refused(other, 409)
    writer.transport.abort()
    await until(lambda: not is_taking())
    async with asyncio.timeout(TIMEOUT_S):  # what was taken is still put together
        for _ in range(100):
            if (await pages.get("/profile?seconds=1&debug=1")).status == 200:
                break
            await asyncio.sleep(0.02)
        else:
            raise AssertionError("it never became free")


async def test_who_sends_no_more_gets_what_there_is(pages: Pages) -> None:
    reader, writer = await ask(pages, "/profile?seconds=300")
    writer.write_eof()
    answer = await asyncio.wait_for(reader.read(), TIMEOUT_S)
    head, _, body = answer.partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 200 OK\r\n")
    assert read(body).duration_ns < TIMEOUT_S * 10**9
    writer.close()


async def test_a_profile_that_fails(
    pages: Pages, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def broken(*_: object) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr("penstock.net.profiles.cpu.CpuProfile.pprof", broken)
    with caplog.at_level(logging.ERROR):
        assert "failed" in await pages.refused("/profile?seconds=1", 500)
    assert "taking a profile failed" in caplog.text
    monkeypatch.undo()
    assert (await pages.get("/profile?seconds=1")).status == 200
