"""Reports of queries, told to nodes without anybody waiting for it."""

from __future__ import annotations

import json
import logging
import threading
from collections.abc import Callable
from typing import Any, cast

import pytest
from pyspark.sql import SparkSession

from penstock.nsq.client.log import BatchProgress
from penstock.spark import listener
from penstock.spark.access import Access
from penstock.spark.listener import ProgressListener, Report, Teller, attach, reports
from penstock.spark.offsets import Place, Position, to_checkpoint
from tests.spark.fake_log_server import FakeLogServer

PROGRESS = BatchProgress("q", 3, 100, 200.0, 500)


def source(start: dict[str, int] | None, end: dict[str, int], rows: int = 100) -> dict[str, Any]:
    """Offsets by node, of topic t."""

    def stored(offsets: dict[str, int]) -> str:
        places = {Place("t", node, 0): offset for node, offset in offsets.items()}
        return json.dumps(to_checkpoint(Position(places, "g", {})))

    return {"startOffset": None if start is None else stored(start), "endOffset": stored(end),
            "numInputRows": rows}  # fmt: skip


def report(*sources: dict[str, Any], name: str | None = "q") -> dict[str, Any]:
    return {"id": "4f1c", "name": name, "batchId": 3, "batchDuration": 500, "sources": sources}


class Event:
    """As Spark brings it."""

    class Progress(dict[str, Any]):
        id = "4f1c"

    def __init__(self, *sources: dict[str, Any]) -> None:
        self.progress = self.Progress(report(*sources))


def test_reports_of_what_was_read() -> None:
    moved = source({"a:1": 0, "b:1": 5}, {"a:1": 100, "b:1": 5, "c:1": 7})
    assert list(reports(report(moved))) == [
        Report("t", "a:1", "g", PROGRESS), Report("t", "c:1", "g", PROGRESS),
    ]  # fmt: skip
    assert [each.node for each in reports(report(source(None, {"a:1": 3})))] == ["a:1"]
    assert list(reports(report(source({"a:1": 3}, {"a:1": 3}, 0)))) == []


def test_brokers_that_name_servers_lead_to_are_told_nothing() -> None:
    moved = source({"broker-a": 0, "a:1": 0}, {"broker-a": 100, "a:1": 100})
    assert [each.node for each in reports(report(moved))] == ["a:1"]


@pytest.mark.parametrize("end", [None, "null", "7", "{}", '{"group": "g"}', '{"offsets": 3}', "["])
def test_other_sources_are_passed_over(end: str | None) -> None:
    other = {"startOffset": None, "endOffset": end, "numInputRows": 1}
    assert len(list(reports(report(other, source(None, {"a:1": 3}))))) == 1


@pytest.mark.parametrize(
    ("name", "shown"), [(None, "4f1c"), ("", "4f1c"), ("a\nb", "a?b"), ("x" * 300, "x" * 256)]
)
def test_names_that_nsqd_takes(name: str | None, shown: str) -> None:
    (found,) = reports(report(source(None, {"a:1": 3}), name=name))
    assert found.progress.query == shown


def test_places_are_bounded() -> None:
    many = source(None, {f"h{number}:1": 1 for number in range(500)})
    assert len(list(reports(report(many)))) == listener.PLACES_MAX


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listener, "EVERY_S", 0.001)


def finished() -> None:
    """The threads of all tellers are through."""
    for thread in threading.enumerate():
        if thread.name == "penstock-progress":
            thread.join(30)
            assert not thread.is_alive()


@pytest.mark.usefixtures("quick")
def test_what_a_listener_is_told_arrives(server: FakeLogServer) -> None:
    server.queue("t").append([b"x"])
    listens = ProgressListener()
    for _ in range(2):  # a thread each, one after the other
        listens.onQueryProgress(cast(Any, Event(source(None, {server.address: 1}))))
        finished()
        assert server.progress.pop("t") == {"g": PROGRESS._asdict()}
    listens.onQueryStarted(cast(Any, None))
    listens.onQueryTerminated(cast(Any, None))


@pytest.mark.usefixtures("quick")
def test_a_secret_goes_along(server: FakeLogServer) -> None:
    server.queue("t").append([b"x"])
    listens = ProgressListener(Access(auth_secret="s3cret"))
    listens.onQueryProgress(cast(Any, Event(source(None, {server.address: 1}))))
    finished()
    assert server.headers[0]["Authorization"] == "Bearer s3cret"


@pytest.mark.usefixtures("quick")
def test_a_node_that_is_not_there_is_left_alone(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    teller = Teller()
    for _ in range(3):
        teller.tell("q", [Report("t", "127.0.0.1:9", "g", PROGRESS)] * 2)
        finished()
    (logged,) = caplog.records
    assert logged.levelno == logging.INFO
    assert logged.getMessage().startswith("progress of group g is not told: 127.0.0.1:9 cannot be")


@pytest.mark.usefixtures("quick")
def test_a_refusal_is_logged_once(server: FakeLogServer, caplog: pytest.LogCaptureFixture) -> None:
    teller = Teller()
    for _ in range(3):
        teller.tell("q", [Report("none", server.address, "g", PROGRESS)])
        finished()
    assert [each.getMessage() for each in caplog.records] == [
        f"progress of group g is not told: {server.address} has no topic 'none'"
    ]


def test_only_the_newest_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    posted: list[Report] = []
    began, go_on = threading.Event(), threading.Event()

    def post(teller: Teller, each: Report) -> None:
        posted.append(each)
        began.set()
        assert go_on.wait(30)

    monkeypatch.setattr(listener, "EVERY_S", 0.001)
    monkeypatch.setattr(Teller, "_post", post)
    teller = Teller()
    each = [Report("t", f"n{number}:1", "g", PROGRESS) for number in range(4)]
    teller.tell("q", each[:1])
    assert began.wait(30)
    for one in each[1:]:
        teller.tell("q", [one])
    go_on.set()
    finished()
    assert posted == [each[0], each[3]]


def test_nothing_is_raised_into_spark(caplog: pytest.LogCaptureFixture) -> None:
    listens = ProgressListener()
    for _ in range(2):
        listens.onQueryProgress(cast(Any, None))
    assert len(caplog.records) == 1


class FakeSession:
    """Counts its listeners."""

    def __init__(self, refuses: bool = False) -> None:
        self.streams = self
        self.listeners: list[object] = []
        self._refuses = refuses

    def addListener(self, added: object) -> None:
        if self._refuses:
            raise RuntimeError("no listeners here")
        self.listeners.append(added)


def attached(session: FakeSession, attach: Callable[[SparkSession], None] = attach) -> FakeSession:
    for _ in range(2):
        attach(cast(SparkSession, session))
    return session


def test_a_session_listens_once(caplog: pytest.LogCaptureFixture) -> None:
    assert len(attached(FakeSession()).listeners) == 1
    assert caplog.text == ""
    attached(FakeSession(refuses=True))
    assert caplog.text.count("will not be told: no listeners here") == 1
