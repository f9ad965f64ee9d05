"""Readers of RocketMQ's brokers over a scripted one: routes, logs, splits and streams."""

from __future__ import annotations

import logging
import zlib
from collections.abc import Iterator
from typing import Any

import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable

from penstock.log_api.errors import LogError, NodeUnreachable, OffsetOutOfRange, TopicNotFound
from penstock.rocketmq.blocking import RemotingLink
from penstock.rocketmq.protocol.codes import RequestCode, ResponseCode
from penstock.rocketmq.protocol.messages.message import SysFlag, decode_all
from penstock.spark.access import client, close_connections, secured
from penstock.spark.errors import SourceError
from penstock.spark.nodes import directory
from penstock.spark.offsets import Place
from penstock.spark.planning import Split
from penstock.spark.read.batch import BatchReader, SplitPartition
from penstock.spark.read.stream import StreamReader
from penstock.spark.rocketmq import broker_log, decode
from penstock.spark.rocketmq.access import BrokerAccess
from penstock.spark.rocketmq.broker_log import BrokerLog
from penstock.spark.rocketmq.reader import ROCKETMQ, read_split
from penstock.spark.rocketmq.rocketmq_settings import RocketmqSettings
from penstock.spark.rocketmq.routes import Routes, brokers_in
from tests.unit.spark.rocketmq.scripted_broker import NAME, STORED_MS, ScriptedBroker
from tools.harness.fake_log_server import FakeLogServer
from tools.harness.ports import unused_address


@pytest.fixture
def broker() -> Iterator[ScriptedBroker]:
    with ScriptedBroker() as broker:
        yield broker
        close_connections()


def test_a_connection_is_kept_for_a_broker(broker: ScriptedBroker) -> None:
    access = BrokerAccess(timeout_s=60.0, group="g")
    log = client(broker.address, access)
    assert isinstance(log, BrokerLog)
    assert client(broker.address, access) is log
    broker.queue("t")
    assert log.topics() == ["t"]
    assert log.topics() == ["t"]
    assert broker.connections == 1


def test_tls_is_on_the_same_port() -> None:
    access = BrokerAccess(tls=True, same_port=True, verify=False)
    assert secured("127.0.0.1:10911", access) == "127.0.0.1:10911"


def routes(namesrv: str, topic: str = "t") -> Routes:
    given = {"topic": topic, "namesrvaddr": namesrv, "timeout": "60"}
    return Routes(RocketmqSettings.parse(given))


@pytest.mark.parametrize("topic", ["t,u,nope", "*"])
def test_topics_by_the_addresses_of_masters(broker: ScriptedBroker, topic: str) -> None:
    broker.queue("t")
    broker.queue("u")
    assert routes(broker.address, topic).topics_at() == {broker.address: ["t", "u"]}


@pytest.mark.usefixtures("hasty")
def test_a_name_server_that_is_down_or_refuses(broker: ScriptedBroker) -> None:
    broker.queue("t")
    down = unused_address()
    assert routes(f"{down};{broker.address}").topics_at() == {broker.address: ["t"]}
    with pytest.raises(SourceError, match="no name server answers for topic t: connection refused"):
        routes(down).topics_at()
    broker.refuse[RequestCode.GET_ROUTEINFO_BY_TOPIC] = (1, "name server not ready")
    with pytest.raises(SourceError, match="asked for topic t: name server not ready"):
        routes(broker.address).topics_at()


def test_a_silent_name_server_leaves_what_was_known(
    broker: ScriptedBroker, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(directory, "LOOKUP_EVERY_NS", -1)
    broker.queue("t")
    with ScriptedBroker() as server:
        server.queue("t")
        asked = routes(server.address)
        known = dict(asked.topics_at())
        assert known == {server.address: ["t"]}
    assert asked.topics_at() == asked.topics_at() == known
    (said,) = caplog.messages
    assert said.startswith("no name server answers for topic t: connection refused. It goes on")


def route(perm: int = 6, **addresses: str) -> dict[str, Any]:
    broker = {"brokerName": "b", "brokerAddrs": {k[1:]: v for k, v in addresses.items()}}
    return {"queueDatas": [{"brokerName": "b", "perm": perm}], "brokerDatas": [broker]}


def test_replicas_serve_where_there_is_no_master_to_read_from() -> None:
    assert brokers_in(route(_0="m:1", _1="s:1")) == ["m:1"]
    assert brokers_in(route(_2="r:1", _1="s:1")) == ["s:1"]
    assert brokers_in(route()) == []
    assert brokers_in(route(perm=2, _0="m:1")) == []


@pytest.mark.parametrize("wrong", [None, [], {}, route(perm="6")])  # type: ignore[arg-type]
def test_a_route_that_makes_no_sense(wrong: Any) -> None:
    if isinstance(wrong, dict) and wrong:
        wrong["brokerDatas"] = 5
    with pytest.raises(SourceError, match="makes no sense"):
        brokers_in(wrong)


MS = 1_000_000


@pytest.fixture
def log(broker: ScriptedBroker) -> Iterator[BrokerLog]:
    log = BrokerLog(RemotingLink(broker.address, 60.0), "g")
    yield log
    log.close()


def offsets_in(data: bytes) -> list[int]:
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
    assert offsets_in(found.data) == list(range(5, 1000))
    assert (found.start, found.end) == (0, 1000)
    assert broker.pulls() == list(range(5, 1000, 32))
    assert log.fetch("t", 1000).data == b""


def test_a_fetch_ends_at_about_the_bytes_asked_for(broker: ScriptedBroker, log: BrokerLog) -> None:
    broker.queue().append([b"x" * 1000] * 1000)
    found = log.fetch("t", 0, max_bytes=100_000)
    assert 100_000 <= len(found.data) < 150_000
    assert offsets_in(found.data) == list(range(len(offsets_in(found.data))))
    assert len(offsets_in(log.fetch("t", 0, max_bytes=1).data)) == 32


def test_pulls_that_bring_less_than_the_first_are_asked_again(
    broker: ScriptedBroker, log: BrokerLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    broker.queue().append([b"x"] * 500)
    given = iter([32, 32, 8, 32, 32])

    def answer(request: object) -> object:
        broker.per_pull = next(given, 8)
        return ScriptedBroker.answer(broker, request)  # type: ignore[arg-type]

    monkeypatch.setattr(broker, "answer", answer)
    assert offsets_in(log.fetch("t", 0, max_bytes=1 << 20).data) == list(range(500))


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


PLACE = Place("t", NAME, 0)


def settings(broker: ScriptedBroker, **options: str) -> RocketmqSettings:
    given = {"topic": "t", "namesrvaddr": broker.address, "timeout": "60", **options}
    return RocketmqSettings.parse(given)


def offsets(broker: ScriptedBroker, start: int, end: int, **options: str) -> list[int]:
    split = Split(PLACE, broker.address, start, end, 100.0)
    batches = read_split(split, ("queue_offset",), settings(broker, **options))
    return [row["queue_offset"] for batch in batches for row in batch.to_pylist()]


def test_a_split_is_read_from_its_start_up_to_its_end(broker: ScriptedBroker) -> None:
    broker.queue().append([b"x" * 500] * 2000)
    assert offsets(broker, 37, 1963) == list(range(37, 1963))
    assert offsets(broker, 37, 1963, fetchbytes="1") == list(range(37, 1963))
    assert list(read_split(None, ("body",), RocketmqSettings())) == []


def test_messages_that_unpack_to_too_much_at_once_come_one_batch_after_the_other(
    broker: ScriptedBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(decode, "_BODIES_BYTES_MAX", 25_000)
    broker.queue().append(
        [zlib.compress(b"%d" % number * 10_000) for number in range(10)], SysFlag.COMPRESSED
    )
    split = Split(PLACE, broker.address, 0, 10, 100.0)
    found = list(read_split(split, ("body",), settings(broker)))
    assert [each.num_rows for each in found] == [2] * 5
    assert [row["body"][:1] for each in found for row in each.to_pylist()] == [
        b"%d" % number for number in range(10)
    ]


def test_what_retention_took_ends_it_unless_told_otherwise(broker: ScriptedBroker) -> None:
    broker.queue().append([b"x"] * 100)
    broker.queue().expire(50)
    with pytest.raises(SourceError, match=f"offset 10 of topic t .*{NAME} is gone: .* starts at 5"):
        offsets(broker, 10, 80)
    assert offsets(broker, 10, 80, failondataloss="false") == list(range(50, 80))


def test_messages_that_the_broker_lost_end_it_unless_told_otherwise(
    broker: ScriptedBroker, caplog: pytest.LogCaptureFixture
) -> None:
    queue = broker.queue()
    queue.append([b"x"] * 30)
    lost = queue.frames[20:25]
    queue.append([b"x"] * 10)
    queue.frames[20:25] = [b""] * len(lost)
    with pytest.raises(SourceError, match=r"offset 20 of topic t .* is missing .* goes on at 25"):
        offsets(broker, 0, 40)
    assert offsets(broker, 0, 40, failondataloss="false") == [*range(20), *range(25, 40)]
    (warning,) = caplog.messages
    assert warning.startswith(f"offset 20 of topic t (queue 0) on node {NAME} is missing")
    assert warning.endswith("; the log goes on at 25. Skipped, as failOnDataLoss=false")


COLUMNS = ("queue", "queue_offset")


def stream(broker: ScriptedBroker, **options: str) -> StreamReader:
    given = settings(broker, **{"startingOffsets": "earliest", **options})
    return StreamReader(given, COLUMNS, ROCKETMQ)


def rows(reader: StreamReader, start: Any, end: Any) -> list[tuple[int, int]]:
    return [
        (row["queue"], row["queue_offset"])
        for partition in reader.partitions(start, end)
        for batch in reader.read(partition)
        for row in batch.to_pylist()
    ]


def test_queues_are_places_and_batches_are_repeated_exactly(broker: ScriptedBroker) -> None:
    for number in (0, 1):
        broker.queue(number=number).append([b"x"] * 50)
    reader = stream(broker, group="g")
    start = reader.initialOffset()
    end = reader.latestOffset(start, ReadAllAvailable())
    assert end["offsets"] == {"t": {NAME: {"0": 50, "1": 50}}}
    wanted = [(queue, offset) for queue in (0, 1) for offset in range(50)]
    assert rows(reader, start, end) == wanted
    broker.queue().append([b"x"] * 10)
    assert rows(stream(broker, group="g"), start, end) == wanted  # after a restart
    last = reader.latestOffset(end, ReadAllAvailable())
    assert broker.committed["t", "g", 0] == 50
    assert rows(reader, end, last) == [(0, offset) for offset in range(50, 60)]


def test_a_topic_that_was_deleted_before_it_was_read(
    broker: ScriptedBroker, caplog: pytest.LogCaptureFixture
) -> None:
    broker.queue().append([b"x"] * 50)
    broker.queue("u")
    reader = stream(broker, topic="t,u")
    start = reader.initialOffset()
    end = reader.latestOffset(start, ReadAllAvailable())
    broker.queue().append([b"x"] * 5)
    reader.latestOffset(end, ReadAllAvailable())
    del broker.topics["t"]
    reader.cluster._directory._looked_up_ns = 0
    with pytest.raises(SourceError, match=f"deleted on node {NAME}: offsets 50 to 55 were not re"):
        reader.latestOffset(end, ReadAllAvailable())
    broker.queue().append([b"y"] * 20)  # made again, and shorter
    reader.cluster._directory._looked_up_ns = 0
    with pytest.raises(SourceError, match=r"offset 50 of topic t .* is beyond its end 20"):
        reader.latestOffset(end, ReadAllAvailable())
    lenient = stream(broker, topic="t,u", failondataloss="false")
    with caplog.at_level(logging.WARNING, "penstock.spark"):
        again = lenient.latestOffset(end, ReadAllAvailable())
        assert rows(lenient, end, again) == [(0, offset) for offset in range(20)]
    assert "Skipped, as failOnDataLoss=false" in caplog.text


def test_the_only_topic_is_deleted_and_comes_back(
    broker: ScriptedBroker, caplog: pytest.LogCaptureFixture
) -> None:
    broker.queue().append([b"x"] * 50)
    reader = stream(broker, failondataloss="false")
    end = reader.latestOffset(reader.initialOffset(), ReadAllAvailable())
    del broker.topics["t"]
    reader.cluster._directory._looked_up_ns = 0
    assert reader.latestOffset(end, ReadAllAvailable()) == end
    assert rows(reader, end, end) == []
    assert f"topic t was deleted on node {NAME}: it was read up to offset 50" in caplog.text
    broker.queue().append([b"y"] * 20)
    reader.cluster._directory._looked_up_ns = 0
    again = reader.latestOffset(end, ReadAllAvailable())
    assert rows(reader, end, again) == [(0, offset) for offset in range(20)]


def test_a_stream_starts_where_a_group_of_consumers_stands(broker: ScriptedBroker) -> None:
    for number in (0, 1):
        broker.queue(number=number).append([b"x"] * 9)
    broker.committed["t", "g", 0] = 6
    reader = stream(broker, group="g", startingOffsets="group")
    start = reader.initialOffset()
    assert start["offsets"] == {"t": {NAME: {"0": 6, "1": 0}}}
    with pytest.raises(SourceError, match="topic t has no group h"):
        stream(broker, group="h", startingOffsets="group").initialOffset()
    # Brokers hold nothing for a group: what went meanwhile is lost.
    broker.queue().expire(8)
    with pytest.raises(SourceError, match=r"offset 6 of topic t .* is gone: the log starts at 8"):
        stream(broker, group="g", startingOffsets="group").initialOffset()


def test_a_batch_is_planned_once(broker: ScriptedBroker) -> None:
    broker.queue(number=2).append([b"x"] * 50)
    reader = BatchReader(settings(broker), COLUMNS, ROCKETMQ)
    partitions = reader.partitions()
    broker.queue(number=2).append([b"x"] * 50)
    assert all(isinstance(each, SplitPartition) for each in partitions)
    found = [row for each in partitions for batch in reader.read(each) for row in batch.to_pylist()]
    assert found == [{"queue": 2, "queue_offset": offset} for offset in range(50)]


def test_a_node_that_knows_nsq_only_is_named(server: FakeLogServer) -> None:
    server.queue("t").append([b"x"])
    given = {"topic": "t", "nsqd_http_address": server.address, "timeout": "60"}
    reader = BatchReader(RocketmqSettings.parse(given), COLUMNS, ROCKETMQ)
    with pytest.raises(SourceError, match=f"node {server.address} does not serve RocketMQ's queue"):
        reader.partitions()
