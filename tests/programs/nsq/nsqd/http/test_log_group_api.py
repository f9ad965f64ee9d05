"""Groups over HTTP: where they are, what they hold, whose they are."""

from __future__ import annotations

import json
import shutil
from typing import Any

import pytest

from penstock.core.units import SECOND
from penstock.node.http import many_topics
from penstock.nsq.nsqd.http import log_group_api
from penstock.testing.clock import FakeClock
from tests.programs.nsq.nsqd.conftest import (
    MILLISECOND,
    Running,
    Start,
    consume_all,
    faulty_disk,
    trim,
)

MOVED = b'{"offsets":{"0":1}}'


async def commit(nsqd: Running, group: str, offset: int | None = None) -> tuple[int, bytes]:
    offsets = {} if offset is None else {"0": offset}
    body = json.dumps({"offsets": offsets}).encode()
    return await nsqd.post(f"/log/commit?topic=t&group={group}", body)


async def offsets(nsqd: Running) -> dict[str, Any]:
    found: dict[str, Any] = await nsqd.json("/log/offsets?topic=t")
    return found


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


ONE, DELETE = "/log/commit?topic=t&group=g", "/log/group/delete"


@pytest.mark.parametrize(
    ("path", "body", "code"),
    [
        (ONE, b"{", "INVALID_BODY"),
        (ONE, b"[]", "INVALID_BODY"),
        (ONE, b'{"offsets":{"\xff":1}}', "INVALID_BODY"),
        (ONE, b'{"offsets":{"0":"x"}}', "INVALID_BODY"),
        (ONE, b'{"offsets":{"1":5}}', "INVALID_ARG_QUEUE"),
        (ONE, b'{"offsets":{"0":5,"1":5}}', "INVALID_ARG_QUEUE"),
        (ONE, b'{"offsets":{"0":-1}}', "INVALID_ARG_OFFSET"),
        (ONE, b'{"offsets":{"0":101}}', "INVALID_ARG_OFFSET"),
        (f"{ONE}&owner=" + "x" * 129, b"", "INVALID_ARG_OWNER"),
        ("/log/commit?group=g", b"", "MISSING_ARG_TOPIC"),
        ("/log/commit?group=g", b'{"offsets":{"0":1}}', "MISSING_ARG_TOPIC"),
        ("/log/commit?group=g", b'{"topics":["t"]}', "INVALID_BODY"),
        ("/log/commit?group=g", b'{"topics":{"t":{"0":"x"}}}', "INVALID_BODY"),
        ("/log/commit", b'{"topics":{"t":{}}}', "MISSING_ARG_GROUP"),
        ("/log/commit?group=", b'{"topics":{"t":{}}}', "INVALID_ARG_GROUP"),
        ("/log/commit?group=g&owner=", b'{"topics":{"t":{}}}', "INVALID_ARG_OWNER"),
        ("/log/commit?group=g&owner=a%0ab", b'{"topics":{"t":{}}}', "INVALID_ARG_OWNER"),
        (f"{DELETE}?group=g", b"", "MISSING_ARG_TOPIC"),
        (f"{DELETE}?group=g", b'{"topics":{}}', "INVALID_BODY"),
        (DELETE, b'{"topics":["t"]}', "MISSING_ARG_GROUP"),
    ],
)
async def test_bad_requests(filled: Running, path: str, body: bytes, code: str) -> None:
    assert await filled.post(path, body) == (400, b'{"message":"%s"}' % code.encode())
    assert (await offsets(filled))["groups"] == {}


async def test_group_names_and_numbers_are_bounded(
    filled: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("", "x" * 257, "%ff", "%ed%a0%80", "a%0ab"):
        assert await commit(filled, name) == (400, b'{"message":"INVALID_ARG_GROUP"}')
    monkeypatch.setattr(log_group_api, "GROUPS_MAX", 1)
    assert (await commit(filled, "g"))[0] == 200
    assert await commit(filled, "h") == (400, b'{"message":"TOO_MANY_GROUPS"}')
    assert (await commit(filled, "g", 10))[0] == 200
    assert await filled.post("/log/group/delete?topic=t&group=h") == (
        404, b'{"message":"GROUP_NOT_FOUND"}'
    )  # fmt: skip


async def test_groups_in_the_statistics(filled: Running) -> None:
    assert "log_groups" not in await filled.topic("t")
    await commit(filled, "g", 30)
    (found,) = (await filled.topic("t"))["log_groups"]
    assert found == {"group_name": "g", "committed": {"0": 30}, "lag": 70, "rate": 0,
                     "owner": None, "age": 0, "expires_in": None, "stale": False}  # fmt: skip
    await commit(filled, "g", 40)
    (found,) = (await filled.topic("t"))["log_groups"]
    assert found["lag"] == 60
    assert 0 < found["rate"] <= 10
    await filled.post("/log/group/delete?topic=t&group=g")
    assert "log_groups" not in await filled.topic("t")


async def many(nsqd: Running, topics: dict[str, Any], query: str = "group=g") -> Any:
    status, body = await nsqd.post(f"/log/commit?{query}", json.dumps({"topics": topics}).encode())
    assert status == 200, body
    return json.loads(body)["topics"]


async def groups_of(nsqd: Running, *topics: str) -> list[Any]:
    body = json.dumps({"topics": topics}).encode()
    answer = json.loads((await nsqd.post("/log/offsets", body))[1])
    return [each["groups"] for each in answer["topics"]]


async def test_a_group_moves_in_many_topics_at_once(
    filled: Running, start: Start, tmp_path_factory: pytest.TempPathFactory
) -> None:
    for name in ("u", "v", "w"):
        await filled.publish(name, b"x")
    committed = {"t": {"0": 30}, "u": {}, "v": {"0": 2}, "w": {"1": 0}, "none": {"0": 5}}
    assert await many(filled, committed) == {
        "t": {},
        "u": {},
        "v": {"message": "INVALID_ARG_OFFSET"},
        "w": {"message": "INVALID_ARG_QUEUE"},
        "none": {"message": "TOPIC_NOT_FOUND"},
    }
    left = tmp_path_factory.mktemp("left") / "data"  # as a kill leaves it
    shutil.copytree(filled.nsqd.options.data_path, left, ignore=shutil.ignore_patterns("*.tmp"))
    for nsqd in (filled, await start(data_path=left)):
        found = await groups_of(nsqd, "t", "u", "v", "w")
        assert found == [{"g": {"0": 30}}, {"g": {"0": 0}}, {}, {}]


async def test_a_group_is_deleted_in_many_topics_at_once(filled: Running) -> None:
    await filled.publish("u", b"x")
    await many(filled, {"t": {"0": 30}})
    body = json.dumps({"topics": ["t", "u", "none", "t"]}).encode()
    status, answer = await filled.post("/log/group/delete?group=g", body)
    assert (status, json.loads(answer)["topics"]) == (200, {
        "t": {}, "u": {"message": "GROUP_NOT_FOUND"}, "none": {"message": "TOPIC_NOT_FOUND"},
    })  # fmt: skip
    assert await groups_of(filled, "t") == [{}]


async def test_groups_of_many_topics_are_durable_after_one_sync(
    start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk = faulty_disk(monkeypatch)
    nsqd = await start(data_path="/data")
    names = [f"t{number}" for number in range(40)]
    for name in names:
        await nsqd.publish(name, b"x")
    await nsqd.nsqd.node.commits.settle()
    before = disk.sync_count
    ok: dict[str, Any] = {name: {} for name in names}
    given = {name: {"0": 0} for name in names}
    assert await many(nsqd, given, "group=reader-of-all") == ok
    assert disk.sync_count - before == 1
    for path in disk.paths("cursors.journal"):
        assert b"reader-of-all" in disk.content(path)[: disk.synced(path)]

    disk.fail("sync", within="t7@0/cursors.journal")
    lost = {name: {"message": "INTERNAL_ERROR"} for name in names}
    assert await many(nsqd, ok, "group=h") == lost
    disk.heal()
    body = json.dumps({"topics": names}).encode()
    status, answer = await nsqd.post("/log/group/delete?group=reader-of-all", body)
    assert (status, json.loads(answer)["topics"]) == (200, ok)


async def test_where_the_system_cannot_sync_all_at_once_each_topic_is_synced(
    start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk = faulty_disk(monkeypatch)
    nsqd = await start(data_path="/data")
    monkeypatch.setattr(disk, "sync_all", lambda _: False)
    names = [f"t{number}" for number in range(10)]
    for name in names:
        await nsqd.publish(name, b"x")
    ok: dict[str, Any] = {name: {} for name in names}
    assert await many(nsqd, ok, "group=reader-of-all") == ok
    for path in disk.paths("cursors.journal"):
        assert b"reader-of-all" in disk.content(path)[: disk.synced(path)]


async def test_a_topic_that_cannot_be_written_down_is_told_and_costs_no_other(
    start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk = faulty_disk(monkeypatch)
    nsqd = await start(data_path="/data")
    for name in ("t", "u"):
        await nsqd.publish(name, b"x")
    for operation in ("append", "replace"):  # a save that failed before is made up for by the other
        disk.fail(operation, within="t@0/cursors.journal", times=-1)
    answers = await many(nsqd, {"t": {}, "u": {}})
    assert answers == {"t": {"message": "INTERNAL_ERROR"}, "u": {}}
    disk.heal()


async def test_one_request_moves_a_bounded_number_of_topics(
    filled: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(many_topics, "TOPICS_MAX", 1)
    expected = (400, b'{"message":"TOO_MANY_TOPICS","limit":1}')
    for path, body in (("commit", b'{"topics":{"t":{},"u":{}}}'),
                       ("group/delete", b'{"topics":["t","u"]}')):  # fmt: skip
        assert await filled.post(f"/log/{path}?group=g", body) == expected
    assert await groups_of(filled, "t") == [{}]


async def test_a_group_belongs_to_the_owner_that_moved_it_last(start: Start) -> None:
    clock = FakeClock()
    nsqd = await start(clock=clock)
    await nsqd.publish("t", b"x")

    async def move(owner: str, offset: int) -> tuple[int, Any]:
        path = f"/log/commit?topic=t&group=g{owner and f'&owner={owner}'}"
        status, body = await nsqd.post(path, b'{"offsets":{"0":%d}}' % offset)
        return status, json.loads(body)

    refused = {"message": "GROUP_IN_USE", "owner": "one", "seconds": 12.3}
    assert await move("one", 0) == (200, {})
    clock.advance(12_300 * MILLISECOND)
    assert await move("two", 1) == (409, refused)
    assert await many(nsqd, {"t": {"0": 1}}, "group=g&owner=two") == {"t": refused}
    assert await move("two", 9) == (409, refused)  # nor does a wrong offset help
    assert await groups_of(nsqd, "t") == [{"g": {"0": 0}}]
    assert await move("", 1) == (200, {})  # takes nothing from its owner
    assert (await move("two", 1))[0] == 409
    assert await move("one", 1) == (200, {})
    clock.advance(59 * SECOND)
    assert (await move("two", 1))[0] == 409
    clock.advance(SECOND)
    assert await move("two", 1) == (200, {})
    assert (await move("one", 1))[0] == 409
    assert (await nsqd.topic("t"))["log_groups"][0]["owner"] == "two"


async def test_a_refused_commit_makes_nobody_the_owner(filled: Running) -> None:
    path = "/log/commit?topic=t&group=g&owner="
    assert (await filled.post(f"{path}one", b'{"offsets":{"0":101}}'))[0] == 400
    assert (await filled.post(f"{path}two", b'{"offsets":{"0":100}}'))[0] == 200


async def test_an_owner_that_moves_nothing_asks_and_takes_nothing(filled: Running) -> None:
    path = "/log/commit?topic=t&group=g&owner="
    assert (await filled.post(f"{path}one"))[0] == 200
    assert await groups_of(filled, "t") == [{"g": {"0": 0}}]
    assert (await filled.post(f"{path}two", MOVED))[0] == 200
    assert (await filled.post(f"{path}one"))[0] == 409


async def test_a_deleted_group_has_no_owner(filled: Running) -> None:
    path = "/log/commit?topic=t&group=g&owner="
    assert (await filled.post(f"{path}one", MOVED))[0] == 200
    await filled.post("/log/group/delete?topic=t&group=g")
    assert (await filled.post(f"{path}two", MOVED))[0] == 200


async def test_after_a_restart_the_next_owner_takes_the_group(
    filled: Running, start: Start
) -> None:
    path = "/log/commit?topic=t&group=g&owner="
    assert (await filled.post(f"{path}one", MOVED))[0] == 200
    await filled.stop()
    assert (await (await start()).post(f"{path}two", MOVED))[0] == 200
