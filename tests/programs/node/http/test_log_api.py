"""The log over HTTP: bounds, whole batches, groups that hold retention."""

from __future__ import annotations

import json
from typing import Any

import pytest

from penstock.core.ids import format_id
from penstock.core.units import SECOND
from penstock.net.http.client.once import get
from penstock.node.http import log_api, many_topics
from penstock.storage.batch import iter_batches
from penstock.testing.clock import FakeClock
from tests.programs.nsq.nsqd.conftest import (
    TIMEOUT_S,
    Running,
    Start,
    consume_all,
    faulty_disk,
    trim,
)


async def offsets(nsqd: Running) -> dict[str, Any]:
    found: dict[str, Any] = await nsqd.json("/log/offsets?topic=t")
    return found


async def test_offsets(filled: Running) -> None:
    found = await offsets(filled)
    assert found["node"] == f"127.0.0.1:{filled.nsqd.ports.http}"
    (queue,) = found["queues"]
    assert list(queue) == ["queue", "log", "start", "end", "bytes"]
    assert (queue["queue"], queue["start"], queue["end"]) == (0, 0, 100)
    assert queue["bytes"] > 10_000
    assert found["groups"] == {}


async def creation_id(nsqd: Running) -> str:
    """Of topic t."""
    (queue,) = (await nsqd.json("/log/offsets?topic=t"))["queues"]
    found: str = queue["log"]
    return found


async def test_a_log_has_a_creation_id_which_is_the_id_of_offset_0(
    filled: Running, start: Start
) -> None:
    found = await creation_id(filled)
    _, body = await filled.get("/log/fetch?topic=t&offset=50&max_bytes=1")
    (batch,) = iter_batches(body)
    assert found == format_id(batch.first_id - 50).decode()
    await filled.stop()
    again = await start()
    assert await creation_id(again) == found


async def test_a_topic_made_again_has_another_creation_id(
    start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk, clock = faulty_disk(monkeypatch), FakeClock()
    found: list[str] = []
    for _ in range(3):  # at the same time, after a kill, and with a clock that was set back
        nsqd = await start(clock=clock, data_path="/data")
        for _ in range(2):
            await nsqd.publish("t", b"x")
            found.append(await creation_id(nsqd))
            assert (await nsqd.post("/topic/delete?topic=t"))[0] == 200
        disk.crash("written")
        clock.set_wall(clock.wall_ns() - SECOND)
    assert found == sorted(set(found))


async def test_offsets_of_many_topics(filled: Running) -> None:
    await filled.publish("u", b"x")
    await filled.post("/log/commit?topic=u&group=g", b'{"offsets":{"0":1}}')
    one = {name: await filled.json(f"/log/offsets?topic={name}") for name in "tu"}
    node = one["t"].pop("node")
    assert one["u"].pop("node") == node
    missing = {"topic": "none", "message": "TOPIC_NOT_FOUND"}
    expected = {"node": node, "topics": [one["u"], missing, one["t"]]}
    asked = "/log/offsets?topic=u&topic=none&topic=t&topic=u"
    assert await filled.json(asked) == expected
    body = json.dumps({"topics": ["u", "none", "t", "u"]}).encode()
    status, answer = await filled.post("/log/offsets", body)
    assert (status, json.loads(answer)) == (200, expected)
    status, answer = await filled.post("/log/offsets", b'{"topics":["u"]}')
    assert json.loads(answer) == {"node": node, "topics": [one["u"]]}
    assert (await filled.post("/log/offsets", b'{"topics":[]}'))[0] == 200


async def test_one_request_asks_for_a_bounded_number_of_topics(
    filled: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(many_topics, "TOPICS_MAX", 2)
    expected = (400, b'{"message":"TOO_MANY_TOPICS","limit":2}')
    assert (await filled.get("/log/offsets?topic=a&topic=b"))[0] == 200
    assert await filled.get("/log/offsets?topic=a&topic=b&topic=c") == expected
    assert await filled.post("/log/offsets", b'{"topics":["a","b","c"]}') == expected


@pytest.mark.parametrize("body", [b"", b"{}", b"[]", b"{", b'{"topics":"t"}'])
async def test_a_body_without_topics(filled: Running, body: bytes) -> None:
    assert await filled.post("/log/offsets", body) == (400, b'{"message":"INVALID_BODY"}')


@pytest.mark.parametrize("offset", [0, 5, 10, 99])
async def test_fetch_gives_whole_batches_from_the_one_with_the_offset(
    filled: Running, offset: int
) -> None:
    url = f"http://127.0.0.1:{filled.nsqd.ports.http}/log/fetch?topic=t&queue=0&offset={offset}"
    answer = await get(f"{url}&max_bytes=3000", TIMEOUT_S)
    assert answer.status == 200
    assert answer.headers["content-type"] == "application/octet-stream"
    assert answer.headers["x-penstock-start"] == "0"
    assert answer.headers["x-penstock-end"] == "100"
    assert answer.headers["x-penstock-log"] == await creation_id(filled)
    batches = list(iter_batches(answer.body))
    assert batches[0].first_offset == offset - offset % 10
    assert len(batches) == min(2, 10 - offset // 10)


async def test_fetch_gives_at_least_one_batch_and_nothing_at_the_end(filled: Running) -> None:
    status, body = await filled.get("/log/fetch?topic=t&offset=0&max_bytes=1")
    assert (status, len(list(iter_batches(body)))) == (200, 1)
    assert await filled.get("/log/fetch?topic=t&offset=100") == (200, b"")
    status, body = await filled.get("/log/fetch?topic=t&offset=0")
    assert len(list(iter_batches(body))) == 10


async def test_fetch_is_bounded(filled: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_api, "FETCH_BYTES_MAX", 3000)
    _, body = await filled.get("/log/fetch?topic=t&offset=0&max_bytes=999999999")
    assert len(body) < 3000


async def test_offsets_out_of_range(filled: Running) -> None:
    expected = b'{"message":"OFFSET_OUT_OF_RANGE","start":0,"end":100}'
    assert await filled.get("/log/fetch?topic=t&offset=101") == (416, expected)
    consume_all(filled)
    await trim(filled)
    url = f"http://127.0.0.1:{filled.nsqd.ports.http}/log/fetch?topic=t&offset=0"
    answer = await get(url, TIMEOUT_S)
    assert answer.status == 416
    assert json.loads(answer.body)["start"] == 90
    assert answer.headers["x-penstock-log"] == await creation_id(filled)


async def test_offset_at(start: Start) -> None:
    nsqd = await start()
    times = []
    for body in (b"a", b"b"):
        await nsqd.publish("t", body)
        times.append(nsqd.nsqd.node.clock.wall_ns())
    path = "/log/offset_at?topic=t&queue=0&timestamp_ns="
    assert await nsqd.json(f"{path}0") == {"offset": 0}
    assert await nsqd.json(f"{path}{times[0]}") == {"offset": 1}
    assert await nsqd.json(f"{path}{times[1] + SECOND}") == {"offset": 2}


@pytest.mark.parametrize(
    ("path", "status", "code"),
    [
        ("/log/fetch?topic=t", 400, "MISSING_ARG_OFFSET"),
        ("/log/fetch?topic=t&offset=x", 400, "INVALID_ARG_OFFSET"),
        ("/log/fetch?topic=t&offset=-1", 400, "INVALID_ARG_OFFSET"),
        ("/log/fetch?topic=t&offset=0&max_bytes=1e3", 400, "INVALID_ARG_MAX_BYTES"),
        ("/log/fetch?topic=t&queue=1&offset=0", 404, "QUEUE_NOT_FOUND"),
        ("/log/offset_at?topic=t", 400, "MISSING_ARG_TIMESTAMP_NS"),
        ("/log/offsets", 400, "MISSING_ARG_TOPIC"),
        ("/log/offsets?topic=none", 404, "TOPIC_NOT_FOUND"),
        ("/log/fetch?topic=none&offset=0", 404, "TOPIC_NOT_FOUND"),
        ("/log/offset_at?topic=none&timestamp_ns=0", 404, "TOPIC_NOT_FOUND"),
    ],
)
async def test_bad_questions(filled: Running, path: str, status: int, code: str) -> None:
    assert await filled.get(path) == (status, b'{"message":"%s"}' % code.encode())


async def test_an_ephemeral_topic_can_be_read_too(nsqd: Running) -> None:
    await nsqd.publish("e#ephemeral", b"x")
    status, body = await nsqd.get("/log/fetch?topic=e%23ephemeral&offset=0")
    assert (status, len(list(iter_batches(body)))) == (200, 1)


async def changes(nsqd: Running, since: int) -> tuple[int, Any]:
    answer = await nsqd.json(f"/log/changes?since={since}")
    return answer["revision"], answer.get("topics")


async def test_what_has_changed_since_a_revision(filled: Running, start: Start) -> None:
    first, topics = await changes(filled, 0)
    assert topics is None  # all may have
    assert await changes(filled, first) == (first, [])
    await filled.post("/pub?topic=t", b"x")
    await filled.post("/pub?topic=u", b"x")
    second, topics = await changes(filled, first)
    assert (second > first, sorted(topics)) == (True, ["t", "u"])
    await filled.post("/pub?topic=u", b"x")
    third, topics = await changes(filled, second)
    assert topics == ["u"]
    assert sorted((await changes(filled, first))[1]) == ["t", "u"]
    # A number that this node has not given out, and one from before a topic was deleted.
    assert (await changes(filled, third + 1))[1] is None
    await filled.post("/topic/delete?topic=u", b"")
    fourth, topics = await changes(filled, third)
    assert topics is None
    assert await changes(filled, fourth) == (fourth, [])
    await filled.stop()
    again = await start()
    assert (await changes(again, fourth))[1] is None
