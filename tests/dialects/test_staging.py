"""Stage and commit of RocketMQ's messages: invisible until committed, then once, as any sent."""

from __future__ import annotations

import struct
from collections.abc import Sequence

import pytest

from penstock.log_api.errors import BatchCommitted, LogError, NodeError, NoDialect, TopicNotFound
from penstock.log_api.write_client import Committed, Part, WriteClient
from penstock.rocketmq.protocol.codes import RequestCode
from penstock.rocketmq.protocol.messages import batch_body, properties
from penstock.rocketmq.protocol.messages.batch_body import BatchedMessage
from penstock.rocketmq.protocol.messages.message import StoredMessage, decode

from .conftest import Both, bodies


def section(shard: int, *given: bytes | BatchedMessage) -> bytes:
    """Messages of one shard."""
    messages = [
        each if isinstance(each, BatchedMessage) else BatchedMessage(each) for each in given
    ]
    body = batch_body.encode(messages)
    return struct.pack(">II", shard, len(body)) + body


@pytest.fixture
def writer(both: Both) -> WriteClient:
    both.make_topic(both.client(), "t", queues=4)
    return client_of(both)


def client_of(both: Both) -> WriteClient:
    client = WriteClient(f"127.0.0.1:{both.nsqd.ports.http}", dialect="rocketmq")
    both._closing.append(client.close)
    return client


def stage(writer: WriteClient, batch: int, *chunks: bytes, topic: str = "t") -> None:
    for number, chunk in enumerate(chunks):
        writer.stage(topic, "w", batch, 0, 0, number, chunk)


def commit(writer: WriteClient, batch: int, chunks: int, topic: str = "t") -> Committed | NodeError:
    return writer.commit_staged("w", batch, {topic: [Part(0, 0, chunks)]})[topic]


def queues(both: Both, topic: str = "t", count: int = 4) -> list[Sequence[StoredMessage]]:
    """The messages of each queue, whose offsets must be dense."""
    client = both.client()
    found: list[Sequence[StoredMessage]] = []
    for queue in range(count):
        end = both.services.store.bounds(topic, queue)[1]
        messages = both.pulled(client, topic, queue) if end else []
        assert [each.queue_offset for each in messages] == list(range(end))
        assert {each.queue for each in messages} <= {queue}
        found.append(messages)
    return found


def test_what_is_staged_is_pulled_after_the_commit_only_and_once(
    both: Both, writer: WriteClient
) -> None:
    both.send(both.client(), "t", b"sent", queue=1)
    text = properties.join({"KEYS": "k1", "TAGS": "paid", "colour": "red"})
    tagged = [BatchedMessage(b"%02d" % number, text) for number in range(9)]
    stage(writer, 0, section(2, *tagged), section(2, b"of another size") + section(4, b"elsewhere"))
    assert [len(each) for each in queues(both)] == [0, 1, 0, 0]

    assert commit(writer, 0, 2) == Committed(11, False)
    assert commit(writer, 0, 2) == Committed(0, True)
    with pytest.raises(BatchCommitted):
        stage(writer, 0, section(0, b"again"))
    one, three = queues(both)[1], queues(both)[3]
    assert [each.body for each in one] == [b"sent", *(each.body for each in tagged),
                                           b"of another size"]  # fmt: skip
    assert [each.body for each in three] == [b"elsewhere"]
    assert properties.parse(one[1].properties).items() >= {
        "KEYS": "k1", "TAGS": "paid", "colour": "red",
    }.items()  # fmt: skip
    topic = both.topic("t")
    assert (topic.message_count, topic.message_bytes) == (12, 4 + 9 * 2 + 15 + 9)
    # Sends go on behind them.
    assert both.send(both.client(), "t", b"later", queue=1)["queueOffset"] == "11"


def test_offsets_ids_and_times_are_those_of_the_place(both: Both, writer: WriteClient) -> None:
    stage(writer, 7, section(1, b"one", b"two"), section(1, *[b"even"] * 20))
    assert commit(writer, 7, 2) == Committed(22, False)
    client = both.client()
    for message in queues(both)[0]:
        stored = both.services.store.message(message.physical_offset)
        assert stored == message
        answer = client.ask(RequestCode.VIEW_MESSAGE_BY_ID, offset=message.physical_offset)
        assert decode(answer.body)[0] == message
        batch = both.topic("t").log.batch_at(0)
        assert batch is not None
        assert message.store_ms == batch.timestamp_ns // 1_000_000


def test_sections_without_a_shard_take_turns_over_the_queues(
    both: Both, writer: WriteClient
) -> None:
    stage(writer, 0, *(section(0, b"%d" % number) for number in range(8)))
    assert commit(writer, 0, 8) == Committed(8, False)
    assert [len(each) for each in queues(both)] == [2, 2, 2, 2]


def test_a_restart_between_stage_and_commit_and_one_after_it(
    both: Both, writer: WriteClient
) -> None:
    stage(writer, 0, section(3, b"a", b"bb"))
    both.restart()
    writer = client_of(both)
    assert commit(writer, 0, 1) == Committed(2, False)
    both.restart()
    assert commit(client_of(both), 0, 1) == Committed(0, True)
    assert [each.body for each in queues(both)[2]] == [b"a", b"bb"]


def test_channels_of_nsq_get_their_bodies(both: Both, writer: WriteClient) -> None:
    consumer = both.consumer("t")
    stage(writer, 0, section(1, b"a", b"bb"))
    commit(writer, 0, 1)
    assert bodies(consumer, 2) == [b"a", b"bb"]


def test_a_node_that_lost_its_dialect_commits_nothing_of_it(
    both: Both, writer: WriteClient
) -> None:
    stage(writer, 0, section(1, b"a"))
    both.stop_rocketmq()
    writer = client_of(both)
    answer = commit(writer, 0, 1)
    assert isinstance(answer, LogError)
    assert answer.reason.startswith("PART_NOT_FOUND")
    with pytest.raises(NoDialect):
        stage(writer, 1, section(1, b"a"))


def test_what_cannot_be_staged_is_refused(both: Both, writer: WriteClient) -> None:
    both.services.settings.max_message_size = 2000
    with pytest.raises(LogError, match="BAD_BODY"):
        stage(writer, 0, b"abc")
    with pytest.raises(LogError, match="MSG_TOO_BIG") as too_big:
        stage(writer, 0, section(1, b"a" * 2001))
    assert too_big.value.status == 413
    both.services.topics.set_template(8, 0, inherited=False)
    with pytest.raises(TopicNotFound):
        stage(writer, 0, section(1, b"a"), topic="nope")


def test_a_topic_is_made_as_by_a_first_send(both: Both) -> None:
    writer = client_of(both)
    stage(writer, 0, section(0, b"a"), topic="new")
    assert commit(writer, 0, 1, "new") == Committed(1, False)
    config = both.services.topics.get("new")
    assert config is not None
    assert config.write_queues == 4
    assert sum(len(each) for each in queues(both, "new")) == 1
