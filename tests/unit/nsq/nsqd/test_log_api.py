"""The log over HTTP: bounds, whole batches, groups that hold retention."""

from __future__ import annotations

import json
import shutil
from typing import Any

import pytest

from penstock.core.units import SECOND
from penstock.net.http_client import get
from penstock.nsq.nsqd import log_api
from penstock.storage.batch import iter_batches

from .conftest import TIMEOUT_S, Running, Start, mpub


async def commit(nsqd: Running, group: str, offset: int | None = None) -> tuple[int, bytes]:
    offsets = {} if offset is None else {"0": offset}
    body = json.dumps({"offsets": offsets}).encode()
    return await nsqd.post(f"/log/commit?topic=t&group={group}", body)


async def offsets(nsqd: Running) -> dict[str, Any]:
    found: dict[str, Any] = await nsqd.json("/log/offsets?topic=t")
    return found


@pytest.fixture
async def filled(start: Start) -> Running:
    """Topic t with 10 segments of one batch of 10 messages each."""
    nsqd = await start(max_bytes_per_file=1000)
    producer = await nsqd.connect()
    for number in range(10):
        bodies = [b"%03d" % (number * 10 + place) + bytes(100) for place in range(10)]
        assert await producer.ask(mpub("t", *bodies)) == b"OK"
    return nsqd


async def test_offsets(filled: Running) -> None:
    found = await offsets(filled)
    assert found["node"] == f"127.0.0.1:{filled.nsqd.http_port}"
    (queue,) = found["queues"]
    assert (queue["queue"], queue["start"], queue["end"]) == (0, 0, 100)
    assert queue["bytes"] > 10_000
    assert found["groups"] == {}


@pytest.mark.parametrize("offset", [0, 5, 10, 99])
async def test_fetch_gives_whole_batches_from_the_one_with_the_offset(
    filled: Running, offset: int
) -> None:
    url = f"http://127.0.0.1:{filled.nsqd.http_port}/log/fetch?topic=t&queue=0&offset={offset}"
    answer = await get(f"{url}&max_bytes=3000", TIMEOUT_S)
    assert answer.status == 200
    assert answer.headers["content-type"] == "application/octet-stream"
    assert answer.headers["x-penstock-start"] == "0"
    assert answer.headers["x-penstock-end"] == "100"
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
    status, body = await filled.get("/log/fetch?topic=t&offset=0")
    assert status == 416
    assert json.loads(body)["start"] == 90


async def trim(nsqd: Running) -> None:
    await nsqd.nsqd.commits.settle()  # nothing is deleted during a sync
    nsqd.nsqd.broker.trim()


def consume_all(nsqd: Running) -> None:
    """Nobody needs the messages any more."""
    topic = nsqd.nsqd.broker.topics["t"]
    topic.channel("gone")
    topic.distribute()
    topic.channels["gone"].empty()


async def test_a_group_holds_retention(filled: Running) -> None:
    assert await commit(filled, "g") == (200, b"{}")
    assert (await offsets(filled))["groups"] == {"g": {"0": 0}}
    consume_all(filled)
    await trim(filled)
    assert (await offsets(filled))["queues"][0]["start"] == 0
    assert (await commit(filled, "g", 55))[0] == 200
    await trim(filled)
    assert (await offsets(filled))["queues"][0]["start"] == 50
    assert (await offsets(filled))["groups"] == {"g": {"0": 55}}
    assert (await filled.post("/log/group/delete?topic=t&group=g"))[0] == 200
    await trim(filled)
    assert (await offsets(filled))["queues"][0]["start"] == 90


async def test_a_group_without_an_offset_stays_where_it_is(filled: Running) -> None:
    await commit(filled, "g", 30)
    assert (await filled.post("/log/commit?topic=t&group=g"))[0] == 200
    assert (await offsets(filled))["groups"] == {"g": {"0": 30}}


async def test_a_new_group_survives_a_kill_and_a_deleted_one_does_not_come_back(
    filled: Running, start: Start, tmp_path_factory: pytest.TempPathFactory
) -> None:
    async def after_a_kill() -> Any:
        """The groups of an nsqd that finds what this one has written until now."""
        folder = tmp_path_factory.mktemp("left") / "data"
        passing = shutil.ignore_patterns("*.tmp")  # they may be gone before they are copied
        shutil.copytree(filled.nsqd.options.data_path, folder, ignore=passing)
        return (await offsets(await start(data_path=folder)))["groups"]

    for group, offset in (("g", 30), ("h", 40)):
        assert (await commit(filled, group, offset))[0] == 200
    assert await after_a_kill() == {"g": {"0": 30}, "h": {"0": 40}}
    assert (await filled.post("/log/group/delete?topic=t&group=g"))[0] == 200
    assert await after_a_kill() == {"h": {"0": 40}}


async def test_groups_survive_a_restart(filled: Running, start: Start) -> None:
    await commit(filled, "g", 30)
    await filled.stop()
    assert (await offsets(await start()))["groups"] == {"g": {"0": 30}}


@pytest.mark.parametrize(
    ("body", "code"),
    [
        (b"{", "INVALID_BODY"),
        (b"[]", "INVALID_BODY"),
        (b'{"offsets":{"\xff":1}}', "INVALID_BODY"),
        (b'{"offsets":{"0":"x"}}', "INVALID_BODY"),
        (b'{"offsets":{"1":5}}', "INVALID_ARG_QUEUE"),
        (b'{"offsets":{"0":5,"1":5}}', "INVALID_ARG_QUEUE"),
        (b'{"offsets":{"0":-1}}', "INVALID_ARG_OFFSET"),
        (b'{"offsets":{"0":101}}', "INVALID_ARG_OFFSET"),
    ],
)
async def test_bad_commits(filled: Running, body: bytes, code: str) -> None:
    expected = (400, b'{"message":"%s"}' % code.encode())
    assert await filled.post("/log/commit?topic=t&group=g", body) == expected
    assert (await offsets(filled))["groups"] == {}


async def test_group_names_and_numbers_are_bounded(
    filled: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("", "x" * 257, "%ff", "%ed%a0%80", "a%0ab"):
        assert await commit(filled, name) == (400, b'{"message":"INVALID_ARG_GROUP"}')
    monkeypatch.setattr(log_api, "GROUPS_MAX", 1)
    assert (await commit(filled, "g"))[0] == 200
    assert await commit(filled, "h") == (400, b'{"message":"TOO_MANY_GROUPS"}')
    assert (await commit(filled, "g", 10))[0] == 200
    assert await filled.post("/log/group/delete?topic=t&group=h") == (
        404, b'{"message":"GROUP_NOT_FOUND"}'
    )  # fmt: skip


PROGRESS = {"query": "archive", "batch": 3, "rows": 70, "rows_per_s": 8.5, "duration_ms": 900}


async def tell(nsqd: Running, **changes: Any) -> tuple[int, bytes]:
    body = json.dumps({**PROGRESS, **changes}).encode()
    return await nsqd.post("/log/group/progress?topic=t&group=g", body)


async def test_groups_in_the_statistics(filled: Running) -> None:
    assert "log_groups" not in await filled.topic("t")
    await commit(filled, "g", 30)
    (found,) = (await filled.topic("t"))["log_groups"]
    assert found == {"group_name": "g", "committed": {"0": 30}, "lag": 70, "rate": 0,
                     "progress": None}  # fmt: skip
    before = filled.nsqd.clock.wall_ns() // SECOND
    assert await tell(filled, at=1, more="ignored") == (200, b"{}")
    (found,) = (await filled.topic("t"))["log_groups"]
    assert found["progress"].pop("at") >= before
    assert found["progress"] == PROGRESS
    await tell(filled, batch=4)
    await commit(filled, "g", 40)
    (found,) = (await filled.topic("t"))["log_groups"]
    assert (found["progress"]["batch"], found["lag"]) == (4, 60)
    assert 0 < found["rate"] <= 10
    assert "[archive] batch: 4 " in (await filled.get("/stats"))[1].decode()
    await filled.post("/log/group/delete?topic=t&group=g")
    assert "log_groups" not in await filled.topic("t")
    await commit(filled, "g", 30)
    assert (await filled.topic("t"))["log_groups"][0]["progress"] is None


@pytest.mark.parametrize(
    "changes",
    [{"query": "x" * 257}, {"query": "a\nb"}, {"query": None}, {"batch": -1}, {"rows": 1.5},
     {"rows_per_s": -1}, {"rows_per_s": 1e300}, {"duration_ms": 1 << 64}],
)  # fmt: skip
async def test_bad_progress(filled: Running, changes: dict[str, Any]) -> None:
    await commit(filled, "g")
    assert await tell(filled, **changes) == (400, b'{"message":"INVALID_BODY"}')
    assert (await filled.topic("t"))["log_groups"][0]["progress"] is None


async def test_progress_of_nobody(filled: Running) -> None:
    assert await tell(filled) == (404, b'{"message":"GROUP_NOT_FOUND"}')
    path = "/log/group/progress"
    for query, code in (("?topic=none&group=g", b"TOPIC_NOT_FOUND"), ("?topic=t", b"GROUP")):
        assert code in (await filled.post(path + query, b"{}"))[1]
    await commit(filled, "g")
    assert (await tell(filled, more="x" * 5000))[0] == 413
    assert (await filled.post(f"{path}?topic=t&group=g"))[0] == 400


async def test_offset_at(start: Start) -> None:
    nsqd = await start()
    times = []
    for body in (b"a", b"b"):
        await nsqd.publish("t", body)
        times.append(nsqd.nsqd.clock.wall_ns())
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
