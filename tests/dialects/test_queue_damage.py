"""What a damaged index of queues costs consumers: nothing that the log still has."""

from __future__ import annotations

from pathlib import Path

import pytest

from penstock.rocketmq.protocol.codes import RequestCode, ResponseCode
from penstock.storage.queues import queue_index
from penstock.storage.retention import Retention

from .conftest import Both

TOPIC = "orders"


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(queue_index, "CHUNK_MESSAGES", 8)


def let_go(both: Both) -> None:
    """Let retention take all but the newest segment."""

    async def trim() -> None:
        topic = both.topic(TOPIC)
        await both.nsqd.node.commits.settle(topic)  # a log is not trimmed while it is synced
        topic.log.sync()  # type: ignore[union-attr]
        topic.retention = Retention()
        assert topic.trim(Retention()) > 0

    both.run(trim())


def chunk_files(path: Path) -> list[Path]:
    return sorted(path.glob(f"topics/{TOPIC}@*/queues/*"))


@pytest.mark.parametrize("damage", ["flip", "truncate", "delete"])
def test_a_pull_gives_the_same_messages_after_damage_to_the_index_of_queues(
    both: Both, tmp_path: Path, damage: str
) -> None:
    both._options["max_bytes_per_file"] = 4096
    both.restart()
    client = both.client()
    both.make_topic(client, TOPIC, queues=2)
    for number in range(60):
        both.send(client, TOPIC, b"%d" % number, queue=number % 2)
    let_go(both)
    low, high = both.services.store.bounds(TOPIC, 0)
    assert 0 < low < high == 30
    before = both.pulled(client, TOPIC, 0, low)
    both.stop()
    file = chunk_files(tmp_path)[0]
    data = bytearray(file.read_bytes())
    if damage == "delete":
        file.unlink()
    elif damage == "truncate":
        file.write_bytes(data[:60])
    else:
        data[50] ^= 0x04
        file.write_bytes(data)
    both.start()
    client = both.client()
    assert both.pulled(client, TOPIC, 0, low) == before
    assert both.send(client, TOPIC, b"next", queue=0)["queueOffset"] == "30"
    assert both.pulled(client, TOPIC, 0, 30)[0].body == b"next"


def test_a_queue_of_which_nothing_is_left_goes_on_where_its_consumers_are(
    both: Both, tmp_path: Path
) -> None:
    both._options["max_bytes_per_file"] = 4096
    both.restart()
    client = both.client()
    both.make_topic(client, TOPIC, queues=2)
    for number in range(10):
        both.send(client, TOPIC, b"%d" % number, queue=1)
    client.ask(RequestCode.UPDATE_CONSUMER_OFFSET, consumerGroup="G", topic=TOPIC, queueId=1,
               commitOffset=10)  # fmt: skip
    for number in range(50):
        both.send(client, TOPIC, b"%d" % number, queue=0)
    let_go(both)
    both.stop()
    for file in chunk_files(tmp_path):
        file.unlink()
    both.start()
    client = both.client()
    assert both.send(client, TOPIC, b"next", queue=1)["queueOffset"] == "10"
    (message,) = both.pulled(client, TOPIC, 1, 10)
    assert message.body == b"next"
    answer = both.pull(client, TOPIC, 0, both.services.store.bounds(TOPIC, 0)[0])
    assert answer.code == ResponseCode.SUCCESS
    assert both.nsqd.node.broker.health is not None
