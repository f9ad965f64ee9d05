"""Asking daemons without an event loop."""

from __future__ import annotations

import socket
from concurrent.futures import ThreadPoolExecutor

import pytest

from penstock.cluster.access import Access
from penstock.cluster.blocking import Daemon, secured
from penstock.cluster.errors import AddressError, RefusedError, UnexpectedError, UnreachableError
from penstock.testing.daemons import run_nsqd
from tests.programs.cluster.conftest import UPSTREAM_S
from tests.unit.nsq.client.fakes import fake_http


def test_a_daemon() -> None:
    with run_nsqd() as nsqd, Daemon(f"http://{nsqd.http}/", UPSTREAM_S) as daemon:
        daemon.post("/topic/create", topic="t#ephemeral")
        stats = daemon.get("/stats", format="json", topic="t#ephemeral")
        assert [topic["topic_name"] for topic in stats["topics"]] == ["t#ephemeral"]
        with pytest.raises(RefusedError, match=f"^{nsqd.http}: 404 TOPIC_NOT_FOUND$"):
            daemon.get("/topic/peek", topic="u")
        with pytest.raises(RefusedError) as raised:
            daemon.get("/no/such/page")
        assert raised.value.is_unknown
        nsqd.restart()  # the kept connection is gone
        assert daemon.ask("GET", "/ping").body == b"OK"


def test_nobody_answers() -> None:
    refused = r"^127\.0\.0\.1:1 cannot be reached: connection refused$"
    with Daemon("127.0.0.1:1", 10) as daemon, pytest.raises(UnreachableError, match=refused):
        daemon.get("/ping")
    for address in ("nonsense", "h:99999", "h:nosuchport"):
        with pytest.raises(ValueError, match="port"):
            Daemon(address, UPSTREAM_S)
    with pytest.raises(AddressError, match="'a b'"):
        Daemon("a b:1", 10)
    with Daemon("\u00e9..:1", 10) as daemon, pytest.raises(UnreachableError, match="idna"):
        daemon.get("/ping")
    bad = {"A": "b\nc"}
    with Daemon("h:1", 10, headers=bad) as daemon, pytest.raises(UnreachableError, match="header"):
        daemon.get("/ping")


def test_somebody_else_listens_there() -> None:
    def answer(server: socket.socket) -> None:
        connection, _ = server.accept()
        with connection:
            connection.recv(4096)
            connection.sendall(b"220 mail.example.com ESMTP\r\n")

    with socket.create_server(("127.0.0.1", 0)) as server, ThreadPoolExecutor() as pool:
        server.settimeout(UPSTREAM_S)
        address = f"127.0.0.1:{server.getsockname()[1]}"
        pool.submit(answer, server)
        daemon = Daemon(address, UPSTREAM_S)
        with daemon, pytest.raises(UnreachableError, match="not speak HTTP"):
            daemon.get("/info")
    with fake_http() as node:
        node.json("/info", [])
        with Daemon(node.address, UPSTREAM_S) as daemon, pytest.raises(UnexpectedError):
            daemon.get("/info")


def test_where_https_is_wanted() -> None:
    with fake_http() as node:
        node.json("/ping", {"message": "TLS_REQUIRED", "https_port": 4444}, 403)
        for access in (Access(), Access(tls=True, auth_secret="s3cret")):
            assert secured(node.address, access, UPSTREAM_S) == "https://127.0.0.1:4444"
        assert all("Authorization" not in headers for headers in node.headers)
        node.json("/ping", {}, 200)
        assert secured(node.address, Access(), UPSTREAM_S) == node.address
        assert secured(node.address, Access(tls=True), UPSTREAM_S) == "https://127.0.0.1:4152"
    assert secured("https://h:1", Access(tls=True), UPSTREAM_S) == "https://h:1"
