"""The POP consumers of both libraries with real servers."""

from __future__ import annotations

import asyncio

from tests.programs.rocketmq.client.conftest import Shell
from tools.harness.rocketmq.servers import QUICK, Servers, wait_for_route


async def test_a_message_can_be_given_back_or_hidden_for_longer(
    shell: Shell, servers: Servers, topic: str
) -> None:
    await shell.fill(servers, topic, b"a")
    await asyncio.to_thread(wait_for_route, servers.address, topic)
    async with shell.pop_consumer(topic, topic, servers.address, config=QUICK) as consumer:
        (found,) = await consumer.receive(wait=30)
        await consumer.change_invisible(found, 30)
        assert await consumer.receive(wait=0) == []
        await consumer.change_invisible(found, 0)
        (again,) = await consumer.receive(wait=30)
        await consumer.ack(again)
        assert again.body == b"a"
        assert await consumer.receive(wait=0) == []


async def test_messages_are_iterated(shell: Shell, servers: Servers, topic: str) -> None:
    await shell.fill(servers, topic, b"a", b"b", b"c")
    await asyncio.to_thread(wait_for_route, servers.address, topic)
    found = set()
    async with shell.pop_consumer(topic, topic, servers.address, config=QUICK) as consumer:
        async for message in consumer:
            found.add(message.body)
            await consumer.ack(message)
            if len(found) == 3:
                break
    assert found == {b"a", b"b", b"c"}
