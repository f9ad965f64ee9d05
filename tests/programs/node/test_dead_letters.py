from __future__ import annotations

import json
from pathlib import Path

import pytest

from penstock.core.errors import StorageError
from penstock.storage.durability import Durability
from tests.programs.nsq.nsqd.conftest import Running, Start


async def give_up(nsqd: Running, topic: str = "t", most: int = 2) -> int:
    """Requeue a message until it comes no more; its time stamp."""
    consumer = await nsqd.consumer(topic)
    await nsqd.publish(topic, b"poison")
    for attempt in range(1, most + 1):
        message = await consumer.message()
        assert (message.attempts, message.body) == (attempt, b"poison")
        consumer.send(b"REQ %b 0\n" % message.id)
    consumer.writer.close()
    return message.timestamp


@pytest.mark.parametrize("durability", list(Durability))
async def test_from_the_last_attempt_to_the_dead_letter_topic(
    start: Start, durability: Durability
) -> None:
    nsqd = await start(max_attempts=2, durability=durability)
    timestamp = await give_up(nsqd)

    async def moved() -> bool:
        return (await nsqd.channel("t")).get("dead_letter_count") == 1

    await nsqd.until(moved)
    assert (await nsqd.channel("t"))["depth"] == 0
    dead = await (await nsqd.consumer("t.dead")).message()
    assert (dead.attempts, dead.body, dead.timestamp) == (1, b"poison", timestamp)
    found = await nsqd.json("/deadletters?topic=t.dead")
    (letter,) = found["messages"]
    assert letter["origin"].pop("dead_since") > timestamp
    base = nsqd.nsqd.node.broker.topics["t"].log.id_base
    origin = {"topic": "t", "channel": "c", "id": f"{base:016x}", "attempts": 2}
    assert (letter["body"], letter["origin"]) == ("poison", origin)


async def test_one_channel_alone(nsqd: Running) -> None:
    await nsqd.post("/topic/create?topic=t")
    await nsqd.post("/channel/create?topic=t&channel=c")
    body = json.dumps({"max_attempts": 1, "dead_letter_topic": "grave"}).encode()
    assert (await nsqd.post("/channel/config?topic=t&channel=c", body))[0] == 200
    await give_up(nsqd, most=1)
    await nsqd.until(lambda: "grave" in nsqd.nsqd.node.broker.topics)
    assert (await (await nsqd.consumer("grave")).message()).body == b"poison"


async def test_dead_letters_survive_kill_with_their_origin(start: Start, tmp_path: Path) -> None:
    nsqd = await start(max_attempts=1)
    await give_up(nsqd, most=1)
    await nsqd.until(lambda: "t.dead" in nsqd.nsqd.node.broker.topics)
    await nsqd.stop()
    again = await start()
    (letter,) = (await again.json("/deadletters?topic=t.dead"))["messages"]
    assert letter["origin"]["channel"] == "c"
    assert "dead_letter_count" not in await again.channel("t")


async def test_a_dead_letter_topic_that_takes_nothing(
    start: Start, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    nsqd = await start(max_attempts=1)
    make = nsqd.nsqd.node.registry.topic

    def refuse(name: str) -> object:
        if name == "t.dead":
            raise StorageError("no room")
        return make(name)

    monkeypatch.setattr(nsqd.nsqd.node.registry, "topic", refuse)
    await give_up(nsqd, most=1)
    await nsqd.until(lambda: "failed to move 1 message to t.dead" in caplog.text)
    assert (await nsqd.channel("t"))["depth"] == 1
    monkeypatch.undo()
    await nsqd.until(lambda: nsqd.nsqd.node.broker.topics["t"].channels["c"].dead_letter_count == 1)


async def test_circles_end(nsqd: Running) -> None:
    for topic, dead in (("a", "b"), ("b", "a")):
        await nsqd.post(f"/topic/create?topic={topic}")
        await nsqd.post(f"/channel/create?topic={topic}&channel=c")
        body = json.dumps({"max_attempts": 1, "dead_letter_topic": dead}).encode()
        assert (await nsqd.post(f"/channel/config?topic={topic}&channel=c", body))[0] == 200
    await give_up(nsqd, topic="a", most=1)
    consumer = await nsqd.consumer("b")
    for attempt in (1, 2, 3):
        message = await consumer.message()
        assert message.attempts == attempt
        consumer.send(b"REQ %b 0\n" % message.id)
    assert (await nsqd.topic("a"))["message_count"] == 1
