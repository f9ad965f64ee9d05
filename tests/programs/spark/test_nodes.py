"""The nodes that a stream reads: which there are, their bounds, and those that left."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest

from penstock.spark.access import Access, close_connections
from penstock.spark.errors import GroupTakenError, SourceError
from penstock.spark.nodes import bounds as bounds_module
from penstock.spark.nodes import directory, lost_places
from penstock.spark.nodes.bounds import Cluster
from penstock.spark.nodes.directory import Directory
from penstock.spark.offsets import Bounds, Place
from penstock.spark.source_settings import SourceSettings
from tools.harness.fake_log_server import FakeLogServer


@pytest.fixture(autouse=True)
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """A log server that is slow to answer on a busy machine is there all the same."""
    monkeypatch.setattr(bounds_module, "_GIVE_UP_S", 60.0)


def looking(**options: str) -> Directory:
    return Directory(SourceSettings.parse({"timeout": "60", **options}))


def test_given_nodes_are_asked_for_all_topics() -> None:
    found = looking(topic="a,b", nsqd_http_address="h:1,i:2").topics_at()
    assert found == {"h:1": ["a", "b"], "i:2": ["a", "b"]}


def test_each_node_is_asked_for_its_topics(server: FakeLogServer) -> None:
    with FakeLogServer() as other:
        server.queue("a")
        other.queue("b")
        other.queue("c#ephemeral")
        both = f"{server.address},{other.address}"
        found = looking(topic="*", nsqd_http_address=both).topics_at()
    assert found == {server.address: ["a"], other.address: ["b"]}


@pytest.mark.parametrize("where", ["nsqd_http_address", "lookupd_http_address"])
def test_topics_that_match_a_pattern(server: FakeLogServer, where: str) -> None:
    for topic in ("log.a", "log.b", "my.log.a", "log.c#ephemeral"):
        server.queue(topic)
    server.producers.append(server.address)
    found = looking(topicPattern="log[.].*", **{where: server.address}).topics_at()
    assert found == {server.address: ["log.a", "log.b"]}


def test_nsqlookupd_is_asked_once_in_a_while(
    server: FakeLogServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(directory, "LOOKUP_EVERY_NS", 1 << 62)
    server.producers += ["h:1"]
    asked = looking(topic="a,b", lookupd_http_address=server.address)
    for _ in range(3):
        assert asked.topics_at() == {"h:1": ["a", "b"]}
    assert server.requests == ["/lookup", "/lookup"]


@pytest.mark.parametrize("topic", ["t,u", "*"])
def test_a_silent_nsqlookupd_leaves_what_was_known(
    server: FakeLogServer, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture,
    topic: str,
) -> None:  # fmt: skip
    monkeypatch.setattr(directory, "LOOKUP_EVERY_NS", -1)
    monkeypatch.setattr(directory, "_BRIEFLY_S", 60)
    for each in ("t", "u"):
        server.queue(each)
    server.producers.append(server.address)
    asked = looking(topic=topic, lookupd_http_address=server.address)
    known = dict(asked.topics_at())
    assert known == {server.address: ["t", "u"]}
    answer = server.answer
    monkeypatch.setattr(server, "answer", lambda *_: (500, {"message": "DOWN"}))
    server.requests.clear()
    assert asked.topics_at() == asked.topics_at() == known
    of_one_look = 1 if topic == "*" else 2
    assert len(server.requests) == 2 * of_one_look, "what is known serves, so it asks once"
    assert len(caplog.messages) == of_one_look
    assert caplog.messages[0].startswith("no nsqlookupd answers")
    assert caplog.messages[0].endswith("It goes on with the nodes that were known before")
    monkeypatch.setattr(server, "answer", answer)
    server.producers.append("h:1")
    assert asked.topics_at().keys() == {server.address, "h:1"}


def test_nodes_that_are_named_and_silent_end_the_search_for_topics(
    server: FakeLogServer, monkeypatch: pytest.MonkeyPatch, hasty: None
) -> None:
    monkeypatch.setattr(directory, "LOOKUP_EVERY_NS", -1)
    server.queue("t")
    asked = looking(topic="*", nsqd_http_address=server.address)
    assert asked.topics_at() == {server.address: ["t"]}
    monkeypatch.setattr(server, "answer", lambda *_: (500, {"message": "DOWN"}))
    with pytest.raises(SourceError, match=r"cannot be asked for its topics: .*500 DOWN"):
        asked.topics_at()


def test_a_path_of_nsqlookupd_is_kept(server: FakeLogServer) -> None:
    server.producers += ["h:1"]
    server.queue("a")
    url = f"http://{server.address}/lookup?token=1"
    assert looking(topic="*", lookupd_http_address=url).topics_at() == {"h:1": ["a"]}
    assert server.requests == ["/nodes"]


def settings_of(server: FakeLogServer, topic: str = "t", **options: str) -> SourceSettings:
    given = {"topic": topic, "nsqd_http_address": server.address, "timeout": "60"}
    return SourceSettings.parse({**given, **options})


def ends(bounds: dict[Place, Bounds]) -> dict[Place, int]:
    return {place: bound.end for place, bound in bounds.items()}


def test_bounds_of_all_queues(server: FakeLogServer) -> None:
    server.queue("t", 0).append([b"a", b"b"])
    server.queue("t", 1).append([b"c"])
    bounds = Cluster(settings_of(server)).bounds()
    ends = {place: (bound.start, bound.end) for place, bound in bounds.items()}
    assert ends == {Place("t", server.node, 0): (0, 2), Place("t", server.node, 1): (0, 1)}


def test_a_node_known_by_another_name_is_asked_at_the_given_address() -> None:
    with FakeLogServer(node="inside:4151") as server:
        server.queue("t").append([b"a"])
        cluster = Cluster(settings_of(server))
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
            Cluster(settings_of(server, nsqd_http_address=both)).bounds()
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
            Cluster(settings_of(server, nsqd_http_address=both)).bounds()
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
    cluster = Cluster(SourceSettings.parse(given))
    monkeypatch.setattr(
        cluster._directory, "topics_at", lambda: {server.address: ["t"], "127.0.0.1:9": []}
    )
    assert {place.topic for place in cluster.bounds()} == {"t"}
    assert asked == [server.address]


def test_two_nodes_of_which_one_has_the_topic(server: FakeLogServer) -> None:
    server.queue("t").append([b"a"])
    with FakeLogServer() as other:
        both = f"{server.address},{other.address}"
        bounds = Cluster(settings_of(server, nsqd_http_address=both)).bounds()
        assert {place.node for place in bounds} == {server.node}
        with pytest.raises(SourceError, match=f"topic u does not exist on any of {both[:9]}"):
            Cluster(settings_of(server, topic="u", nsqd_http_address=both)).bounds()


def test_nobody_home() -> None:
    remedy = "(tried for 1 s; option timeout); start it and run the same command to go on"
    for topic, option, said in (
        ("t", "nsqd_http_address", "node 127.0.0.1:9 cannot be reached for topic t: "),
        ("t", "lookupd_http_address", "no nsqlookupd answers for topic t: 127.0.0.1:9: "),
        ("*", "lookupd_http_address", "no nsqlookupd answers: 127.0.0.1:9: "),
    ):
        nowhere = SourceSettings.parse({"topic": topic, option: "127.0.0.1:9", "timeout": "1"})
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
        Cluster(settings_of(server, "*")).bounds()
    assert str(failed.value).startswith(said.format(server.address))


def test_nobody_has_the_topic(server: FakeLogServer) -> None:
    asked = SourceSettings.parse({"topic": "t", "lookupd_http_address": server.address})
    with pytest.raises(SourceError) as failed:
        Cluster(asked).bounds()
    said = f"no node with topic t is known to nsqlookupd {server.address}"
    assert str(failed.value) == said
    # Known to nsqlookupd, but gone from the node.
    server.producers.append(server.address)
    with pytest.raises(SourceError, match=f"topic t does not exist on node {server.address}"):
        Cluster(asked).bounds()


def test_a_topic_that_was_read_and_is_gone(server: FakeLogServer) -> None:
    asked = SourceSettings.parse({"topic": "t", "nsqd_http_address": server.address})
    read = {Place("t", server.node, 0): 10}
    with pytest.raises(SourceError) as failed:
        Cluster(asked).bounds(read)
    assert str(failed.value) == (
        f"topic t was deleted on node {server.node}: it was read up to offset 10 there, and what "
        "came after that is lost. Once it is there again, set failOnDataLoss=false to read it from "
        "its start"
    )


def test_a_commit_to_a_node_that_is_gone() -> None:
    cluster = Cluster(SourceSettings.parse({"topic": "t", "nsqd_http_address": "127.0.0.1:9"}))
    with pytest.raises(SourceError) as failed:
        cluster.commit({Place("t", "127.0.0.1:9", 0): 1}, "g")
    assert str(failed.value) == "topic t on node 127.0.0.1:9: connection refused"


def test_many_topics_take_one_request_for_each_thing(server: FakeLogServer) -> None:
    topics = [f"t{number}" for number in range(202)]
    for topic in topics:
        server.queue(topic).append([b"a"])
    cluster = Cluster(settings_of(server, "*"))
    bounds = cluster.bounds()
    assert len(bounds) == 202
    cluster.commit(ends(bounds), "g")
    cluster.give_up(bounds, "h")
    assert server.requests == [
        "/stats", "/log/changes", "/log/offsets", "/log/commit", "/log/group/delete"
    ]  # fmt: skip
    assert server.groups["t201"] == {"g": {"0": 1}}


def test_of_many_topics_those_are_asked_for_that_have_changed(server: FakeLogServer) -> None:
    for number in range(30):
        server.queue(f"t{number}").append([b"a"])
    cluster = Cluster(settings_of(server, "*"))
    bounds = cluster.bounds()
    server.requests.clear()
    assert not cluster.has_news()
    assert cluster.bounds() is bounds
    assert server.requests == ["/log/changes"] * 2

    server.queue("t7").append([b"b", b"c"])
    assert cluster.has_news()
    assert cluster.bounds() == bounds | {
        place: bound._replace(end=3, bytes=cluster.bounds()[place].bytes)
        for place, bound in bounds.items()
        if place.topic == "t7"
    }
    server.delete("t8")
    server.queue("t9").end = 1
    assert {place.topic for place in bounds} - {place.topic for place in cluster.bounds()} == {"t8"}
    # A node that was started again knows none of the numbers that it gave out.
    server.revision, server._ends, server._revisions = 0, {}, {}
    assert len(cluster.bounds()) == 29


def test_a_node_of_an_earlier_version_is_asked_for_all_topics() -> None:
    with FakeLogServer(kind="old") as old:
        for number in range(20):
            old.queue(f"t{number}").append([b"a"])
        cluster = Cluster(settings_of(old, "*"))
        bounds = cluster.bounds()
        assert cluster.bounds() is bounds
        old.queue("t3").append([b"b"])
        assert cluster.has_news()
        assert old.requests.count("/log/changes") == 1


def test_an_older_node_is_asked_for_one_topic_after_the_other() -> None:
    with FakeLogServer(kind="old") as old:
        for topic in "abc":
            old.queue(topic).append([b"a"])
        cluster = Cluster(settings_of(old, "a,b,c"))
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
    asked = SourceSettings.parse({"topic": "*", "lookupd_http_address": server.address})
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
            Cluster(settings_of(server, nsqd_http_address=both)).bounds()
        assert str(refused.value) == (
            f"node {theirs.address} has no log to read: it is Go's nsqd, or none at all. Copy its "
            "topics to a node of Penstock with nsq_to_nsq, or set skipNodesWithoutLog=true to read "
            "the others"
        )
        cluster = Cluster(settings_of(server, nsqd_http_address=both, skipNodesWithoutLog="true"))
        for _ in range(2):
            assert {place.node for place in cluster.bounds()} == {server.node}
        (warning,) = caplog.messages
        assert warning.startswith(f"node {theirs.address} has no log to read")
        close_connections()


def test_a_group_that_another_query_moves(server: FakeLogServer) -> None:
    server.queue("t").append([b"a"])
    cluster = Cluster(settings_of(server))
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
    cluster = Cluster(settings_of(server))
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
    cluster = Cluster(SourceSettings.parse(given))
    cluster.commit(ends(cluster.bounds()), "g")
    assert server.requests == ["/lookup", "/log/offsets", "/log/commit"]
    sent = [headers["Authorization"] for headers in server.headers]
    assert sent == ["Bearer s3cret"] * 3


@pytest.fixture
def look_each_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(directory, "LOOKUP_EVERY_NS", -1)
    monkeypatch.setattr(lost_places, "_ASK_AGAIN_NS", -1)
    monkeypatch.setattr(lost_places, "_HURRIED_S", 60.0)  # a busy machine is none that has left


@pytest.fixture
def other() -> Iterator[FakeLogServer]:
    with FakeLogServer() as other:
        other.queue("t").append([b"x"] * 10)
        yield other
        close_connections()


@pytest.fixture
def both(server: FakeLogServer, other: FakeLogServer, look_each_time: None) -> FakeLogServer:
    """An nsqlookupd and node that knows the other node too."""
    server.queue("t").append([b"x"] * 10)
    server.producers += [server.address, other.address]
    return server


def cluster(both: FakeLogServer, **options: str) -> Cluster:
    given = {"topic": "t", "lookupd_http_address": both.address, "timeout": "60", **options}
    return Cluster(SourceSettings.parse(given))


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
    look = lost_places.LostPlaces._ask
    tries = threading.Semaphore(3)

    def ask(self: lost_places.LostPlaces, *arguments: object) -> object:
        if tries.acquire(blocking=False):
            raise SourceError("not yet") if tries._value == 2 else ConnectionRefusedError
        return look(self, *arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(lost_places.LostPlaces, "_ask", ask)
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
    assert gone not in Cluster(SourceSettings.parse(given)).bounds({gone: 4})
    assert caplog.messages == [
        "node 127.0.0.1:9 is not in nsqd_http_address any more; not read on it: topic t from "
        "offset 4 on"
    ]
