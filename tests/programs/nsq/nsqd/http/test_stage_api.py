"""Stage and commit over HTTP: invisible until committed, then all of it, and once."""

from __future__ import annotations

import json

import pytest

from penstock.broker.publish.parts import CHUNK_BYTES_MIN
from penstock.core.units import SECOND
from penstock.nsq.nsqd.http import stage_api
from penstock.testing.clock import FakeClock
from tests.programs.nsq.nsqd.conftest import Running, Start
from tests.programs.nsq.nsqd.staging import Told, Writer, staged_body

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


OK: Told = (200, {})
DECIDED = (409, {"message": "BATCH_DECIDED", "batch": 5})


async def test_what_is_decided_is_committed_whatever_is_staged_later(
    nsqd: Running, start: Start
) -> None:
    writer = Writer(nsqd)
    await writer.stage(4, b"earlier")
    await writer.stage(5, b"a", attempt=7)
    await writer.stage(5, b"b", attempt=7, topic="u")
    await writer.stage(5, b"loser", attempt=6)
    assert await writer.decision() is None
    assert await writer.commit_decided(5) == (404, {"message": "BATCH_NOT_DECIDED"})
    wrong = await writer.decide(5, (0, 7), chunks=3)
    assert wrong == (404, {"message": "PART_NOT_FOUND", "missing": 1})
    assert await writer.decide(5, (0, 7), chunks=2) == OK
    assert await writer.decide(5, (0, 7), chunks=2) == OK
    assert await writer.decide(5, (0, 6), chunks=1) == DECIDED
    assert await writer.decide(5, (0, 7), chunks=2, node="b:1") == DECIDED
    assert await writer.stage(5, b"again", attempt=8) == DECIDED
    older = 409, {"message": "BATCH_COMMITTED", "batch": 5}
    assert await writer.stage(4, b"older") == await writer.decide(4, chunks=0) == older
    assert await writer.commit_decided(4) == older
    assert await writer.abort(5) == DECIDED
    # What has not won is dropped.
    assert nsqd.nsqd.staged_parts.parts.nbytes == 2 * CHUNK_BYTES_MIN
    told = {"batch": 5, "nodes": [{"address": "a:1", "chunks": 2}], "attempts": [[0, 7]],
            "begun": False, "done": False}  # fmt: skip
    assert await writer.decision() == told

    await nsqd.stop()
    again = await start()
    writer = Writer(again)
    assert await writer.decision() == told
    assert await writer.commit_decided(5) == (200, {"topics": {
        "t": {"count": 1, "again": False}, "u": {"count": 1, "again": False}}, "more": False,
    })  # fmt: skip
    assert await writer.bodies() == [b"a"]
    assert await writer.bodies("u") == [b"b"]
    assert await writer.commit_decided(5) == (200, {"topics": {}, "more": False})
    done = await writer.decision()
    assert (done["begun"], done["done"], done["attempts"]) == (True, True, [])
    # Also in a topic that had nothing of it: the batch was computed again, with other rows.
    assert await writer.stage(5, b"again", topic="v") == DECIDED
    await again.stop()
    writer = Writer(await start())
    assert (await writer.decision())["begun"]
    assert await writer.stage(5, b"again", topic="v") == DECIDED
    assert (await writer.stage(6, b"c"))[0] == 200


async def test_a_decision_of_many_topics_is_committed_in_several_requests(
    nsqd: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stage_api, "TOPICS_MAX", 2)
    writer = Writer(nsqd)
    for topic in "abc":
        await writer.stage(5, b"x", topic=topic)
    await writer.decide(5, (0, 0), chunks=3)
    _, first = await writer.commit_decided(5)
    assert (list(first["topics"]), first["more"]) == (["a", "b"], True)
    assert (await writer.decision())["begun"]
    _, second = await writer.commit_decided(5)
    assert (list(second["topics"]), second["more"]) == (["c"], False)


async def test_a_topic_that_is_deleted_takes_what_was_decided_for_it(nsqd: Running) -> None:
    writer = Writer(nsqd)
    await writer.stage(5, b"x")
    await writer.stage(5, b"y", topic="u")
    await writer.decide(5, (0, 0), chunks=2)
    await nsqd.post("/topic/delete?topic=t")
    assert await writer.commit_decided(5) == (
        200, {"topics": {"u": {"count": 1, "again": False}}, "more": False},
    )  # fmt: skip


async def test_topics_of_one_number_may_be_decided_by_themselves(nsqd: Running) -> None:
    both = Writer(nsqd)
    one, other = Writer(nsqd, scope="t"), Writer(nsqd, topic="u", scope="u")
    await one.stage(5, b"a")
    assert await one.decide(5, (0, 0), chunks=1) == OK
    await other.stage(5, b"b")
    assert await one.stage(5, b"c") == DECIDED
    assert await one.stage(5, b"c", topic="u") == (400, {"message": "INVALID_ARG_SCOPE"})
    assert await both.decision() is None
    # A decision about all topics takes nothing from one about a topic alone.
    await both.stage(5, b"d", topic="v")
    assert await both.decide(5, chunks=0) == OK
    assert await other.decide(5, chunks=0) == OK
    assert [row["staged_bytes"] for row in await both.rows()] == [CHUNK_BYTES_MIN]
    await one.commit_decided(5)
    assert await one.bodies() == [b"a"]


async def test_a_decision_is_revoked_by_its_name_alone(nsqd: Running) -> None:
    writer = Writer(nsqd)
    await writer.stage(5, b"x")
    await writer.decide(5, (0, 0), chunks=1)
    assert await writer.abort(5, decided=True) == OK
    assert await writer.decision() is None
    assert nsqd.nsqd.staged_parts.parts.nbytes == 0
    assert (await writer.stage(5, b"y"))[0] == 200


async def test_get_stage_shows_what_is_staged_and_what_was_committed(start: Start) -> None:
    clock = FakeClock()
    nsqd = await start(clock=clock)
    for name in ("v", "w"):
        writer = Writer(nsqd, name)
        await writer.stage(6, b"a")
        await writer.commit(6)
    for batch in (9, 8):
        await writer.stage(batch, b"a")
    await writer.stage(8, b"a", topic="u")
    clock.advance(3 * SECOND)
    committed = {"topic": "t", "committed": 6, "decided": None}
    nothing = {"staged_bytes": 0, "staged_batches": []}
    rows = [
        {"writer": "w", **committed, "staged_bytes": 32768, "staged_batches": [8, 9], "age_s": 3.0},
        {"writer": "w", "topic": "u", "committed": None, "decided": None, "staged_bytes": 16384,
         "staged_batches": [8], "age_s": 3.0},
        {"writer": "v", **committed, **nothing, "age_s": 3.0},
    ]  # fmt: skip
    assert await nsqd.json("/stage") == {"writers": rows, "more": False}
    assert (await nsqd.json("/stage?topic=t&writer=v"))["writers"] == rows[2:]
    assert (await nsqd.json("/stage?topic=x"))["writers"] == []


async def test_get_stage_shows_a_bounded_number_of_rows(
    nsqd: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stage_api, "ROWS_MAX", 2)
    for name in "abc":
        await Writer(nsqd, name).stage(0, b"a")
    answer = await nsqd.json("/stage")
    assert ([row["writer"] for row in answer["writers"]], answer["more"]) == (["a", "b"], True)


async def test_stats_and_metrics_show_what_is_staged_in_all(start: Start) -> None:
    nsqd = await start(metrics=True)
    assert "staged" not in await nsqd.json("/stats?format=json")
    writer = Writer(nsqd)
    for batch in (1, 2):
        await writer.stage(batch, b"a")
    staged = {"bytes": 32768, "bytes_max": 1024**3, "batches": 2}
    assert (await nsqd.json("/stats?format=json"))["staged"] == staged
    page = (await nsqd.get("/metrics"))[1].decode()
    for line in ("bytes 32768", "bytes_max 1073741824", "batches 2"):
        assert f"\nnsqd_staged_{line}\n" in page


STAGE = {"topic": "t", "writer": "w", "batch": "0", "part": "0", "attempt": "0", "chunk": "0"}
DECIDE, COMMIT = "/stage/decide?writer=w&batch=1&chunks=0", "/stage/commit?writer=w&batch=0"


def stage_path(**changes: str | None) -> str:
    fields = {name: value for name, value in (STAGE | changes).items() if value is not None}
    return "/stage?" + "&".join(f"{name}={value}" for name, value in fields.items())


def parts(*fields: dict[str, int]) -> bytes:
    return json.dumps({"topics": {"t": fields}}).encode()


@pytest.mark.parametrize(
    ("path", "body", "status", "code"),
    [
        *((stage_path(**{name: value}), staged_body(b"a"), 400, code) for name, value, code in (
            ("topic", None, "MISSING_ARG_TOPIC"), ("topic", "a.b%20", "INVALID_TOPIC"),
            ("topic", "t%23ephemeral", "TOPIC_IS_EPHEMERAL"),
            ("writer", None, "MISSING_ARG_WRITER"), ("writer", "", "INVALID_ARG_WRITER"),
            ("writer", "w" * 129, "INVALID_ARG_WRITER"), ("writer", "%07", "INVALID_ARG_WRITER"),
            ("batch", None, "MISSING_ARG_BATCH"), ("batch", "-1", "INVALID_ARG_BATCH"),
            ("part", "x", "INVALID_ARG_PART"), ("attempt", str(1 << 63), "INVALID_ARG_ATTEMPT"),
            ("chunk", None, "MISSING_ARG_CHUNK"))),
        (stage_path(), b"", 400, "BAD_BODY"),
        (stage_path(), staged_body(b"x" * 101), 413, "MSG_TOO_BIG"),
        (stage_path(), staged_body((b"x", 3_600_001)), 400, "INVALID_DEFER"),
        (stage_path(), staged_body(b"x") + b"y", 400, "BAD_BODY"),
        ("/stage/decide?writer=w&batch=1", b"{}", 400, "MISSING_ARG_CHUNKS"),
        (DECIDE, b"{", 400, "INVALID_BODY"),
        (DECIDE, b'{"nodes":[],"attempts":[]}', 400, "INVALID_BODY"),
        (DECIDE, b'{"nodes":[{"address":"a","chunks":0}],"attempts":[[0,1],[0,2]]}', 400,
         "DUPLICATE_PART"),
        (COMMIT, b"", 400, "INVALID_BODY"),
        (COMMIT, b"{}", 400, "INVALID_BODY"),
        (COMMIT, parts({"part": -1, "attempt": 0, "chunks": 1}), 400, "INVALID_BODY"),
        (COMMIT, parts({"part": 0, "attempt": 0}), 400, "INVALID_BODY"),
        (COMMIT, parts(*({"part": 0, "attempt": n, "chunks": 1} for n in (0, 1))), 400,
         "DUPLICATE_PART"),
        (COMMIT, json.dumps({"topics": {str(n): [] for n in range(1001)}}).encode(), 400,
         "TOO_MANY_TOPICS"),
    ],
)  # fmt: skip
async def test_refused(start: Start, path: str, body: bytes, status: int, code: str) -> None:
    nsqd = await start(max_msg_size=100)
    found = await nsqd.post(path, body)
    assert (found[0], json.loads(found[1])["message"]) == (status, code)
    assert nsqd.nsqd.staged_parts.parts.nbytes == 0


async def test_the_longest_names_and_largest_numbers_pass(nsqd: Running, start: Start) -> None:
    most = (1 << 63) - 1
    writer = Writer(nsqd, "%F0%9F%90%98" * 128, "t" * 64)
    told = await writer.stage(most, b"a", part=most, attempt=most, chunk=0)
    assert told == (200, {"count": 1, "bytes": 13})
    await nsqd.stop()
    writer = Writer(await start(), writer.name, writer.topic)
    assert await writer.commit(most, (most, most, 1)) == committed(1, writer.topic)
    assert (await writer.rows())[0]["writer"] == "\N{ELEPHANT}" * 128


async def test_a_number_of_chunks_without_end_is_refused_at_the_first_that_is_missing(
    nsqd: Running,
) -> None:
    writer = Writer(nsqd)
    await writer.stage(0, b"a")
    _, answer = await writer.commit(0, (0, 0, (1 << 63) - 1))
    assert answer["topics"]["t"]["chunk"] == 1


async def test_a_commit_without_messages_is_right_and_drops_what_is_staged(nsqd: Running) -> None:
    writer = Writer(nsqd)
    await writer.stage(0, b"a")
    assert await writer.commit_many(0, {"t": [(0, 7, 0)]}) == committed(0)
    assert nsqd.nsqd.staged_parts.parts.nbytes == 0


async def test_a_bounded_topic_that_is_full_refuses_a_commit_until_there_is_room(
    start: Start,
) -> None:
    nsqd = await start(max_depth=2)
    writer = Writer(nsqd)
    await nsqd.publish("t", b"x")
    await writer.stage(0, b"a", b"b")
    assert await writer.commit(0) == (503, {"message": "TOPIC_FULL", "topic": "t"})
    assert (await nsqd.get("/ping"))[0] == 200
    assert (await nsqd.post("/topic/empty?topic=t"))[0] == 200
    assert await writer.commit(0) == committed(2)


async def test_committed_messages_are_no_dead_letters_to_who_looks(nsqd: Running) -> None:
    writer = Writer(nsqd)
    await writer.stage(0, b"a")
    await writer.commit(0)
    shown = await nsqd.json("/topic/peek?topic=t")
    assert [message["state"] for message in shown["messages"]] == ["waiting"]
    assert "origin" not in shown["messages"][0]
    assert (await nsqd.json("/deadletters?topic=t"))["messages"] == []
