"""RocketMQ's groups in NSQ's statistics."""

from __future__ import annotations

from penstock.rocketmq.protocol.codes import RequestCode
from tests.unit.rocketmq.broker.peers import heartbeat
from tools.harness.rocketmq.raw_client import RawClient

from .conftest import Both


def commit(client: RawClient, group: str, topic: str, queue: int, offset: int) -> None:
    client.ask(RequestCode.UPDATE_CONSUMER_OFFSET, consumerGroup=group, topic=topic, queueId=queue,
               commitOffset=offset)  # fmt: skip


def prepare(both: Both) -> RawClient:
    client = both.client()
    both.make_topic(client, "t", queues=2)
    for number in range(5):
        both.send(client, "t", b"%d" % number, queue=number % 2)
    client.ask(RequestCode.HEART_BEAT, heartbeat("10.0.0.1@1", "G", topic="t", producers=("PG",)))
    commit(client, "G", "t", 0, 2)
    commit(client, "gone", "t", 0, 3)
    commit(client, "gone", "t", 1, 2)
    return client


def test_groups_of_a_topic_as_json(both: Both) -> None:
    client = prepare(both)
    stats = both.http("GET", "/stats?format=json&topic=t")
    (topic,) = stats["topics"]
    online, gone = topic["consumer_groups"]
    address = online["clients"][0].pop("remote_address")
    assert address.startswith("127.0.0.1:")
    assert online == {
        "group_name": "G", "message_model": "CLUSTERING", "lag": 3, "committed": {"0": 2},
        "rate": 0.0, "client_count": 1,
        "clients": [{"client_id": "10.0.0.1@1", "language": "JAVA", "version": 409}],
    }  # fmt: skip
    assert (gone["group_name"], gone["lag"], gone["client_count"]) == ("gone", 0, 0)
    (producers,) = stats["producer_groups"]
    assert (producers["group_name"], producers["client_count"]) == ("PG", 1)
    assert producers["clients"][0]["client_id"] == "10.0.0.1@1"
    client.close()


def test_ports_and_connections_of_both_dialects(both: Both) -> None:
    client = both.client()
    client.ask(RequestCode.HEART_BEAT, heartbeat("10.0.0.1@1", "G", topic="t"))
    told = both.http("GET", "/node")
    assert set(told["ports"]) == {"tcp", "http", "rocketmq"}
    assert told["connections"] == {"nsq": 0, "rocketmq": 1}
    client.close()


def test_what_is_left_out(both: Both) -> None:
    prepare(both)
    stats = both.http("GET", "/stats?format=json&topic=t&include_clients=false")
    assert "producer_groups" not in stats
    assert [each["clients"] for each in stats["topics"][0]["consumer_groups"]] == [None, None]
    both.http("POST", "/channel/create?topic=t&channel=gone")
    stats = both.http("GET", "/stats?format=json&topic=t&channel=gone")
    assert [each["group_name"] for each in stats["topics"][0]["consumer_groups"]] == ["gone"]


def test_groups_as_text(both: Both) -> None:
    prepare(both)
    lines = both.http("GET", "/stats?topic=t").splitlines()
    (group,) = [line for line in lines if line.startswith("      {G ")]
    words = group.split()
    assert words[2:8] == ["CLUSTERING", "lag:", "3", "rate:", "0.0", "clients:"]
    assert words[-2:] == ["committed:", "0=2"]
    assert "        [JAVA 10.0.0.1@1]" in lines[lines.index(group) + 1]
    assert any(line.startswith("   {PG ") for line in lines[lines.index("Producer groups:") :])


def test_lag_for_prometheus(both: Both) -> None:
    prepare(both)
    text = both.http("GET", "/metrics")
    assert 'nsqd_group_lag{topic="t",group="G"} 3\n' in text
    assert 'nsqd_group_lag{topic="t",group="gone"} 0\n' in text
    assert 'nsqd_group_members{topic="t",group="G"} 1\n' in text


def test_a_plain_nsqd_says_nothing_of_groups(both: Both) -> None:
    prepare(both)
    both.stop_rocketmq()
    stats = both.http("GET", "/stats?format=json")
    assert "producer_groups" not in stats
    assert all("consumer_groups" not in topic for topic in stats["topics"])
    assert "nsqd_group" not in both.http("GET", "/metrics")
