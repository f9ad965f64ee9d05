"""Connections of every kind: in pieces, over unix sockets and IPv6, cut off in the middle."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import struct
import subprocess
from contextlib import suppress
from pathlib import Path

import pytest

from tools.replay import raw_http
from tools.replay.connection import ERROR, RESPONSE, Connection
from tools.replay.replay_cli import program_words

from .conftest import Start
from .server import MAGIC, Client, Server, identify, pub, sized, until

OURS = "PENSTOCK_NSQD" not in os.environ


async def test_one_byte_at_a_time(nsqd: Server, topic: str) -> None:
    """A whole dialogue, so that every state meets every border."""
    client = await nsqd.client(magic=b"")
    words = [MAGIC, identify(), b"SUB %s c\n" % topic.encode(), b"RDY 3\n"]
    words += [pub(topic, b"one"), f"MPUB {topic}\n".encode()]
    words.append(sized(struct.pack(">i", 2) + sized(b"two") + sized(b"three")))
    for number in b"".join(words):
        await client.send(bytes([number]))
    bodies: list[bytes] = []
    responses = 0
    while len(bodies) < 3 or responses < 4:
        kind, data = await client.frame()
        assert kind >= RESPONSE, data
        assert kind != ERROR, data
        if kind == RESPONSE:
            responses += 1
        else:
            bodies.append(data[26:])
    assert sorted(bodies) == [b"one", b"three", b"two"]


async def test_everything_in_one_packet(nsqd: Server, topic: str) -> None:
    client = await nsqd.client(magic=b"")
    words = [MAGIC, identify(), b"SUB %s c\nRDY 1\n" % topic.encode(), pub(topic, b"x"), b"NOP\n"]
    await client.send(b"".join(words))
    frames = [await client.frame() for _ in range(4)]
    assert [data for kind, data in frames if kind == RESPONSE][1:] == [b"OK", b"OK"]
    assert [data[26:] for kind, data in frames if kind not in (RESPONSE, ERROR)] == [b"x"]


@pytest.mark.skipif(not OURS, reason="Go's nsqd resets the connection, and the frame may be lost")
async def test_an_error_arrives_although_the_client_goes_on_sending(nsqd: Server) -> None:
    client = await nsqd.client()
    await client.send(b"NONSENSE\n")

    async def go_on() -> None:
        with suppress(ConnectionError):
            for _ in range(200):
                await client.send(bytes(64 * 1024))

    sending = asyncio.create_task(go_on())
    assert await client.error() == "E_INVALID invalid command NONSENSE"
    assert await client.connection.closed() is None
    sending.cancel()


async def test_ipv6(start: Start, topic: str) -> None:
    nsqd = await start("--tcp-address=[::1]:0", "--http-address=[::1]:0")
    assert nsqd.daemon.tcp.startswith("[::1]:")
    consumer = await nsqd.client(host="::1")
    await consumer.subscribe(topic, ready=1)
    stats = await raw_http.call(("::1", nsqd.daemon.http_port), "GET", "/stats?format=json")
    (client,) = json.loads(stats.body)["topics"][0]["channels"][0]["clients"]
    assert client["remote_address"].startswith("[::1]:")


async def test_both_families_at_the_default_address(start: Start, topic: str) -> None:
    nsqd = await start("--tcp-address=0.0.0.0:0")
    for name, host, shown in (("v4", "127.0.0.1", "127.0.0.1:"), ("v6", "::1", "[::1]:")):
        client = await nsqd.client(host=host)
        await client.subscribe(topic, name)
        channel = await nsqd.channel(topic, name)
        assert channel["clients"][0]["remote_address"].startswith(shown)


async def test_unix_sockets_for_both_protocols(tmp_path: Path) -> None:
    tcp, http = tmp_path / "tcp.sock", tmp_path / "http.sock"
    command = [*program_words(), f"--tcp-address={tcp}", f"--http-address={http}"]
    command.append(f"--data-path={tmp_path}")
    with subprocess.Popen(command, stderr=subprocess.DEVNULL) as process:  # noqa: ASYNC220
        try:

            async def listening() -> bool:
                """A socket is there a moment before it listens."""
                for path in (tcp, http):
                    try:
                        _, writer = await asyncio.open_unix_connection(str(path))
                    except OSError:
                        return False
                    writer.close()
                return True

            await until(listening, lambda: "the sockets")
            client = Client(await Connection.open_unix(str(tcp)))
            await client.send(MAGIC)
            await client.publish("t", b"x")
            await client.subscribe("t", ready=1)
            assert (await client.message()).body == b"x"
            info = await raw_http.call(str(http), "GET", "/info")
            assert b'"http_port":-1,"tcp_port":-1,' in info.body
            ping = await raw_http.call(str(http), "GET", "/ping")
            assert ping.body == b"OK"
            client.connection.reset()
            process.send_signal(signal.SIGTERM)
            assert await asyncio.to_thread(process.wait, 60) == 0
        finally:
            process.kill()
    assert not tcp.exists()
    assert not http.exists()


# --- a topic that is deleted while messages for it are on the way


async def deleted_on_the_way(nsqd: Server, topic: str) -> None:
    """Wait for the topic that the first part of a publish has created, and delete it."""

    async def there() -> bool:
        return bool(await nsqd.topic(topic))

    await until(there, lambda: f"topic {topic}")
    await nsqd.call("POST", f"/topic/delete?topic={topic}")


async def test_an_mpub_to_a_topic_deleted_meanwhile_fails(nsqd: Server, topic: str) -> None:
    client = await nsqd.client()
    body = sized(struct.pack(">i", 2) + sized(b"one") + sized(b"two"))
    await client.send(f"MPUB {topic}\n".encode() + body[:-1])
    await deleted_on_the_way(nsqd, topic)
    assert await client.error(body[-1:]) == "E_MPUB_FAILED MPUB failed exiting"
    assert await nsqd.topic(topic) == {}


async def test_a_posted_mpub_to_a_topic_deleted_meanwhile_fails(nsqd: Server, topic: str) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", nsqd.daemon.http_port)
    head = f"POST /mpub?topic={topic} HTTP/1.1\r\nHost: h\r\nContent-Length: 7\r\n\r\n"
    for data in (head[:40], head[40:], "one\n"):
        writer.write(data.encode())
        await writer.drain()
    await deleted_on_the_way(nsqd, topic)
    writer.write(b"two")
    answer = await asyncio.wait_for(reader.readuntil(b"}"), raw_http.ANSWER_S_MAX)
    assert answer.startswith(b"HTTP/1.1 503 Service Unavailable\r\n")
    assert answer.endswith(b'{"message":"EXITING"}')
    assert await nsqd.topic(topic) == {}
    writer.close()


async def test_one_message_for_a_topic_deleted_meanwhile_makes_it_again(
    nsqd: Server, topic: str
) -> None:
    """PUB looks up its topic when its body is complete."""
    client = await nsqd.client()
    await nsqd.call("POST", f"/topic/create?topic={topic}")
    data = pub(topic, b"one")
    await client.send(data[:-1])
    await deleted_on_the_way(nsqd, topic)
    assert await client.ask(data[-1:]) == b"OK"
    assert (await nsqd.topic(topic))["depth"] == 1
