from __future__ import annotations

import pytest

from penstock.net.http.client.once import HttpError
from penstock.net.tcp import ListenError
from penstock.nsq.nsqlookupd.daemon import Nsqlookupd
from penstock.nsq.nsqlookupd.options import LookupdOptions
from penstock.nsq.nsqlookupd.protocol import PING

from .conftest import Running


async def test_close_ends_listeners_and_connections(lookupd: Running) -> None:
    peer = await lookupd.connect()
    assert await peer.ask(PING) == b"OK"
    await lookupd.daemon.close()
    assert await peer.ended()
    with pytest.raises(HttpError):
        await lookupd.get("/ping")


async def test_a_taken_http_port_leaves_no_tcp_port_open(lookupd: Running) -> None:
    taken = f"127.0.0.1:{lookupd.daemon.http_port}"
    options = LookupdOptions(tcp_address="127.0.0.1:0", http_address=taken)
    with pytest.raises(ListenError, match=rf"^listen \({taken}\) failed - "):
        await Nsqlookupd.start(options)


async def test_a_taken_tcp_port(lookupd: Running) -> None:
    taken = f"127.0.0.1:{lookupd.daemon.tcp_port}"
    with pytest.raises(ListenError):
        await Nsqlookupd.start(LookupdOptions(tcp_address=taken))
