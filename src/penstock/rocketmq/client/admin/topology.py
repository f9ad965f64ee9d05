"""Clusters with their brokers, and the route of a topic, as name servers tell them."""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from penstock.rocketmq.client.admin.errors import AdminError
from penstock.rocketmq.protocol import fastjson
from penstock.rocketmq.protocol.message_queue import MessageQueue

MASTER: Final = 0
NO_CLUSTER: Final = (
    "[error] Make sure the specified clusterName exists or the name server connected to is correct."
)


class Broker(NamedTuple):
    """A broker with its replicas: addresses by number, 0 is the master."""

    name: str
    cluster: str
    addresses: dict[int, str]

    @property
    def master(self) -> str | None:
        return self.addresses.get(MASTER)

    def any_address(self) -> str:
        """The master's address, else that of a replica; empty when there is none."""
        return self.master or random.choice(list(self.addresses.values()) or [""])


class Replica(NamedTuple):
    """One server of a broker: its master, with the number 0, or one of its replicas."""

    cluster: str
    broker: str
    number: int
    address: str

    def __str__(self) -> str:
        return f"broker {self.broker}"


def _broker(value: dict[str, Any]) -> Broker:
    addresses = fastjson.int_keys(value.get("brokerAddrs") or {})
    found = {number: str(addresses[number]) for number in sorted(addresses)}
    return Broker(str(value["brokerName"]), str(value.get("cluster") or ""), found)


@dataclass(frozen=True, slots=True)
class Clusters:
    """The brokers of each cluster by name, and all brokers."""

    names: dict[str, list[str]]
    brokers: dict[str, Broker]

    @classmethod
    def parse(cls, value: dict[str, Any]) -> Clusters:
        """From a name server's answer."""
        table = value.get("clusterAddrTable") or {}
        brokers = value.get("brokerAddrTable") or {}
        return cls(
            {str(name): sorted(map(str, table[name])) for name in sorted(table)},
            {str(name): _broker(brokers[name]) for name in sorted(brokers)},
        )

    def of(self, cluster: str) -> list[Broker]:
        """The brokers of one cluster. Raises AdminError when there is no such cluster."""
        if cluster not in self.names:
            raise AdminError(NO_CLUSTER)
        return [self.brokers[name] for name in self.names[cluster] if name in self.brokers]

    def masters(self, cluster: str) -> list[str]:
        """The addresses of a cluster's masters."""
        return [each.master for each in self.of(cluster) if each.master]

    def addresses(self, cluster: str) -> list[str]:
        """The addresses of a cluster's brokers, replicas included."""
        return [address for each in self.of(cluster) for address in each.addresses.values()]

    def replicas(self) -> list[Replica]:
        """Each server of each broker of each cluster."""
        return [
            Replica(cluster, broker.name, number, address)
            for cluster in self.names
            for broker in self.of(cluster)
            for number, address in broker.addresses.items()
        ]

    def cluster_of(self, broker: str) -> str | None:
        """The first cluster with a broker of this name."""
        return next((name for name, brokers in self.names.items() if broker in brokers), None)

    def name_of(self, address: str) -> str:
        """The name of the broker at an address. Raises AdminError."""
        for each in self.brokers.values():
            if address in each.addresses.values():
                return each.name
        raise AdminError(NO_CLUSTER.removeprefix("[error] "))


class QueueData(NamedTuple):
    """The queues that one broker has of a topic; the fields have the names of their JSON."""

    brokerName: str
    readQueueNums: int
    writeQueueNums: int
    perm: int
    topicSysFlag: int


@dataclass(frozen=True, slots=True)
class TopicRoute:
    """The brokers of a topic and their queues, both sorted by the broker's name."""

    brokers: list[Broker]
    queues: list[QueueData]
    order: str | None

    @classmethod
    def parse(cls, value: dict[str, Any]) -> TopicRoute:
        """From a name server's answer."""
        queues = [
            QueueData(
                str(each["brokerName"]),
                int(each["readQueueNums"]),
                int(each["writeQueueNums"]),
                int(each["perm"]),
                int(each.get("topicSysFlag", each.get("topicSynFlag", 0))),
            )
            for each in value.get("queueDatas") or ()
        ]
        brokers = [_broker(each) for each in value.get("brokerDatas") or ()]
        order = value.get("orderTopicConf")
        return cls(sorted(brokers), sorted(queues), str(order) if order is not None else None)

    @property
    def addresses(self) -> list[str]:
        """An address of each broker."""
        return [address for each in self.brokers if (address := each.any_address())]

    def readable(self, topic: str) -> list[MessageQueue]:
        """The queues that can be read."""
        return [
            MessageQueue(each.brokerName, number, topic)
            for each in self.queues
            if each.perm & 4
            for number in range(each.readQueueNums)
        ]
