"""The client of the log endpoints."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from penstock.cluster.http_client import HttpClient
from penstock.cluster.upstream_errors import UnexpectedError
from penstock.log_api.bounds import Bounds, bounds_of
from penstock.log_api.errors import (
    GroupInUse,
    LogError,
    NodeUnreachable,
    NoLog,
    OffsetOutOfRange,
    TlsNeeded,
    TopicNotFound,
)
from penstock.log_api.log_client import TOPICS_MAX, LogClient, QueueBounds
from penstock.nsq.client.blocking import Producer
from penstock.testing.daemons import run_nsqd
from tests.programs.cluster.conftest import FakeDaemon, StartFake
from tests.unit.nsq.client.fakes import FakeHttp, fake_http
from tools.harness.ports import unused_address


@pytest.fixture
def node() -> Iterator[FakeHttp]:
    with fake_http() as server:
        yield server


@pytest.fixture
def client(node: FakeHttp) -> Iterator[LogClient]:
    with LogClient(node.address) as client:
        yield client


def test_topics(node: FakeHttp, client: LogClient) -> None:
    node.json("/stats", {"topics": [{"topic_name": "a"}, {"topic_name": "b#ephemeral"}]})
    assert client.topics() == ["a", "b#ephemeral"]
    node.json("/stats", {"topics": None})
    assert client.topics() == []


def test_offsets(node: FakeHttp, client: LogClient) -> None:
    queue = {"queue": 0, "log": "0a", "start": 5, "end": 9, "bytes": 1000, "later": 1}
    answer = {"node": "h:1", "topic": "t", "queues": [queue], "groups": {"g": {"0": 7}}}
    node.json("/log/offsets", answer)
    offsets = client.offsets("t#ephemeral")
    assert (offsets.node, offsets.topic) == ("h:1", "t")
    assert offsets.queues == [QueueBounds(0, 5, 9, 1000, "0a")]
    assert offsets.groups == {"g": {0: 7}}
    assert node.requests == [("GET", "/log/offsets?topic=t%23ephemeral", b"")]


def test_fetch(node: FakeHttp, client: LogClient) -> None:
    bounds = {"X-Penstock-Start": "5", "X-Penstock-End": "9"}
    node.answers["/log/fetch"] = (200, bounds, b"batches")
    assert client.fetch("t", 6, queue=2, max_bytes=100) == (b"batches", 5, 9, "")
    path = "/log/fetch?topic=t&queue=2&offset=6&max_bytes=100"
    assert node.requests == [("GET", path, b"")]
    node.answers["/log/fetch"] = (200, bounds, b"")
    at_end = client.fetch("t", 9)
    assert (at_end.data, list(at_end.batches())) == (b"", [])


def test_an_offset_that_is_gone(node: FakeHttp, client: LogClient) -> None:
    node.json("/log/fetch", {"message": "OFFSET_OUT_OF_RANGE", "start": 5, "end": 9}, 416)
    with pytest.raises(OffsetOutOfRange) as caught:
        client.fetch("t", 2)
    error = caught.value
    assert (error.topic, error.node, error.offset) == ("t", node.address, 2)
    assert (error.start, error.end) == (5, 9)
    assert str(error) == f"offset 2 of topic 't' on {node.address} is outside 5..9"


def test_commit_and_groups(node: FakeHttp, client: LogClient) -> None:
    node.json("/log/commit", {})
    node.json("/log/group/delete", {})
    client.commit("t", "g 1", {0: 5, 3: 7})
    client.commit("t", "g", {})
    client.delete_group("t", "g")
    assert [(method, path) for method, path, _ in node.requests] == [
        ("POST", "/log/commit?topic=t&group=g+1"),
        ("POST", "/log/commit?topic=t&group=g"),
        ("POST", "/log/group/delete?topic=t&group=g"),
    ]
    assert json.loads(node.requests[0][2]) == {"offsets": {"0": 5, "3": 7}}
    assert json.loads(node.requests[1][2]) == {"offsets": {}}


def test_the_status_of_a_pipeline(node: FakeHttp, client: LogClient) -> None:
    node.json("/pipelines", {})
    client.tell_pipeline({"id": "q", "rows_read": 2})
    ((method, path, body),) = node.requests
    assert (method, path.partition("?")[0]) == ("POST", "/pipelines")
    assert json.loads(body) == {"id": "q", "rows_read": 2}


def test_offset_at(node: FakeHttp, client: LogClient) -> None:
    node.json("/log/offset_at", {"offset": 8})
    assert client.offset_at("t", 123) == 8
    assert node.requests == [("GET", "/log/offset_at?topic=t&queue=0&timestamp_ns=123", b"")]


def test_an_unknown_topic(node: FakeHttp, client: LogClient) -> None:
    for path in ("/log/offsets", "/log/fetch", "/log/commit"):
        node.json(path, {"message": "TOPIC_NOT_FOUND"}, 404)
    for call in (
        lambda: client.offsets("t"),
        lambda: client.fetch("t", 0),
        lambda: client.commit("t", "g", {}),
    ):
        with pytest.raises(TopicNotFound) as caught:
            call()
        assert (caught.value.topic, caught.value.node) == ("t", node.address)


def test_another_refusal(node: FakeHttp, client: LogClient) -> None:
    node.answers["/log/offsets"] = (500, {}, b"not even JSON")
    with pytest.raises(LogError, match=f"{node.address}: 500"):
        client.offsets("t")


def test_one_connection_is_kept(node: FakeHttp, client: LogClient) -> None:
    node.json("/log/offset_at", {"offset": 8})
    for _ in range(5):
        client.offset_at("t", 1)
    assert node.connections == 1


def test_a_kept_connection_that_was_closed_is_replaced(node: FakeHttp, client: LogClient) -> None:
    node.json("/log/offset_at", {"offset": 8})
    node.hang_up_after = 1
    assert [client.offset_at("t", 1) for _ in range(3)] == [8, 8, 8]
    assert node.connections == 3


def test_nobody_there() -> None:
    address = unused_address()
    with pytest.raises(NodeUnreachable) as caught:
        LogClient(address, timeout=10).fetch("t", 0)
    assert (caught.value.node, caught.value.topic) == (address, "t")
    with pytest.raises(ValueError, match="port"):
        LogClient("nowhere")


def test_a_node_that_is_gone_for_good(client: LogClient) -> None:
    with fake_http() as node:
        node.json("/log/offset_at", {"offset": 8})
        node.hang_up_after = 1
        client = LogClient(node.address, timeout=60)
        assert client.offset_at("t", 1) == 8
    with pytest.raises(NodeUnreachable):
        client.offset_at("t", 1)


BOUNDS = {"queue": {}, "start": 0, "end": "9", "bytes": None}


@pytest.mark.parametrize(
    "answer",
    [
        {}, [], {"queues": 5, "topics": 5, "offset": "x"}, None,
        {"node": "n", "topic": "t", "queues": [BOUNDS]},
        {"node": "n", "topic": "t", "queues": [BOUNDS | {"queue": 0}]},
    ],
)  # fmt: skip
def test_somebody_elses_server(node: FakeHttp, client: LogClient, answer: object) -> None:
    for path in ("/stats", "/log/offsets", "/log/fetch", "/log/offset_at"):
        node.json(path, answer)
    for ask in (
        lambda: client.offsets("t"),
        lambda: client.fetch("t", 5),
        lambda: client.offset_at("t", 5),
    ):
        with pytest.raises(LogError, match="this is not the answer of a Penstock node"):
            ask()


# --- many topics ----------------------------------------------------------------------------------
def told(topic: str, **queue: object) -> dict[str, object]:
    return {"topic": topic, "queues": [{"queue": 0, "start": 5, "end": 9, "bytes": 10} | queue]}


def test_offsets_of_many_topics(node: FakeHttp, client: LogClient) -> None:
    missing = {"topic": "u", "message": "TOPIC_NOT_FOUND"}
    node.json("/log/offsets", {"node": "h:1", "topics": [told("t", log="aa", later=1), missing]})
    found = client.offsets_of(["t", "u"])
    assert found["u"] is None
    assert found["t"] is not None
    assert found["t"].queues == [QueueBounds(0, 5, 9, 10, "aa")]
    assert node.requests == [("POST", "/log/offsets", b'{"topics": ["t", "u"]}')]


def test_so_many_topics_in_a_request(node: FakeHttp, client: LogClient) -> None:
    topics = [f"t{number}" for number in range(TOPICS_MAX + 2)]
    node.json("/log/offsets", {"node": "h:1", "topics": [told(topic) for topic in topics]})
    assert list(client.offsets_of(topics)) == topics
    sizes = [len(json.loads(body)["topics"]) for _, _, body in node.requests]
    assert sizes == [TOPICS_MAX, 2]


def test_an_error_of_one_topic_among_many(node: FakeHttp, client: LogClient) -> None:
    failed = {"topic": "u", "message": "INTERNAL_ERROR"}
    node.json("/log/offsets", {"node": "h:1", "topics": [told("t"), failed]})
    with pytest.raises(LogError, match="500 INTERNAL_ERROR"):
        client.offsets_of(["t", "u"])


def test_a_group_in_many_topics(node: FakeHttp, client: LogClient) -> None:
    in_use = {"message": "GROUP_IN_USE", "owner": "b", "seconds": 12.3}
    gone = {"message": "TOPIC_NOT_FOUND"}
    node.json("/log/commit", {"topics": {"t": {}, "u": in_use, "v": gone}})
    failed = client.commit_all("g", {"t": {0: 5}, "u": {}, "v": {}}, owner="a")
    body = b'{"topics": {"t": {"0": 5}, "u": {}, "v": {}}}'
    assert node.requests == [("POST", "/log/commit?group=g&owner=a", body)]
    assert sorted(failed) == ["u", "v"]
    assert isinstance(failed["v"], TopicNotFound)
    refused = failed["u"]
    assert isinstance(refused, GroupInUse)
    assert (refused.owner, refused.seconds) == ("b", 12.3)
    node.json("/log/group/delete", {"topics": {"t": {}, "u": gone}})
    assert list(client.delete_groups("g", ["t", "u"])) == ["u"]


@pytest.mark.parametrize(("status", "reason"), [(405, ""), (400, "MISSING_ARG_TOPIC")])
def test_a_node_that_takes_one_topic_at_a_time(
    node: FakeHttp, client: LogClient, status: int, reason: str
) -> None:
    node.json("/log/commit", {"message": reason}, status)
    failed = client.commit_all("g", {"t": {0: 5}, "u": {0: 6}})
    assert [path for _, path, _ in node.requests] == [
        "/log/commit?group=g",
        "/log/commit?topic=t&group=g",
        "/log/commit?topic=u&group=g",
    ]
    assert sorted(failed) == ["t", "u"]  # which this one does not take either
    del node.requests[:]
    node.json("/log/group/delete", {})
    assert client.delete_groups("g", ["t", "u"]) == {}
    assert [path for _, path, _ in node.requests] == [
        "/log/group/delete?topic=t&group=g",
        "/log/group/delete?topic=u&group=g",
    ]


def test_the_id_of_the_log(node: FakeHttp, client: LogClient) -> None:
    bounds = {"X-Penstock-Start": "5", "X-Penstock-End": "9", "X-Penstock-Log": "aa"}
    node.answers["/log/fetch"] = (200, bounds, b"batches")
    assert client.fetch("t", 6).log == "aa"
    node.answers["/log/fetch"] = (416, bounds, b'{"message":"OFFSET_OUT_OF_RANGE"}')
    with pytest.raises(OffsetOutOfRange) as caught:
        client.fetch("t", 2)
    assert caught.value.log == "aa"


def test_a_server_without_a_log(node: FakeHttp, client: LogClient) -> None:
    for ask in (lambda: client.offsets("t"), lambda: client.offsets_of(["t", "u"])):
        with pytest.raises(NoLog, match="404 NOT_FOUND"):
            ask()


@pytest.mark.parametrize("seconds", [10**400, -1, "x", None, float("nan")])
def test_seconds_that_are_none(node: FakeHttp, client: LogClient, seconds: object) -> None:
    node.json("/log/commit", {"message": "GROUP_IN_USE", "owner": "b", "seconds": seconds}, 409)
    with pytest.raises(GroupInUse) as refused:
        client.commit("t", "g", {0: 1}, owner="a")
    assert refused.value.seconds == 0


def test_a_node_that_wants_tls(node: FakeHttp, client: LogClient) -> None:
    node.json("/log/offsets", {"message": "TLS_REQUIRED", "https_port": 4152}, 403)
    with pytest.raises(TlsNeeded) as caught:
        client.offsets("t")
    assert caught.value.https_port == 4152


def test_headers_go_with_every_request(node: FakeHttp) -> None:
    node.json("/log/offset_at", {"offset": 8})
    with LogClient(f"http://{node.address}/", headers={"Authorization": "Bearer x"}) as client:
        client.offset_at("t", 1)
    assert node.headers[0]["Authorization"] == "Bearer x"


def test_a_real_node() -> None:
    topic = "t"
    with run_nsqd() as nsqd, Producer(nsqd.tcp) as producer, LogClient(nsqd.http) as log:
        with pytest.raises(TopicNotFound):
            log.offsets(topic)
        producer.multi_publish(topic, [b"%d" % n for n in range(100)])
        log.commit(topic, "g", {})
        assert topic in log.topics()
        offsets = log.offsets(topic)
        [queue] = offsets.queues
        assert (queue.queue, queue.start, queue.end) == (0, 0, 100)
        assert offsets.groups == {"g": {0: 0}}
        fetched = log.fetch(topic, 40)
        assert (fetched.start, fetched.end) == (0, 100)
        assert sum(batch.count for batch in fetched.batches()) == 100
        assert log.fetch(topic, 100).data == b""
        with pytest.raises(OffsetOutOfRange) as caught:
            log.fetch(topic, 101)
        assert (caught.value.start, caught.value.end) == (0, 100)
        log.commit(topic, "g", {0: 50})
        assert log.offsets(topic).groups == {"g": {0: 50}}
        assert log.offset_at(topic, 0) == 0
        log.delete_group(topic, "g")
        assert log.offsets(topic).groups == {}


async def test_the_bounds_of_the_first_queue(fake: StartFake, http: HttpClient) -> None:
    node: FakeDaemon = await fake()
    node.answers["/log/offsets"] = {"queues": [{"queue": 0, "start": 3, "end": 9, "bytes": 5}]}
    assert await bounds_of(http, node.address, "a b") == Bounds(3, 9)
    assert node.asked == ["GET /log/offsets?topic=a+b"]
    node.answers["/log/offsets"] = {"queues": []}
    with pytest.raises(UnexpectedError):
        await bounds_of(http, node.address, "t")
