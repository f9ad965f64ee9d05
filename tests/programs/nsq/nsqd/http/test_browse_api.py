"""Looking at messages without taking them, deferred ones, and channels that go to another place."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from penstock.core.units import HOUR, MILLISECOND
from penstock.nsq.nsqd.http import browse_api
from tests.programs.nsq.nsqd.conftest import Running, Start, dpub, faulty_disk

PEEK = "/channel/peek?topic=t&channel=c"
DEFERRED = "/channel/deferred?topic=t&channel=c"
CANCEL = "/channel/deferred/cancel?topic=t&channel=c"
NEW = "/channel/create?topic=t&channel=new"


async def fill(nsqd: Running) -> Running:
    """One finished, one in flight, one requeued, two waiting, three deferred, latest first."""
    consumer = await nsqd.consumer("t", ready=3)
    await nsqd.publish("t", b"m0", b"m1", b"m2")
    messages = await consumer.messages(3)
    consumer.send(b"RDY 0\n")
    consumer.send(b"FIN %b\n" % messages[0].id + b"REQ %b 0\n" % messages[2].id)
    await nsqd.publish("t", b"text", b"\xff\xfe")
    client = await nsqd.connect()
    for tens in (3, 2, 1):
        assert await client.ask(dpub("t", tens * 600_000, b"in %d0m" % tens)) == b"OK"
    await nsqd.until(lambda: nsqd.nsqd.node.broker.topics["t"].channels["c"].requeue_count == 1)
    return nsqd


def bodies(page: dict[str, Any]) -> list[str]:
    return [message.get("body", message.get("body_base64")) for message in page["messages"]]


async def test_a_channel_shows_what_it_needs(nsqd: Running) -> None:
    await fill(nsqd)
    page = await nsqd.json(PEEK)
    states = [(m["offset"], m["state"], m["attempts"], m["size"]) for m in page["messages"]]
    assert states == [
        (1, "in_flight", 1, 2), (2, "requeued", 1, 2), (3, "waiting", 0, 4), (4, "waiting", 0, 2),
        (5, "deferred", 0, 6), (6, "deferred", 0, 6), (7, "deferred", 0, 6),
    ]  # fmt: skip
    assert bodies(page) == ["m1", "m2", "text", "//4=", "in 30m", "in 20m", "in 10m"]
    assert page["messages"][3]["body_base64"] == "//4="
    assert 0 < page["messages"][4]["remaining_ms"] <= 3 * 600_000
    assert page["next"] is None
    assert (await nsqd.channel("t"))["in_flight_count"] == 1, "nothing was taken"


async def test_pages(nsqd: Running) -> None:
    await fill(nsqd)
    found, where = [], "oldest"
    while where != "None":
        page = await nsqd.json(f"{PEEK}&limit=2&from={where}")
        assert len(page["messages"]) <= 2
        found += [message["offset"] for message in page["messages"]]
        where = str(page["next"])
    assert found == [1, 2, 3, 4, 5, 6, 7]
    newest = await nsqd.json(f"{PEEK}&limit=2&from=newest")
    assert [message["offset"] for message in newest["messages"]] == [6, 7]
    topic = await nsqd.json("/topic/peek?topic=t&limit=2&from=newest")
    assert bodies(topic) == ["in 20m", "in 10m"]


async def test_a_topic_shows_its_log(nsqd: Running) -> None:
    await fill(nsqd)
    nsqd.nsqd.node.broker.topics["t"].pause()
    await nsqd.publish("t", b"held back")
    page = await nsqd.json("/topic/peek?topic=t")
    assert [message["state"] for message in page["messages"]] == ["distributed"] * 8 + ["waiting"]
    assert bodies(page)[0] == "m0", "finished, but in the log still"
    assert (await nsqd.json("/deadletters?topic=t"))["messages"] == []


async def test_bodies_are_cut(nsqd: Running) -> None:
    await nsqd.publish("t", "äöü".encode() * 400, b"\xff" * 2000)
    await nsqd.post("/channel/create?topic=t&channel=c")
    text, binary = (await nsqd.json(f"{PEEK}&preview=3"))["messages"]
    assert (text["body"], text["size"], text["truncated"]) == ("ä", 2400, True)
    assert (binary["body_base64"], binary["truncated"]) == ("////", True)
    assert "body" not in (await nsqd.json(f"{PEEK}&preview=0"))["messages"][0]
    whole = (await nsqd.json(f"{PEEK}&preview=4000"))["messages"][0]
    assert "truncated" not in whole


async def test_a_page_has_a_size(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(browse_api, "PAGE_BYTES_MAX", 2500)
    nsqd = await start()
    await nsqd.publish("t", *[b"x" * 1000] * 5)
    page = await nsqd.json("/topic/peek?topic=t")
    assert (len(page["messages"]), page["next"]) == (3, 3)


async def test_a_page_looks_only_so_far(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(browse_api, "LOOKED_AT_MAX", 4)
    nsqd = await start()
    await nsqd.publish("t", *[b"x"] * 6)
    assert await nsqd.json("/deadletters?topic=t") == {"topic": "t", "messages": [], "next": 4}
    assert (await nsqd.json("/deadletters?topic=t&from=4"))["next"] is None


async def test_deferred_ones_in_the_order_of_their_time(nsqd: Running) -> None:
    await fill(nsqd)
    found, where = [], ""
    for _ in range(3):
        page = await nsqd.json(f"{DEFERRED}&limit=1{where}")
        assert page["count"] == 3
        found += bodies(page)
        where = f"&from={page['next']}"
    assert found == ["in 10m", "in 20m", "in 30m"]
    assert page["next"] is None


async def test_a_batch_of_deferred_messages_spreads_over_pages(nsqd: Running) -> None:
    await nsqd.post("/topic/create?topic=t")
    await nsqd.post("/channel/create?topic=t&channel=c")
    await nsqd.post("/mpub?topic=t&defer=60000", b"a\nb\nc\nd\ne")
    first = await nsqd.json(f"{DEFERRED}&limit=2")
    second = await nsqd.json(f"{DEFERRED}&limit=9&from={first['next']}")
    assert bodies(first) + bodies(second) == ["a", "b", "c", "d", "e"]
    assert second["next"] is None


async def test_a_release_that_cannot_be_written_down_is_in_effect(
    start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk = faulty_disk(monkeypatch)
    nsqd = await start(data_path="/data", sync_timeout=MILLISECOND)
    consumer = await nsqd.consumer("t")
    await nsqd.post("/pub?topic=t&defer=60000", b"x")
    log = nsqd.nsqd.node.broker.topics["t"].log
    await nsqd.until(lambda: log.synced_offset == 1)  # nothing else goes on
    disk.fail("append", within="journal", times=-1)
    disk.fail("replace", within="journal", times=-1)
    assert (await nsqd.post("/channel/deferred/release?topic=t&channel=c&all=true"))[0] == 500
    assert (await consumer.message()).body == b"x"
    disk.heal()


async def test_cancel_and_release(start: Start, tmp_path: Path) -> None:
    nsqd = await fill(await start())
    soon, later, latest = [m["id"] for m in (await nsqd.json(DEFERRED))["messages"]]
    act = "/channel/deferred/{}?topic=t&channel=c"
    answer = await nsqd.post(act.format("cancel") + f"&id={soon}&id={'0' * 16}")
    assert json.loads(answer[1]) == {"cancelled": 1, "not_found": ["0" * 16]}
    answer = await nsqd.post(act.format("release"), json.dumps([later]).encode())
    assert json.loads(answer[1]) == {"released": 1, "not_found": []}
    assert [m["id"] for m in (await nsqd.json(DEFERRED))["messages"]] == [latest]
    await nsqd.stop()
    again = await start()
    assert [m["id"] for m in (await again.json(DEFERRED))["messages"]] == [latest]
    answer = await again.post(act.format("cancel") + "&all=true")
    assert json.loads(answer[1]) == {"cancelled": 1, "not_found": []}
    consumer = await again.consumer("t", ready=9)
    left = {message.body for message in await consumer.messages(5)}
    assert left == {b"m1", b"m2", b"text", b"\xff\xfe", b"in 20m"}
    assert await consumer.silent(0.05)


@pytest.mark.parametrize(
    ("method", "path", "status", "code"),
    [
        ("GET", f"{PEEK}&limit=1001", 400, "INVALID_ARG_LIMIT"),
        ("GET", f"{PEEK}&limit=x", 400, "INVALID_ARG_LIMIT"),
        ("GET", f"{PEEK}&preview=65537", 400, "INVALID_ARG_PREVIEW"),
        ("GET", f"{PEEK}&from=middle", 400, "INVALID_ARG_FROM"),
        ("GET", f"{DEFERRED}&from=7", 400, "INVALID_ARG_FROM"),
        ("GET", "/channel/peek?topic=t&channel=no", 404, "CHANNEL_NOT_FOUND"),
        ("GET", "/topic/peek?topic=no", 404, "TOPIC_NOT_FOUND"),
        ("GET", "/topic/peek", 400, "MISSING_ARG_TOPIC"),
        ("GET", "/deadletters?topic=no", 404, "TOPIC_NOT_FOUND"),
        ("GET", "/channel/seek?topic=t&channel=no&offset=1", 404, "CHANNEL_NOT_FOUND"),
        ("GET", "/channel/seek?topic=t&channel=c", 400, "MISSING_ARG_OFFSET"),
        ("GET", "/channel/seek?topic=t&channel=c&offset=9", 416, "OFFSET_OUT_OF_RANGE"),
        ("POST", "/channel/seek?topic=t&channel=no&from=oldest", 404, "CHANNEL_NOT_FOUND"),
        ("POST", "/channel/seek?topic=t&channel=c", 400, "MISSING_ARG_OFFSET"),
        ("POST", "/channel/seek?topic=t&channel=c&offset=9", 416, "OFFSET_OUT_OF_RANGE"),
        ("POST", "/channel/create?topic=t&channel=c&from=oldest", 409, "CHANNEL_EXISTS"),
        ("POST", f"{NEW}&from=oldest&offset=3", 400, "AMBIGUOUS_POSITION"),
        ("POST", f"{NEW}&from=middle", 400, "INVALID_ARG_FROM"),
        ("POST", f"{NEW}&offset=x", 400, "INVALID_ARG_OFFSET"),
        ("POST", f"{NEW}&offset=9", 416, "OFFSET_OUT_OF_RANGE"),
        ("POST", f"{NEW}&since=2", 400, "INVALID_ARG_SINCE"),
        ("POST", f"{NEW}&since=-2h", 400, "INVALID_ARG_SINCE"),
        ("POST", f"{NEW}&timestamp_ns=", 400, "INVALID_ARG_TIMESTAMP_NS"),
        ("POST", "/channel/create?topic=no&channel=c&from=oldest", 404, "TOPIC_NOT_FOUND"),
        ("POST", CANCEL, 400, "MISSING_ARG_ID"),
        ("POST", f"{CANCEL}&id=12", 400, "INVALID_ARG_ID"),
        ("POST {}", CANCEL, 400, "INVALID_BODY"),
        ('POST ["x"]', f"{CANCEL}&all=true", 400, "INVALID_ARG_ALL"),
    ],
)
async def test_refused(nsqd: Running, method: str, path: str, status: int, code: str) -> None:
    await fill(nsqd)
    verb, _, body = method.partition(" ")
    found = await nsqd.http(verb, path, body.encode())
    assert (found[0], json.loads(found[1])["message"]) == (status, code)
    assert list(nsqd.nsqd.node.broker.topics["t"].channels) == ["c"]
    assert (await nsqd.json(DEFERRED))["count"] == 3


@pytest.mark.parametrize("longest", [8760 * HOUR, (1 << 63) - 1])
async def test_deferrals_of_a_year_and_of_any_length(start: Start, longest: int) -> None:
    """DPUB and REQ beyond NSQ's hour, over a restart."""
    nsqd = await start(max_req_timeout=longest)
    ms = longest // 10**6
    consumer = await nsqd.consumer("t")
    client = await nsqd.connect()
    assert await client.ask(dpub("t", ms, b"published")) == b"OK"
    await nsqd.publish("t", b"requeued")
    consumer.send(b"REQ %b %d\n" % ((await consumer.message()).id, ms))
    assert "E_INVALID" in await client.error(dpub("t", ms + 1, b"too long"))
    await nsqd.until(
        lambda: nsqd.nsqd.node.broker.topics["t"].channels["c"].state.deferred_count == 2
    )
    await nsqd.stop()
    again = await start()
    page = await again.json(DEFERRED)
    assert bodies(page) == ["published", "requeued"]
    for message in page["messages"]:
        assert ms - 60_000 < message["remaining_ms"] <= ms
    assert [message["attempts"] for message in page["messages"]] == [0, 1]


# --- channels that begin at, or go to, another place


@pytest.fixture
async def finished(start: Start) -> Running:
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
async def test_a_new_channel_from_there(finished: Running, where: str, offset: int) -> None:
    status, body = await finished.post(f"/channel/create?topic=t&channel=c&{where}")
    assert (status, json.loads(body)) == (200, {"offset": offset})
    await finished.publish("t", b"m5")
    consumer = await finished.consumer("t", ready=9)
    bodies = [message.body for message in await consumer.messages(6 - offset)]
    assert bodies == [b"m%d" % number for number in range(offset, 6)]


async def test_from_a_time(finished: Running) -> None:
    third = (await finished.json("/topic/peek?topic=t"))["messages"][2]["timestamp"]
    _, body = await finished.post(f"/channel/create?topic=t&channel=c&timestamp_ns={third}")
    assert json.loads(body) == {"offset": 2}


async def test_back_to_the_start(finished: Running) -> None:
    status, body = await finished.post("/channel/seek?topic=t&channel=first&from=oldest")
    assert (status, json.loads(body)) == (200, {"offset": 0})
    consumer = await finished.consumer("t", "first", ready=9)
    # the consumer that is still there has room for five and takes some of them
    channel = await finished.channel("t", "first")
    assert channel["in_flight_count"] == 5
    consumer.writer.close()


@pytest.mark.parametrize(
    ("where", "told"),
    [("offset=0", (0, 5, 5, 0)), ("from=latest", (5, 0, 0, 0)), ("offset=3", (3, 2, 2, 0))],
)
async def test_a_look_at_what_a_move_would_do(
    finished: Running, where: str, told: tuple[int, ...]
) -> None:
    found = await finished.json(f"/channel/seek?topic=t&channel=first&{where}")
    assert found == dict(zip(("offset", "delivered", "again", "skipped"), told, strict=True))
    assert (await finished.channel("t", "first"))["depth"] == 0, "nothing has changed"


async def test_a_look_counts_what_is_still_needed_and_what_is_to_come(finished: Running) -> None:
    await finished.post("/channel/seek?topic=t&channel=first&offset=4")  # 4 is needed
    await finished.post("/topic/pause?topic=t")
    await finished.publish("t", b"m5")
    await finished.publish("t", b"m6")
    looks = [
        await finished.json(f"/channel/seek?topic=t&channel=first&offset={n}") for n in (2, 5, 6)
    ]
    assert [(each["delivered"], each["again"], each["skipped"]) for each in looks] == [
        (5, 2, 0), (2, 0, 1), (1, 0, 2)]  # fmt: skip


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
