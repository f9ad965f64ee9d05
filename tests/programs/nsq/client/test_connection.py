"""A connection of either library on its way to a scripted server."""

from __future__ import annotations

import asyncio

import pytest

from penstock.nsq.client.config import Config
from penstock.nsq.client.errors import (
    BadBody,
    BadTlsOptions,
    HandshakeFailed,
    NotConnected,
    TimedOut,
)
from penstock.nsq.protocol.events import Identify
from tests.programs.nsq.client.conftest import Shell, until
from tests.unit.nsq.client.fakes import FakeNsqd
from tools.harness.ports import unused_address


async def test_a_refused_identify(shell: Shell, nsqd: FakeNsqd) -> None:
    nsqd.refusals["Identify"] = "E_BAD_BODY IDENTIFY msg timeout (5) is invalid"
    with pytest.raises(BadBody):
        await shell.open(nsqd.address, Config(msg_timeout=5))


async def test_no_answer_to_identify(shell: Shell, nsqd: FakeNsqd) -> None:
    nsqd.silent = True
    with pytest.raises(TimedOut, match=r"no answer within 0.1 s \(IDENTIFY\)"):
        await shell.open(nsqd.address, Config(read_timeout=0.1))


async def test_nobody_there(shell: Shell) -> None:
    address = unused_address()
    with pytest.raises(NotConnected) as found:
        await shell.open(address)
    assert found.value.reason == f"dial tcp {address}: connect: connection refused"
    with pytest.raises(NotConnected, match="cannot assign requested address"):
        await shell.open(address, Config(local_addr="192.0.2.1:0"))
    with pytest.raises(BadTlsOptions, match="/no/such"):
        await shell.open(address, Config(tls_v1=True, tls_root_ca_file="/no/such"))


async def test_the_address_it_comes_from(shell: Shell, nsqd: FakeNsqd) -> None:
    link = await shell.open(nsqd.address, Config(local_addr="127.0.0.2:0"))
    assert nsqd._sessions[0].peer.getpeername()[0] == "127.0.0.2"
    await link.close()


async def test_what_is_not_an_nsqd(shell: Shell, nsqd: FakeNsqd) -> None:
    nsqd.silent = True
    opening = asyncio.ensure_future(shell.open(nsqd.address))
    await until(lambda: nsqd.count(Identify))
    nsqd.send(b"HTTP/1.1 400 Bad Request\r\n\r\n")
    with pytest.raises(HandshakeFailed, match="unexpected HTTP response"):
        await opening
