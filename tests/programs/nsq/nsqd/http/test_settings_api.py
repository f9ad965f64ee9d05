from __future__ import annotations

import json
import logging
from pathlib import Path
from typing import Any

import pytest

from penstock.nsq.nsqd.options import NsqdOptions
from tests.programs.nsq.nsqd.conftest import Running, Start, mpub, pub


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("id", b"7"),
        ("log_prefix", b"[nsqd] "),
        ("statsd_address", b""),
        ("statsd_interval", b"60000000000"),
        ("statsd_mem_stats", b"true"),
        ("statsd_udp_packet_size", b"508"),
        ("statsd_exclude_ephemeral", b"false"),
        ("e2e_processing_latency_percentiles", b"[]"),
        ("e2e_processing_latency_window_time", b"600000000000"),
        ("enable_experiment", b"[]"),
        ("metrics", b"false"),
        ("broadcast_address", b"127.0.0.1"),
        ("msg_timeout", b"60000000000"),
        ("snappy", b"true"),
        ("nsqlookupd_tcp_addresses", b"[]"),
        ("log_level", b"2"),
        ("tls_min_version", b"769"),
        ("tls_required", b"0"),
        ("topology_zone", b""),
        ("durability", b"write"),
        ("max_msg_size", b"1048576"),
    ],
)
async def test_look(nsqd: Running, name: str, shown: bytes) -> None:
    assert await nsqd.get(f"/config/{name}") == (200, shown)


async def test_what_was_decided_at_the_start_is_filled_in(start: Start) -> None:
    nsqd = await start()
    port = nsqd.nsqd.ports.http
    assert (await nsqd.get("/config/broadcast_http_port"))[1] == b"%d" % port
    assert (await nsqd.get("/config/broadcast_tcp_port"))[1] == b"%d" % nsqd.nsqd.ports.tcp
    assert (await nsqd.get("/config/statsd_prefix"))[1] == b"nsq.127_0_0_1_%d." % port
    nsqd = await start(data_path=_new(nsqd), broadcast_http_port=9, statsd_prefix="")
    assert (await nsqd.get("/config/broadcast_http_port"))[1] == b"9"
    assert (await nsqd.get("/config/statsd_prefix"))[1] == b""


async def test_percentiles_as_numbers(start: Start) -> None:
    nsqd = await start(e2e_processing_latency_percentiles=(1.0, 0.99, 0.5))
    shown = await nsqd.get("/config/e2e_processing_latency_percentiles")
    assert shown == (200, b"[1,0.99,0.5]")


def _new(nsqd: Running) -> str:
    path = Path(nsqd.nsqd.options.data_path) / "other"
    path.mkdir()
    return str(path)


async def test_every_option_can_be_looked_at(nsqd: Running) -> None:
    hidden = {"version", "config", "verbose", "worker_id"}
    for option in NsqdOptions.declared.values():
        if option.name not in hidden:
            assert (await nsqd.get(f"/config/{option.key}"))[0] == 200, option.key


@pytest.mark.parametrize("name", ["nothing", "node_id", "max-msg-size", "ID", "verbose"])
async def test_what_is_no_option(nsqd: Running, name: str) -> None:
    assert await nsqd.get(f"/config/{name}") == (400, b'{"message":"INVALID_OPTION"}')


async def test_the_log_level_changes_at_once(nsqd: Running) -> None:
    logger = logging.getLogger("penstock")
    before = logger.level
    try:
        assert await nsqd.http("PUT", "/config/log_level", b"Error") == (200, b"4")
        assert logger.level == logging.ERROR
        assert await nsqd.get("/config/log_level") == (200, b"4")
    finally:
        logger.setLevel(before)


@pytest.mark.parametrize(
    ("name", "body", "status", "code"),
    [
        ("log_level", b"loud", 400, "INVALID_VALUE"),
        ("log_level", b'"info"', 400, "INVALID_VALUE"),
        ("log_level", b"\xff", 400, "INVALID_VALUE"),
        ("log_level", b"", 413, "INVALID_VALUE"),
        ("log_level", b"x" * 101, 413, "INVALID_VALUE"),
        ("nsqlookupd_tcp_addresses", b"{", 400, "INVALID_VALUE"),
        ("nsqlookupd_tcp_addresses", b'"a:1"', 400, "INVALID_VALUE"),
        ("nsqlookupd_tcp_addresses", b"[1]", 400, "INVALID_VALUE"),
        ("max_msg_size", b"5", 400, "INVALID_OPTION"),
        ("nothing", b"5", 400, "INVALID_OPTION"),
    ],
)
async def test_what_cannot_be_set(
    start: Start, name: str, body: bytes, status: int, code: str
) -> None:
    nsqd = await start(max_msg_size=100)
    expected = (status, b'{"message":"%s"}' % code.encode())
    assert await nsqd.http("PUT", f"/config/{name}", body) == expected


async def test_lookupd_addresses_are_set_and_echoed(nsqd: Running) -> None:
    body = json.dumps(["127.0.0.1:1"]).encode()
    path = "/config/nsqlookupd_tcp_addresses"
    assert await nsqd.http("PUT", path, body) == (200, b'["127.0.0.1:1"]')
    assert list(nsqd.nsqd.lookup.peers) == ["127.0.0.1:1"]
    assert await nsqd.http("PUT", path, b"null") == (200, b"null")
    assert nsqd.nsqd.lookup.peers == {}
    assert await nsqd.get(path) == (200, b"[]")


CHANNEL = "/channel/config?topic=t&channel=c"
TOPIC = "/topic/config?topic=t"


async def made(nsqd: Running) -> None:
    await nsqd.post("/topic/create?topic=t")
    await nsqd.post("/channel/create?topic=t&channel=c")


async def post(nsqd: Running, path: str, **fields: Any) -> tuple[int, Any]:
    status, body = await nsqd.post(path, json.dumps(fields).encode())
    return status, json.loads(body)


async def test_a_channels_settings(start: Start) -> None:
    nsqd = await start(max_attempts=9)
    await made(nsqd)
    expected = {
        "topic": "t", "channel": "c", "max_attempts": 9, "dead_letter_topic": "t.dead",
        "set": {"max_attempts": None, "dead_letter_topic": None}, "dead_letter_count": 0,
    }  # fmt: skip
    assert await nsqd.json(CHANNEL) == expected
    expected |= {"max_attempts": 5, "dead_letter_topic": "t-5",
                 "set": {"max_attempts": 5, "dead_letter_topic": "%s-5"}}  # fmt: skip
    assert await post(nsqd, CHANNEL, max_attempts=5, dead_letter_topic="%s-5") == (200, expected)
    await nsqd.stop()
    again = await start(max_attempts=9)
    assert await again.json(CHANNEL) == expected
    assert (await post(again, CHANNEL, max_attempts=0))[1]["max_attempts"] == 0
    assert (await post(again, CHANNEL))[1]["max_attempts"] == 9


async def test_a_topics_settings(start: Start) -> None:
    nsqd = await start(max_bytes=10**6)
    await made(nsqd)
    _, shown = await post(nsqd, TOPIC, max_depth=7, overflow="drop-oldest")
    assert shown == {
        "topic": "t", "max_depth": 7, "max_bytes": 10**6, "overflow": "drop-oldest",
        "set": {"max_depth": 7, "max_bytes": None, "overflow": "drop-oldest"},
        "messages": 0, "bytes": 0, "dropped_count": 0,
    }  # fmt: skip
    await nsqd.publish("t", *[b"x"] * 9)
    shown = await nsqd.json(TOPIC)
    assert (shown["messages"], shown["dropped_count"]) == (7, 2)


@pytest.mark.parametrize(
    ("path", "body", "status", "code"),
    [
        (CHANNEL, b"", 400, "INVALID_BODY"),
        (CHANNEL, b"[]", 400, "INVALID_BODY"),
        (CHANNEL, b'{"max_attempts":"5"}', 400, "INVALID_BODY"),
        (CHANNEL, b'{"max_attempt":5}', 400, "INVALID_BODY"),
        (CHANNEL, b'{"dead_letter_topic":"\xff"}', 400, "INVALID_BODY"),
        (CHANNEL, b'{"max_attempts":-1}', 400, "INVALID_ARG_MAX_ATTEMPTS"),
        (CHANNEL, b'{"max_attempts":65536}', 400, "INVALID_ARG_MAX_ATTEMPTS"),
        (CHANNEL, b'{"dead_letter_topic":"t"}', 400, "INVALID_ARG_DEAD_LETTER_TOPIC"),
        (CHANNEL, b'{"dead_letter_topic":"a b"}', 400, "INVALID_ARG_DEAD_LETTER_TOPIC"),
        ("/channel/config?topic=t&channel=no", b"{}", 404, "CHANNEL_NOT_FOUND"),
        ("/channel/config?topic=no&channel=c", b"{}", 404, "TOPIC_NOT_FOUND"),
        ("/channel/config?topic=t", b"{}", 400, "MISSING_ARG_CHANNEL"),
        (TOPIC, b'{"max_depth":-1}', 400, "INVALID_ARG_MAX_DEPTH"),
        (TOPIC, b'{"max_bytes":-1}', 400, "INVALID_ARG_MAX_BYTES"),
        (TOPIC, b'{"overflow":"burn"}', 400, "INVALID_ARG_OVERFLOW"),
        ("/topic/config?topic=no", b"{}", 404, "TOPIC_NOT_FOUND"),
        ("/topic/config", b"{}", 400, "MISSING_ARG_TOPIC"),
    ],
)
async def test_refusals(nsqd: Running, path: str, body: bytes, status: int, code: str) -> None:
    await made(nsqd)
    found = await nsqd.post(path, body)
    assert (found[0], json.loads(found[1])) == (status, {"message": code})


async def test_a_full_topic_refuses_and_recovers(start: Start) -> None:
    nsqd = await start(max_depth=2)
    await made(nsqd)
    client = await nsqd.connect()
    client.send(pub("t", b"a") + pub("t", b"b") + pub("t", b"c"))
    assert await client.ask(b"") == b"OK"
    assert await client.ask(b"") == b"OK"
    full = "topic is full (max-depth 2)"
    assert await client.error() == f"E_PUB_FAILED PUB failed {full}"
    assert await client.closed()
    client = await nsqd.connect()
    assert await client.error(mpub("t", b"a", b"b")) == f"E_MPUB_FAILED MPUB failed {full}"
    assert await nsqd.post("/pub?topic=t", b"x") == (503, b'{"message":"TOPIC_FULL"}')
    assert await nsqd.get("/ping") == (200, b"OK")
    consumer = await nsqd.consumer("t")
    consumer.send(b"FIN %b\n" % (await consumer.message()).id)
    assert (await consumer.message()).body == b"b"
    assert await nsqd.post("/pub?topic=t", b"x") == (200, b"OK")
