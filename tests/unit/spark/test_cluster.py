"""Discovery, retries and errors over a log server in a thread."""

from __future__ import annotations

import pytest

from penstock.spark.cluster import Cluster, close_connections, fetch
from penstock.spark.errors import SourceError
from penstock.spark.offsets import Place
from penstock.spark.planning import Split
from penstock.spark.settings import Settings
from tests.spark.fake_log_server import FakeLogServer


def settings(server: FakeLogServer, topic: str = "t", **options: str) -> Settings:
    given = {"topic": topic, "nsqd_http_address": server.address, "timeout": "1"}
    return Settings.parse({**given, **options})


def split(server: FakeLogServer, start: int) -> Split:
    return Split(Place("t", "node:1", 0), server.address, start, 99, 10.0)


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
        cluster.commit({"t": {"inside:4151": {"0": 1}}}, "g")
        assert server.groups == {"t": {"g": {"0": 1}}}
        close_connections()


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
        ("*", "lookupd_http_address", "127.0.0.1:9 cannot be asked for its topics: "),
    ):
        nowhere = Settings.parse({"topic": topic, option: "127.0.0.1:9", "timeout": "1"})
        with pytest.raises(SourceError) as failed:
            Cluster(nowhere).bounds()
        assert str(failed.value) == f"{said}connection refused {remedy}"


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


def test_a_commit_to_a_node_that_is_gone() -> None:
    cluster = Cluster(Settings.parse({"topic": "t", "nsqd_http_address": "127.0.0.1:9"}))
    with pytest.raises(SourceError) as failed:
        cluster.commit({"t": {"127.0.0.1:9": {"0": 1}}}, "g")
    assert str(failed.value) == "topic t on node 127.0.0.1:9: connection refused"


def test_fetch_says_what_is_wrong(server: FakeLogServer) -> None:
    server.queue("t").append([b"a"] * 10)
    server.queue("t").start = 5
    given = settings(server)
    assert len(fetch(split(server, 5), 5, 1000, given)) > 0
    with pytest.raises(SourceError, match=r"offset 4 of topic t .*node:1 is gone: .* starts at 5"):
        fetch(split(server, 4), 4, 1000, given)
    with pytest.raises(SourceError, match=r"offset 11 of topic t .*node:1 is beyond its end 10"):
        fetch(split(server, 11), 11, 1000, given)
    server.fail_fetches = 100
    with pytest.raises(
        SourceError, match=r"topic t .* cannot be read from offset 5: .*TRY_LATER"
    ) as busy:
        fetch(split(server, 5), 5, 1000, given)
    assert "start it" not in str(busy.value)
    del server.topics["t"]
    with pytest.raises(SourceError, match="has vanished; offset 5 was to be read"):
        fetch(split(server, 5), 5, 1000, given)
