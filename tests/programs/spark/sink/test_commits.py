"""The driver's commit of what tasks have staged."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    invariant,
    rule,
    run_state_machine_as_test,
)

from penstock.spark.errors import SinkError, SourceError
from penstock.spark.sink import commits
from penstock.spark.sink.sink_settings import SinkSettings
from penstock.spark.sink.staging import Batch, StagedRows, stage_rows
from tests.unit.spark.sink.fake_node import Answer, FakeNode
from tests.unit.spark.sink.making import batch, reader, settings

BATCH = Batch("w", 4)
BODIES = [b"%03d" % number for number in range(60)]
OTHERS = [b"x%03d" % number for number in range(60)]
"""The batch as it is computed once more: the rows are not the same."""
FINISHED = (
    "batch 4 of writer w was decided by an earlier run: what that staged is committed, and what "
    "was computed again is left out"
)


def stage(partition: int, bodies: list[bytes], *nodes: FakeNode, topic: str = "t") -> StagedRows:
    wanted = settings(*nodes, topic=topic, exactlyOnce="true", requestBytes="100")
    return stage_rows([batch(bodies)], reader(topic, partition), wanted, BATCH)


def commit(staged: list[StagedRows], *nodes: FakeNode, timeout: str = "60") -> None:
    wanted = settings(*nodes, timeout=timeout)
    commits.commit(staged, wanted.nodes, wanted.access)


def failing(*paths: str) -> Callable[..., Answer | None]:
    """A node whose disk refuses these."""
    return lambda path, *_: (500, {"message": "E"}) if path in paths else None


def working(*_: object) -> None:
    """A node that refuses nothing."""


def posted(node: FakeNode, path: str) -> int:
    return [each for each, _, _ in node.requests].count(path)


@pytest.fixture
def two(start_node: Callable[..., FakeNode]) -> list[FakeNode]:
    """Two nodes, by their addresses: the first decides first."""
    return sorted((start_node(), start_node()), key=lambda node: node.address)


PATHS = ("/info", "/stage", "/stage/decision", "/stage/decide", "/stage/commit", "/stage/abort")
FAULTS = st.none() | st.tuples(st.integers(0, 1), st.sampled_from(PATHS), st.booleans())
"""At which node, for which requests, and whether it does what it does not answer."""


class Runs(RuleBasedStateMachine):
    """Drivers that run one batch after the other, each with rows of its own, while nodes fail."""

    def __init__(self) -> None:
        super().__init__()
        self.nodes = sorted((FakeNode(), FakeNode()), key=lambda node: node.address)
        for node in self.nodes:
            node.__enter__()
        self.batch = Batch("w", 0)
        self.ran: list[list[bytes]] = []

    @rule(
        count=st.integers(0, 8),
        fault=FAULTS,
        is_turned=st.booleans(),
        has_lost_attempt=st.booleans(),
        aborts=st.booleans(),
    )
    def run(
        self, count: int, fault: tuple[int, str, bool] | None, is_turned: bool,
        has_lost_attempt: bool, aborts: bool,
    ) -> None:  # fmt: skip
        """One that dies does not abort."""
        rows = [b"%d.%d.%d" % (self.batch.number, len(self.ran), each) for each in range(count)]
        self.ran.append(rows)
        nodes = self.nodes[::-1] if is_turned else self.nodes
        wanted = settings(*nodes, topic="t", exactlyOnce="true", timeout="5")
        if fault is not None:
            self._fail(*fault)
        try:
            if has_lost_attempt:
                stage_rows([batch([b"lost"])], reader("t", 0), wanted, self.batch)
            staged = [
                stage_rows([batch(some)], reader("t", partition), wanted, self.batch)
                for partition, some in enumerate((rows[:3], rows[3:]))
                if some
            ]
            commits.commit(staged, wanted.nodes, wanted.access, self.batch)
        except (SinkError, SourceError):
            if aborts:
                commits.abort(self.batch, wanted.nodes, wanted.access)
        else:
            assert self._there() in [sorted(rows) for rows in self.ran]
            self.batch, self.ran = Batch("w", self.batch.number + 1), []
        for node in self.nodes:
            node.refuse = working

    def _fail(self, index: int, failing: str, is_done: bool) -> None:
        node = self.nodes[index]

        def refuse(path: str, *request: Any) -> Answer | None:
            if path != failing:
                return None
            if is_done:
                node._route(path)(*request)
            return 500, {"message": "E"}

        node.refuse = refuse

    @rule()
    def expire(self) -> None:
        """What no decision holds is dropped after a while."""
        for node in self.nodes:
            held = node.decisions.get(("w", ""), {"batch": -1, "attempts": []})
            won = {tuple(each) for each in held["attempts"]}
            for (_, _, number), chunks in node.staged.items():
                for key in [key for key in chunks if number != held["batch"] or key[:2] not in won]:
                    del chunks[key]

    def _there(self) -> list[bytes]:
        mine = b"%d." % self.batch.number
        return sorted(body for node in self.nodes for body in node.bodies if body.startswith(mine))

    @invariant()
    def the_rows_of_one_run_are_there_once(self) -> None:
        there = self._there()
        assert len(there) == len(set(there))
        assert not there or any(set(there) <= set(rows) for rows in self.ran)
        assert not any(b"lost" in node.bodies for node in self.nodes)

    def teardown(self) -> None:
        number = self.batch.number
        try:
            for _ in range(3):  # a decision whose chunks were lost is revoked first
                self.run(8, None, False, False, False)
            assert self.batch.number > number
        finally:
            for node in self.nodes:
                node.__exit__()


@pytest.mark.usefixtures("hasty")
def test_whatever_fails_the_rows_of_one_run_are_there_once() -> None:
    run_state_machine_as_test(
        Runs, settings=hypothesis_settings(max_examples=30, stateful_step_count=20)
    )


def test_the_winning_attempts_appear_once_and_in_order(node: FakeNode) -> None:
    stage(0, BODIES[30:0:-1], node)  # an attempt that did not win, with rows in another order
    staged = [stage(1, BODIES[30:], node), stage(0, BODIES[:30], node)]
    assert node.bodies == []
    commit(staged, node)
    assert node.bodies == BODIES
    commit(staged, node)  # as when the first answer was lost
    assert node.bodies == BODIES


def test_a_batch_that_was_committed_before_is_told(
    node: FakeNode, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING, "penstock.spark")
    commit([stage(0, BODIES, node)], node)
    assert caplog.messages == []
    commit([stage(0, BODIES, node)], node)
    assert node.bodies == BODIES
    assert caplog.messages == [
        "batch 4 of writer w is on its nodes already, and was not written again"
    ]


def test_a_node_that_works_on_a_commit_is_waited_for(node: FakeNode) -> None:
    staged = stage(0, BODIES, node)
    node.refuse = lambda path, *_: time.sleep(0.2 if path == "/stage/commit" else 0)
    wanted = settings(node)
    commits.commit([staged], wanted.nodes, replace(wanted.access, timeout_s=0.05))
    assert node.bodies == BODIES


@pytest.mark.usefixtures("hasty")
def test_a_batch_that_one_node_has_committed_is_finished_and_not_computed_again(
    two: list[FakeNode], caplog: pytest.LogCaptureFixture
) -> None:
    one, other = two
    other.refuse = failing("/stage/commit")
    with pytest.raises(SourceError, match="batch 4 of writer w cannot be committed at node"):
        commit([stage(0, BODIES, one, other)], one, other)
    # Spark calls abort after a commit that failed.
    commits.abort(BATCH, [one.address, other.address], settings(one).access)
    assert 10 < len(one.bodies) < 50
    assert other.bodies == []

    # The query begins again, with other rows in other partitions.
    other.refuse = working
    again = [stage(0, OTHERS[::-2], *two), stage(1, OTHERS[::2], *two)]
    assert [each.parts for each in again] == [{}, {}], "nothing of it is staged any more"
    commit(again, *two)
    assert sorted(one.bodies + other.bodies) == BODIES
    assert caplog.messages[-1] == FINISHED


@pytest.mark.usefixtures("hasty")
def test_other_nodes_are_refused_while_a_batch_is_not_finished(
    two: list[FakeNode], start_node: Callable[..., FakeNode]
) -> None:
    one, other = two
    third = start_node()
    other.refuse = failing("/stage/commit")
    with pytest.raises(SourceError):
        commit([stage(0, BODIES, one, other)], one, other)
    there = list(one.bodies)
    for list_ in ([one], [one, third], [third, other], [one, other, third]):
        with pytest.raises(SinkError) as refused:
            commit([stage(0, OTHERS, *list_)], *list_)
        assert f"was begun at {one.address}, {other.address} (node " in str(refused.value)
        assert "until the query has ended after a batch, then change the list" in str(refused.value)
    assert (one.bodies, other.bodies, third.bodies) == (there, [], [])
    other.refuse = working
    commit([StagedRows(BATCH)], one, other)
    assert sorted(one.bodies + other.bodies) == BODIES

    later = Batch("w", 5)
    wanted = settings(third, other, topic="t", exactlyOnce="true")
    staged = stage_rows([batch(OTHERS)], reader("t", 0), wanted, later)
    commits.commit([staged], wanted.nodes, wanted.access)
    assert sorted(one.bodies + other.bodies + third.bodies) == BODIES + OTHERS


@pytest.mark.usefixtures("hasty")
def test_a_decision_whose_chunks_are_lost_before_a_commit_is_revoked(two: list[FakeNode]) -> None:
    one, other = two
    other.refuse = failing("/stage/decide")
    with pytest.raises(SourceError):
        commit([stage(0, BODIES, one, other)], one, other)
    other.staged.clear()  # they have expired
    other.refuse = working
    with pytest.raises(SinkError) as failed:
        commit([StagedRows(BATCH)], one, other)
    assert str(failed.value).endswith("Nothing of it was committed: run it again")
    assert "is staged no more at node" in str(failed.value)
    commit([stage(0, OTHERS, one, other)], one, other)
    assert sorted(one.bodies + other.bodies) == OTHERS


@pytest.mark.usefixtures("hasty")
def test_a_share_that_is_lost_after_a_commit_is_an_error_with_the_way_out(
    two: list[FakeNode],
) -> None:
    one, other = two
    other.refuse = failing("/stage/commit")
    with pytest.raises(SourceError):
        commit([stage(0, BODIES, one, other)], one, other)
    other.refuse = working
    other.staged.clear()
    other.decisions.clear()
    for _ in range(2):
        with pytest.raises(SinkError) as failed:
            commit([StagedRows(BATCH)], one, other)
        assert f"and node {one.address} has committed its share" in str(failed.value)
        assert "POST /stage/abort?writer=w&batch=4&decided=true at each" in str(failed.value)
    assert one.decisions


def test_another_run_that_decides_meanwhile_is_told(node: FakeNode) -> None:
    staged = stage(0, BODIES, node)

    def decided(path: str, *_: object) -> Answer | None:
        return (409, {"message": "BATCH_DECIDED"}) if path == "/stage/decide" else None

    node.refuse = decided
    with pytest.raises(SinkError, match="was decided by another run meanwhile, at node"):
        commit([staged], node)


def test_two_names_of_one_node_are_refused(node: FakeNode) -> None:
    alias = node.address.replace("127.0.0.1", "localhost")
    wanted = SinkSettings.parse(
        {"nsqd_http_address": f"{node.address},{alias}", "exactlyOnce": "true", "timeout": "60"}
    )
    staged = stage_rows([batch(BODIES)], reader("t"), wanted, BATCH)
    with pytest.raises(SinkError, match=f"{node.address} and {alias} are one node: name it once"):
        commits.commit([staged], wanted.nodes, wanted.access)
    assert node.bodies == []


@pytest.mark.parametrize("kind", ["", "older"])
def test_what_is_staged_no_more_is_an_error(start_node: Callable[..., FakeNode], kind: str) -> None:
    node = start_node(kind)
    staged = stage(2, BODIES, node)
    node.staged.clear()
    with pytest.raises(SinkError, match=r"PART_NOT_FOUND.*--staged-retention.*run it again"):
        commit([staged], node)
    assert node.bodies == []


@pytest.mark.usefixtures("hasty")
def test_with_a_node_that_keeps_no_decisions_the_same_rows_are_completed(
    start_node: Callable[..., FakeNode], caplog: pytest.LogCaptureFixture
) -> None:
    one, other = start_node(), start_node("older")
    other.refuse = failing("/stage/commit")
    with pytest.raises(SourceError):
        commit([stage(0, BODIES, one, other)], one, other)
    other.refuse = working
    commit([stage(0, BODIES[::-2], one, other), stage(1, BODIES[::2], one, other)], one, other)
    assert sorted(one.bodies + other.bodies) == BODIES
    assert f"node {other.address} is of an earlier version" in caplog.messages[0]


def test_many_topics_are_committed_in_several_requests(
    start_node: Callable[..., FakeNode],
) -> None:
    names = [f"t{number}" for number in range(501)]
    rows = batch([b"x"] * len(names), topic=names)
    for node, requests in ((start_node(), 501), (start_node("older"), 2)):
        wanted = settings(node, exactlyOnce="true")
        commit([stage_rows([rows], reader(None), wanted, BATCH)], node)
        assert sorted(topic for topic, _, _ in node.published) == sorted(names)
        assert posted(node, "/stage/commit") == requests


def test_a_commit_of_nothing_decides_nothing(node: FakeNode) -> None:
    commit([], node)
    assert node.requests == []
    commit([StagedRows(BATCH)], node)
    assert not posted(node, "/stage/decide")


def test_an_abort_drops_what_is_staged_and_fails_nothing(node: FakeNode) -> None:
    stage(0, BODIES, node)
    commits.abort(BATCH, [node.address], settings(node).access)
    assert node.staged == {}


def test_an_abort_drops_nothing_where_a_silent_node_may_hold_a_decision(node: FakeNode) -> None:
    stage(0, BODIES, node)
    commits.abort(BATCH, ["127.0.0.1:9", node.address], settings(node).access)
    assert node.staged
