"""The two daemons as children: started, told what to keep, stopped."""

from __future__ import annotations

import json
import socket
import urllib.request
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from penstock.cli.live.children import Child, ServiceError, stop_all
from penstock.cli.live.daemons import Daemons
from penstock.cli.live.display import Board
from penstock.cli.live.nodes import HOST, Ports
from penstock.core.ids import counter
from penstock.log_api.log_client import LogClient
from penstock.nsq.client import Config
from penstock.nsq.client.blocking import Consumer, Producer
from penstock.nsq.client.lookup import Node, lookup
from tests.forwarding import wait_until
from tests.metrics_pages import ask


@pytest.fixture
def children() -> Iterator[list[Child]]:
    started: list[Child] = []
    yield started
    stop_all(started)


def nodes_of(admin: str) -> list[object]:
    """The nodes that nsqadmin, at this URL, has heard of."""
    with urllib.request.urlopen(f"{admin}api/nodes", timeout=30) as answer:
        return list(json.load(answer)["nodes"] or ())


def found_by(daemons: Daemons) -> list[Node]:
    """The nodes with topic t that nsqlookupd knows."""
    return lookup([daemons.lookupd_http], "t", 60.0)


def test_a_topic_is_found_and_held(tmp_path: Path, children: list[Child]) -> None:
    board = Board("test")
    daemons = Daemons(tmp_path, Ports.free(), board)
    assert [service.state for service in board.services] == ["waiting"] * 3
    daemons.start(children)
    assert [(service.name, service.state) for service in board.services] == [
        ("nsqlookupd", "ready"), ("nsqd", "ready"), ("nsqadmin", "ready"),
    ]  # fmt: skip
    admin = board.service("nsqadmin").detail
    wait_until(lambda: bool(nodes_of(admin)), lambda: "nsqd has not told nsqlookupd of itself")
    assert len(nodes_of(admin)) == 1
    for address in (daemons.lookupd_http, daemons.nsqd_http, urlsplit(admin).netloc):
        assert ask(address, "/metrics")[0] == 200
    daemons.create_topic("t")
    (node,) = found_by(daemons)
    assert f"{node.broadcast_address}:{node.tcp_port}" == daemons.nsqd_tcp
    daemons.hold_for_archive("t")
    with LogClient(daemons.nsqd_http) as log:
        assert list(log.offsets("t").groups.values()) == [{0: 0}]
    assert stop_all(children) == []
    assert [child.process.returncode for child in children] == [0, 0, 0]
    assert (tmp_path / "nsqd").is_dir()

    with pytest.raises(ServiceError, match="nsqd did not create topic u"):
        daemons.create_topic("u")


def test_several_nodes_share_a_directory_and_an_admin(
    tmp_path: Path, children: list[Child]
) -> None:
    board = Board("test")
    daemons = Daemons(tmp_path, Ports.free(2), board)
    daemons.start(children)
    assert [(service.name, service.state) for service in board.services] == [
        ("nsqlookupd", "ready"), ("nsqd", "ready"), ("nsqd-2", "ready"), ("nsqadmin", "ready"),
    ]  # fmt: skip
    for node in daemons.nodes:
        with Producer(node.tcp) as producer:
            producer.publish("t", node.name.encode())
    wait_until(lambda: len(found_by(daemons)) == 2, lambda: str(found_by(daemons)))
    found = found_by(daemons)
    tcp = {f"{node.broadcast_address}:{node.tcp_port}" for node in found}
    assert tcp == {node.tcp for node in daemons.nodes}
    with Consumer(
        "t", "c", lookupd_http_addresses=[daemons.lookupd_http], config=Config(max_in_flight=2)
    ) as consumer:
        ids = {message.body: int(message.id, 16) for message in islice(consumer, 2)}
    assert ids.keys() == {b"nsqd", b"nsqd-2"}
    numbers = {identifier - counter(identifier) for identifier in ids.values()}
    assert len(numbers) == 2, "messages of different nodes could have one id"
    assert stop_all(children) == []
    for name in ("nsqd", "nsqd-2"):
        assert (tmp_path / name / "nsqd.dat").exists()
        assert (tmp_path / f"{name}.log").stat().st_size


def test_a_daemon_that_cannot_start_is_named(tmp_path: Path, children: list[Child]) -> None:
    ports = Ports.free()
    daemons = Daemons(tmp_path, ports, Board("test"))
    with (
        socket.create_server((HOST, ports.nsqds[0].tcp)),
        pytest.raises(ServiceError, match=r"(?s)nsqd ended with code 1.*address already in use"),
    ):
        daemons.start(children)
    assert [child.name for child in children] == ["nsqlookupd", "nsqd", "nsqadmin"]
    assert stop_all(children) == []
