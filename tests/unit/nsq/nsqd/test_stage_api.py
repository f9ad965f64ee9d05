"""Stage and commit over HTTP: invisible until committed, then all of it, and once."""

from __future__ import annotations

import pytest

from .conftest import Running, Start
from .staging import Writer, staged_body

DONE = {"count": 0, "again": True}


def committed(count: int, topic: str = "t") -> tuple[int, dict[str, object]]:
    return 200, {"topics": {topic: {"count": count, "again": False}}}


async def test_what_is_staged_is_seen_after_the_commit_only(nsqd: Running) -> None:
    writer = Writer(nsqd)
    assert await writer.stage(0, b"a", b"bb") == (200, {"count": 2, "bytes": 23})
    assert await writer.bodies() == []
    assert await writer.commit(0) == committed(2)
    assert await writer.bodies() == [b"a", b"bb"]


async def test_parts_are_appended_in_their_order_and_only_attempts_that_count(
    nsqd: Running,
) -> None:
    writer = Writer(nsqd)
    await writer.stage(3, b"p1c0", part=1, attempt=7)
    await writer.stage(3, b"p0c1", part=0, attempt=5, chunk=1)
    await writer.stage(3, b"p0c0", part=0, attempt=5, chunk=0)
    await writer.stage(3, b"loser", part=0, attempt=4, chunk=0)
    assert await writer.commit(3, (1, 7, 1), (0, 5, 2)) == committed(3)
    assert await writer.bodies() == [b"p0c0", b"p0c1", b"p1c0"]
    assert nsqd.nsqd.staged_parts.parts.nbytes == 0


async def test_a_batch_that_is_not_newer_is_answered_as_done(nsqd: Running) -> None:
    writer = Writer(nsqd)
    await writer.stage(5, b"a")
    await writer.commit(5)
    for batch in (5, 4):
        assert await writer.commit(batch) == (200, {"topics": {"t": DONE}})
        assert await writer.stage(batch, b"a") == (409, {"message": "BATCH_COMMITTED", "batch": 5})
    assert await writer.bodies() == [b"a"]


async def test_a_chunk_that_is_staged_again_replaces_the_one_before(nsqd: Running) -> None:
    writer = Writer(nsqd)
    await writer.stage(0, b"old", b"older")
    await writer.stage(0, b"new")
    assert await writer.commit(0) == committed(1)
    assert await writer.bodies() == [b"new"]


async def test_a_part_that_is_not_there_ends_the_commit_of_its_topic_alone(nsqd: Running) -> None:
    writer = Writer(nsqd)
    await writer.stage(0, b"a")
    await writer.stage(0, b"b", topic="u")
    answer = await writer.commit_many(0, {"t": [(0, 0, 2)], "u": [(0, 0, 1)], "v": [(0, 0, 1)]})
    missing = {"message": "PART_NOT_FOUND", "part": 0, "attempt": 0, "chunk": 1}
    found = {"t": missing, "u": {"count": 1, "again": False}, "v": {"message": "TOPIC_NOT_FOUND"}}
    assert answer == (200, {"topics": found})
    assert await writer.bodies() == []
    assert await writer.bodies("u") == [b"b"]
    await writer.stage(0, b"c", chunk=1)
    answer = await writer.commit_many(0, {"t": [(0, 0, 2)], "u": [(0, 0, 1)]})
    assert answer == (200, {"topics": {"t": {"count": 2, "again": False}, "u": DONE}})


async def test_staged_parts_and_the_memory_of_writers_survive_a_restart(
    nsqd: Running, start: Start
) -> None:
    writer = Writer(nsqd)
    await writer.stage(0, b"a")
    await writer.commit(0)
    await writer.stage(1, b"b")
    await nsqd.stop()
    writer = Writer(await start())
    assert await writer.commit(0) == (200, {"topics": {"t": DONE}})
    assert await writer.commit(1) == committed(1)
    assert await writer.bodies() == [b"a", b"b"]


async def test_consumers_get_committed_messages_each_after_its_delay(nsqd: Running) -> None:
    writer = Writer(nsqd)
    consumer = await nsqd.consumer("t", ready=10)
    await writer.stage(0, b"now", (b"later", 300), b"now too")
    assert await writer.commit(0) == committed(3)
    assert [each.body for each in await consumer.messages(3)] == [b"now", b"now too", b"later"]


@pytest.mark.parametrize(
    ("body", "told"),
    [
        (b"", (400, "BAD_BODY")),
        (staged_body(b"x" * 101), (413, "MSG_TOO_BIG")),
        (staged_body((b"x", 3_600_001)), (400, "INVALID_DEFER")),
        (staged_body(b"x") + b"y", (400, "BAD_BODY")),
    ],
)
async def test_wrong_bodies_are_refused(start: Start, body: bytes, told: tuple[int, str]) -> None:
    writer = Writer(await start(max_msg_size=100))
    status, answer = await writer.stage(0, body=body)
    assert (status, answer["message"]) == told
