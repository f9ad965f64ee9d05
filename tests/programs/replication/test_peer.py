"""Another node asked over HTTP, as it is and as it should not be."""

from __future__ import annotations

import pytest

from penstock.nsq.nsqd.options import NsqdOptions
from penstock.replication.peer import Peer, PeerError, address_of
from penstock.replication.secret import Secret
from tests.programs.nsq.nsqd.conftest import TIMEOUT_S, Running
from tools.harness.ports import unused_address


async def test_a_node_tells_its_role(nsqd: Running) -> None:
    peer = Peer(address_of(nsqd.nsqd.options, nsqd.nsqd.ports), NsqdOptions(), Secret())
    status = await peer.status(TIMEOUT_S)
    assert (status.role, status.epoch) == ("primary", 0)
    with pytest.raises(PeerError, match="refuses: INVALID_BODY") as refused:
        await peer.post("/replication/fetch", b"nothing", TIMEOUT_S)
    assert refused.value.code == "INVALID_BODY"
    await peer.close()


async def test_a_node_that_is_away_is_named() -> None:
    address = unused_address()
    peer = Peer(address, NsqdOptions(), Secret())
    with pytest.raises(PeerError, match=f"{address} cannot be reached"):
        await peer.status(TIMEOUT_S)
    await peer.close()


async def test_an_address_without_a_port_is_refused() -> None:
    with pytest.raises(PeerError, match="nowhere"):
        Peer("nowhere", NsqdOptions(), Secret())
