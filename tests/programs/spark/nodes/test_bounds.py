"""Discovery, retries and errors over a log server in a thread."""

from __future__ import annotations

import pytest

from penstock.spark.access import Access, close_connections
from penstock.spark.errors import GroupTakenError, SourceError
from penstock.spark.nodes import bounds as bounds_module
from penstock.spark.nodes.bounds import Cluster
from penstock.spark.offsets import Bounds, Place
from penstock.spark.settings import Settings
from tools.harness.fake_log_server import FakeLogServer


@pytest.fixture(autouse=True)
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """A log server that is slow to answer on a busy machine is there all the same."""
    monkeypatch.setattr(bounds_module, "_GIVE_UP_S", 60.0)


def settings(server: FakeLogServer, topic: str = "t", **options: str) -> Settings:
    given = {"topic": topic, "nsqd_http_address": server.address, "timeout": "60"}
    return Settings.parse({**given, **options})


def ends(bounds: dict[Place, Bounds]) -> dict[Place, int]:
    return {place: bound.end for place, bound in bounds.items()}


def test_bounds_of_all_queues(server: FakeLogServer) -> None:
    server.queue("t", 0).append([b"a", b"b"])
    server.queue("t", 1).append([b"c"])
    bounds = Cluster(settings(server)).bounds()
    ends = {place: (bound.start, bound.end) for place, bound in bounds.items()}
    assert ends == {Place("t", server.node, 0): (0, 2), Place("t", server.node, 1): (0, 1)}


def test_a_node_known_by_another_name_is_asked_at_the_given_address() -> None:
    with FakeLogServer(node="inside:4151") as server:
        server.queue("t").append([b"a"])
        cluster = Cluster(settings(server))
        (place,) = cluster.bounds()
        assert place.node == "inside:4151"
        cluster.commit({Place("t", "inside:4151", 0): 1}, "g")
        assert server.groups == {"t": {"g": {"0": 1}}}
        close_connections()


def test_two_nodes_with_one_log_are_refused(server: FakeLogServer) -> None:
    server.queue("t").append([b"a"] * 2)
    with FakeLogServer() as other:
        other.queue("t").append([b"a"] * 3)
        # Also where one was restored since, whose log has another epoch.
        other.queue("t").log = server.queue("t").log + "-1.9f3a77c1"
        both = f"{server.address},{other.address}"
        with pytest.raises(SourceError) as refused:
            Cluster(settings(server, nsqd_http_address=both)).bounds()
        assert str(refused.value).startswith(
            f"nodes {server.node} and {other.node} have one log of topic t (id "
            f"{server.queue('t').log}): the data path of one is a copy of the other's"
        )
        assert "Name one of the two in nsqd_http_address, or stop one" in str(refused.value)


def test_two_nodes_of_one_name_are_refused(server: FakeLogServer) -> None:
    server.queue("t").append([b"a"])
    with FakeLogServer(node=server.node) as other:
        other.queue("t").append([b"b"])
        both = f"{server.address},{other.address}"
        with pytest.raises(SourceError) as refused:
            Cluster(settings(server, nsqd_http_address=both)).bounds()
        assert str(refused.value) == (
            f"two nodes call themselves {server.node}, at {server.address} and {other.address}: "
            "give each another --broadcast-address or HTTP port"
        )
        close_connections()


def test_a_node_without_the_topics_is_not_asked_for_its_https_port(
    server: FakeLogServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    server.queue("t").append([b"a"])
    given = {"topicPattern": "t", "lookupd_http_address": server.address, "timeout": "60"}
    asked: list[str] = []

    def secured(address: str, _: Access) -> str:
        asked.append(address)
        return address

    monkeypatch.setattr(bounds_module, "secured", secured)
    cluster = Cluster(Settings.parse(given))
    monkeypatch.setattr(
        cluster._directory, "topics_at", lambda: {server.address: ["t"], "127.0.0.1:9": []}
    )
    assert {place.topic for place in cluster.bounds()} == {"t"}
    assert asked == [server.address]


def test_two_nodes_of_which_one_has_the_topic(server: FakeLogServer) -> None:
    server.queue("t").append([b"a"])
    with FakeLogServer() as other:
        both = f"{server.address},{other.address}"
        bounds = Cluster(settings(server, nsqd_http_address=both)).bounds()
        assert {place.node for place in bounds} == {server.node}
        with pytest.raises(SourceError, match=f"topic u does not exist on any of {both[:9]}"):
            Cluster(settings(server, topic="u", nsqd_http_address=both)).bounds()


def test_nobody_home() -> None:
    remedy = "(tried for 1 s; option timeout); start it and run the same command to go on"
    for topic, option, said in (
        ("t", "nsqd_http_address", "node 127.0.0.1:9 cannot be reached for topic t: "),
        ("t", "lookupd_http_address", "no nsqlookupd answers for topic t: 127.0.0.1:9: "),
        ("*", "lookupd_http_address", "no nsqlookupd answers: 127.0.0.1:9: "),
    ):
        nowhere = Settings.parse({"topic": topic, option: "127.0.0.1:9", "timeout": "1"})
        with pytest.raises(SourceError) as failed:
            Cluster(nowhere).bounds()
        assert str(failed.value) == f"{said}connection refused {remedy}"


@pytest.mark.parametrize(
    ("status", "said"),
    [
        (404, "node {} has no log to read: it is Go's nsqd, or none at all."),
        (403, "node {}: 403 NO"),
    ],
)
def test_somebody_else_is_home(
    server: FakeLogServer, monkeypatch: pytest.MonkeyPatch, status: int, said: str
) -> None:
    message = {"message": "NOT_FOUND" if status == 404 else "NO"}
    monkeypatch.setattr(server, "answer", lambda *_: (status, message))
    with pytest.raises(SourceError) as failed:
        Cluster(settings(server, "*")).bounds()
    assert str(failed.value).startswith(said.format(server.address))


def test_nobody_has_the_topic(server: FakeLogServer) -> None:
    asked = Settings.parse({"topic": "t", "lookupd_http_address": server.address})
    with pytest.raises(SourceError) as failed:
        Cluster(asked).bounds()
    said = f"no node with topic t is known to nsqlookupd {server.address}"
    assert str(failed.value) == said
    # Known to nsqlookupd, but gone from the node.
    server.producers.append(server.address)
    with pytest.raises(SourceError, match=f"topic t does not exist on node {server.address}"):
        Cluster(asked).bounds()


def test_a_topic_that_was_read_and_is_gone(server: FakeLogServer) -> None:
    asked = Settings.parse({"topic": "t", "nsqd_http_address": server.address})
    read = {Place("t", server.node, 0): 10}
    with pytest.raises(SourceError) as failed:
        Cluster(asked).bounds(read)
    assert str(failed.value) == (
        f"topic t was deleted on node {server.node}: it was read up to offset 10 there, and what "
        "came after that is lost. Once it is there again, set failOnDataLoss=false to read it from "
        "its start"
    )


def test_a_commit_to_a_node_that_is_gone() -> None:
    cluster = Cluster(Settings.parse({"topic": "t", "nsqd_http_address": "127.0.0.1:9"}))
    with pytest.raises(SourceError) as failed:
        cluster.commit({Place("t", "127.0.0.1:9", 0): 1}, "g")
    assert str(failed.value) == "topic t on node 127.0.0.1:9: connection refused"


def test_many_topics_take_one_request_for_each_thing(server: FakeLogServer) -> None:
    topics = [f"t{number}" for number in range(202)]
    for topic in topics:
        server.queue(topic).append([b"a"])
    cluster = Cluster(settings(server, "*"))
    bounds = cluster.bounds()
    assert len(bounds) == 202
    cluster.commit(ends(bounds), "g")
    cluster.give_up(bounds, "h")
    assert server.requests == ["/stats", "/log/offsets", "/log/commit", "/log/group/delete"]
    assert server.groups["t201"] == {"g": {"0": 1}}


def test_an_older_node_is_asked_for_one_topic_after_the_other() -> None:
    with FakeLogServer(kind="old") as old:
        for topic in "abc":
            old.queue(topic).append([b"a"])
        cluster = Cluster(settings(old, "a,b,c"))
        bounds = cluster.bounds()
        cluster.commit(ends(bounds), "g", "me")
        assert old.groups == {topic: {"g": {"0": 1}} for topic in "abc"}
        assert {bound.log for bound in bounds.values()} == {""}
        cluster.give_up(bounds, "g")
        assert old.groups == {topic: {} for topic in "abc"}
        close_connections()


def test_nodes_and_all_their_topics_in_one_question_to_nsqlookupd(server: FakeLogServer) -> None:
    for topic in ("a", "b", "c#ephemeral"):
        server.queue(topic).append([b"a"])
    server.producers.append(server.address)
    asked = Settings.parse({"topic": "*", "lookupd_http_address": server.address})
    assert {place.topic for place in Cluster(asked).bounds()} == {"a", "b"}
    assert server.requests == ["/nodes", "/log/offsets"]


def test_a_node_without_a_log_is_an_error_or_left_out(
    server: FakeLogServer, caplog: pytest.LogCaptureFixture
) -> None:
    server.queue("t").append([b"a"])
    with FakeLogServer(kind="go") as theirs:
        theirs.queue("t")
        both = f"{server.address},{theirs.address}"
        with pytest.raises(SourceError) as refused:
            Cluster(settings(server, nsqd_http_address=both)).bounds()
        assert str(refused.value) == (
            f"node {theirs.address} has no log to read: it is Go's nsqd, or none at all. Copy its "
            "topics to a node of Penstock with nsq_to_nsq, or set skipNodesWithoutLog=true to read "
            "the others"
        )
        cluster = Cluster(settings(server, nsqd_http_address=both, skipNodesWithoutLog="true"))
        for _ in range(2):
            assert {place.node for place in cluster.bounds()} == {server.node}
        (warning,) = caplog.messages
        assert warning.startswith(f"node {theirs.address} has no log to read")
        close_connections()


def test_a_group_that_another_query_moves(server: FakeLogServer) -> None:
    server.queue("t").append([b"a"])
    cluster = Cluster(settings(server))
    places = ends(cluster.bounds())
    cluster.claim(places, "g", "first")
    assert server.groups["t"]["g"] == {"0": 0}
    cluster.commit(places, "g", "first")
    for ask in (cluster.commit, cluster.claim):
        with pytest.raises(GroupTakenError) as refused:
            ask(places, "g", "second")
        assert str(refused.value) == (
            "group g is in use by another query (owner first moved it in topic t on node "
            f"{server.node} 12 s ago): give each query a group by itself. If that query has "
            "ended, start this one a minute after it"
        )


def test_a_group_is_given_up_even_where_it_is_not(
    server: FakeLogServer, caplog: pytest.LogCaptureFixture
) -> None:
    server.queue("t").append([b"a"])
    cluster = Cluster(settings(server))
    cluster.commit({Place("t", server.node, 0): 1}, "g")
    cluster.give_up([Place("t", server.node, 0), Place("u", server.node, 0)], "g")
    assert server.groups["t"] == {}
    assert caplog.messages == []
    cluster.give_up([Place("t", "127.0.0.1:9", 0)], "g")
    (warning,) = caplog.messages
    assert warning.startswith("group g still holds the log of topic t on node 127.0.0.1:9, ")


def test_the_secret_goes_with_every_request(server: FakeLogServer) -> None:
    server.queue("t").append([b"a"])
    server.producers.append(server.address)
    given = {"topic": "t", "lookupd_http_address": server.address, "auth_secret": "s3cret"}
    cluster = Cluster(Settings.parse(given))
    cluster.commit(ends(cluster.bounds()), "g")
    assert server.requests == ["/lookup", "/log/offsets", "/log/commit"]
    sent = [headers["Authorization"] for headers in server.headers]
    assert sent == ["Bearer s3cret"] * 3
