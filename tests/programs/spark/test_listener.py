"""How queries are, told to nodes without anybody waiting for it."""

from __future__ import annotations

import json
import logging
import threading
import time
from collections.abc import Callable
from typing import Any, NamedTuple, cast

import pytest
from pyspark.sql import SparkSession

from penstock.spark import listener
from penstock.spark.access import Access
from penstock.spark.errors import SourceError
from penstock.spark.figures import QueryFacts, QueryFigures
from penstock.spark.listener import ProgressListener, StatusSender, attach, farewell
from penstock.spark.offsets import Place, Position, to_checkpoint
from tools.harness.fake_log_server import FakeLogServer


class Event(NamedTuple):
    """The start or the end of a query, as Spark brings it."""

    id: str = "4f1c"
    name: str | None = "q"
    exception: str | None = None


class Progress:
    """A report, as Spark brings it."""

    class Report(dict[str, Any]):
        id = "4f1c"

    def __init__(self, node: str, batch: int = 0) -> None:
        end = json.dumps(to_checkpoint(Position({Place("t", node, 0): 100}, "g", {})))
        source = {"endOffset": end, "latestOffset": end}
        self.progress = self.Report(
            {"id": "4f1c", "name": "q", "batchId": batch, "batchDuration": 500,
             "numInputRows": 100, "sources": [source], "sink": {"numOutputRows": -1}}
        )  # fmt: skip


WAIT_S_MAX = 120.0
PATIENT = Access(timeout_s=60.0)
before: set[threading.Thread] = set()
"""The threads that a test did not start: sessions of other tests have listeners, too."""


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Reports go out soon, and have the time that a busy machine takes for them."""
    monkeypatch.setattr(listener, "EVERY_S", 0.001)
    monkeypatch.setattr(listener, "_TIMEOUT_S", 60.0)
    monkeypatch.setattr(listener, "END_S", WAIT_S_MAX)
    before.clear()
    before.update(threading.enumerate())


def until(look: Callable[[], Any]) -> Any:
    deadline = time.monotonic() + WAIT_S_MAX
    while not (found := look()):
        assert time.monotonic() < deadline
        time.sleep(0.005)
    return found


def finished() -> None:
    """The threads of all tellers are through."""
    for thread in set(threading.enumerate()) - before:
        if thread.name == "penstock-progress":
            thread.join(WAIT_S_MAX)
            assert not thread.is_alive()


def query(*nodes: str, **more: Any) -> QueryFigures:
    """One that has ended, so that the thread that reports it ends as well."""
    found = QueryFigures("4f1c", "q", QueryFacts(nodes=lambda: nodes, **more))
    found.end()
    return found


def states(server: FakeLogServer) -> list[tuple[str, int, str]]:
    return [(each["state"], each["rows_read"], each["error"]) for each in server.told]


def test_a_query_from_its_start_to_its_end(server: FakeLogServer) -> None:
    listens: Any = ProgressListener(PATIENT)
    listens.expect("q", QueryFacts("nsq t", "noop", "select 1", nodes=lambda: [server.address]))
    listens.onQueryStarted(Event())
    until(lambda: server.told)
    assert (server.told[0]["state"], server.told[0]["sql"]) == ("running", "select 1")
    listens.onQueryProgress(Progress(server.address))
    until(lambda: server.told[-1]["rows_read"] == 100)
    listens.onQueryIdle(None)
    listens.onQueryTerminated(Event())
    finished()
    assert states(server)[-1] == ("stopped", 100, "")


@pytest.mark.parametrize(
    ("exception", "told"),
    [
        (None, ("stopped", 100, "")),
        ("org.apache.spark.SparkException: x\npenstock.spark.errors.SourceError: no node\n\tat y",
         ("failed", 100, "no node")),
    ],
)  # fmt: skip
def test_a_query_that_was_running_before_is_told_of_from_its_next_batch_on_and_why_it_ends(
    server: FakeLogServer, exception: str | None, told: tuple[str, int, str]
) -> None:
    listens: Any = ProgressListener(PATIENT)
    listens.onQueryProgress(Progress(server.address))
    listens.onQueryTerminated(Event(exception=exception))
    finished()
    assert states(server)[-1] == told


def test_a_query_without_news_is_told_of_as_alive(
    server: FakeLogServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(listener, "ALIVE_NS", 1_000_000)
    listens: Any = ProgressListener(PATIENT)
    listens.onQueryStarted(Event())
    listens.onQueryProgress(Progress(server.address))
    until(lambda: len(server.told) > 5)
    listens.farewell("java died")
    assert states(server)[-1] == ("failed", 100, "java died")


def test_farewell_waits_until_the_end_is_told(server: FakeLogServer) -> None:
    session = attached(FakeSession())
    (listens,) = session.listeners
    listens.onQueryStarted(Event())
    listens.onQueryProgress(Progress(server.address))
    threading.Timer(0.2, listens.onQueryTerminated, [Event()]).start()
    farewell(cast(SparkSession, session))
    assert states(server)[-1] == ("stopped", 100, "")
    farewell(cast(SparkSession, FakeSession()))


def test_a_secret_goes_along(server: FakeLogServer) -> None:
    for teller, about in (
        (StatusSender(Access(auth_secret="s3cret", timeout_s=60.0)), {}),
        (StatusSender(), {"access": Access(auth_secret="s3cret", timeout_s=60.0)}),
    ):
        teller.tell(query(server.address, **about))
        finished()
        assert server.headers[-1]["Authorization"] == "Bearer s3cret"


@pytest.mark.parametrize("kind", ["none", "go"])
def test_a_node_that_takes_no_status_is_left_alone_and_logged_once(
    caplog: pytest.LogCaptureFixture, kind: str
) -> None:
    caplog.set_level(logging.INFO)
    teller = StatusSender(PATIENT)
    with FakeLogServer(kind="go") as server:
        for _ in range(3):
            teller.tell(query(server.address if kind == "go" else "127.0.0.1:9"))
            finished()
    (logged,) = caplog.records
    if kind == "none":
        assert logged.levelno == logging.INFO
        said = "the status of q is not reported: 127.0.0.1:9 cannot be reached"
        assert logged.getMessage().startswith(said)


def test_nodes_that_are_not_found_are_no_failure(
    server: FakeLogServer, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)

    def nodes() -> list[str]:
        raise SourceError("no nsqlookupd answers")

    found = QueryFigures("4f1c", "q", QueryFacts(nodes=nodes))
    found.read_nodes.add(server.address)
    found.end()
    StatusSender(PATIENT).tell(found)
    finished()
    assert len(server.told) == 1
    assert "no nsqlookupd answers" in caplog.text


def test_only_the_newest_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    posted: list[Any] = []
    began, go_on = threading.Event(), threading.Event()

    def post(teller: StatusSender, node: str, access: Access, status: Any) -> None:
        posted.append(status["rows_read"])
        began.set()
        assert go_on.wait(WAIT_S_MAX)

    monkeypatch.setattr(StatusSender, "_post", post)
    teller, found = StatusSender(PATIENT), query("n:1")
    teller.tell(found)
    assert began.wait(WAIT_S_MAX)
    for batch in range(3):
        found.take(Progress("n:1", batch).progress)
        teller.tell(found)
    go_on.set()
    finished()
    assert posted == [0, 300]


def test_nothing_is_raised_into_spark(caplog: pytest.LogCaptureFixture) -> None:
    listens: Any = ProgressListener(PATIENT)
    for _ in range(2):
        listens.onQueryStarted(None)
        listens.onQueryProgress(None)
        listens.onQueryTerminated(None)
    assert len(caplog.records) == 3


def test_queries_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listener, "QUERIES_MAX", 2)
    monkeypatch.setattr(StatusSender, "tell", lambda *_: None)
    listens: Any = ProgressListener(PATIENT)
    for id in ("a", "b", "c", "d"):
        listens.onQueryStarted(Event(id))
        if id == "b":
            listens.onQueryTerminated(Event(id))
    assert list(listens._queries) == ["c", "d"]


class FakeSession:
    """Counts its listeners."""

    def __init__(self, refuses: bool = False) -> None:
        self.streams = self
        self.listeners: list[Any] = []
        self._refuses = refuses

    def addListener(self, added: object) -> None:
        if self._refuses:
            raise RuntimeError("no listeners here")
        self.listeners.append(added)


def attached(session: FakeSession) -> FakeSession:
    for _ in range(2):
        assert attach(cast(SparkSession, session)) is (session.listeners or [None])[0]
    return session


def test_a_session_listens_once(caplog: pytest.LogCaptureFixture) -> None:
    assert len(attached(FakeSession()).listeners) == 1
    assert caplog.text == ""
    attached(FakeSession(refuses=True))
    assert caplog.text.count("will not be reported: no listeners here") == 1
