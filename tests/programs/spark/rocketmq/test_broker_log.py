"""A broker's log by pulls, against a broker that gives 32 messages each."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from penstock.log_api.errors import LogError, NodeUnreachable, OffsetOutOfRange, TopicNotFound
from penstock.rocketmq.blocking import RemotingLink
from penstock.rocketmq.protocol.codes import RequestCode, ResponseCode
from penstock.rocketmq.protocol.messages.message import decode_all
from penstock.spark.rocketmq import broker_log
from penstock.spark.rocketmq.broker_log import BrokerLog
from tests.unit.spark.rocketmq.scripted_broker import NAME, STORED_MS, ScriptedBroker

MS = 1_000_000


@pytest.fixture
def log(broker: ScriptedBroker) -> Iterator[BrokerLog]:
    log = BrokerLog(RemotingLink(broker.address, 60.0), "g")
    yield log
    log.close()


def offsets(data: bytes) -> list[int]:
    return [message.queue_offset for message in decode_all(data)]


def test_the_bounds_of_all_queues_are_one_request(broker: ScriptedBroker, log: BrokerLog) -> None:
    broker.queue().append([b"x"] * 10)
    broker.queue().expire(3)
    broker.queue(number=1)
    found = log.offsets_of(["t", "nope"])
    assert found["nope"] is None
    assert found["t"] is not None
    assert found["t"].node == NAME
    assert [(each.queue, each.start, each.end) for each in found["t"].queues] == [
        (0, 3, 10),
        (1, 0, 0),
    ]
    assert len(broker.requests) == 2
    assert log.topics() == ["t"]


def test_a_fetch_is_as_many_pulls_as_it_takes(broker: ScriptedBroker, log: BrokerLog) -> None:
    broker.queue().append(b"%04d" % number for number in range(1000))
    found = log.fetch("t", 5, max_bytes=1 << 20)
    assert offsets(found.data) == list(range(5, 1000))
    assert (found.start, found.end) == (0, 1000)
    assert broker.pulls() == list(range(5, 1000, 32))
    assert log.fetch("t", 1000).data == b""


def test_a_fetch_ends_at_about_the_bytes_asked_for(broker: ScriptedBroker, log: BrokerLog) -> None:
    broker.queue().append([b"x" * 1000] * 1000)
    found = log.fetch("t", 0, max_bytes=100_000)
    assert 100_000 <= len(found.data) < 150_000
    assert offsets(found.data) == list(range(len(offsets(found.data))))
    assert len(offsets(log.fetch("t", 0, max_bytes=1).data)) == 32


def test_pulls_that_bring_less_than_the_first_are_asked_again(
    broker: ScriptedBroker, log: BrokerLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    broker.queue().append([b"x"] * 500)
    given = iter([32, 32, 8, 32, 32])

    def answer(request: object) -> object:
        broker.per_pull = next(given, 8)
        return ScriptedBroker.answer(broker, request)  # type: ignore[arg-type]

    monkeypatch.setattr(broker, "answer", answer)
    assert offsets(log.fetch("t", 0, max_bytes=1 << 20).data) == list(range(500))


def test_an_offset_that_is_not_there_is_told_with_the_bounds(
    broker: ScriptedBroker, log: BrokerLog
) -> None:
    broker.queue().append([b"x"] * 10)
    broker.queue().expire(4)
    for offset in (3, 11):
        with pytest.raises(OffsetOutOfRange) as missing:
            log.fetch("t", offset)
        assert (missing.value.start, missing.value.end) == (4, 10)


@pytest.mark.parametrize("last_of_older", [True, False], ids=["4.9", "5.x"])
def test_the_offset_of_a_time(broker: ScriptedBroker, log: BrokerLog, last_of_older: bool) -> None:
    broker.last_of_older = last_of_older
    assert broker.queue().end == 0
    assert log.offset_at("t", 0) == 0
    broker.queue().append([b"x"] * 10)
    at = [0, STORED_MS, STORED_MS + 1, STORED_MS + 9000, STORED_MS + 9001]
    assert [log.offset_at("t", ms * MS) for ms in at] == [0, 0, 1, 9, 10]
    assert log.offset_at("t", STORED_MS * MS + 1) == 1


def test_a_group_is_a_member_that_tells_how_far_it_is(
    broker: ScriptedBroker, log: BrokerLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(broker_log, "_BEAT_EVERY_NS", 1 << 62)
    for number in (0, 1):
        broker.queue(number=number)
    broker.queue("u")
    assert log.commit_all("g", {"t": {0: 5, 1: 7}}) == {}
    assert log.commit_all("g", {"t": {0: 6}}) == {}
    assert log.commit_all("g", {"u": {0: 1}}) == {}
    assert broker.committed == {("t", "g", 0): 6, ("t", "g", 1): 7, ("u", "g", 0): 1}
    subscribed = [
        [each["topic"] for each in beat["consumerDataSet"][0]["subscriptionDataSet"]]
        for beat in broker.beats
    ]
    assert subscribed == [["t"], ["t", "u"]]
    failed = log.commit_all("g", {"nope": {0: 1}, "t": {0: 9}})
    assert list(failed) == ["nope"]
    assert broker.committed["t", "g", 0] == 9


def test_the_first_commit_of_a_group_in_a_topic_is_answered_before_the_next(
    broker: ScriptedBroker, log: BrokerLog
) -> None:
    """Java's broker makes the group's table with it, and may lose one of two that come at once."""
    for number in (0, 1):
        broker.queue(number=number)
    assert log.commit_all("g", {"t": {}}) == {}
    broker.refuse[RequestCode.UPDATE_CONSUMER_OFFSET] = (ResponseCode.SYSTEM_ERROR, "busy")
    assert list(log.commit_all("g", {"t": {0: 5, 1: 7}})) == ["t"]
    assert broker.commits() == [0]
    broker.refuse.clear()
    assert log.commit_all("g", {"t": {0: 5, 1: 7}}) == {}
    assert broker.commits() == [0, 0, 1]
    assert broker.committed == {("t", "g", 0): 5, ("t", "g", 1): 7}


def test_without_a_group_nobody_is_told(broker: ScriptedBroker) -> None:
    broker.queue().append([b"x"])
    log = BrokerLog(RemotingLink(broker.address, 60.0), "")
    assert log.commit_all("spark-1234", {"t": {0: 1}}) == {}
    assert log.delete_groups("spark-1234", ["t"]) == {}
    assert broker.requests == []
    assert log.fetch("t", 0).data
    assert broker.requests[0].text("consumerGroup") == "TOOLS_CONSUMER"
    log.close()


def test_the_offsets_of_a_group_are_told_where_it_has_some(
    broker: ScriptedBroker, log: BrokerLog
) -> None:
    for number in (0, 1):
        broker.queue("t", number).append([b"x"] * 9)
    broker.queue("u").append([b"x"])
    broker.committed["t", "g", 1] = 4
    assert log.group_offsets("g", ["t", "u", "nowhere"]) == {"t": {1: 4}}
    assert log.group_offsets("other", ["t"]) == {}


def test_refusals_are_told_with_the_brokers_words(broker: ScriptedBroker, log: BrokerLog) -> None:
    broker.queue()
    broker.refuse[RequestCode.PULL_MESSAGE] = (ResponseCode.NO_PERMISSION, "no permission for g")
    with pytest.raises(LogError, match="no permission for g") as refused:
        log.fetch("t", 0)
    assert refused.value.status < 500
    broker.refuse[RequestCode.PULL_MESSAGE] = (ResponseCode.SYSTEM_BUSY, "busy")
    with pytest.raises(LogError, match="busy") as busy:
        log.fetch("t", 0)
    assert busy.value.status == 503
    broker.refuse.clear()
    with pytest.raises(TopicNotFound):
        log.fetch("nope", 0)
    broker.refuse[RequestCode.GET_TOPIC_STATS_INFO] = (0, "")
    with pytest.raises(LogError, match="lacks offsetTable: is this the address of a broker"):
        log.offsets_of(["t"])


def test_a_broker_that_is_not_there() -> None:
    log = BrokerLog(RemotingLink("127.0.0.1:9", 1.0), "")
    with pytest.raises(NodeUnreachable, match="refused"):
        log.fetch("t", 0)
