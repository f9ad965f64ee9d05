"""Nodes that left nsqlookupd, and topics that were deleted, with messages to read."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest

from penstock.spark.access import close_connections
from penstock.spark.errors import SourceError
from penstock.spark.nodes import directory, strays
from penstock.spark.nodes.bounds import Cluster
from penstock.spark.offsets import Place
from penstock.spark.settings import Settings
from tools.harness.fake_log_server import FakeLogServer


@pytest.fixture(autouse=True)
def look_each_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(directory, "LOOKUP_EVERY_NS", -1)
    monkeypatch.setattr(strays, "_ASK_AGAIN_NS", -1)
    monkeypatch.setattr(strays, "_HURRIED_S", 60.0)  # a busy machine is none that has left


@pytest.fixture
def other() -> Iterator[FakeLogServer]:
    with FakeLogServer() as other:
        other.queue("t").append([b"x"] * 10)
        yield other
        close_connections()


@pytest.fixture
def both(server: FakeLogServer, other: FakeLogServer) -> FakeLogServer:
    """An nsqlookupd and node that knows the other node too."""
    server.queue("t").append([b"x"] * 10)
    server.producers += [server.address, other.address]
    return server


def cluster(both: FakeLogServer, **options: str) -> Cluster:
    given = {"topic": "t", "lookupd_http_address": both.address, "timeout": "60", **options}
    return Cluster(Settings.parse(given))


def place(server: FakeLogServer) -> Place:
    return Place("t", server.node, 0)


def test_a_node_that_left_and_answers_is_read_on(
    both: FakeLogServer, other: FakeLogServer, caplog: pytest.LogCaptureFixture
) -> None:
    asking = cluster(both)
    reached = dict.fromkeys(asking.bounds(), 5)
    both.producers.remove(other.address)
    # Also after a restart, which knows no more than the checkpoint.
    for each in (asking, asking, cluster(both)):
        assert set(each.bounds(reached)) == {place(both), place(other)}
    assert set(caplog.messages) == {
        f"node {other.node} has left nsqlookupd; it is read on at {other.address}"
    }


def test_a_node_that_left_and_is_silent_is_warned_of_until_it_is_back(
    both: FakeLogServer, caplog: pytest.LogCaptureFixture
) -> None:
    with FakeLogServer() as silent:
        silent.queue("t").append([b"x"] * 10)
        both.producers.append(silent.address)
        asking = cluster(both)
        reached = asking.bounds()
    both.producers.remove(silent.address)
    close_connections()  # which the fake would go on to serve
    for _ in range(2):
        assert place(silent) not in asking.bounds(dict.fromkeys(reached, 4))
    (warning,) = caplog.messages
    assert warning.startswith(
        f"node {silent.node} has left nsqlookupd with messages to read (topic t from offset 4 to "
        "10) and does not answer: "
    )
    assert warning.endswith("They are read when it is back; waitForNodes=true waits for it")


def test_a_silent_node_that_was_read_to_its_end_is_not_waited_for(
    both: FakeLogServer, caplog: pytest.LogCaptureFixture
) -> None:
    with FakeLogServer() as silent:
        silent.queue("t").append([b"x"] * 10)
        both.producers.append(silent.address)
        asking = cluster(both, waitForNodes="true")
        reached = {place: bound.end for place, bound in asking.bounds().items()}
    both.producers.remove(silent.address)
    close_connections()  # which the fake would go on to serve
    assert place(silent) not in asking.bounds(reached)
    assert caplog.messages == []


@pytest.mark.usefixtures("hasty")
def test_a_node_is_waited_for(both: FakeLogServer) -> None:
    silent = Place("t", "127.0.0.1:9", 0)
    with pytest.raises(SourceError) as failed:
        cluster(both, waitForNodes="true").bounds({silent: 4})
    assert str(failed.value) == (
        "node 127.0.0.1:9 has left nsqlookupd with messages to read (topic t from offset 4 on); "
        "waitForNodes=false goes on without it: connection refused (tried for 60 s; option "
        "timeout); start it and run the same command to go on"
    )


def test_a_node_that_has_become_another_is_not_waited_for(both: FakeLogServer) -> None:
    with FakeLogServer(kind="go") as go:
        with pytest.raises(SourceError) as failed:
            cluster(both, waitForNodes="true", timeout="60").bounds({Place("t", go.node, 0): 4})
        assert str(failed.value) == (
            f"node {go.node} has left nsqlookupd with messages to read (topic t from offset 4 on); "
            f"waitForNodes=false goes on without it: {go.node}: 404 NOT_FOUND"
        )
        close_connections()


def test_a_node_that_comes_back_ends_the_wait(
    both: FakeLogServer, other: FakeLogServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    both.producers.remove(other.address)
    asking = cluster(both, waitForNodes="true", timeout="60")
    look = strays.Strays._ask
    tries = threading.Semaphore(3)

    def ask(self: strays.Strays, *arguments: object) -> object:
        if tries.acquire(blocking=False):
            raise SourceError("not yet") if tries._value == 2 else ConnectionRefusedError
        return look(self, *arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(strays.Strays, "_ask", ask)
    assert place(other) in asking.bounds({place(other): 4})


def test_the_last_node_of_a_topic_may_be_away(both: FakeLogServer) -> None:
    asked = cluster(both)
    both.producers.clear()
    both.delete("t")
    assert asked.bounds({Place("t", "127.0.0.1:9", 0): 4}) == {}


def test_a_topic_deleted_before_it_was_read(
    both: FakeLogServer, other: FakeLogServer, caplog: pytest.LogCaptureFixture
) -> None:
    strict, lenient = cluster(both), cluster(both, failOnDataLoss="false")
    reached = dict.fromkeys(strict.bounds(), 4)
    lenient.bounds()
    other.delete("t")
    with pytest.raises(SourceError) as failed:
        strict.bounds(reached)
    said = (
        f"topic t (queue 0) was deleted on node {other.node}: offsets 4 to 10 were not read and "
        "are lost"
    )
    assert str(failed.value) == f"{said}. Set failOnDataLoss=false to go on"
    assert set(lenient.bounds(reached)) == {place(both)}
    assert caplog.messages == [f"{said}. Skipped, as failOnDataLoss=false"]


def test_a_node_that_is_not_named_any_more(
    both: FakeLogServer, caplog: pytest.LogCaptureFixture
) -> None:
    given = {"topic": "t", "nsqd_http_address": both.address, "timeout": "60"}
    gone = Place("t", "127.0.0.1:9", 0)
    assert gone not in Cluster(Settings.parse(given)).bounds({gone: 4})
    assert caplog.messages == [
        "node 127.0.0.1:9 is not in nsqd_http_address any more; not read on it: topic t from "
        "offset 4 on"
    ]
