"""The driver's commit of what tasks have staged."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from dataclasses import replace

import pytest

from penstock.spark.errors import SinkError, SourceError
from penstock.spark.sink.commits import abort, commit
from penstock.spark.sink.settings import Settings
from penstock.spark.sink.staging import Batch, StagedRows, stage_rows
from tests.unit.spark.sink.fake_node import FakeNode
from tests.unit.spark.sink.making import batch, reader, settings

BATCH = Batch("w", 4)
BODIES = [b"%03d" % number for number in range(60)]


def stage(partition: int, bodies: list[bytes], *nodes: FakeNode, topic: str = "t") -> StagedRows:
    wanted = settings(*nodes, topic=topic, exactlyOnce="true", requestBytes="100")
    return stage_rows([batch(bodies)], reader(topic, partition), wanted, BATCH)


def test_the_winning_attempts_appear_once_and_in_order(node: FakeNode) -> None:
    access = settings(node).access
    stage(0, BODIES[30:0:-1], node)  # an attempt that did not win, with rows in another order
    staged = [stage(1, BODIES[30:], node), stage(0, BODIES[:30], node)]
    assert node.bodies == []
    commit(staged, access)
    assert node.bodies == BODIES
    commit(staged, access)  # as when the first answer was lost
    assert node.bodies == BODIES


def test_a_batch_that_was_committed_before_is_told(
    node: FakeNode, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING, "penstock.spark")
    commit([stage(0, BODIES, node)], settings(node).access)
    assert caplog.messages == []
    commit([stage(0, BODIES, node)], settings(node).access)
    assert node.bodies == BODIES
    assert caplog.messages == [
        f"batch 4 of writer w is in topic t on node {node.address} already, and was not written "
        "again"
    ]


def test_a_node_that_works_on_a_commit_is_waited_for(node: FakeNode) -> None:
    staged = stage(0, BODIES, node)
    node.refuse = lambda *_: time.sleep(0.2)
    commit([staged], replace(settings(node).access, timeout_s=0.05))
    assert node.bodies == BODIES


@pytest.mark.usefixtures("hasty")
def test_several_nodes_where_only_one_had_committed(start_node: Callable[..., FakeNode]) -> None:
    one, two = start_node(), start_node()
    access = settings(one, two).access
    two.refuse = lambda path, *_: (500, {"message": "E"}) if path == "/stage/commit" else None
    with pytest.raises(SourceError, match="batch 4 of writer w cannot be committed at node"):
        commit([stage(0, BODIES, one, two)], access)
    two.refuse = lambda *_: None
    # The query begins again: other partitions, another order.
    commit([stage(0, BODIES[::-2], one, two), stage(1, BODIES[::2], one, two)], access)
    assert sorted(one.bodies + two.bodies) == BODIES


def test_two_names_of_one_node_are_refused(node: FakeNode) -> None:
    alias = node.address.replace("127.0.0.1", "localhost")
    wanted = Settings.parse(
        {"nsqd_http_address": f"{node.address},{alias}", "exactlyOnce": "true", "timeout": "60"}
    )
    staged = stage_rows([batch(BODIES)], reader("t"), wanted, BATCH)
    with pytest.raises(SinkError, match=f"{node.address} and {alias} are one node: name it once"):
        commit([staged], wanted.access)
    assert node.bodies == []


def test_what_is_staged_no_more_is_an_error(node: FakeNode) -> None:
    staged = stage(2, BODIES, node)
    node.staged.clear()
    with pytest.raises(SinkError) as failed:
        commit([staged], settings(node).access)
    assert str(failed.value).startswith(
        f"batch 4 of writer w is not in topic t on node {node.address}: "
    )
    assert "PART_NOT_FOUND (part 2, attempt " in str(failed.value)
    assert node.bodies == []


def test_many_topics_are_committed_in_several_requests(node: FakeNode) -> None:
    names = [f"t{number}" for number in range(501)]
    rows = batch([b"x"] * len(names), topic=names)
    wanted = settings(node, exactlyOnce="true")
    commit([stage_rows([rows], reader(None), wanted, BATCH)], wanted.access)
    assert sorted(topic for topic, _, _ in node.published) == sorted(names)
    assert [path for path, _, _ in node.requests].count("/stage/commit") == 2


def test_a_commit_of_nothing_asks_nobody(node: FakeNode) -> None:
    commit([], settings(node).access)
    commit([StagedRows(BATCH)], settings(node).access)
    assert node.requests == []


def test_an_abort_drops_what_is_staged_and_fails_nothing(node: FakeNode) -> None:
    stage(0, BODIES, node)
    abort(BATCH, ["127.0.0.1:9", node.address], settings(node).access)
    assert node.staged == {}
