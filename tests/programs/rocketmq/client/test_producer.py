"""The producers of both libraries with real servers: requests and the end."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from penstock.core.units import SECOND
from penstock.rocketmq.client import Message, NoReply, PushConsumer, Stopped
from tests.programs.rocketmq.client.conftest import Shell
from tests.unit.rocketmq.leaping import Leaping
from tools.harness.rocketmq.servers import QUICK, SECONDS, Servers


async def test_a_request_gets_its_reply(
    shell: Shell, servers: Servers, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = Leaping()
    async with (
        shell.producer("Asks", servers.address, config=QUICK, clock=clock) as producer,
        shell.producer("Replies", servers.address, config=QUICK) as replier,
        PushConsumer(topic, servers.address, config=QUICK) as consumer,
    ):
        consumer.subscribe(topic)
        task = asyncio.create_task(
            consumer.run(lambda message: replier.reply(message, b"re: " + message.body))
        )
        answer = await producer.request(Message(topic, b"tea?"), timeout=60)
        assert answer.body == b"re: tea?"
        deliver = producer._publisher.deliver

        async def delivered(*arguments: Any) -> Any:
            found = await deliver(*arguments)
            clock.ahead_ns += round(SECONDS * SECOND)  # and no reply comes in this time
            return found

        monkeypatch.setattr(producer._publisher, "deliver", delivered)
        with pytest.raises(NoReply, match=r"Unheard.* see that a consumer"):
            await producer.request(Message("Unheard", b"anybody?"), timeout=SECONDS)
        await consumer.close()
        await task


async def test_a_closed_producer_says_so(shell: Shell, servers: Servers) -> None:
    producer = shell.producer("PG", servers.address, config=QUICK)
    await producer.send(Message("T", b"x"))
    await producer.close()
    await producer.close()
    with pytest.raises(Stopped, match="closed"):
        await producer.send(Message("T", b"x"))
