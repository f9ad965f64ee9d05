"""A port for copies alone, over a node without another one."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from penstock.node.ports import Ports
from penstock.nsq.nsqd.data_path import open_node
from penstock.nsq.nsqd.options import NsqdOptions
from penstock.replication.messages import Fetch, encode_fetch
from penstock.replication.peer import Peer, PeerError, address_of
from penstock.replication.port import ReplicationPort
from penstock.replication.primary import Primary
from penstock.replication.secret import Secret

SECRET = "a secret of some length"


@pytest.fixture
async def port(tmp_path: Path) -> AsyncIterator[tuple[NsqdOptions, Ports]]:
    secret = tmp_path / "secret"
    secret.write_text(SECRET.replace(" ", "-"))
    options = NsqdOptions(data_path=str(tmp_path / "data"), tcp_address="", http_address="",
                          broadcast_address="127.0.0.1",
                          replication_secret_file=str(secret))  # fmt: skip
    (tmp_path / "data").mkdir()
    node = await open_node(options)
    ports = Ports(options, "127.0.0.1:0")
    primary = Primary.of(node, options, lambda: None)
    replication = await ReplicationPort.open(primary, node, options, ports)
    node.start()
    yield options, ports
    await ports.close()
    await replication.close()
    await node.close()


async def test_it_answers_copies_and_nobody_else(port: tuple[NsqdOptions, Ports]) -> None:
    options, ports = port
    address = address_of(options, ports)
    assert address == f"127.0.0.1:{ports.replication}"
    assert ports.http == 0
    fetch = encode_fetch(Fetch(1, 1, "", 0, "", [], {}, 1, hurry=True))
    stranger, known = (
        Peer(address, options, each)
        for each in (Secret(), Secret.of(options.replication_secret_file))
    )
    try:
        assert (await known.status(30)).role == "primary"
        with pytest.raises(PeerError, match="REPLICATION_SECRET_REQUIRED"):
            await stranger.post("/replication/fetch", fetch, 30)
        assert await known.post("/replication/fetch", fetch, 30)
        info = json.loads(await stranger._ask("GET", "/info", b"", 30))
        assert (info["http_port"], info["broadcast_address"]) == (ports.replication, "127.0.0.1")
        stats = json.loads(await stranger._ask("GET", "/stats?format=json", b"", 30))
        assert (stats["health"], stats["topics"]) == ("OK", [])
        assert stats["replication"]["role"] == "primary"
        with pytest.raises(PeerError, match="NOT_FOUND"):
            await known.post("/pub?topic=t", b"x", 30)
    finally:
        await stranger.close()
        await known.close()
