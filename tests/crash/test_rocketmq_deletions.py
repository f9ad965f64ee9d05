"""Acknowledged deletions and changes by a tool survive SIGKILL."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from penstock.rocketmq.protocol.codes import RequestCode
from tools.loads.mqbroker import Mqbroker
from tools.loads.rocketmq_client import Connection


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[Mqbroker]:
    broker = Mqbroker(tmp_path, flushConsumerOffsetInterval=3_600_000)
    broker.start()
    yield broker
    broker.kill()


async def killed(broker: Mqbroker, client: Connection) -> Connection:
    """Kill the broker at once and start it again; returns a new connection."""
    broker.kill()
    client.close()
    broker.start()
    return await Connection.open(broker.port)


async def test_deletions_and_clones_survive_a_kill(broker: Mqbroker) -> None:
    client = await Connection.open(broker.port)
    for topic in ("Gone", "Kept"):
        await client.make_topic(topic, 1)
        for group in ("G", "H"):
            await client.commit(group, topic, 0, 5)
    client.close()
    assert broker.stop() == 0  # now the offsets are in their file
    broker.start()

    client = await Connection.open(broker.port)
    fields = {"groupName": "G", "removeOffset": "true"}
    await client.ask(RequestCode.DELETE_SUBSCRIPTIONGROUP, fields)
    client = await killed(broker, client)
    assert [await client.committed(group, "Kept", 0) for group in "GH"] == [0, 5]

    await client.ask(RequestCode.DELETE_TOPIC_IN_BROKER, {"topic": "Gone"})
    client = await killed(broker, client)
    assert await client.committed("H", "Gone", 0) == 0

    fields = {"srcGroup": "H", "destGroup": "N", "topic": "Kept", "offline": "true"}
    await client.ask(RequestCode.CLONE_GROUP_OFFSET, fields)
    client = await killed(broker, client)
    assert await client.committed("N", "Kept", 0) == 5
    client.close()
