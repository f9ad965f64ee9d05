"""Addresses of nodes and the topics to ask them for."""

from __future__ import annotations

import pytest

from penstock.spark.errors import SourceError
from penstock.spark.nodes import directory as module
from penstock.spark.nodes.directory import Directory
from penstock.spark.settings import Settings
from tools.harness.fake_log_server import FakeLogServer


def directory(**options: str) -> Directory:
    return Directory(Settings.parse({"timeout": "60", **options}))


def test_given_nodes_are_asked_for_all_topics() -> None:
    found = directory(topic="a,b", nsqd_http_address="h:1,i:2").topics_at()
    assert found == {"h:1": ["a", "b"], "i:2": ["a", "b"]}


def test_each_node_is_asked_for_its_topics(server: FakeLogServer) -> None:
    with FakeLogServer() as other:
        server.queue("a")
        other.queue("b")
        other.queue("c#ephemeral")
        both = f"{server.address},{other.address}"
        found = directory(topic="*", nsqd_http_address=both).topics_at()
    assert found == {server.address: ["a"], other.address: ["b"]}


@pytest.mark.parametrize("where", ["nsqd_http_address", "lookupd_http_address"])
def test_topics_that_match_a_pattern(server: FakeLogServer, where: str) -> None:
    for topic in ("log.a", "log.b", "my.log.a", "log.c#ephemeral"):
        server.queue(topic)
    server.producers.append(server.address)
    found = directory(topicPattern="log[.].*", **{where: server.address}).topics_at()
    assert found == {server.address: ["log.a", "log.b"]}


def test_nsqlookupd_is_asked_once_in_a_while(
    server: FakeLogServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "LOOKUP_EVERY_NS", 1 << 62)
    server.producers += ["h:1"]
    asked = directory(topic="a,b", lookupd_http_address=server.address)
    for _ in range(3):
        assert asked.topics_at() == {"h:1": ["a", "b"]}
    assert server.requests == ["/lookup", "/lookup"]


@pytest.mark.parametrize("topic", ["t,u", "*"])
def test_a_silent_nsqlookupd_leaves_what_was_known(
    server: FakeLogServer, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture,
    topic: str,
) -> None:  # fmt: skip
    monkeypatch.setattr(module, "LOOKUP_EVERY_NS", -1)
    monkeypatch.setattr(module, "_BRIEFLY_S", 60)
    for each in ("t", "u"):
        server.queue(each)
    server.producers.append(server.address)
    asked = directory(topic=topic, lookupd_http_address=server.address)
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
    monkeypatch.setattr(module, "LOOKUP_EVERY_NS", -1)
    server.queue("t")
    asked = directory(topic="*", nsqd_http_address=server.address)
    assert asked.topics_at() == {server.address: ["t"]}
    monkeypatch.setattr(server, "answer", lambda *_: (500, {"message": "DOWN"}))
    with pytest.raises(SourceError, match=r"cannot be asked for its topics: .*500 DOWN"):
        asked.topics_at()


def test_a_path_of_nsqlookupd_is_kept(server: FakeLogServer) -> None:
    server.producers += ["h:1"]
    server.queue("a")
    url = f"http://{server.address}/lookup?token=1"
    assert directory(topic="*", lookupd_http_address=url).topics_at() == {"h:1": ["a"]}
    assert server.requests == ["/nodes"]
