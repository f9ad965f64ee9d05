"""Staging: chunks, attempts, nodes by content."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from penstock.spark.errors import SinkError, SourceError
from penstock.spark.sink.pieces import Piece
from penstock.spark.sink.settings import Settings
from penstock.spark.sink.staging import Batch, Place, StagedRows, by_node, stage_rows
from tests.unit.spark.sink.fake_node import FakeNode
from tests.unit.spark.sink.making import batch, bodies_of, piece, reader, settings

BODIES = [b"%03d" % number for number in range(100)]


def exact(*nodes: FakeNode, **options: str) -> Settings:
    return settings(*nodes, topic="t", exactlyOnce="true", **options)


def stage(to: Settings, bodies: list[bytes], number: int = 7, **columns: list[int]) -> StagedRows:
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


def test_what_a_node_takes_no_more_of_at_once_becomes_two_chunks(node: FakeNode) -> None:
    node.refuse = lambda path, query, body: (
        (413, {"message": "BODY_TOO_BIG"}) if len(body) > 300 else None
    )
    staged = stage(exact(node, requestBytes="500"), BODIES)
    chunks = node.staged["t", "w", 7]
    (part,) = staged.parts.values()
    assert {number for _, _, number in chunks} == set(range(part.chunks))
    assert sorted(body for chunk in chunks.values() for _, body in chunk) == BODIES


def test_with_one_request_at_a_time_chunks_that_were_cut_stay_in_order(node: FakeNode) -> None:
    node.refuse = lambda path, query, body: (
        (413, {"message": "BODY_TOO_BIG"}) if len(body) > 300 else None
    )
    stage(exact(node, requestBytes="500", requestsInFlight="1"), BODIES)
    chunks = node.staged["t", "w", 7]
    assert [body for key in sorted(chunks) for _, body in chunks[key]] == BODIES


def test_one_that_is_too_big_is_named(node: FakeNode) -> None:
    node.refuse = lambda path, query, body: (
        (413, {"message": "BAD_MESSAGE"}) if len(body) > 300 else None
    )
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
    wanted = Settings.parse(
        {"nsqd_http_address": "127.0.0.1:9", "exactlyOnce": "true", "topic": "t", "timeout": "1"}
    )
    with pytest.raises(SourceError) as failed:
        stage(wanted, BODIES)
    assert str(failed.value).startswith(
        "rows 0 to 99 of partition 3: topic t cannot be staged at node 127.0.0.1:9: connection ref"
    )
