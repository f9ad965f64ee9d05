"""The log, replay and what looks at messages: all see NSQ's messages, whoever sent them."""

from __future__ import annotations

import json
import zlib

from penstock.broker.dead_letters import decode_origins
from penstock.log_api.log_client import LogClient
from penstock.nsq.protocol.translation import bodies as nsq_bodies
from penstock.rocketmq.protocol.codes import RequestCode
from penstock.spark.offsets import Place
from penstock.spark.read.decode import record_batch, wanted_parts
from penstock.storage.batch import Dialect
from tools.harness.rocketmq.raw_client import RawClient

from .conftest import SECONDS, Both, bodies, received

TEXT = b"so long that a client packs it " * 200
EXPECTED = [b"nsq 0", b"nsq 1", TEXT, b"rocket", b"nsq 2"]


def fill(both: Both, topic: str) -> RawClient:
    client = both.client()
    both.make_topic(client, topic, queues=2)
    both.publish(topic, b"nsq 0", b"nsq 1")
    both.send(client, topic, zlib.compress(TEXT), sys_flag=1, queue=1)
    both.send(client, topic, b"rocket")
    both.publish(topic, b"nsq 2")
    return client


def fetched(log: LogClient, topic: str, offset: int) -> list[tuple[int, bytes]]:
    found: list[tuple[int, bytes]] = []
    for batch in log.fetch(topic, offset).batches():
        assert batch.dialect == Dialect.NSQ
        batch.verify()
        place = range(batch.first_offset, batch.next_offset)
        found += zip(place, nsq_bodies(batch, batch.first_offset, batch.next_offset), strict=True)
    return found


def test_the_log_is_fetched_as_nsqs(both: Both) -> None:
    fill(both, "t")
    log = both.log()
    assert fetched(log, "t", 0) == list(enumerate(EXPECTED))
    assert fetched(log, "t", 3) == list(enumerate(EXPECTED))[3:]
    (bounds,) = log.offsets("t").queues
    assert (bounds.start, bounds.end) == (0, 5)


def test_spark_reads_what_is_fetched(both: Both) -> None:
    fill(both, "t")
    buffer = both.log().fetch("t", 0).data
    parts = list(wanted_parts(buffer, 1, 5))
    rows = record_batch(parts, Place("t", "node", 0), ("body", "id", "offset"))
    assert rows.column(0).to_pylist() == EXPECTED[1:]
    base = both.topic("t").log.id_base
    assert rows.column(1).to_pylist() == [f"{base + offset:016x}" for offset in range(1, 5)]
    assert rows.column(2).to_pylist() == [1, 2, 3, 4]


def test_a_channel_replays_from_an_offset_and_from_a_time(both: Both) -> None:
    fill(both, "t")
    both.http("POST", "/channel/create?topic=t&channel=c&offset=2")
    consumer = both.consumer("t", max_in_flight=9)
    messages = received(consumer, 3)
    assert [each.body for each in messages] == EXPECTED[2:]
    time_ns = messages[1].timestamp_ns
    offset = both.log().offset_at("t", time_ns)
    assert offset <= 3
    both.http("POST", f"/channel/seek?topic=t&channel=c&timestamp_ns={time_ns}")
    assert bodies(consumer, 5 - offset) == EXPECTED[offset:]


def test_browsing(both: Both) -> None:
    fill(both, "t")
    both.http("POST", "/channel/create?topic=t&channel=c")
    for path in ("/topic/peek?topic=t", "/channel/peek?topic=t&channel=c"):
        messages = both.http("GET", f"{path}&preview=65536")["messages"]
        assert [each["body"].encode() for each in messages] == EXPECTED
        assert [each["size"] for each in messages] == [len(body) for body in EXPECTED]


def test_dead_letters(both: Both) -> None:
    client = both.client()
    both.send(client, "t", zlib.compress(TEXT), sys_flag=1, TAGS="a")
    consumer = both.consumer("t")
    both.http("POST", "/channel/config?topic=t&channel=c",
              {"max_attempts": 1, "dead_letter_topic": "grave"})  # fmt: skip
    message = consumer.get(SECONDS)
    assert message is not None
    assert message.requeue(0, backoff=False)
    (letter,) = received(both.consumer("grave"), 1)
    assert (letter.body, letter.timestamp_ns) == (TEXT, message.timestamp_ns)
    (shown,) = both.http("GET", "/deadletters?topic=grave")["messages"]
    assert shown["origin"]["topic"] == "t"
    batches, _ = both.topic("grave").log.batches_at(0)
    origins = decode_origins(batches[0].note)
    assert origins is not None
    assert [f"{each:016x}".encode() for each in origins.ids] == [message.id]
    # And RocketMQ's consumers can read the grave as any topic of NSQ's.
    assert [each.body for each in both.pulled(client, "grave")] == [TEXT]


def test_percentiles_know_when_rocketmqs_messages_were_stored(both: Both) -> None:
    client = both.client()
    for number in range(5):
        both.send(client, "t", b"%d" % number)
    bodies(both.consumer("t", max_in_flight=9), 5)
    (topic,) = both.http("GET", "/stats?format=json&topic=t")["topics"]
    (channel,) = topic["channels"]
    latency = channel["e2e_processing_latency"]
    assert latency["count"] == 5
    assert 0 < latency["percentiles"][0]["value"] < SECONDS * 10**9


def test_a_plain_nsqd_reads_what_rocketmq_left_behind(both: Both) -> None:
    fill(both, "t")
    both.stop_rocketmq()
    assert bodies(both.consumer("t", max_in_flight=9), 5) == EXPECTED
    assert both.http("GET", "/stats?format=json&topic=t")["topics"][0]["depth"] == 0
    both.publish("t", b"more")
    both.restart()
    client = both.client()
    answer = client.ask(RequestCode.GET_ALL_TOPIC_CONFIG)
    assert json.loads(answer.body)["topicConfigTable"]["t"]["writeQueueNums"] == 2
    assert b"more" in [each.body for each in both.pulled(client, "t", 0)]
