from __future__ import annotations

import json

import pytest

from tests.programs.nsq.nsqd.conftest import Running, Start


@pytest.fixture
async def filled(start: Start) -> Running:
    """Five messages, one every few milliseconds, that a first channel has taken."""
    nsqd = await start()
    consumer = await nsqd.consumer("t", "first", ready=5)
    for number in range(5):
        await nsqd.publish("t", b"m%d" % number)
    for message in await consumer.messages(5):
        consumer.send(b"FIN %b\n" % message.id)
    return nsqd


@pytest.mark.parametrize(
    ("where", "offset"),
    [("offset=3", 3), ("offset=0", 0), ("from=oldest", 0), ("from=latest", 5), ("since=1h", 0),
     ("since=0s", 5), ("timestamp_ns=0", 0), ("timestamp_ns=9223372036854775807", 5)],
)  # fmt: skip
async def test_a_new_channel_from_there(filled: Running, where: str, offset: int) -> None:
    status, body = await filled.post(f"/channel/create?topic=t&channel=c&{where}")
    assert (status, json.loads(body)) == (200, {"offset": offset})
    await filled.publish("t", b"m5")
    consumer = await filled.consumer("t", ready=9)
    bodies = [message.body for message in await consumer.messages(6 - offset)]
    assert bodies == [b"m%d" % number for number in range(offset, 6)]


async def test_from_a_time(filled: Running) -> None:
    third = (await filled.json("/topic/peek?topic=t"))["messages"][2]["timestamp"]
    _, body = await filled.post(f"/channel/create?topic=t&channel=c&timestamp_ns={third}")
    assert json.loads(body) == {"offset": 2}


async def test_back_to_the_start(filled: Running) -> None:
    status, body = await filled.post("/channel/seek?topic=t&channel=first&from=oldest")
    assert (status, json.loads(body)) == (200, {"offset": 0})
    consumer = await filled.consumer("t", "first", ready=9)
    # the consumer that is still there has room for five and takes some of them
    channel = await filled.channel("t", "first")
    assert channel["in_flight_count"] == 5
    consumer.writer.close()


@pytest.mark.parametrize(
    ("where", "told"),
    [("offset=0", (0, 5, 5, 0)), ("from=latest", (5, 0, 0, 0)), ("offset=3", (3, 2, 2, 0))],
)
async def test_a_look_at_what_a_move_would_do(
    filled: Running, where: str, told: tuple[int, ...]
) -> None:
    found = await filled.json(f"/channel/seek?topic=t&channel=first&{where}")
    assert found == dict(zip(("offset", "delivered", "again", "skipped"), told, strict=True))
    assert (await filled.channel("t", "first"))["depth"] == 0, "nothing has changed"


async def test_a_look_counts_what_is_still_needed_and_what_is_to_come(filled: Running) -> None:
    await filled.post("/channel/seek?topic=t&channel=first&offset=4")  # 4 is needed
    await filled.post("/topic/pause?topic=t")
    await filled.publish("t", b"m5")
    await filled.publish("t", b"m6")
    looks = [
        await filled.json(f"/channel/seek?topic=t&channel=first&offset={n}") for n in (2, 5, 6)
    ]
    assert [(each["delivered"], each["again"], each["skipped"]) for each in looks] == [
        (5, 2, 0), (2, 0, 1), (1, 0, 2)]  # fmt: skip


@pytest.mark.parametrize(
    ("query", "status", "code"),
    [
        ("topic=t&channel=no&offset=1", 404, "CHANNEL_NOT_FOUND"),
        ("topic=t&channel=first", 400, "MISSING_ARG_OFFSET"),
        ("topic=t&channel=first&offset=6", 416, "OFFSET_OUT_OF_RANGE"),
    ],
)
async def test_looks_that_are_refused(filled: Running, query: str, status: int, code: str) -> None:
    found = await filled.get(f"/channel/seek?{query}")
    assert (found[0], json.loads(found[1])["message"]) == (status, code)


@pytest.mark.parametrize(
    ("path", "status", "code"),
    [
        ("/channel/create?topic=t&channel=first&from=oldest", 409, "CHANNEL_EXISTS"),
        ("/channel/create?topic=t&channel=c&from=oldest&offset=3", 400, "AMBIGUOUS_POSITION"),
        ("/channel/create?topic=t&channel=c&from=middle", 400, "INVALID_ARG_FROM"),
        ("/channel/create?topic=t&channel=c&offset=x", 400, "INVALID_ARG_OFFSET"),
        ("/channel/create?topic=t&channel=c&since=2", 400, "INVALID_ARG_SINCE"),
        ("/channel/create?topic=t&channel=c&since=-2h", 400, "INVALID_ARG_SINCE"),
        ("/channel/create?topic=t&channel=c&timestamp_ns=", 400, "INVALID_ARG_TIMESTAMP_NS"),
        ("/channel/create?topic=no&channel=c&from=oldest", 404, "TOPIC_NOT_FOUND"),
        ("/channel/seek?topic=t&channel=no&from=oldest", 404, "CHANNEL_NOT_FOUND"),
        ("/channel/seek?topic=t&channel=first", 400, "MISSING_ARG_OFFSET"),
        ("/channel/create?topic=t&channel=c&offset=6", 416, "OFFSET_OUT_OF_RANGE"),
        ("/channel/seek?topic=t&channel=first&offset=6", 416, "OFFSET_OUT_OF_RANGE"),
    ],
)
async def test_refusals(filled: Running, path: str, status: int, code: str) -> None:
    found = await filled.post(path)
    assert (found[0], json.loads(found[1])["message"]) == (status, code)
    assert "c" not in filled.nsqd.node.broker.topics["t"].channels


async def test_what_retention_has_let_go(start: Start) -> None:
    nsqd = await start(max_bytes_per_file=300, sync_timeout=10**7)
    consumer = await nsqd.consumer("t", ready=9)
    for number in range(9):
        await nsqd.publish("t", b"m%d" % number)
    for message in await consumer.messages(9):
        consumer.send(b"FIN %b\n" % message.id)
    log = nsqd.nsqd.node.broker.topics["t"].log
    await nsqd.until(lambda: log.start_offset > 0)
    status, body = await nsqd.post("/channel/seek?topic=t&channel=c&offset=0")
    assert (status, json.loads(body)["start"]) == (416, log.start_offset)


async def test_without_a_position_it_is_nsqs(filled: Running) -> None:
    assert await filled.post("/channel/create?topic=t&channel=first") == (200, b"")
    assert await filled.post("/channel/create?topic=t&channel=new") == (200, b"")
    assert (await filled.channel("t", "new"))["depth"] == 0
