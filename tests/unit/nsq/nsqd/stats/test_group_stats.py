"""Groups in /stats."""

from __future__ import annotations

from typing import Any, cast

from penstock.broker.group_figures import ConsumerGroup, GroupMember, ProducerGroup
from penstock.node.dialect import Dialect
from penstock.node.log_groups import LogGroup
from penstock.nsq.nsqd.stats import group_stats

MEMBER = GroupMember("id", "127.0.0.1:5", "JAVA", 409)


class Groups:
    """A dialect of which only the groups are asked for."""

    def consumer_groups(self, topic: str) -> list[ConsumerGroup]:
        if topic != "t":
            return []
        return [ConsumerGroup("G", "CLUSTERING", [MEMBER], {0: 5, 1: 6}, 2, 1.25),
                ConsumerGroup("H", "BROADCASTING", [], {}, 0, 0.0)]  # fmt: skip

    def producer_groups(self) -> list[ProducerGroup]:
        return [ProducerGroup("PG", [MEMBER])]


DIALECTS = [cast(Dialect, Groups())]


def consumers(topic: str = "t", name: str = "", with_clients: bool = True) -> list[dict[str, Any]]:
    return group_stats.consumer_groups(DIALECTS, topic, name, with_clients=with_clients)


def test_of_a_topic() -> None:
    first, second = consumers()
    assert first == {
        "group_name": "G", "message_model": "CLUSTERING", "lag": 2,
        "committed": {"0": 5, "1": 6}, "rate": 1.25, "client_count": 1,
        "clients": [{"client_id": "id", "remote_address": "127.0.0.1:5", "language": "JAVA",
                     "version": 409}],
    }  # fmt: skip
    assert second["group_name"] == "H"
    assert consumers("other") == []
    assert [each["group_name"] for each in consumers(name="H")] == ["H"]
    assert consumers(with_clients=False)[0]["clients"] is None


def test_lines() -> None:
    lines = group_stats.consumer_lines({"consumer_groups": consumers()})
    assert lines == [
        "      {G                        } CLUSTERING   lag: 2        rate: 1.2      clients: 1    "
        "committed: 0=5,1=6\n",
        "        [JAVA id] 127.0.0.1:5 version: 409\n",
        "      {H                        } BROADCASTING lag: 0        rate: 0.0      clients: 0    "
        "committed: \n",
    ]
    assert group_stats.consumer_lines({}) == []


def test_producers() -> None:
    stats = {"producer_groups": group_stats.producer_groups(DIALECTS)}
    assert group_stats.producer_lines(stats) == [
        "\nProducer groups:\n",
        "   {PG                       } clients: 1\n",
        "        [JAVA id] 127.0.0.1:5 version: 409\n",
    ]
    assert group_stats.producer_lines({}) == group_stats.producer_lines({"producer_groups": []})


def test_log_groups() -> None:
    groups = [LogGroup("g", 5, 2, 1.25, "q1", 90_000, 3600, stale=True),
              LogGroup("h", 0, 9, 0.0)]  # fmt: skip
    found = group_stats.log_groups(groups, "")
    assert found == [
        {"group_name": "g", "committed": {"0": 5}, "lag": 2, "rate": 1.25, "owner": "q1",
         "age": 90_000, "expires_in": 3600, "stale": True},
        {"group_name": "h", "committed": {"0": 0}, "lag": 9, "rate": 0.0, "owner": None,
         "age": 0, "expires_in": None, "stale": False},
    ]  # fmt: skip
    assert group_stats.log_groups(groups, "h") == found[1:]
    assert group_stats.log_lines({"log_groups": found}) == [
        "      {g                        } LOG          lag: 2        rate: 1.2      "
        "age: 25h0m0s   committed: 0=5 owner: q1 STALE\n",
        "      {h                        } LOG          lag: 9        rate: 0.0      "
        "age: 0s        committed: 0=0\n",
    ]
    assert group_stats.log_lines({}) == []
