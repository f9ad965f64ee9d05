"""Which nodes are meant, and what they say when asked."""

from __future__ import annotations

import socket
from concurrent.futures import ThreadPoolExecutor

import pytest

from penstock.cli.nodes import DEFAULT_NODE, Api, NodeError, NotPenstock, Place, places
from penstock.core.errors import PenstockError
from penstock.testing.daemons import run_nsqd, run_nsqlookupd
from tests.unit.cli.nodes_at_work import ask, make


def test_without_addresses_it_is_this_machines_nsqd() -> None:
    assert places([], []) == [Place(DEFAULT_NODE)]


def test_given_nodes_and_those_that_nsqlookupd_names() -> None:
    with run_nsqlookupd() as lookupd, run_nsqd(f"--lookupd-tcp-address={lookupd.tcp}") as nsqd:
        make(nsqd, "t")
        while not ask(lookupd, "GET", "/topics")["topics"]:
            pass
        named = Place(nsqd.http, nsqd.tcp)
        assert places(["10.0.0.1:4151"], [lookupd.http], "t") == [Place("10.0.0.1:4151"), named]
        assert places([], [lookupd.http, "127.0.0.1:1"]) == [named]
        assert places([], [lookupd.http], "unknown") == []
        with Api(nsqd.http) as api:
            assert api.tcp_address() == nsqd.tcp
            assert [topic["topic_name"] for topic in api.topics()] == ["t"]
    for topic in ("", "t"):
        with pytest.raises(PenstockError, match=r"127\.0\.0\.1:1.*refused"):
            places([], ["127.0.0.1:1"], topic)


def test_refusals_name_the_node() -> None:
    with run_nsqd() as nsqd, Api(f"http://{nsqd.http}/") as api:
        with pytest.raises(NodeError, match=f"^{nsqd.http}: 404 TOPIC_NOT_FOUND$"):
            api.get("/topic/peek", topic="t")
        with pytest.raises(NotPenstock, match=f"^{nsqd.http}: 404 NOT_FOUND$"):
            api.get("/no/such/page")
        nsqd.restart()  # the kept connection is gone
        assert api.topics() == []
    with Api("127.0.0.1:1") as api, pytest.raises(NodeError, match=r"connection refused$"):
        api.topics()
    with pytest.raises(NodeError, match="missing port"):
        Api("nonsense")


def test_somebody_else_listens_there() -> None:
    def answer(server: socket.socket) -> None:
        connection, _ = server.accept()
        with connection:
            connection.recv(4096)
            connection.sendall(b"220 mail.example.com ESMTP\r\n")

    with socket.create_server(("127.0.0.1", 0)) as server, ThreadPoolExecutor() as pool:
        address = f"127.0.0.1:{server.getsockname()[1]}"
        pool.submit(answer, server)
        with Api(address) as api, pytest.raises(NodeError, match=f"^{address} cannot be reached"):
            api.topics()
