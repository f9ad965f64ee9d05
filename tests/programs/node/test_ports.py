from __future__ import annotations

import asyncio

import pytest

from penstock.net.tcp import ListenError
from penstock.node.ports import Ports, check_ports
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
