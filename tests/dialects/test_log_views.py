"""The log API as RocketMQ's readers use it: real queues, stored messages, consumer offsets."""

from __future__ import annotations

import pytest

from penstock.log_api.errors import LogError, NoDialect, OffsetOutOfRange
from penstock.log_api.log_client import LogClient
from penstock.rocketmq.protocol.codes import RequestCode
from penstock.rocketmq.protocol.messages.message import decode_all

from .conftest import Both


@pytest.fixture
def log(both: Both) -> LogClient:
    """A reader of a topic with two queues that both dialects have sent to."""
    client = both.client()
    both.make_topic(client, "t", queues=2)
    both.send(client, "t", b"zero", queue=0, TAGS="T")
    both.publish("t", b"nsq 0", b"nsq 1")
    for number in range(3):
        both.send(client, "t", b"one %d" % number, queue=1)
    both._closing.append((log := LogClient(f"127.0.0.1:{both.nsqd.ports.http}",
                                           dialect="rocketmq")).close)  # fmt: skip
    return log


def bodies(log: LogClient, queue: int, offset: int, max_bytes: int = 1 << 20) -> list[bytes]:
    found = log.fetch("t", offset, queue=queue, max_bytes=max_bytes)
    messages = list(decode_all(found.data))
    assert [each.queue for each in messages] == [queue] * len(messages)
    assert [each.queue_offset for each in messages] == list(range(offset, offset + len(messages)))
    return [each.body for each in messages]


def test_each_queue_has_its_bounds_and_all_the_id_of_their_log(both: Both, log: LogClient) -> None:
    found = log.offsets("t")
    assert sum(each.end for each in found.queues) == 6
    assert [each.queue for each in found.queues] == [0, 1]
    ids = {each.log for each in found.queues}
    assert ids == {each.log for each in both.log().offsets("t").queues}
    (of_many,) = filter(None, log.offsets_of(["t", "nope"]).values())
    assert of_many == found


def test_messages_are_what_consumers_pull(both: Both, log: LogClient) -> None:
    client = both.client()
    for queue in (0, 1):
        pulled = [each.body for each in both.pulled(client, "t", queue)]
        assert bodies(log, queue, 0) == pulled
        assert bodies(log, queue, 1) == pulled[1:]
        assert bodies(log, queue, 1, max_bytes=1) == pulled[1:2]
        assert bodies(log, queue, len(pulled)) == []
    with pytest.raises(OffsetOutOfRange) as missing:
        log.fetch("t", 99, queue=1)
    assert missing.value.end == log.offsets("t").queues[1].end
    with pytest.raises(LogError, match="QUEUE_NOT_FOUND"):
        log.fetch("t", 0, queue=2)


def test_offsets_by_time_are_of_queues(both: Both, log: LogClient) -> None:
    end = log.offsets("t").queues[1].end
    assert log.offset_at("t", 0, queue=1) == 0
    assert log.offset_at("t", (1 << 63) - 1, queue=1) == end


def test_a_group_is_among_the_consumer_offsets_and_holds_the_log(
    both: Both, log: LogClient
) -> None:
    ends = {each.queue: each.end for each in log.offsets("t").queues}
    log.commit("t", "g", {0: ends[0], 1: ends[1] - 1}, owner="q")
    client = both.client()
    for queue, offset in ((0, ends[0]), (1, ends[1] - 1)):
        answer = client.ask(
            RequestCode.QUERY_CONSUMER_OFFSET, consumerGroup="g", topic="t", queueId=queue
        )
        assert answer.int64("offset") == offset
    assert log.offsets("t").groups == {"g": {0: ends[0], 1: ends[1] - 1}}
    # The last message of queue 1 is the last of the log.
    assert both.topic("t").groups["g"] == 5
    assert both.services.topics.get("%RETRY%g") is not None
    with pytest.raises(LogError, match="INVALID_ARG_OFFSET"):
        log.commit("t", "g", {0: 99})
    with pytest.raises(LogError, match="INVALID_ARG_QUEUE"):
        log.commit("t", "g", {2: 0})
    with pytest.raises(LogError, match="INVALID_ARG_GROUP"):
        log.commit("t", "no group", {0: 0})
    log.delete_group("t", "g")
    assert log.offsets("t").groups == {}
    assert "g" not in both.topic("t").groups


def test_a_node_without_rocketmq_says_so(both: Both, log: LogClient) -> None:
    both.stop_rocketmq()
    reader = LogClient(f"127.0.0.1:{both.nsqd.ports.http}", dialect="rocketmq")
    with pytest.raises(NoDialect, match="DIALECT_NOT_SPOKEN"):
        reader.offsets("t")
    reader.close()
