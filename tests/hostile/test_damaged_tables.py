"""A real broker whose tables were damaged while it was down: none is reset silently."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from penstock.rocketmq.protocol.codes import RequestCode as Q
from penstock.testing.daemons import DaemonError, MqBroker, run_mqbroker
from tools.harness.rocketmq.raw_client import RawClient

PLACE: dict[str, Any] = {"consumerGroup": "G", "topic": "T", "queueId": 0}


def commit(broker: MqBroker, offset: int) -> None:
    """Commit an offset and stop the broker, which writes it down."""
    client = RawClient(broker.port)
    client.ask(Q.UPDATE_CONSUMER_OFFSET, **PLACE, commitOffset=offset)
    client.close()
    assert broker.stop() == 0


def committed(broker: MqBroker) -> int:
    client = RawClient(broker.port)
    answer = client.ask(Q.QUERY_CONSUMER_OFFSET, **PLACE)
    client.close()
    assert answer.code == 0, answer.remark
    return answer.int64("offset")


@pytest.fixture
def broker() -> Iterator[MqBroker]:
    """A stopped broker with offset 5, and 4 in the backup."""
    with run_mqbroker() as broker:
        commit(broker, 4)
        broker.start()
        commit(broker, 5)
        yield broker


@pytest.mark.parametrize("content", [b"", b'{"offsetTable":{"T@G":{0:'])
def test_damaged_offsets_are_those_of_the_backup(broker: MqBroker, content: bytes) -> None:
    offsets = broker.data_path / "config" / "consumerOffset.json"
    offsets.write_bytes(content)
    broker.start()
    assert committed(broker) == 4
    assert f"ERROR: {offsets} is " in broker.log()
    assert "later changes are lost" in broker.log()


@pytest.mark.parametrize("name", ["topics.json", "consumerOffset.json"])
def test_a_broker_does_not_start_on_an_empty_table_without_backup(
    broker: MqBroker, name: str
) -> None:
    file = broker.data_path / "config" / name
    backup = file.with_name(f"{name}.bak")
    content = file.read_bytes()
    file.write_bytes(b"")
    backup.unlink(missing_ok=True)
    with pytest.raises(DaemonError, match="exit code 1"):
        broker.start()
    assert f"{file} is empty, and {backup} is not there" in broker.log()
    assert "Traceback" not in broker.log()
    file.write_bytes(content)
    broker.start()
    assert committed(broker) == 5


def test_what_a_killed_broker_left_half_written_is_removed(broker: MqBroker) -> None:
    left = [broker.data_path / "config" / "consumerOffset.json.00c0ffee.tmp",
            broker.data_path / "rocketmq-serials.json.00c0ffee.tmp"]  # fmt: skip
    for path in left:
        path.write_text("{")
    broker.start()
    assert committed(broker) == 5
    assert not any(path.exists() for path in left)
