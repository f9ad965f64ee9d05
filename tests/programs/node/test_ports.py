from __future__ import annotations

import asyncio

import pytest

from penstock.core.errors import ConfigError
from penstock.net.http.server.router import Router
from penstock.net.http.server.service import HttpServer
from penstock.net.tcp import ListenError
from penstock.node.ports import Ports, check_ports, server_tls
from penstock.nsq.nsqd.options import NsqdOptions


def options(**changes: object) -> NsqdOptions:
    return NsqdOptions(**{"tcp_address": "", "http_address": "", "https_address": "", **changes})


async def test_ports_without_an_address_stay_closed() -> None:
    ports = Ports(options())
    await ports.open(asyncio.Protocol, asyncio.Protocol, asyncio.Protocol)
    assert (ports.tcp, ports.http, ports.https) == (0, 0, 0)
    assert (ports.broadcast_tcp, ports.broadcast_http) == (0, 0)
    await ports.close()


async def test_others_are_told_the_real_port_or_the_one_of_the_options() -> None:
    ports = Ports(options(tcp_address="127.0.0.1:0", http_address="127.0.0.1:0",
                          broadcast_http_port=4444))  # fmt: skip
    await ports.open(asyncio.Protocol, asyncio.Protocol, None)
    assert ports.broadcast_tcp == ports.tcp > 0
    assert ports.broadcast_http == 4444 != ports.http
    await ports.close()


async def test_closing_also_closes_those_that_were_open_before_a_failure() -> None:
    taken = Ports(options(tcp_address="127.0.0.1:0"))
    await taken.open(asyncio.Protocol, asyncio.Protocol, None)
    ports = Ports(options(tcp_address="127.0.0.1:0", http_address=f"127.0.0.1:{taken.tcp}"))
    with pytest.raises(ListenError):
        await ports.open(asyncio.Protocol, asyncio.Protocol, None)
    await ports.close()
    with pytest.raises(OSError):
        await asyncio.open_connection("127.0.0.1", ports.tcp)
    await taken.close()


async def test_taken_ports_are_seen_before_any_is_opened() -> None:
    taken = Ports(options(tcp_address="127.0.0.1:0"))
    await taken.open(asyncio.Protocol, asyncio.Protocol, None)
    address = f"127.0.0.1:{taken.tcp}"
    with pytest.raises(ListenError):
        check_ports(options(http_address=address))
    with pytest.raises(ListenError):
        check_ports(options(https_address=address, tls_cert="cert.pem"))
    check_ports(options(https_address=address))  # without a certificate it is not opened
    await taken.close()


async def test_the_port_for_followers_is_open_by_itself() -> None:
    ports = Ports(options(), "127.0.0.1:0")
    assert ports.replication == 0
    await ports.open_replication(HttpServer(Router()))
    assert ports.replication > 0
    assert not ports.is_replication_secure
    await ports.close()


async def test_ports_that_the_system_chose_are_kept() -> None:
    chosen = options(tcp_address="127.0.0.1:0", broadcast_tcp_port=4444)
    ports = Ports(chosen)
    await ports.open(asyncio.Protocol, asyncio.Protocol, None)
    kept, number = ports.kept(chosen), ports.tcp
    await ports.close()
    assert kept.tcp_address == f"127.0.0.1:{number}"
    assert Ports(kept).kept(kept) is kept


def test_a_certificate_needs_its_key_and_a_key_its_certificate() -> None:
    assert server_tls(options()) is None
    with pytest.raises(ConfigError, match="--tls-key is missing beside --tls-cert"):
        server_tls(options(tls_cert="cert.pem"))
    with pytest.raises(ConfigError, match="--tls-cert is missing beside --tls-key"):
        server_tls(options(tls_key="key.pem"))
    with pytest.raises(ConfigError, match="/nope"):
        server_tls(options(tls_cert="/nope", tls_key="/nope"))
