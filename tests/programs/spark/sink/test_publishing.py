"""Publishing at least once: sizes, delays, nodes that fail."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import pyarrow as pa
import pytest

from penstock.spark.errors import SinkError
from penstock.spark.sink.publishing import publish_rows
from penstock.spark.sink.sending import published
from penstock.spark.sink.settings import Settings
from tests.unit.spark.sink.fake_node import Answer, FakeNode, Query, unpacked
from tests.unit.spark.sink.making import batch, reader, settings

NOWHERE = "127.0.0.1:9"


def publish(batches: Iterable[pa.RecordBatch], to: Settings, delay: bool = False) -> int:
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
    assert publish([batch(bodies)], Settings.parse(options)) == 20
    assert sorted(node.bodies) == bodies


def test_a_node_in_trouble_is_tried_again(node: FakeNode) -> None:
    troubles: list[Answer] = [(503, {"message": "EXITING"}), (500, {"message": "INTERNAL_ERROR"})]
    node.refuse = lambda *_: troubles.pop() if troubles else None
    assert publish([batch([b"a"])], settings(node, topic="t")) == 1
    assert node.bodies == [b"a"]


def test_no_node_takes_them() -> None:
    wanted = Settings.parse({"nsqd_http_address": f"{NOWHERE},localhost:9", "timeout": "1"})
    rows = batch([b"a", b"b"], topic=["t", "t"])
    with pytest.raises(SinkError) as failed:
        publish([rows], wanted)
    said = str(failed.value)
    assert said.startswith("rows 0 to 1 of partition 3: no node takes messages of topic t (")
    assert "127.0.0.1:9: connection refused" in said
    assert "localhost:9: connection refused" in said
    assert said.endswith("tried for 1 s, option timeout)")


@pytest.mark.usefixtures("hasty")
def test_a_node_in_trouble_is_quoted(node: FakeNode) -> None:
    node.refuse = lambda *_: (503, {"message": "DISK_FULL"})
    with pytest.raises(SinkError) as failed:
        publish([batch([b"a"])], settings(node, topic="t"))
    assert str(failed.value) == (
        f"row 0 of partition 3: no node takes messages of topic t ({node.address}: 503 DISK_FULL; "
        "tried for 60 s, option timeout)"
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


def larger_than(limit: int) -> Callable[[str, Query, bytes], Answer | None]:
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
    node.refuse = lambda path, query, body: (
        (413, {"message": "BODY_TOO_BIG"}) if len(body) > 100 else None
    )
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
