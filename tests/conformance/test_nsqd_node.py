"""nsqd as a node: what it keeps over a restart, its place in a cluster, its statistics."""

from __future__ import annotations

import asyncio
import json
import os
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from penstock.testing.daemons import Daemon, run_nsqlookupd
from tools.replay import raw_http
from tools.replay.layers import Snappy

from .conftest import Start
from .server import Server, until

OURS = "PENSTOCK_NSQD" not in os.environ

# --- restarts


async def test_a_restart_goes_on_where_it_stopped(start: Start, tmp_path: Path) -> None:
    """300 messages over several files, half of them read before."""
    nsqd = await start("--mem-queue-size=100", "--max-bytes-per-file=10240", data_path=tmp_path)
    consumer = await nsqd.consumer("t", "ch", ready=1)
    bodies = [b"%04d" % number + bytes(96) for number in range(300)]
    await nsqd.publish("t", *bodies)
    read = []
    for _ in range(150):
        message = await consumer.message()
        read.append(message.body)
        await consumer.finish(message)
    last = await consumer.message()
    await nsqd.until_channel("t", "ch", in_flight_count=1, depth=149)
    await asyncio.to_thread(nsqd.daemon.restart)
    assert (await nsqd.topic("t"))["depth"] == 0
    assert (await nsqd.channel("t", "ch"))["depth"] == 150
    names = json.loads((tmp_path / "nsqd.dat").read_text())["topics"]
    assert [topic["name"] for topic in names] == ["t"]
    consumer = await nsqd.consumer("t", "ch", ready=150)
    rest = await consumer.messages(150)
    assert sorted([*read, *[message.body for message in rest]]) == sorted(bodies)
    assert {message.attempts for message in rest if message.id == last.id} == {2}


async def test_pauses_are_in_the_file_when_they_are_answered(start: Start, tmp_path: Path) -> None:
    nsqd = await start(data_path=tmp_path)
    await nsqd.call("POST", "/topic/create?topic=t")
    await nsqd.call("POST", "/channel/create?topic=t&channel=c")

    def paused() -> tuple[bool, bool]:
        (topic,) = json.loads((tmp_path / "nsqd.dat").read_text())["topics"]
        return topic["paused"], topic["channels"][0]["paused"]

    for path, expected in (
        ("/topic/pause?topic=t", (True, False)),
        ("/channel/pause?topic=t&channel=c", (True, True)),
        ("/topic/unpause?topic=t", (False, True)),
        ("/channel/unpause?topic=t&channel=c", (False, False)),
    ):
        await nsqd.call("POST", path)
        assert paused() == expected


async def test_a_damaged_data_file_harms_nothing_else(start: Start, tmp_path: Path) -> None:
    """Bytes in the middle of the largest file change while nsqd is down."""
    nsqd = await start("--mem-queue-size=0", data_path=tmp_path)
    for name in ("t", "other"):
        await nsqd.call("POST", f"/topic/create?topic={name}")
        await nsqd.call("POST", f"/channel/create?topic={name}&channel=c")
    for _ in range(10):
        await nsqd.publish("t", *[bytes(1000)] * 20)
    await nsqd.publish("other", *[b"x"] * 10)
    await asyncio.to_thread(nsqd.daemon.stop)
    _damage_the_largest(tmp_path)
    await asyncio.to_thread(nsqd.daemon.start)
    consumer = await nsqd.consumer("t", ready=2500)
    await consumer.messages(150 if OURS else 80)  # Go's gives up the rest of the file
    assert len(await (await nsqd.consumer("other", ready=10)).messages(10)) == 10
    if OURS:  # which says so until an operator has accepted the loss
        await nsqd.call("POST", "/topic/damage/accept?topic=t")
    assert await nsqd.call("GET", "/ping") == b"OK"


def _damage_the_largest(folder: Path) -> None:
    files = {path: path.stat().st_size for path in folder.rglob("*") if path.is_file()}
    largest, size = max(files.items(), key=lambda each: each[1])
    with largest.open("r+b") as file:
        file.seek(size // 2)
        file.write(b"\xff" * 2000)


# --- nsqlookupd


@pytest.fixture
def lookupds() -> Any:
    with run_nsqlookupd() as first, run_nsqlookupd() as second:
        yield first, second


async def asked(lookupd: Daemon, path: str) -> Any:
    return json.loads((await raw_http.call(lookupd.http_port, "GET", path)).body)


async def test_a_cluster_knows_its_topics(start: Start, lookupds: tuple[Daemon, Daemon]) -> None:
    lookupd = lookupds[0]
    nsqd = await start(f"--lookupd-tcp-address={lookupd.tcp}")
    await nsqd.call("POST", "/topic/create?topic=t")
    await nsqd.call("POST", "/channel/create?topic=t&channel=ch")

    async def known() -> bool:
        return "channel:t:ch" in await asked(lookupd, "/debug")

    await until(known, lambda: "the channel at nsqlookupd")
    table = await asked(lookupd, "/debug")
    for key in ("topic:t:", "channel:t:ch"):
        (entry,) = table[key]
        assert entry["hostname"]
        assert entry["broadcast_address"] == "127.0.0.1"
        assert entry["tcp_port"] == nsqd.daemon.tcp_port
        assert entry["tombstoned"] is False
    found = await asked(lookupd, "/lookup?topic=t")
    assert found["channels"] == ["ch"]
    (producer,) = found["producers"]
    assert producer["http_port"] == nsqd.daemon.http_port
    await nsqd.call("POST", "/topic/delete?topic=t")

    async def forgotten() -> bool:
        return not (await asked(lookupd, "/lookup?topic=t"))["producers"]

    await until(forgotten, lambda: "the end of the registration")
    table = await asked(lookupd, "/debug")
    assert not table.get("topic:t:")
    assert not table.get("channel:t:ch")


async def test_nsqlookupds_change_while_it_runs(
    start: Start, lookupds: tuple[Daemon, Daemon]
) -> None:
    nsqd = await start()
    await nsqd.call("POST", "/topic/create?topic=t")

    async def only_at(wanted: set[Daemon]) -> bool:
        there = {daemon for daemon in lookupds if (await asked(daemon, "/nodes"))["producers"]}
        return there == wanted

    first, second = lookupds
    for wanted in ({first}, {first, second}, {second}, set()):
        body = json.dumps([daemon.tcp for daemon in lookupds if daemon in wanted]).encode()
        body = body.replace(b", ", b",")
        answer = await nsqd.call("PUT", "/config/nsqlookupd_tcp_addresses", body)
        assert answer == body
        await until(partial(only_at, wanted), lambda: "the registrations")


# --- statistics


async def test_what_a_client_says_of_itself(nsqd: Server, topic: str) -> None:
    client = await nsqd.client()
    answer = await client.identify(user_agent="test/1.0", hostname="h", client_id="i", snappy=True)
    assert answer["snappy"]
    client.connection.add(Snappy())
    assert await client.ask(b"") == b"OK"
    await client.subscribe(topic)
    (shown,) = (await nsqd.channel(topic))["clients"]
    assert (shown["user_agent"], shown["hostname"]) == ("test/1.0", "h")
    assert (shown["client_id"], shown["snappy"], shown["version"]) == ("i", True, "V2")


@pytest.mark.parametrize(
    ("query", "clients", "memory"),
    [
        ("", 2, True),
        ("&include_clients=true&include_mem=true", 2, True),
        ("&include_clients=false", None, True),
        ("&include_mem=false", 2, False),
    ],
)
async def test_statistics_with_and_without_their_parts(
    nsqd: Server, topic: str, query: str, clients: int | None, memory: bool
) -> None:
    for _ in range(2):
        await nsqd.consumer(topic)
    path = f"/stats?format=json&topic={topic}&channel=c{query}"
    stats = json.loads(await nsqd.call("GET", path))
    (channel,) = stats["topics"][0]["channels"]
    assert channel["client_count"] == 2
    assert (channel["clients"] if clients is None else len(channel["clients"])) == clients
    assert ("memory" in stats) is memory


async def test_statistics_while_everybody_publishes(nsqd: Server, topic: str) -> None:
    consumer = await nsqd.consumer(topic, ready=2500)
    producers = [await nsqd.client() for _ in range(5)]
    bodies = [b"x"] * 200

    async def look() -> None:
        for _ in range(20):
            assert (await nsqd.topic(topic))["topic_name"] == topic

    publishing = [producer.publish(topic, *bodies) for producer in producers]
    await asyncio.gather(look(), look(), *publishing)
    assert len(await consumer.messages(1000)) == 1000
    assert (await nsqd.topic(topic))["message_count"] == 1000
