"""Taking turns among nodes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from penstock.spark.errors import SinkError, SourceError
from penstock.spark.sink import nodes as module
from penstock.spark.sink.nodes import Connections, Nodes, known_nodes
from penstock.spark.sink.settings import Settings
from tests.unit.spark.sink.fake_node import FakeNode
from tests.unit.spark.sink.making import settings

NOWHERE = "127.0.0.1:9"


def test_nodes_take_turns_and_one_that_failed_comes_last(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_AVOID_NS", 1 << 62)
    nodes = Nodes(Settings.parse({"nsqd_http_address": "a:1,b:1,c:1"}), turn=0)
    assert nodes.by_turns() == ["b:1", "c:1", "a:1"]
    assert nodes.by_turns() == ["c:1", "a:1", "b:1"]
    nodes.failed("a:1")
    assert nodes.by_turns() == ["b:1", "c:1", "a:1"]
    assert nodes.by_turns() == ["b:1", "c:1", "a:1"]


def test_nsqlookupd_names_the_nodes(node: FakeNode) -> None:
    found = Nodes(
        Settings.parse({"lookupd_http_address": node.address, "auth_secret": "s"}), turn=0
    )
    assert found.by_turns() == [node.address]
    assert node.headers[-1]["Authorization"] == "Bearer s"
    node.refuse = lambda *_: (200, {"producers": []})
    found.look_again()
    assert found.by_turns() == [node.address]


@pytest.mark.usefixtures("hasty")
def test_an_nsqlookupd_without_nodes_or_without_an_answer(node: FakeNode) -> None:
    options = {"lookupd_http_address": node.address, "timeout": "60"}
    node.refuse = lambda *_: (200, {"producers": []})
    with pytest.raises(SinkError) as none:
        Nodes(Settings.parse(options), turn=0)
    assert str(none.value) == f"nsqlookupd {node.address} knows no nsqd to write to"
    node.refuse = lambda *_: (500, {})
    with pytest.raises(SourceError, match="no nsqlookupd answers: "):
        Nodes(Settings.parse(options), turn=0)


def test_a_task_goes_to_the_nodes_that_nsqlookupd_named_before(
    node: FakeNode, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    given = Settings.parse({"lookupd_http_address": node.address, "timeout": "60"})
    assert Nodes(given, turn=0).by_turns() == [node.address]
    answers: tuple[tuple[int, Any], ...] = ((500, {}), (200, {"producers": []}))
    for answer in answers:
        monkeypatch.setattr(node, "refuse", lambda *_, told=answer: told)
        assert Nodes(given, turn=0).by_turns() == [node.address]
    assert [each.partition(":")[0] for each in caplog.messages] == [
        "no nsqlookupd answers",
        f"nsqlookupd {node.address.partition(':')[0]}",
    ]
    with pytest.raises(SinkError, match="knows no nsqd to write to"):
        known_nodes(given, given.access)


def test_a_silent_node_is_asked_for_its_https_port_as_long_as_wanted() -> None:
    access = Settings.parse(
        {"nsqd_http_address": NOWHERE, "tls_v1": "true", "timeout": "60"}
    ).access
    with (
        Connections(access, port_timeout_s=0.5) as connections,
        pytest.raises(SourceError, match=r"cannot be asked for its HTTPS port.*tried for 0\.5 s"),
        connections.to(NOWHERE),
    ):
        pass


def test_connections_are_kept_and_not_shared(start_node: Callable[..., FakeNode]) -> None:
    node = start_node()
    access = settings(node, auth_secret="s").access
    with Connections(access) as connections:
        with connections.to(node.address) as one, connections.to(node.address) as two:
            assert one is not two
            assert one.delays_many()
        with connections.to(node.address) as again:
            assert again is two or again is one
    assert node.headers[-1]["Authorization"] == "Bearer s"
