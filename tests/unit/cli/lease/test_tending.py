"""Who takes a lease, who lets go of it, and which copies it lists: without a network."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from typing import Any

import pytest

from penstock.cli.lease.record import Record, Version
from penstock.cli.lease.tending import MARGIN, Tender
from penstock.core.units import SECOND
from penstock.testing.clock import FakeClock

SECONDS = 15


class MemoryStore:
    """A store of one record."""

    name = "orders in memory"

    def __init__(self) -> None:
        self.record: Record | None = None
        self.version = 0

    def read(self) -> Version:
        return Version(self.record, str(self.version))

    def write(self, seen: Version, record: Record) -> bool:
        if seen.mark != str(self.version):
            return False
        self.record, self.version = record, self.version + 1
        return True


class FakeNode:
    """A node as its lease program sees it."""

    def __init__(self, clock: FakeClock, **status: Any) -> None:
        self.clock = clock
        self.told: dict[str, Any] | None = {"history": "h", "epoch": 1, **status}
        self.others: dict[str, dict[str, Any]] = {}
        self.is_gone = False
        self.posted: list[tuple[str, dict[str, Any]]] = []
        self.refuses = False

    def status(self, address: str = "") -> dict[str, Any] | None:
        if address:
            return self.others.get(address)
        if self.told is not None and "lease" in self.told:
            self.told["lease"]["clock_ns"] = self.clock.monotonic_ns()
        return self.told

    def post(self, path: str, content: dict[str, Any]) -> tuple[int, dict[str, Any]]:
        self.posted.append((path, content))
        if self.refuses:
            return 409, {"message": "HOOK_REFUSED", "why": "no"}
        assert self.told is not None
        if "/lease" in path:
            self.told["lease"]["members"] = content["members"]
        if "/promote" in path:
            self.told |= {"role": "primary", "lease": {"members": []}, "followers": []}
            self.told["epoch"] = int(path.partition("epoch=")[2].partition("&")[0])
        return 200, {}


class Pair:
    """A primary a with a copy b, and their programs."""

    def __init__(self, acked: int = 1) -> None:
        self.clock, self.store = FakeClock(), MemoryStore()
        self.follower = {
            "address": "b:1",
            "has_all": True,
            "asked_seconds_ago": 0.1,
            "lag_bytes": 0,
        }
        self.node_a = FakeNode(self.clock, role="primary", followers=[self.follower],
                               replicas_acked=acked, lease={"members": []})  # fmt: skip
        self.node_b = FakeNode(self.clock, role="follower", needs_force="", messages=7)
        self.begun: list[Future[Any]] = []
        self.is_slow = False
        self.a = Tender(self.store, self.node_a, "a:1", SECONDS, self.clock, self.submit)
        self.b = Tender(self.store, self.node_b, "b:1", SECONDS, self.clock, self.submit)

    def submit(self, call: Callable[..., Any], *arguments: Any) -> Future[Any]:
        """Do it now; the result is there at once, unless all is slow."""
        future: Future[Any] = Future()
        self.begun.append(future)
        if not self.is_slow:
            future.set_result(call(*arguments))
        return future

    @property
    def record(self) -> Record:
        assert self.store.record is not None
        return self.store.record

    def pass_by(self, seconds: float) -> None:
        self.clock.advance(int(seconds * SECOND))

    def settle(self) -> None:
        for _ in range(3):
            assert self.a.look() == ""
            assert self.b.look() == ""
            self.pass_by(1)


def test_a_copy_is_waited_for_before_it_is_listed_and_after() -> None:
    pair = Pair()
    assert pair.a.look() == ""
    assert (pair.record.in_sync, pair.node_a.posted[-1][1]["members"]) == ([], ["b:1"])
    assert pair.a.look() == ""
    assert (pair.record.in_sync, pair.node_a.posted[-1][1]["members"]) == (["b:1"], ["b:1"])
    pair.follower["asked_seconds_ago"] = 3.0
    written = len(pair.node_a.posted)
    assert pair.a.look() == ""
    assert pair.record.in_sync == []
    assert pair.node_a.posted[written:][0][1]["members"] == []


def test_the_holder_s_lease_ends_first_however_long_its_renewal_takes() -> None:
    pair = Pair()
    began = pair.clock.monotonic_ns()
    pair.a.look()
    until = pair.node_a.posted[-1][1]["until_ns"]
    assert until == began + int(SECONDS * (1 - MARGIN) * SECOND)
    pair.pass_by(1)
    pair.a.look()
    assert pair.node_a.posted[-1][1]["until_ns"] != until, "listed b"
    until = pair.node_a.posted[-1][1]["until_ns"]
    pair.pass_by(1)
    pair.a.look()
    assert pair.node_a.posted[-1][1]["until_ns"] == until, "not renewed"


def test_a_listed_copy_takes_a_lease_that_was_not_renewed() -> None:
    pair = Pair()
    pair.settle()
    seen = pair.clock.monotonic_ns()
    while not (line := pair.b.look()):
        pair.pass_by(0.5)
    assert line == "the lease of a:1 is over: this node is promoted, in epoch 2"
    assert pair.clock.monotonic_ns() - seen > (SECONDS - 2) * SECOND
    [(path, _)] = pair.node_b.posted
    assert path == "/replication/promote?epoch=2&in_sync=true"
    assert (pair.record.holder, pair.record.epoch, pair.record.served) == ("b:1", 2, 1)
    assert pair.b.look() == "this node is primary"
    assert pair.b.look() == ""
    assert pair.record.served == 2
    assert pair.a.look() == "b:1 holds the lease for epoch 2: this node steps back"
    assert pair.node_a.posted[-1] == (
        "/replication/fence", {"history": "h", "epoch": 2, "address": "b:1"}
    )  # fmt: skip


def test_a_copy_that_is_not_listed_is_left() -> None:
    pair = Pair()
    pair.settle()
    pair.follower["asked_seconds_ago"] = 5
    pair.a.look()
    pair.b.look()
    pair.pass_by(SECONDS + 1)
    assert "may lack what a:1 acknowledged" in pair.b.look()
    assert pair.node_b.posted == []
    assert pair.a.look() == "", "it comes back"


@pytest.mark.parametrize("needs_force", ["", "it last had all that a had 42.0 s before"])
def test_without_copies_that_are_awaited_the_node_says_what_it_may_lack(needs_force: str) -> None:
    pair = Pair(acked=0)
    assert pair.node_b.told is not None
    pair.node_b.told["needs_force"] = needs_force
    pair.settle()
    assert pair.record.in_sync is None
    pair.pass_by(SECONDS + 1)
    assert ("needs --force: it last" in pair.b.look()) == bool(needs_force)
    assert [path for path, _ in pair.node_b.posted] == [
        "/replication/promote?epoch=2" for _ in range(not needs_force)
    ]


def test_of_several_copies_the_one_that_has_most_is_promoted() -> None:
    pair = Pair(acked=0)
    pair.settle()
    pair.record.nodes = ["b:1", "c:1"]
    pair.node_b.others["c:1"] = {"role": "follower", "messages": 8}
    pair.pass_by(SECONDS + 1)
    assert "c:1 has more than this copy" in pair.b.look()
    pair.pass_by(SECONDS)
    assert "is promoted, in epoch 2" in pair.b.look(), "c had its time"


def test_a_node_that_ended_lets_go_and_one_that_is_only_silent_does_not() -> None:
    pair = Pair()
    pair.settle()
    pair.node_a.told = None
    for _ in range(5):
        assert pair.a.look() == "this node does not answer"
        pair.pass_by(1)
    pair.node_a.is_gone = True
    assert pair.a.look() == "this node has ended"
    pair.pass_by(SECONDS / 4)
    assert "lets go" in pair.a.look()
    assert pair.record.is_released
    assert "is promoted, in epoch 2" in pair.b.look()


def test_the_lease_is_kept_while_a_promotion_takes_its_time() -> None:
    pair = Pair()
    pair.settle()
    pair.pass_by(SECONDS + 1)
    pair.is_slow = True
    pair.b.look()
    for _ in range(10 * SECONDS):
        pair.pass_by(1)
        assert pair.b.look() == ""
        assert pair.a.look() == "b:1 has taken the lease for epoch 2"
    pair.begun[0].set_result((200, {}))
    assert pair.b.look() == "this node is primary"


def test_a_promotion_that_fails_gives_the_lease_back() -> None:
    pair = Pair()
    pair.settle()
    pair.node_b.refuses = True
    pair.pass_by(SECONDS + 1)
    assert "is promoted, in epoch 2" in pair.b.look()
    assert pair.a.look() == "b:1 has taken the lease for epoch 2"
    assert pair.b.look() == "the node refuses to become primary: no"
    assert (pair.record.holder, pair.record.epoch, pair.record.is_released) == ("b:1", 2, True)
    assert pair.a.look() == "", "nobody was primary since"
    assert (pair.record.holder, pair.record.epoch, pair.record.served) == ("a:1", 2, 1)


def test_one_that_was_primary_since_keeps_the_old_one_out_even_when_it_is_gone() -> None:
    pair = Pair()
    pair.settle()
    pair.pass_by(SECONDS + 1)
    for _ in range(3):
        pair.b.look()
    pair.record.is_released = True
    assert "this node steps back" in pair.a.look()


def test_a_promotion_by_hand_takes_the_lease_when_the_old_one_has_let_go() -> None:
    pair = Pair()
    pair.settle()
    pair.node_b.told = {"history": "h", "role": "primary", "epoch": 2, "followers": [],
                        "lease": {"members": []}}  # fmt: skip
    assert pair.b.look() == "a:1 holds the lease: this node takes no publishes"
    assert pair.node_a.told is not None
    pair.node_a.told["role"] = "fenced"
    assert "lets go" in pair.a.look()
    assert pair.b.look() == ""
    assert (pair.record.holder, pair.record.served) == ("b:1", 2)


def test_one_that_comes_second_leaves_the_lease_to_the_other() -> None:
    pair = Pair()
    pair.settle()
    pair.pass_by(SECONDS + 1)
    read = pair.store.read

    def read_and_lose() -> Version:
        seen = read()
        pair.store.version += 1
        return seen

    pair.store.read = read_and_lose  # type: ignore[method-assign]
    assert pair.b.look() == "another one takes the lease"
    assert pair.node_b.posted == []


def test_nodes_of_another_history_are_told() -> None:
    pair = Pair()
    pair.settle()
    for node, program in ((pair.node_a, pair.a), (pair.node_b, pair.b)):
        assert node.told is not None
        node.told["history"] = "other"
        pair.pass_by(SECONDS + 1)
        assert "is of other nodes: give each pair its own" in program.look()


def test_a_node_that_needs_none_is_told() -> None:
    pair = Pair()
    assert pair.node_a.told is not None
    del pair.node_a.told["lease"]
    assert "start it with --needs-lease" in pair.a.look()
    assert pair.store.record is None
