"""Read requests to a cluster: topics, nodes, stats. Nothing here changes anything.

With nsqlookupds they say which nodes there are; without, the nodes are named one by one and asked
themselves (NSQ spec 5.3, "Requests sent upstream"). Methods raise NoAnswerError if every daemon
failed; the failures of single daemons are added to ``warnings``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple, TypeVar

from msgspec import Struct

from penstock.cluster.exchange import Endpoint, escaped
from penstock.cluster.fanout import Warnings, ask_all, try_all
from penstock.cluster.groups import NodeGroups, groups_kind
from penstock.cluster.http_client import HttpClient
from penstock.cluster.producers import (
    AdvertisedNodes,
    AdvertisedProducers,
    NodeInfo,
    Producer,
    ProducerTopic,
    distinct_by_http_address,
    merged_by_tcp_address,
    ordered,
)
from penstock.cluster.stats import NodeStats, TopicStats, settled
from penstock.cluster.upstream_errors import NoAnswerError
from penstock.core.clock import Clock

T = TypeVar("T")

STATS: Final = "/stats?format=json"
NO_CLIENTS: Final = "&include_clients=false"
FIGURES_ONLY: Final = NO_CLIENTS + "&include_mem=false&packed=true"
"""Our nsqd answers packed; Go's does not know the word, and answers as without."""


class Addresses(NamedTuple):
    """HTTP addresses of nsqlookupds or, without any, of nsqds."""

    lookupds: tuple[str, ...]
    nsqds: tuple[str, ...]


class _Topics(Struct):
    topics: list[str] | None = None


class _Channels(Struct):
    channels: list[str] | None = None


class _TopicName(Struct):
    topic_name: str = ""


class TopicNames(Struct):
    """The names of a node's topics, as its /stats tells them."""

    topics: list[_TopicName] | None = None

    def names(self) -> list[str]:
        """The names in the order of the answer."""
        return [each.topic_name for each in self.topics or ()]


class Cluster:
    """The daemons at ``addresses``, which may be changed at any time."""

    def __init__(self, http: HttpClient, addresses: Addresses, clock: Clock) -> None:
        self.http = http
        self.addresses = addresses
        self._clock = clock

    # --- topics --------------------------------------------------------------------------------

    async def topics(self, warnings: Warnings) -> list[str]:
        """The names of all topics, sorted."""
        if self.addresses.lookupds:
            told = await self._lookupds("/topics", _Topics, warnings)
            return sorted({topic for _, each in told for topic in each.topics or ()})
        stats = await self._nsqds(STATS, TopicNames, warnings)
        return sorted({topic for _, each in stats for topic in each.names()})

    async def inactive_topics(
        self, topics: Sequence[str], warnings: Warnings
    ) -> dict[str, list[str] | None]:
        """The topics among these that no node has, with the channels that nsqlookupd knows.

        A topic that no nsqlookupd tells about is not one of them, but a warning.
        """
        if not self.addresses.lookupds:
            return {}
        found = await try_all(topics, self._channels_if_inactive)
        for _, outcome in found.answers:
            if isinstance(outcome, NoAnswerError):
                warnings.add([str(outcome)])
        # `null` for a topic without channels, not an empty list (NSQ spec 5.2).
        return {
            topic: outcome or None for topic, outcome in found.answers if isinstance(outcome, list)
        }

    async def _channels_if_inactive(self, topic: str) -> list[str] | NoAnswerError | None:
        ignored = Warnings()  # of one of several nsqlookupds: /topics has told it before
        query = f"?topic={escaped(topic)}"
        try:
            told = await self._lookupds(f"/lookup{query}", AdvertisedProducers, ignored)
            if distinct_by_http_address(told):
                return None
            channels = await self._lookupds(f"/channels{query}", _Channels, ignored)
        except NoAnswerError as error:
            return error
        return sorted({channel for _, each in channels for channel in each.channels or ()})

    # --- nodes ---------------------------------------------------------------------------------

    async def producers(self, warnings: Warnings, *, with_topics: bool = True) -> list[Producer]:
        """All nodes; without their topics, of which there are many, it costs much less."""
        if self.addresses.lookupds and with_topics:
            return merged_by_tcp_address(
                await self._lookupds("/nodes", AdvertisedProducers, warnings)
            )
        if self.addresses.lookupds:
            return merged_by_tcp_address(await self._lookupds("/nodes", AdvertisedNodes, warnings))
        ask = self.described if with_topics else self._bare
        found = await ask_all("nsqd", self.addresses.nsqds, ask)
        warnings.add(found.errors)
        return ordered(each for _, each in found.answers)

    async def node(self, address: str, warnings: Warnings, *, is_brief: bool) -> Producer | None:
        """The node that is called so; in brief its topics are only those of nsqlookupds."""
        if self.addresses.lookupds:
            told = await self._lookupds("/nodes", AdvertisedProducers, warnings)
            for each in (each for _, nodes in told for each in nodes.producers or ()):
                if each.http_address != address:
                    each.topics = None  # of all nodes they are many
            nodes = merged_by_tcp_address(told)
        else:
            nodes = await self.producers(warnings, with_topics=not is_brief)
        return next((each for each in nodes if each.http_address == address), None)

    async def topic_producers(self, topic: str, warnings: Warnings) -> list[Producer]:
        """The nodes that have this topic."""
        if self.addresses.lookupds:
            target = f"/lookup?topic={escaped(topic)}"
            return distinct_by_http_address(
                await self._lookupds(target, AdvertisedProducers, warnings)
            )

        async def ask(address: str) -> Producer | None:
            target = f"{STATS}&topic={escaped(topic)}{NO_CLIENTS}"
            stats = await self.http.get(address, target, TopicNames)
            if topic not in stats.names():
                return None
            return (await self._info(address)).described([ProducerTopic(topic)])

        found = await ask_all("nsqd", self.addresses.nsqds, ask)
        warnings.add(found.errors)
        return [each for _, each in found.answers if each is not None]

    async def described(self, address: str) -> Producer:
        """The node at this address as it describes itself. Raises UpstreamError."""
        info = await self._info(address)
        stats = await self.http.get(address, STATS + NO_CLIENTS, TopicNames)
        return info.described([ProducerTopic(each) for each in stats.names()])

    async def _bare(self, address: str) -> Producer:
        return (await self._info(address)).described([])

    async def _info(self, address: str) -> NodeInfo:
        """The /info of a node; an old one that does not say where it is, is where it was asked."""
        info = await self.http.get(address, "/info", NodeInfo)
        if not info.broadcast_address:
            info.broadcast_address, info.http_port = Endpoint.of(address).host_and_port()
        info.hostname = info.hostname or info.broadcast_address
        return info

    # --- stats ---------------------------------------------------------------------------------

    async def stats(
        self,
        producers: Sequence[Producer],
        warnings: Warnings,
        topic: str = "",
        channel: str = "",
        *,
        clients: bool,
    ) -> list[TopicStats]:
        """The topics of these nodes, one entry for each node that has it; sorted by host name."""
        target = STATS
        if topic:
            target += f"&topic={escaped(topic)}"
            target += f"&channel={escaped(channel)}" if channel else ""
        target += "" if clients else NO_CLIENTS

        async def ask(producer: Producer) -> list[TopicStats]:
            stats = await self.http.get(producer.http_address, target, NodeStats)
            return settled(stats, producer.place, topic, self._clock.wall_ns())

        found = await ask_all("nsqd", producers, ask)
        warnings.add(found.errors)
        topics = [each for _, stats in found.answers for each in stats]
        return sorted(topics, key=lambda each: (each.hostname, each.node, each.topic_name))

    async def groups(self, topic: str, warnings: Warnings) -> list[tuple[str, NodeGroups]]:
        """The groups of this topic, or of all, as each node reports them; by the node's address."""
        producers = await (
            self.topic_producers(topic, warnings)
            if topic
            else self.producers(warnings, with_topics=False)
        )
        if not producers:
            return []
        target = STATS + FIGURES_ONLY + (f"&topic={escaped(topic)}" if topic else "")

        async def ask(address: str) -> NodeGroups:
            return await self.http.get_as(address, target, groups_kind)

        addresses = dict.fromkeys(each.http_address for each in producers)
        found = await ask_all("nsqd", addresses, ask)
        warnings.add(found.errors)
        return found.answers

    # --- asking --------------------------------------------------------------------------------

    async def _lookupds(
        self, target: str, kind: type[T], warnings: Warnings
    ) -> list[tuple[str, T]]:
        return await self._all("nsqlookupd", self.addresses.lookupds, target, kind, warnings)

    async def _nsqds(self, target: str, kind: type[T], warnings: Warnings) -> list[tuple[str, T]]:
        return await self._all("nsqd", self.addresses.nsqds, target, kind, warnings)

    async def _all(
        self, who: str, addresses: Sequence[str], target: str, kind: type[T], warnings: Warnings
    ) -> list[tuple[str, T]]:
        async def ask(address: str) -> T:
            return await self.http.get(address, target, kind)

        found = await ask_all(who, addresses, ask)
        warnings.add(found.errors)
        return found.answers
