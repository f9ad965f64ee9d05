"""The sink at scripted nodes: turns, rows that are published or staged, and its writers."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pyspark import TaskContext

from penstock.spark.errors import SinkError, SourceError
from penstock.spark.sink import node_rotation as module
from penstock.spark.sink import writer as writer_module
from penstock.spark.sink.node_rotation import Connections, NodeRotation, known_nodes
from penstock.spark.sink.pieces import Piece
from penstock.spark.sink.publishing import publish_rows
from penstock.spark.sink.sending import published
from penstock.spark.sink.sink_settings import SinkSettings
from penstock.spark.sink.staging import Batch, Place, StagedRows, by_node, stage_rows
from penstock.spark.sink.writer import BatchWriter, StreamWriter, output
from tests.unit.spark.sink.fake_node import Answer, FakeNode, Query, unpacked
from tests.unit.spark.sink.making import batch, bodies_of, piece, reader, schema, settings

NOWHERE = "127.0.0.1:9"


def test_nodes_take_turns_and_one_that_failed_comes_last(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_AVOID_NS", 1 << 62)
    nodes = NodeRotation(SinkSettings.parse({"nsqd_http_address": "a:1,b:1,c:1"}), turn=0)
    assert nodes.by_turns() == ["b:1", "c:1", "a:1"]
    assert nodes.by_turns() == ["c:1", "a:1", "b:1"]
    nodes.failed("a:1")
    assert nodes.by_turns() == ["b:1", "c:1", "a:1"]
    assert nodes.by_turns() == ["b:1", "c:1", "a:1"]


def test_nsqlookupd_names_the_nodes(node: FakeNode) -> None:
    found = NodeRotation(
        SinkSettings.parse({"lookupd_http_address": node.address, "auth_secret": "s"}), turn=0
    )
    assert found.by_turns() == [node.address]
    assert node.headers[-1]["Authorization"] == "Bearer s"
    node.refuse = lambda *_: (200, {"producers": []})
    found.look_again()
    assert found.by_turns() == [node.address]


@pytest.mark.usefixtures("hasty")
def test_an_nsqlookupd_without_nodes_or_without_an_answer(node: FakeNode) -> None:
    options = {"lookupd_http_address": node.address, "timeout": "60"}
    node.refuse = lambda *_: (200, {"producers": []})
    with pytest.raises(SinkError) as none:
        NodeRotation(SinkSettings.parse(options), turn=0)
    assert str(none.value) == f"nsqlookupd {node.address} knows no nsqd to write to"
    node.refuse = lambda *_: (500, {})
    with pytest.raises(SourceError, match="no nsqlookupd answers: "):
        NodeRotation(SinkSettings.parse(options), turn=0)


def test_a_task_goes_to_the_nodes_that_nsqlookupd_named_before(
    node: FakeNode, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    given = SinkSettings.parse({"lookupd_http_address": node.address, "timeout": "60"})
    assert NodeRotation(given, turn=0).by_turns() == [node.address]
    answers: tuple[tuple[int, Any], ...] = ((500, {}), (200, {"producers": []}))
    for answer in answers:
        monkeypatch.setattr(node, "refuse", lambda *_, told=answer: told)
        assert NodeRotation(given, turn=0).by_turns() == [node.address]
    assert [each.partition(":")[0] for each in caplog.messages] == [
        "no nsqlookupd answers",
        f"nsqlookupd {node.address.partition(':')[0]}",
    ]
    with pytest.raises(SinkError, match="knows no nsqd to write to"):
        known_nodes(given, given.access)


def test_a_silent_node_is_asked_for_its_https_port_as_long_as_wanted() -> None:
    access = SinkSettings.parse(
        {"nsqd_http_address": NOWHERE, "tls_v1": "true", "timeout": "60"}
    ).access
    with (
        Connections(access, port_timeout_s=0.5) as connections,
        pytest.raises(SourceError, match=r"cannot be asked for its HTTPS port.*tried for 0\.5 s"),
        connections.to(NOWHERE),
    ):
        pass


def test_connections_are_kept_and_not_shared(start_node: Callable[..., FakeNode]) -> None:
    node = start_node()
    access = settings(node, auth_secret="s").access
    with Connections(access) as connections:
        with connections.to(node.address) as one, connections.to(node.address) as two:
            assert one is not two
            assert one.delays_many()
        with connections.to(node.address) as again:
            assert again is two or again is one
    assert node.headers[-1]["Authorization"] == "Bearer s"


def publish(batches: Iterable[pa.RecordBatch], to: SinkSettings, delay: bool = False) -> int:
    return publish_rows(batches, reader(to.topic, delay=delay), to)


def paths(node: FakeNode) -> list[str]:
    return [path for path, _, _ in node.requests]


def test_record_batches_become_requests_of_a_size(node: FakeNode) -> None:
    bodies = [b"%06d" % number * 10 for number in range(1000)]
    batches = [batch(bodies[first : first + 10]) for first in range(0, 1000, 10)]
    wanted = settings(node, topic="t", requestBytes="10000", requestsInFlight="1")
    assert publish(batches, wanted) == 1000
    assert node.bodies == bodies
    assert all(size <= 10_004 for _, _, size in node.requests)
    assert len(node.requests) < 12


def test_nodes_take_turns(start_node: Callable[..., FakeNode]) -> None:
    one, two = start_node(), start_node()
    bodies = [b"%03d" % number for number in range(100)]
    wanted = settings(one, two, topic="t", requestBytes="1", requestsInFlight="3")
    assert publish([batch(bodies)], wanted) == 100
    assert sorted(one.bodies + two.bodies) == bodies
    assert len(one.bodies) == len(two.bodies) == 50


def test_topics_and_delays_have_requests_of_their_own(node: FakeNode) -> None:
    rows = batch([b"1", b"2", b"3", b"4"], topic=["a", "b", "a", "a"], defer_ms=[0, 7, 7, 0])
    assert publish([rows], settings(node), delay=True) == 4
    assert sorted(node.published) == [
        ("a", 0, b"1"), ("a", 0, b"4"), ("a", 7, b"3"), ("b", 7, b"2"),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("kind", "requests"), [("", {"/info", "/mpub"}), ("go", {"/info", "/pub"})]
)
def test_go_takes_one_delayed_message_at_a_time(
    start_node: Callable[..., FakeNode], kind: str, requests: set[str]
) -> None:
    node = start_node(kind)
    rows = batch([b"%d" % number for number in range(5)], defer_ms=[900] * 5)
    assert publish([rows], settings(node, topic="t"), delay=True) == 5
    assert node.published == [("t", 900, b"%d" % number) for number in range(5)]
    assert set(paths(node)) == requests


def test_a_node_that_is_down_is_followed_by_the_next(node: FakeNode) -> None:
    options = {"nsqd_http_address": f"{NOWHERE},{node.address}", "topic": "t", "requestBytes": "1"}
    bodies = [b"%03d" % number for number in range(20)]
    assert publish([batch(bodies)], SinkSettings.parse(options)) == 20
    assert sorted(node.bodies) == bodies


def test_a_node_in_trouble_is_tried_again(node: FakeNode) -> None:
    troubles: list[Answer] = [(503, {"message": "EXITING"}), (500, {"message": "INTERNAL_ERROR"})]
    node.refuse = lambda *_: troubles.pop() if troubles else None
    assert publish([batch([b"a"])], settings(node, topic="t")) == 1
    assert node.bodies == [b"a"]


@pytest.mark.usefixtures("hasty")
def test_no_node_takes_them(node: FakeNode) -> None:
    node.refuse = lambda *_: (503, {"message": "DISK_FULL"})
    with pytest.raises(SinkError) as failed:
        publish([batch([b"a"])], settings(node, topic="t"))
    assert str(failed.value) == (
        f"row 0 of partition 3: no node takes messages of topic t ({node.address}: 503 DISK_FULL; "
        "tried for 60 s, option timeout)"
    )
    wanted = SinkSettings.parse({"nsqd_http_address": f"{NOWHERE},localhost:9", "timeout": "1"})
    with pytest.raises(SinkError) as none:
        publish([batch([b"a", b"b"], topic=["t", "t"])], wanted)
    assert str(none.value).startswith("rows 0 to 1 of partition 3: no node takes messages of topic")
    assert all(
        f"{host}:9: connection refused" in str(none.value) for host in ("127.0.0.1", "localhost")
    )


@pytest.mark.parametrize(
    ("count", "said"),
    [
        (0, ""),
        (1, "; 1 row of the partition is published, and again when it is tried again"),
        (2000, "; 2,000 rows of the partition are published, and again when it is tried again"),
    ],
)
def test_what_is_published_is_counted(count: int, said: str) -> None:
    assert published(count) == said


def more_than(limit: int) -> Callable[[str, Query, bytes], Answer | None]:
    """Refuse requests of so many bytes."""
    return lambda path, query, body: (
        (413, {"message": "BODY_TOO_BIG"}) if len(body) > limit else None
    )


def larger_than(limit: int) -> Callable[[str, Query, bytes], Answer | None]:
    """Refuse messages of so many bytes."""

    def refuse(path: str, query: Query, body: bytes) -> Answer | None:
        bodies = unpacked(body) if path == "/mpub" else [body]
        return (413, {"message": "BAD_MESSAGE"}) if max(map(len, bodies)) > limit else None

    return refuse


def test_the_one_that_is_too_big_is_named_and_what_is_published(node: FakeNode) -> None:
    bodies = [b"x" * 10] * 64
    bodies[37] = b"x" * 5000
    node.refuse = larger_than(1000)
    with pytest.raises(SinkError) as failed:
        publish([batch(bodies)], settings(node, topic="t", requestBytes="256"))
    assert str(failed.value).startswith(
        f"row 37 of partition 3: 5000 bytes are more than node {node.address} takes (BAD_MESSAGE): "
        "raise its --max-msg-size, or make the message smaller; "
    )
    assert "rows of the partition are published, and again when it is tried again" in str(
        failed.value
    )


def test_a_node_that_takes_less_at_once(node: FakeNode) -> None:
    bodies = [b"%03d" % number for number in range(100)]
    node.refuse = more_than(100)
    assert publish([batch(bodies)], settings(node, topic="t")) == 100
    assert node.bodies == bodies


def test_a_delay_that_is_too_long(node: FakeNode) -> None:
    node.refuse = lambda path, query, body: (
        (400, {"message": "INVALID_DEFER"}) if "defer" in query else None
    )
    with pytest.raises(SinkError, match="row 1 of partition 3: defer_ms 8 is more than node"):
        publish([batch([b"a", b"b"], defer_ms=[0, 8])], settings(node, topic="t"), delay=True)


def test_a_node_that_wants_tls(node: FakeNode) -> None:
    node.refuse = lambda *_: (403, {"message": "TLS_REQUIRED", "https_port": 1})
    with pytest.raises(SinkError, match="takes no plain HTTP"):
        publish([batch([b"a"])], settings(node, topic="t"))


BODIES = [b"%03d" % number for number in range(100)]


def exact(*nodes: FakeNode, **options: str) -> SinkSettings:
    return settings(*nodes, topic="t", exactlyOnce="true", **options)


def stage(
    to: SinkSettings, bodies: list[bytes], number: int = 7, **columns: list[int]
) -> StagedRows:
    rows = reader(to.topic, partition=3, delay="defer_ms" in columns)
    return stage_rows([batch(bodies, **columns)], rows, to, Batch("w", number))


def test_rows_are_staged_in_order_under_one_attempt(node: FakeNode) -> None:
    delays = list(range(100))
    staged = stage(exact(node, requestBytes="110"), BODIES, defer_ms=delays)
    chunks = node.staged["t", "w", 7]
    ((place, part),) = staged.parts.items()
    assert place == Place(node.address, "t")
    assert part.chunks == len(chunks) > 5
    assert set(chunks) == {(3, part.attempt, number) for number in range(part.chunks)}
    together = [each for number in range(part.chunks) for each in chunks[3, part.attempt, number]]
    assert together == list(zip(delays, BODIES, strict=True))
    assert node.published == []


def test_two_attempts_never_mix(node: FakeNode) -> None:
    attempts = {
        part.attempt for _ in range(2) for part in stage(exact(node), BODIES).parts.values()
    }
    assert len(attempts) == 2
    assert all(0 <= attempt < 1 << 63 for attempt in attempts)


def test_a_batch_that_is_committed_is_not_staged(node: FakeNode) -> None:
    node.committed["t", "w"] = 7
    staged = stage(exact(node, requestBytes="100", requestsInFlight="1"), BODIES)
    assert staged == StagedRows(Batch("w", 7), {}, frozenset([Place(node.address, "t")]))
    assert len(node.requests) < 4
    assert stage(exact(node), BODIES, number=8).parts


def test_a_row_goes_to_the_node_of_its_content_wherever_it_stands() -> None:
    nodes = ("a:1", "b:1", "c:1")

    def placed(whole: Piece) -> dict[bytes, str]:
        return {body: node for node, each in by_node(whole, nodes) for body in bodies_of(each)}

    first = placed(piece(BODIES))
    shuffled = [BODIES[index] for index in np.random.default_rng(1).permutation(100)]
    assert placed(piece(shuffled)) == first
    assert {list(first.values()).count(node) > 20 for node in nodes} == {True}


def test_several_nodes_have_their_own_chunks(start_node: Callable[..., FakeNode]) -> None:
    nodes = [start_node(), start_node()]
    staged = stage(exact(*nodes), BODIES)
    assert {place.address for place in staged.parts} == {node.address for node in nodes}
    bodies = [
        body for node in nodes for chunk in node.staged["t", "w", 7].values() for _, body in chunk
    ]
    assert sorted(bodies) == BODIES


@pytest.mark.parametrize("in_flight", ["1", "4"])
def test_what_a_node_takes_no_more_of_at_once_becomes_two_chunks(
    node: FakeNode, in_flight: str
) -> None:
    node.refuse = more_than(300)
    staged = stage(exact(node, requestBytes="500", requestsInFlight=in_flight), BODIES)
    chunks = node.staged["t", "w", 7]
    (part,) = staged.parts.values()
    assert {number for _, _, number in chunks} == set(range(part.chunks))
    found = [body for key in sorted(chunks) for _, body in chunks[key]]
    assert (found if in_flight == "1" else sorted(found)) == BODIES


def test_one_that_is_too_big_is_named(node: FakeNode) -> None:
    node.refuse = larger_than(300)
    with pytest.raises(SinkError, match="row 1 of partition 3: 400 bytes are more than node"):
        stage(exact(node), [b"a", b"x" * 400, b"b"])


def test_go_cannot_stage(start_node: Callable[..., FakeNode]) -> None:
    node = start_node("go")
    with pytest.raises(SinkError) as refused:
        stage(exact(node), BODIES)
    assert str(refused.value) == (
        f"node {node.address} cannot stage: it is Go's nsqd, or none at all. Leave exactlyOnce out "
        "to write to it at least once"
    )


@pytest.mark.usefixtures("hasty")
def test_a_node_without_room(node: FakeNode) -> None:
    node.refuse = lambda *_: (507, {"message": "STAGE_FULL", "limit": 5})
    with pytest.raises(
        SinkError,
        match=r"STAGE_FULL.*raise its --max-staged-bytes, or write small.*/stage/abort\?writer=",
    ):
        stage(exact(node), BODIES)


def test_a_node_that_is_down_has_no_substitute(node: FakeNode) -> None:
    wanted = SinkSettings.parse(
        {"nsqd_http_address": NOWHERE, "exactlyOnce": "true", "topic": "t", "timeout": "1"}
    )
    with pytest.raises(SourceError) as failed:
        stage(wanted, BODIES)
    assert str(failed.value).startswith(
        "rows 0 to 99 of partition 3: topic t cannot be staged at node 127.0.0.1:9: connection ref"
    )


SCHEMA = schema("body binary")


class Task(TaskContext):
    """A task of a micro-batch."""

    properties: dict[str, str]

    def __init__(self, **properties: str) -> None:
        self.properties = properties

    def __new__(cls, **properties: str) -> Task:
        return object.__new__(cls)

    def partitionId(self) -> int:
        return 1

    def getLocalProperty(self, key: str) -> str | None:
        return self.properties.get(key.replace(".", "_"))


@pytest.fixture
def task(monkeypatch: pytest.MonkeyPatch) -> Task:
    running = Task(sql_streaming_queryId="q-1", streaming_sql_batchId="5")
    monkeypatch.setattr(writer_module, "current_task", lambda: running)
    return running


def options(node: FakeNode, **more: str) -> dict[str, str]:
    return {"topic": "t", "nsqd_http_address": node.address, "timeout": "60", **more}


def test_at_least_once_there_is_nothing_to_commit(node: FakeNode, task: Task) -> None:
    writer = StreamWriter(output(options(node), SCHEMA))
    message = writer.write(iter([batch([b"a", b"b"])]))
    assert node.bodies == [b"a", b"b"]
    writer.commit([message], 5)
    writer.abort([message, None], 5)
    assert len(node.requests) == 1


def test_a_stream_is_remembered_by_its_query(node: FakeNode, task: Task) -> None:
    writer = StreamWriter(output(options(node, exactlyOnce="true"), SCHEMA))
    message = writer.write(iter([batch([b"a", b"b"])]))
    assert node.bodies == []
    writer.commit([message, None], 5)
    assert node.bodies == [b"a", b"b"]
    assert node.committed == {("t", "q-1"): 5}
    writer.abort([None, message], 5)
    assert node.aborted == [], "it is decided"
    task.properties["streaming_sql_batchId"] = "6"
    writer.abort([None, writer.write(iter([batch([b"c"])]))], 6)
    assert node.aborted == [{"writer": "q-1", "batch": "6"}]


def test_a_batch_write_is_remembered_by_its_options(node: FakeNode, task: Task) -> None:
    given = options(node, exactlyOnce="true", writerId="w", writerBatch="0")
    writer = BatchWriter(output(given, SCHEMA))
    writer.abort([None])
    assert node.aborted == [{"writer": "w", "batch": "0", "scope": "t"}]
    writer.commit([writer.write(iter([batch([b"a"])]))])
    assert node.committed == {("t", "w"): 0}
    # All that a driver after this one gets may be no message at all.
    writer.commit([None])
    assert node.bodies == [b"a"]


def test_writes_of_one_number_to_several_topics_are_each_decided_by_itself(
    node: FakeNode, task: Task
) -> None:
    given = {"exactlyOnce": "true", "writerId": "w", "writerBatch": "3"}
    for _ in range(2):
        for topic in ("t", "u"):
            writer = BatchWriter(output(options(node, **given) | {"topic": topic}, SCHEMA))
            writer.commit([writer.write(iter([batch([topic.encode()])]))])
    assert node.published == [("t", 0, b"t"), ("u", 0, b"u")]


def test_without_a_query_there_is_no_exactly_once(node: FakeNode, task: Task) -> None:
    task.properties = {}
    with pytest.raises(SinkError, match="Spark tells no query id"):
        StreamWriter(output(options(node, exactlyOnce="true"), SCHEMA)).write(iter([]))
