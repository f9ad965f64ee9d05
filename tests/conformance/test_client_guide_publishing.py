"""What the client guide asks of a producer and no other test shows, with real nodes."""

from __future__ import annotations

import asyncio
import time

import pytest

from penstock.nsq.client import Config, Consumer, Producer
from penstock.nsq.client.errors import Unauthorized
from penstock.testing.daemons import Daemon
from tools.harness.auth_server import run_auth_server

from .client_site import CHANNEL, Site, channel, stopped, tapped, tcp


async def all_bodies(topic: str, nsqds: list[Daemon], wanted: set[bytes]) -> list[bytes]:
    """What is on these nodes, consumed until all that is wanted was there."""
    found: list[bytes] = []
    async with (
        Consumer(topic, CHANNEL, nsqd_tcp_addresses=tcp(nsqds), max_in_flight=100) as consumer,
        asyncio.timeout(60),
    ):
        while not wanted <= set(found):
            message = await anext(consumer)
            found.append(message.body)
            message.finish()
    return found


async def test_every_way_to_publish(site: Site, topic: str) -> None:
    (nsqd,) = await site.nsqds(1)
    async with tapped(nsqd) as tap, Producer(tap.address) as producer:
        assert tap.sessions == []  # it connects when there is something to say
        await producer.ping()
        await producer.publish(topic, b"one")
        await producer.multi_publish(topic, [b"two", b"three"])
        future = await producer.publish_soon(topic, b"four")
        await producer.flush()
        assert future.result() is None
        await producer.deferred_publish(topic, 3600, b"never")
        wanted = {b"one", b"two", b"three", b"four"}
        assert set(await all_bodies(topic, [nsqd], wanted)) == wanted
        name = topic.encode()
        (session,) = tap.sessions
        assert session == [
            b"IDENTIFY", b"NOP", b"PUB " + name, b"MPUB " + name, b"PUB " + name,
            b"DPUB " + name + b" 3600000",
        ]  # fmt: skip
    assert (await channel(topic, nsqd))["deferred_count"] == 1


async def test_a_deferred_message_does_not_come_early(site: Site, topic: str) -> None:
    (nsqd,) = await site.nsqds(1)
    async with Producer(nsqd.tcp) as producer:
        begun = time.monotonic()
        await producer.deferred_publish(topic, 1, b"later")
        await producer.publish(topic, b"now")
    addresses = [nsqd.tcp]
    async with Consumer(topic, CHANNEL, nsqd_tcp_addresses=addresses, max_in_flight=2) as consumer:
        came: dict[bytes, float] = {}
        for _ in range(2):  # on a busy machine both may be due before anybody consumes
            message = await anext(consumer)
            came[message.body] = time.monotonic() - begun
            message.finish()
        assert came.keys() == {b"now", b"later"}
        assert came[b"later"] >= 1


@pytest.mark.parametrize("end", ["killed", "hangs"])
async def test_a_node_that_goes_while_messages_are_published(
    site: Site, topic: str, end: str
) -> None:
    """What it was asked and has not answered goes to another one."""
    going, staying = await site.nsqd(), (await site.nsqds(1))[0]
    # Nobody is to be left for a silence before it is asked, however busy the machine is.
    config = Config(heartbeat_interval=6, read_timeout=60)
    bodies = [b"%d" % number for number in range(500)]
    async with Producer(*tcp([going, staying]), config=config, mode="round-robin") as producer:
        for _ in range(2):
            await producer.publish(topic, b"first")
        assert all(state.is_connected for state in producer.connections.values())
        async with stopped(going):
            for body in bodies:
                await producer.publish_soon(topic, body)
                await asyncio.sleep(0)
            assert producer.connections[going.tcp].unanswered
            if end == "killed":
                await asyncio.to_thread(going.kill)
            await producer.flush()
            state = producer.connections[going.tcp]
            assert (state.is_connected, state.unanswered) == (False, 0)
            assert await all_bodies(topic, [staying], set(bodies)) != []


async def test_what_is_not_allowed_and_then_is(site: Site, topic: str) -> None:
    with run_auth_server() as auth:
        nsqd = await site.nsqd(*auth.flags)
        auth.allow("mine", "^another$", ttl=1)
        async with Producer(nsqd.tcp, config=Config(auth_secret="mine")) as producer:
            await producer.publish("another", b"x")
            with pytest.raises(Unauthorized):
                await producer.publish(topic, b"x")
            auth.allow("mine")
            await producer.publish(topic, b"x")  # over a new connection, with new permissions
        assert len(auth.asked("mine")) >= 1
