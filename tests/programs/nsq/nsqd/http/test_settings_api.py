from __future__ import annotations

import json
from typing import Any

import pytest

from tests.programs.nsq.nsqd.conftest import Running, Start, mpub, pub

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
