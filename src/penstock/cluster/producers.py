"""The nsqds of a cluster, as nsqlookupds and they themselves describe them (NSQ spec 5.3)."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

from msgspec import UNSET, Struct, UnsetType

from penstock.cluster.stats import Place
from penstock.net.address import join_host_port

_NUMBER = r"(?:0|[1-9][0-9]*)"
_VERSION: Final = re.compile(
    rf"(?P<major>{_NUMBER})\.(?P<minor>{_NUMBER})\.(?P<patch>{_NUMBER})"
    r"(?:-(?P<pre>[0-9A-Za-z-]+(?:\.[0-9A-Za-z-]+)*))?"
    r"(?:\+[0-9A-Za-z-]+(?:\.[0-9A-Za-z-]+)*)?"
)
_LONGEST: Final = 256

_Part = tuple[int, int, str]
Version = tuple[int, int, int, bool, tuple[_Part, ...]]
"""Ordered as versions are: major, minor, patch, whether it is a release, pre-release parts."""

LOWEST: Final[Version] = (0, 0, 0, True, ())


def parse_version(text: str) -> Version:
    """The sort key of a version; an invalid one sorts as 0.0.0, as in nsqadmin."""
    found = _VERSION.fullmatch(text) if len(text) <= _LONGEST else None
    if found is None:
        return LOWEST
    pre = tuple(map(_part, found["pre"].split("."))) if found["pre"] else ()
    return int(found["major"]), int(found["minor"]), int(found["patch"]), not pre, pre


def _part(text: str) -> _Part:
    """The sort key of a part: numbers come before words."""
    return (0, int(text), "") if text.isdigit() else (1, 0, text)


class ProducerTopic(Struct):
    """A topic of a node; when tombstoned, nsqlookupd does not send consumers there."""

    topic: str
    tombstoned: bool = False


class Producer(Struct):
    """A node, with its fields in the order of the API. Ports are numbers, 0 when not known."""

    remote_addresses: list[str] | None = None
    remote_address: str = ""
    hostname: str = ""
    broadcast_address: str = ""
    tcp_port: int = 0
    http_port: int = 0
    version: str = ""
    topology_zone: str | UnsetType = UNSET
    topology_region: str | UnsetType = UNSET
    topics: list[ProducerTopic] | None = None
    out_of_date: bool = False

    @property
    def http_address(self) -> str:
        """The address at which the node is asked, and by which the API names it."""
        return join_host_port(self.broadcast_address, self.http_port)

    @property
    def tcp_address(self) -> str:
        return join_host_port(self.broadcast_address, self.tcp_port)

    @property
    def place(self) -> Place:
        """The place of the node, with which its stats are marked."""
        return Place(
            self.http_address,
            self.hostname,
            self.topology_region or "",
            self.topology_zone or "",
        )


class NodeInfo(Struct):
    """A node as its /info describes it."""

    hostname: str = ""
    broadcast_address: str = ""
    tcp_port: int = 0
    http_port: int = 0
    version: str = ""
    topology_zone: str = ""
    topology_region: str = ""

    @property
    def http_address(self) -> str:
        """The address by which the API names the node."""
        return join_host_port(self.broadcast_address, self.http_port)

    def described(self, topics: list[ProducerTopic]) -> Producer:
        """The node with these topics, as the API describes it."""
        return Producer(
            hostname=self.hostname,
            broadcast_address=self.broadcast_address,
            tcp_port=self.tcp_port,
            http_port=self.http_port,
            version=self.version,
            topology_zone=self.topology_zone or UNSET,
            topology_region=self.topology_region or UNSET,
            topics=sorted(topics, key=lambda each: each.topic) or None,
        )


class AdvertisedNode(NodeInfo):
    """A node as an nsqlookupd describes it, without its topics."""

    remote_address: str = ""

    def producer(self) -> Producer:
        """The node without topics, as the API describes it."""
        producer = self.described([])
        producer.remote_address = self.remote_address
        return producer


class AdvertisedProducer(AdvertisedNode):
    """A node as an nsqlookupd describes it."""

    topics: list[str] | None = None
    tombstones: list[bool] | None = None

    def producer(self) -> Producer:
        """The node with its topics, as the API describes it."""
        tombstones = self.tombstones or []
        topics = [
            ProducerTopic(topic, index < len(tombstones) and tombstones[index])
            for index, topic in enumerate(self.topics or ())
        ]
        producer = self.described(topics)
        producer.remote_address = self.remote_address
        return producer


class AdvertisedProducers(Struct):
    """The fields of an nsqlookupd's /nodes and /lookup that are read."""

    producers: list[AdvertisedProducer] | None = None


class AdvertisedNodes(Struct):
    """The answer of an nsqlookupd's /nodes and /lookup, read without topics."""

    producers: list[AdvertisedNode] | None = None


def merged_by_tcp_address(
    answers: Iterable[tuple[str, AdvertisedProducers | AdvertisedNodes]],
) -> list[Producer]:
    """The nodes in the nsqlookupds' answers, by address; each with the nsqlookupds that know it."""
    found: dict[str, Producer] = {}
    for address, nodes in answers:
        for each in nodes.producers or ():
            producer = each.producer()
            # By TCP address, while `distinct` takes the HTTP address. Go's does both
            # (internal/clusterinfo/data.go).
            known = found.setdefault(producer.tcp_address, producer)
            known.remote_addresses = known.remote_addresses or []
            # `N/A` as Go's Producer.Address has it (internal/clusterinfo/types.go).
            known.remote_addresses.append(f"{address}/{producer.remote_address or 'N/A'}")
    return ordered(found.values())


def distinct_by_http_address(answers: Iterable[tuple[str, AdvertisedProducers]]) -> list[Producer]:
    """The nodes that have a topic; none twice, although several nsqlookupds may name it."""
    found: dict[str, Producer] = {}
    for _, nodes in answers:
        for each in nodes.producers or ():
            producer = each.producer()
            found.setdefault(producer.http_address, producer)
    return list(found.values())


def ordered(producers: Iterable[Producer]) -> list[Producer]:
    """The nodes by host name; those that are older than the newest are marked."""
    nodes = sorted(producers, key=lambda each: (each.hostname, each.http_address))
    versions = [parse_version(each.version) for each in nodes]
    newest = max(versions, default=LOWEST)
    for node, version in zip(nodes, versions, strict=True):
        node.out_of_date = version < newest
    return nodes
