from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from penstock.nsq.http_query import Timeouts
from penstock.nsq.tools.cluster import Cluster, Figures, QueryFailed

CHANNEL = {"channel_name": "c", "depth": 5, "backend_depth": 2, "in_flight_count": 1,
           "deferred_count": 3, "requeue_count": 4, "timeout_count": 6, "message_count": 9,
           "client_count": 1}  # fmt: skip
STATS = {"topics": [{"topic_name": "t", "channels": [CHANNEL]}]}
Answers = dict[str, tuple[int, Any]]


@asynccontextmanager
async def serving(answers: Answers) -> AsyncIterator[str]:
    """A server that answers a path with a status and JSON, or bytes as they are."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        path = head.split(b" ")[1].decode().partition("?")[0]
        status, answer = answers.get(path, (404, {"message": "NOT_FOUND"}))
        body = answer if isinstance(answer, bytes) else json.dumps(answer).encode()
        writer.write(b"HTTP/1.1 %d X\r\nContent-Length: %d\r\n\r\n" % (status, len(body)) + body)
        await writer.drain()
        writer.close()

    async with await asyncio.start_server(serve, "127.0.0.1", 0) as server:
        yield f"127.0.0.1:{server.sockets[0].getsockname()[1]}"


@pytest.fixture
def cluster() -> Cluster:
    return Cluster(Timeouts(30.0, 30.0))


async def test_topics_of_all_lookupds(cluster: Cluster) -> None:
    first, second = ({"/topics": (200, {"topics": names})} for names in (["b", "a"], ["c", "a"]))
    async with serving(first) as one, serving(second) as two:
        assert await cluster.topics([one, two]) == ["a", "b", "c"]


async def test_producers(cluster: Cluster) -> None:
    nodes = [{"broadcast_address": "h", "http_port": 4151}, {"broadcast_address": "::1",
             "http_port": 1}]  # fmt: skip
    async with serving({"/lookup": (200, {"producers": nodes})}) as lookupd:
        assert await cluster.producers_by_lookup([lookupd, lookupd], "t") == ["h:4151", "[::1]:1"]
    info = {"broadcast_address": "me", "http_port": 7}
    async with serving({"/stats": (200, STATS), "/info": (200, info)}) as nsqd:
        assert await cluster.producers_by_stats([nsqd], "t") == ["me:7"]
        assert await cluster.producers_by_stats([nsqd], "other") == []


async def test_figures_are_summed(cluster: Cluster) -> None:
    async with serving({"/stats": (200, STATS)}) as nsqd:
        both = await cluster.channel([nsqd, nsqd], "t", "c")
        assert both == Figures(10, 4, 2, 6, 8, 12, 18, 2)
        assert both.memory_depth == 6
        assert await cluster.channel([nsqd], "t", "other") is None


async def test_a_failure_spoils_the_whole(cluster: Cluster) -> None:
    async with serving({"/stats": (200, STATS)}) as nsqd:
        with pytest.raises(QueryFailed) as caught:
            await cluster.channel([nsqd, "127.0.0.1:1"], "t", "c")
    url = "http://127.0.0.1:1/stats?format=json&topic=t&channel=c&include_clients=false"
    refused = f'Get "{url}": dial tcp 127.0.0.1:1: connect: connection refused'
    assert str(caught.value) == refused


async def test_no_answer_at_all(cluster: Cluster) -> None:
    with pytest.raises(QueryFailed, match=r"^failed to query any nsqd: $"):
        await cluster.channel([], "t", "c")
    async with serving({}) as address:
        told = 'failed to query any nsqlookupd: got response 404 Not Found "{\\"message\\": '
        with pytest.raises(QueryFailed, match="^" + re.escape(told)):
            await cluster.topics([address])


@pytest.mark.parametrize("answer", [b"", b"[]", b"nothing", {"topics": [1]}, {"topics": 3}])
async def test_somebody_elses_server(cluster: Cluster, answer: Any) -> None:
    async with serving({"/stats": (200, answer)}) as address:
        with pytest.raises(QueryFailed, match=r"^failed to query any nsqd: "):
            await cluster.channel([address], "t", "c")


async def test_a_server_that_never_answers() -> None:
    hang = asyncio.Event()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await hang.wait()
        finally:
            writer.close()

    async with await asyncio.start_server(serve, "127.0.0.1", 0) as server:
        address = f"127.0.0.1:{server.sockets[0].getsockname()[1]}"
        with pytest.raises(QueryFailed, match="context deadline exceeded"):
            await Cluster(Timeouts(2.0, 0.05)).topics([address])
        hang.set()
