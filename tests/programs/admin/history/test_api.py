from __future__ import annotations

import asyncio

import pytest

from penstock.admin.history import server_sent
from tests.unit.admin.conftest import Running, StartAdmin, Two


@pytest.fixture
async def running(two: Two, admin: StartAdmin) -> Running:
    started: Running = await admin(
        lookupd_http_addresses=(two.lookupd.address,), history_interval=1000 * 10**9
    )
    poller = started.admin.poller
    assert poller is not None
    await poller.refresh()
    return started


async def test_an_hour(running: Running) -> None:
    found = await running.get("/api/history?topic=t&channel=c")
    assert list(found) == ["topic", "channel", "node", "times", "depth", "in", "out", "in_flight",
                           "requeues", "timeouts", "waiting", "partial", "latencies"]  # fmt: skip
    assert (found["depth"][-1], found["waiting"][-1], found["partial"][-1]) == (8, 8, 0)
    assert len(found["times"]) == len(found["in"])
    assert (await running.get("/api/history"))["depth"][-1] == 8


@pytest.mark.parametrize("query", ["topic=no", "channel=c", "node=no:1"])
async def test_what_is_not_known(running: Running, query: str) -> None:
    answer = await running.ask("GET", f"/api/history?{query}")
    assert answer == (404, '{"message":"HISTORY_NOT_FOUND"}')


async def test_no_history(admin: StartAdmin) -> None:
    running = await admin(nsqd_http_addresses=("127.0.0.1:9",))
    for path in ("/api/history", "/api/events"):
        assert await running.ask("GET", path) == (404, '{"message":"HISTORY_OFF"}')


async def test_events_over_a_connection(running: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", running.admin.http_port)
    writer.write(b"GET /api/events?topic=t HTTP/1.1\r\nHost: h\r\nAccept-Encoding: gzip\r\n\r\n")
    async with asyncio.timeout(30):
        head = await reader.readuntil(b"\r\n\r\n")
        assert b"\r\nContent-Type: text/event-stream\r\n" in head
        assert (await reader.readuntil(b"\n\n")).startswith(b'event: state\ndata: {"time":')
        poller = running.admin.poller
        assert poller is not None
        await poller.refresh()
        assert (await reader.readuntil(b"\n\n")).startswith(b"event: refresh\n")
        monkeypatch.setattr(server_sent, "WATCHERS_MAX", 1)
        assert (await running.ask("GET", "/api/events"))[0] == 503
        writer.close()
        await writer.wait_closed()


async def test_the_levels_of_events(running: Running) -> None:
    for level in ("x", "channels", "Topics"):
        answer = await running.ask("GET", f"/api/events?level={level}")
        assert answer == (400, '{"message":"INVALID_ARG_LEVEL"}')


async def test_a_group(two: Two, running: Running) -> None:
    group = {"group_name": "g", "lag": 4, "rate": 2.5, "committed": {"0": 1}}
    two.nsqds[0].answers["/stats"]["topics"][0]["log_groups"] = [group]
    assert running.admin.poller is not None
    await running.admin.poller.refresh()
    found = await running.get("/api/history?topic=t&channel=@g")
    assert (found["depth"][-1], found["out"][-1], found["in"][-1]) == (4, 2.5, 0)
