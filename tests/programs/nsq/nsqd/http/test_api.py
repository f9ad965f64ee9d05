"""The HTTP API's own parts; the recorded exchanges check those of NSQ's."""

from __future__ import annotations

import asyncio
import json
import logging
from pathlib import Path
from typing import Any

import pytest

from penstock import __version__, lane
from penstock.core.units import MILLISECOND, SECOND
from penstock.nsq.dead_letters.topics import CHANNEL
from penstock.nsq.nsqd.nsqd_options import NsqdOptions
from penstock.nsq.protocol import encode
from penstock.storage.files.disk_space import DiskSpace
from penstock.testing.clock import FakeClock
from tests.programs.nsq.nsqd.conftest import Running, Start, mpub, pub


async def test_info(nsqd: Running) -> None:
    info = await nsqd.json("/info")
    assert (info["tcp_port"], info["http_port"]) == (nsqd.nsqd.ports.tcp, nsqd.nsqd.ports.http)
    assert (info["version"], info["penstock_version"]) == ("1.3.0", __version__)
    assert info["penstock_lane"] == lane.STATE


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


async def test_without_an_address_there_is_no_http(start: Start) -> None:
    nsqd = await start(http_address="")
    assert nsqd.nsqd.ports.http == 0
    await nsqd.publish("t", b"x")


# --- settings


async def test_what_was_decided_at_the_start_is_filled_in(start: Start, tmp_path: Path) -> None:
    async def shown(nsqd: Running) -> list[bytes]:
        keys = ("broadcast_http_port", "broadcast_tcp_port", "statsd_prefix", "durability")
        return [(await nsqd.get(f"/config/{key}"))[1] for key in keys]

    nsqd = await start()
    tcp, http = nsqd.nsqd.ports.tcp, nsqd.nsqd.ports.http
    prefix = b"nsq.127_0_0_1_%d." % http
    assert await shown(nsqd) == [b"%d" % http, b"%d" % tcp, prefix, b"write"]
    await nsqd.stop()
    nsqd = await start(broadcast_http_port=9, statsd_prefix="")
    assert await shown(nsqd) == [b"9", b"%d" % nsqd.nsqd.ports.tcp, b"", b"write"]


async def test_every_option_can_be_looked_at(nsqd: Running) -> None:
    hidden = {"version", "config", "verbose", "worker_id"}
    for option in NsqdOptions.declared.values():
        if option.name not in hidden:
            assert (await nsqd.get(f"/config/{option.key}"))[0] == 200, option.key


async def test_the_log_level_changes_at_once(nsqd: Running) -> None:
    logger = logging.getLogger("penstock")
    before = logger.level
    try:
        assert await nsqd.http("PUT", "/config/log_level", b"Error") == (200, b"4")
        assert logger.level == logging.ERROR
        assert await nsqd.get("/config/log_level") == (200, b"4")
    finally:
        logger.setLevel(before)


PIPELINE = {"id": "6a1d", "name": "counts", "state": "running", "rows_read": 70, "sql": "select 1",
          "groups": [["t", "g"]], "lag": 9}  # fmt: skip
CHANNEL_CONFIG = "/channel/config?topic=t&channel=c"
TOPIC_CONFIG = "/topic/config?topic=t"


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
    assert await nsqd.json(CHANNEL_CONFIG) == expected
    expected |= {"max_attempts": 5, "dead_letter_topic": "t-5",
                 "set": {"max_attempts": 5, "dead_letter_topic": "%s-5"}}  # fmt: skip
    assert await post(nsqd, CHANNEL_CONFIG, max_attempts=5, dead_letter_topic="%s-5") == (
        200,
        expected,
    )
    await nsqd.stop()
    again = await start(max_attempts=9)
    assert await again.json(CHANNEL_CONFIG) == expected
    assert (await post(again, CHANNEL_CONFIG, max_attempts=0))[1]["max_attempts"] == 0
    assert (await post(again, CHANNEL_CONFIG))[1]["max_attempts"] == 9


async def test_a_topics_settings(start: Start) -> None:
    nsqd = await start(max_bytes=10**6, retention_time=3600 * SECOND)
    await made(nsqd)
    _, shown = await post(nsqd, TOPIC_CONFIG, max_depth=7, overflow="drop-oldest")
    assert shown == {
        "topic": "t", "max_depth": 7, "max_bytes": 10**6, "overflow": "drop-oldest",
        "retention_time": "1h0m0s", "retention_bytes": 0,
        "set": {"max_depth": 7, "max_bytes": None, "overflow": "drop-oldest",
                "retention_time": None, "retention_bytes": None},
        "messages": 0, "bytes": 0, "dropped_count": 0,
    }  # fmt: skip
    await nsqd.publish("t", *[b"x"] * 9)
    shown = await nsqd.json(TOPIC_CONFIG)
    assert (shown["messages"], shown["dropped_count"]) == (7, 2)
    await post(nsqd, TOPIC_CONFIG, retention_time="24h", retention_bytes=10**9)
    await nsqd.stop()
    shown = await (await start()).json(TOPIC_CONFIG)
    assert (shown["max_depth"], shown["retention_time"], shown["retention_bytes"]) == (
        0, "24h0m0s", 10**9,
    )  # fmt: skip
    assert shown["set"]["retention_time"] == "24h0m0s"


@pytest.mark.parametrize(
    ("path", "body", "status", "code"),
    [
        (CHANNEL_CONFIG, b"", 400, "INVALID_BODY"),
        (CHANNEL_CONFIG, b"[]", 400, "INVALID_BODY"),
        (CHANNEL_CONFIG, b'{"max_attempts":"5"}', 400, "INVALID_BODY"),
        (CHANNEL_CONFIG, b'{"max_attempt":5}', 400, "INVALID_BODY"),
        (CHANNEL_CONFIG, b'{"dead_letter_topic":"\xff"}', 400, "INVALID_BODY"),
        (CHANNEL_CONFIG, b'{"max_attempts":-1}', 400, "INVALID_ARG_MAX_ATTEMPTS"),
        (CHANNEL_CONFIG, b'{"max_attempts":65536}', 400, "INVALID_ARG_MAX_ATTEMPTS"),
        (CHANNEL_CONFIG, b'{"dead_letter_topic":"t"}', 400, "INVALID_ARG_DEAD_LETTER_TOPIC"),
        (CHANNEL_CONFIG, b'{"dead_letter_topic":"a b"}', 400, "INVALID_ARG_DEAD_LETTER_TOPIC"),
        ("/channel/config?topic=t&channel=no", b"{}", 404, "CHANNEL_NOT_FOUND"),
        ("/channel/config?topic=no&channel=c", b"{}", 404, "TOPIC_NOT_FOUND"),
        ("/channel/config?topic=t", b"{}", 400, "MISSING_ARG_CHANNEL"),
        (TOPIC_CONFIG, b'{"max_depth":-1}', 400, "INVALID_ARG_MAX_DEPTH"),
        (TOPIC_CONFIG, b'{"max_bytes":-1}', 400, "INVALID_ARG_MAX_BYTES"),
        (TOPIC_CONFIG, b'{"overflow":"burn"}', 400, "INVALID_ARG_OVERFLOW"),
        (TOPIC_CONFIG, b'{"retention_bytes":-1}', 400, "INVALID_ARG_RETENTION_BYTES"),
        (TOPIC_CONFIG, b'{"retention_time":"a day"}', 400, "INVALID_ARG_RETENTION_TIME"),
        (TOPIC_CONFIG, b'{"retention_time":"-1s"}', 400, "INVALID_ARG_RETENTION_TIME"),
        ("/topic/config?topic=no", b"{}", 404, "TOPIC_NOT_FOUND"),
        ("/topic/config", b"{}", 400, "MISSING_ARG_TOPIC"),
        ("/channel/unpause?topic=t&channel=no", b"", 404, "CHANNEL_NOT_FOUND"),
        ("/channel/publish?topic=t&channel=no", b"", 404, "CHANNEL_NOT_FOUND"),
        ("/channel/publish?topic=t&channel=c", b"", 413, "BAD_BODY"),
        ("/topic/create?topic=", b"", 400, "INVALID_TOPIC"),
        ("/pub?topic=t&defer=" + "9" * 5000, b"x", 400, "INVALID_DEFER"),
        ("/pub?topic=t&defer=99999999999999999999", b"x", 400, "INVALID_DEFER"),
        ("/pipelines", b"{", 400, "INVALID_BODY"),
        *(("/pipelines", json.dumps(PIPELINE | changes).encode(), 400, "INVALID_BODY")
          for changes in ({"state": "dead"}, {"id": 5}, {"rows_read": -1}, {"name": "a\x00b"})),
        ("/pipelines", json.dumps(PIPELINE | {"more": "x" * 200_000}).encode(), 413,
         "BODY_TOO_BIG"),
    ],
)  # fmt: skip
async def test_refusals(nsqd: Running, path: str, body: bytes, status: int, code: str) -> None:
    await made(nsqd)
    found = await nsqd.post(path, body)
    assert (found[0], json.loads(found[1])) == (status, {"message": code})


async def test_a_paused_topic_takes_nothing_for_one_channel(nsqd: Running) -> None:
    """It would wait in the topic, and then come to all of them."""
    await made(nsqd)
    await nsqd.post("/topic/pause?topic=t")
    body = encode.multi_body([b"x"])
    found = await nsqd.post("/channel/publish?topic=t&channel=c", body)
    assert found == (409, b'{"message":"TOPIC_PAUSED"}')
    await nsqd.post("/topic/unpause?topic=t")
    assert await nsqd.post("/channel/publish?topic=t&channel=c", body) == (200, b"OK")


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


# --- dead letters


async def letter_topics(nsqd: Running) -> list[dict[str, Any]]:
    return list((await nsqd.json("/deadletters/topics"))["topics"])


async def test_by_where_channels_send_them_and_by_name(nsqd: Running) -> None:
    for topic in ("t", "grave", "other", "old.dead"):
        await nsqd.post(f"/topic/create?topic={topic}")
    await nsqd.post("/channel/create?topic=t&channel=c")
    assert [each["topic"] for each in await letter_topics(nsqd)] == ["old.dead"]
    body = json.dumps({"max_attempts": 1, "dead_letter_topic": "grave"}).encode()
    assert (await nsqd.post("/channel/config?topic=t&channel=c", body))[0] == 200
    assert [each["topic"] for each in await letter_topics(nsqd)] == ["grave", "old.dead"]


async def test_what_is_left(nsqd: Running) -> None:
    await nsqd.publish("t.dead", b"a", b"b", b"c")
    row = {"topic": "t.dead", "letters": 3, "is_rocketmq": False, "channel": None}
    assert await letter_topics(nsqd) == [row]
    await nsqd.post(f"/channel/create?topic=t.dead&channel={CHANNEL}&from=oldest")
    assert await letter_topics(nsqd) == [{**row, "channel": CHANNEL}]
    consumer = await nsqd.consumer("t.dead", CHANNEL)
    message = await consumer.message()
    assert (await letter_topics(nsqd))[0]["letters"] == 3, "one of them is in flight"
    consumer.send(b"FIN %b\n" % message.id)

    async def finished() -> bool:
        return bool((await letter_topics(nsqd))[0]["letters"] == 2)

    await nsqd.until(finished)


# --- pipelines, and the machine under a node


async def tell(nsqd: Running, **changes: Any) -> tuple[int, bytes]:
    return await nsqd.post("/pipelines", json.dumps(PIPELINE | changes).encode())


async def told(nsqd: Running) -> Any:
    return (await nsqd.json("/pipelines"))["pipelines"]


async def test_what_is_told_is_shown(filled: Running) -> None:
    assert await told(filled) == []
    assert await tell(filled, more="ignored") == (200, b"{}")
    (found,) = await told(filled)
    assert {key: found[key] for key in PIPELINE} == PIPELINE
    assert (found["lag_is_here"], found["error_at"]) == (False, 0)
    assert await filled.post("/log/commit?topic=t&group=g", b'{"offsets":{"0":40}}')
    (found,) = await told(filled)
    assert (found["lag"], found["lag_is_here"]) == (60, True)


async def test_metrics(start: Start) -> None:
    nsqd = await start(metrics=True)
    page = (await nsqd.get("/metrics"))[1].decode()
    assert "nsqd_pipeline" not in page
    await tell(nsqd)
    page = (await nsqd.get("/metrics"))[1].decode()
    assert 'nsqd_pipeline_rows_read_total{pipeline="counts",id="6a1d"} 70\n' in page


async def test_clock_disk_and_health(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = FakeClock()
    node = await start(clock=clock)
    monkeypatch.setattr(DiskSpace, "of", lambda _: DiskSpace(100, 60, 30))
    found = await node.json("/node")
    assert found | {
        "penstock_version": __version__, "wall_ns": clock.wall_ns(), "health": "OK",
        "disk": {"total": 100, "used": 60, "free": 30}, "start_time": clock.wall_ns() // SECOND,
        "missing": [],
    } == found  # fmt: skip
    monkeypatch.setattr(DiskSpace, "of", lambda _: None)
    assert (await node.json("/node"))["disk"] is None
