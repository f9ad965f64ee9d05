from __future__ import annotations

import json

import pytest

from penstock import __version__
from penstock.nsq.nsqlookupd.protocol import register

from .conftest import Running

NODE = "127.0.0.1:4151"


async def test_plain_pages(lookupd: Running) -> None:
    assert await lookupd.get("/ping") == (200, "OK")
    info = f'{{"version":"1.3.0","penstock_version":"{__version__}"}}'
    assert await lookupd.get("/info") == (200, info)
    assert await lookupd.get("/debug") == (200, "{}")
    assert (await lookupd.get("/debug/pprof"))[0] == 200


@pytest.mark.parametrize(
    ("path", "status", "code"),
    [
        ("/topic/create", 400, "MISSING_ARG_TOPIC"),
        ("/topic/create?topic=a!", 400, "INVALID_ARG_TOPIC"),
        ("/topic/create?topic=%25zz%zz", 400, "INVALID_REQUEST"),
        ("/topic/delete", 400, "MISSING_ARG_TOPIC"),
        ("/topic/tombstone?node=a", 400, "MISSING_ARG_TOPIC"),
        ("/topic/tombstone?topic=a", 400, "MISSING_ARG_NODE"),
        ("/channel/create?topic=a", 400, "MISSING_ARG_CHANNEL"),
        ("/channel/delete?topic=a&channel=!", 400, "INVALID_ARG_CHANNEL"),
        ("/channel/delete?topic=a&channel=b", 404, "CHANNEL_NOT_FOUND"),
        ("/lookup", 405, "METHOD_NOT_ALLOWED"),
        ("/create_topic?topic=a", 404, "NOT_FOUND"),
    ],
)
async def test_refused(lookupd: Running, path: str, status: int, code: str) -> None:
    assert await lookupd.post(path) == (status, f'{{"message":"{code}"}}')


async def test_edits(lookupd: Running) -> None:
    assert await lookupd.post("/channel/create?topic=t&channel=c") == (200, "")
    assert await lookupd.post("/topic/create?topic=a") == (200, "")
    assert await lookupd.get("/topics") == (200, '{"topics":["a","t"]}')
    assert await lookupd.get("/channels?topic=t") == (200, '{"channels":["c"]}')
    assert await lookupd.post("/channel/delete?topic=t&channel=c") == (200, "")
    assert await lookupd.get("/lookup?topic=t") == (200, '{"channels":[],"producers":[]}')
    assert await lookupd.post("/topic/delete?topic=t") == (200, "")
    assert await lookupd.get("/lookup?topic=t") == (404, '{"message":"TOPIC_NOT_FOUND"}')


async def test_a_tombstone_from_its_laying_to_its_end(lookupd: Running) -> None:
    peer = await lookupd.connect()
    await peer.identify()
    await peer.ask(register("t"))
    assert await lookupd.post(f"/topic/tombstone?topic=t&node={NODE}") == (200, "")
    assert await lookupd.get("/lookup?topic=t") == (200, '{"channels":[],"producers":[]}')
    (node,) = json.loads((await lookupd.get("/nodes"))[1])["producers"]
    assert (node["tombstones"], node["topics"]) == ([True], ["t"])
    (entry,) = json.loads((await lookupd.get("/debug"))[1])["topic:t:"]
    assert (entry["tombstoned"], entry["tombstoned_at"]) == (True, lookupd.clock.wall_ns())
    lookupd.clock.advance(2 * 10**9)
    producers = json.loads((await lookupd.get("/lookup?topic=t"))[1])["producers"]
    assert list(producers[0]) == [
        "remote_address",
        "hostname",
        "broadcast_address",
        "tcp_port",
        "http_port",
        "version",
        "topology_zone",
        "topology_region",
    ]
