"""The HTTP API's own parts; the recorded exchanges check its answers one by one."""

from __future__ import annotations

import asyncio

import pytest

from penstock import __version__
from penstock.core.units import MILLISECOND, SECOND
from penstock.testing.clock import FakeClock
from tests.programs.nsq.nsqd.conftest import Running, Start, mpub_body


async def test_ping_and_info(nsqd: Running) -> None:
    assert await nsqd.get("/ping") == (200, b"OK")
    info = await nsqd.json("/info")
    assert list(info) == [
        "version", "broadcast_address", "hostname", "http_port", "tcp_port", "start_time",
        "max_heartbeat_interval", "max_output_buffer_size", "max_output_buffer_timeout",
        "max_deflate_level", "topology_zone", "topology_region",
        "penstock_version", "penstock_lane",
    ]  # fmt: skip
    assert (info["tcp_port"], info["http_port"]) == (nsqd.nsqd.ports.tcp, nsqd.nsqd.ports.http)
    assert info["max_heartbeat_interval"] == 60 * SECOND
    assert (info["version"], info["penstock_version"]) == ("1.3.0", __version__)


@pytest.mark.parametrize(
    ("path", "body", "bodies"),
    [
        ("/mpub?topic=t", b"a\n\nb\r\nc", [b"a", b"b\r", b"c"]),
        ("/mpub?topic=t&binary=false", b"a\n", [b"a"]),
        ("/mpub?topic=t&binary=0", b"a", [b"a"]),
        ("/mpub?topic=t&binary=true", mpub_body(b"a\n", b"b"), [b"a\n", b"b"]),
        ("/mpub?topic=t&binary=", mpub_body(b"a"), [b"a"]),
        ("/mpub?topic=t", b"\n\n", []),
        ("/mpub?topic=t", b"", []),
    ],
)
async def test_publish_many(nsqd: Running, path: str, body: bytes, bodies: list[bytes]) -> None:
    assert await nsqd.post(path, body) == (200, b"OK")
    assert (await nsqd.topic("t"))["depth"] == len(bodies)
    consumer = await nsqd.consumer("t", ready=10)
    assert [message.body for message in await consumer.messages(len(bodies))] == bodies


async def test_deferred(start: Start) -> None:
    clock = FakeClock()
    nsqd = await start(clock, output_buffer_timeout=25 * MILLISECOND)
    consumer = await nsqd.consumer("t", ready=2)
    assert await nsqd.post("/pub?topic=t&defer=1000", b"later") == (200, b"OK")
    assert await nsqd.post("/pub?topic=t&defer=0", b"now") == (200, b"OK")
    assert (await consumer.message()).body == b"now"
    assert (await nsqd.channel("t"))["deferred_count"] == 1
    clock.advance(1000 * MILLISECOND)
    assert (await consumer.message()).body == b"later"


@pytest.mark.parametrize(
    ("path", "body", "status", "code"),
    [
        ("/pub?topic=t", b"", 400, "MSG_EMPTY"),
        ("/pub?topic=t", b"x" * 11, 413, "MSG_TOO_BIG"),
        ("/pub?topic=t&defer=" + "9" * 5000, b"x", 400, "INVALID_DEFER"),
        ("/pub?topic=t&defer=99999999999999999999", b"x", 400, "INVALID_DEFER"),
        ("/mpub?topic=t", b"x" * 101, 413, "BODY_TOO_BIG"),
        ("/mpub?topic=t", b"x\n" + b"y" * 11, 413, "MSG_TOO_BIG"),
        ("/mpub?topic=t&binary=true", b"\0\0\0", 413, "BAD_BODY"),
        ("/mpub?topic=t&binary=true", mpub_body(b"") + b"1", 413, "BAD_MESSAGE"),
        ("/topic/create?topic=", b"", 400, "INVALID_TOPIC"),
    ],
)
async def test_errors(start: Start, path: str, body: bytes, status: int, code: str) -> None:
    nsqd = await start(max_msg_size=10, max_body_size=100)
    assert await nsqd.post(path, body) == (status, b'{"message":"%s"}' % code.encode())


async def test_a_channel_that_is_not_there(nsqd: Running) -> None:
    await nsqd.post("/topic/create?topic=t")
    for action in ("delete", "empty", "pause", "unpause"):
        assert await nsqd.post(f"/channel/{action}?topic=t&channel=c") == (
            404,
            b'{"message":"CHANNEL_NOT_FOUND"}',
        )


async def test_topic_life(nsqd: Running) -> None:
    for _ in range(2):
        assert await nsqd.post("/topic/create?topic=t") == (200, b"")
    await nsqd.publish("t", b"1", b"2")
    assert (await nsqd.topic("t"))["depth"] == 2
    assert await nsqd.post("/topic/empty?topic=t") == (200, b"")
    assert (await nsqd.topic("t"))["depth"] == 0
    assert await nsqd.post("/topic/delete?topic=t") == (200, b"")
    assert await nsqd.post("/topic/delete?topic=t") == (404, b'{"message":"TOPIC_NOT_FOUND"}')


async def test_a_deleted_topic_starts_anew(nsqd: Running) -> None:
    consumer = await nsqd.consumer("t")
    await nsqd.publish("t", b"old", b"older")
    assert await nsqd.post("/topic/delete?topic=t") == (200, b"")
    assert (await consumer.frame())[0] == 2
    assert await consumer.closed()
    await nsqd.publish("t", b"new")
    topic = await nsqd.topic("t")
    assert (topic["depth"], topic["channels"]) == (1, [])
    assert (await (await nsqd.consumer("t")).message()).body == b"new"


async def test_deleting_twice_at_once(nsqd: Running) -> None:
    await nsqd.publish("t", b"x")
    answers = await asyncio.gather(*(nsqd.post("/topic/delete?topic=t") for _ in range(4)))
    assert {status for status, _ in answers} <= {200, 404}
    assert "t" not in nsqd.nsqd.node.broker.topics


async def test_topic_pause_holds_back_the_channels_only(nsqd: Running) -> None:
    consumer = await nsqd.consumer("t", ready=5)
    await nsqd.post("/topic/pause?topic=t")
    await nsqd.publish("t", b"x")
    assert await consumer.silent(0.05)
    topic = await nsqd.topic("t")
    assert (topic["depth"], topic["paused"]) == (1, True)
    await nsqd.post("/topic/unpause?topic=t")
    assert (await consumer.message()).body == b"x"


async def test_channel_empty_drops_what_is_in_flight_and_deferred_too(nsqd: Running) -> None:
    consumer = await nsqd.consumer("t", ready=1)
    await nsqd.publish("t", b"1", b"2")
    message = await consumer.message()
    await nsqd.post("/pub?topic=t&defer=5000", b"3")
    assert await nsqd.post("/channel/empty?topic=t&channel=c") == (200, b"")
    channel = await nsqd.channel("t")
    held = ("depth", "in_flight_count", "deferred_count")
    assert [channel[name] for name in held] == [0, 0, 0]
    text = f"E_FIN_FAILED FIN {message.id.decode()} failed ID not in flight"
    assert await consumer.error(b"FIN %s\n" % message.id) == text
    await nsqd.publish("t", b"4")
    assert (await consumer.message()).body == b"4"


async def test_the_first_channel_gets_the_backlog_later_ones_what_follows(nsqd: Running) -> None:
    await nsqd.publish("t", b"1", b"2")
    await nsqd.post("/channel/create?topic=t&channel=c")
    await nsqd.post("/channel/create?topic=t&channel=d")
    await nsqd.publish("t", b"3")
    assert (await nsqd.channel("t", "c"))["depth"] == 3
    assert (await nsqd.channel("t", "d"))["depth"] == 1


async def test_debug_pages(nsqd: Running) -> None:
    assert (await nsqd.get("/debug/pprof/"))[0] == 200
    assert await nsqd.http("PUT", "/debug/setblockrate?rate=5") == (200, b"")
    status, body = await nsqd.http("PUT", "/debug/setblockrate?rate=x")
    assert (status, body) == (
        400, b'invalid block rate : strconv.Atoi: parsing "x": invalid syntax'
    )  # fmt: skip
    assert await nsqd.post("/debug/freememory") == (200, b"")


async def test_without_an_address_there_is_no_http(start: Start) -> None:
    nsqd = await start(http_address="")
    assert nsqd.nsqd.ports.http == 0
    await nsqd.publish("t", b"x")
