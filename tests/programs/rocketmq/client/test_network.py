"""The network of both libraries: TLS, signatures, pages of name servers, strangers."""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import Iterator
from dataclasses import replace

import pytest

from penstock.rocketmq.client import Config, Message, NotConnected
from penstock.rocketmq.client.errors import NoNameServer, NoPermission
from tests.programs.rocketmq.client.conftest import Shell
from tests.programs.rocketmq.client.secured import page, run_with_rules, run_with_tls
from tests.programs.rocketmq.conftest import serving
from tools.harness.rocketmq.servers import QUICK, SECONDS, Servers


@pytest.fixture(scope="module")
def with_tls(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Servers, Config]]:
    with run_with_tls(tmp_path_factory.mktemp("tls")) as found:
        yield found


@pytest.fixture(scope="module")
def with_rules(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Servers]:
    with run_with_rules(tmp_path_factory.mktemp("rules")) as found:
        yield found


async def test_tls_both_ways_with_large_messages(
    shell: Shell, with_tls: tuple[Servers, Config], topic: str
) -> None:
    servers, config = with_tls
    plain = replace(config, compress_msg_body_over_howmuch=4 << 20)
    async with shell.producer("PG", servers.address, config=plain) as producer:
        await producer.send(Message(topic, b"x" * 3_000_000))
        states = producer.connections.values()
        assert {state.tls for state in states if state.answers} <= {"", "TLSv1.3"}
        assert "TLSv1.3" in {state.tls for state in states}
    async with shell.lite_pull_consumer(topic, servers.address, config=config) as consumer:
        consumer.subscribe(topic)
        assert [len(each.body) for each in await consumer.poll(timeout=60)] == [3_000_000]
    stranger = replace(config, tls_trust_cert_path="")
    async with shell.producer("PG", servers.address, config=stranger) as producer:
        with pytest.raises((NoNameServer, NotConnected), match="certificate"):
            await producer.send(Message(topic, b"x"))


async def test_bad_tls_files_are_named(shell: Shell) -> None:
    config = Config(tls_enable=True, tls_trust_cert_path="/nowhere", namesrv_addr="127.0.0.1:1")
    async with shell.producer("PG", config=config) as producer:
        with pytest.raises(NoNameServer, match="nowhere"):
            await producer.send(Message("T", b"x"))


async def test_requests_are_signed_where_access_rules_are_in_force(
    shell: Shell, with_rules: Servers
) -> None:
    address = with_rules.address
    known = replace(QUICK, access_key="producer1", secret_key="secret-1")
    async with shell.producer("PG", address, config=known) as producer:
        await producer.send(Message("Allowed", b"x"))
        with pytest.raises(NoPermission, match="getAclConfig what the account may do"):
            await producer.send(Message("Denied", b"x"))
    async with shell.producer("PG", address, config=QUICK) as producer:
        with pytest.raises(NoPermission, match="NO_PERMISSION"):
            await producer.send(Message("Allowed", b"x"))
    wrong = replace(known, secret_key="another")
    async with shell.producer("PG", address, config=wrong) as producer:
        with pytest.raises(NoPermission, match=r"[Ss]ignature"):
            await producer.send(Message("Allowed", b"x"))


async def test_name_servers_are_found_through_a_page(shell: Shell, servers: Servers) -> None:
    with page(servers.address) as url:
        async with shell.producer("PG", config=replace(QUICK, namesrv_url=url)) as producer:
            await producer.send(Message("Paged", b"x"))
        missing = replace(QUICK, namesrv_url=url + "x")
        async with shell.producer("PG", config=missing) as producer:
            with pytest.raises(NoNameServer, match=r"nsaddrx.* namesrv_url"):
                await producer.send(Message("Paged", b"x"))


@pytest.mark.parametrize(
    ("says", "text"),
    [
        (b"HTTP/1.1 400 Bad Request\r\n\r\n", "it speaks HTTP"),
        (b"", r"no answer within 0\.2 s"),
    ],
    ids=["stranger", "silent"],
)
async def test_what_is_not_a_name_server_is_named(shell: Shell, says: bytes, text: str) -> None:
    ended = threading.Event()

    def serve(connection: socket.socket) -> None:
        connection.recv(10)
        connection.sendall(says)
        while connection.recv(1 << 16):
            pass
        ended.set()

    config = QUICK if says else replace(QUICK, request_timeout=0.2)
    with serving(serve) as address:
        async with shell.producer("PG", address, config=config) as producer:
            with pytest.raises(NoNameServer, match=text):
                await producer.send(Message("T", b"x"))
        assert await asyncio.to_thread(ended.wait, SECONDS)
