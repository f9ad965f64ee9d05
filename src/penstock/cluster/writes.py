"""Changes to a cluster: create, delete, pause, unpause, empty, tombstone (NSQ spec 5.2).

The nodes of a topic are looked up first; when that fails, nothing is done (NoAnswerError). After it
every daemon is told, and one that fails is a warning: what the others did is done.
"""

from __future__ import annotations

from collections.abc import Iterable

from penstock.cluster.cluster import Cluster
from penstock.cluster.exchange import escaped
from penstock.cluster.fanout import Warnings, try_all
from penstock.cluster.upstream_errors import NoAnswerError, RefusedError, UpstreamError


class Changes:
    """Changes to one cluster. Methods return the errors beside what was done."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    async def create(self, topic: str, channel: str) -> list[str]:
        """A topic, with a channel or (empty) without.

        nsqlookupds remember it, and nodes that have the topic get the channel; without nsqlookupds
        all nodes get both.
        """
        addresses = self._cluster.addresses
        # Go's nsqadmin does nothing here, and says that all is well (NSQ spec 5.2).
        if not addresses.lookupds:
            errors = await self._tell(addresses.nsqds, f"/topic/create{_query(topic)}")
            if channel:
                target = f"/channel/create{_query(topic, channel)}"
                errors += await self._tell(addresses.nsqds, target)
            return errors
        errors = await self._tell(addresses.lookupds, f"/topic/create{_query(topic)}")
        if channel:
            target = f"/channel/create{_query(topic, channel)}"
            errors += await self._tell(addresses.lookupds, target)
            nodes, problems = await self._nodes(topic)
            errors += problems + await self._tell(nodes, target)
        return errors

    async def delete(self, topic: str, channel: str = "") -> list[str]:
        """A topic or a channel of it, everywhere."""
        nodes, errors = await self._nodes(topic)
        what = "channel" if channel else "topic"
        target = f"/{what}/delete{_query(topic, channel)}"
        # The nodes were looked up before this, as an nsqlookupd forgets them with the topic. The
        # order is that of Go's nsqadmin (NSQ spec 5.2).
        errors += await self._tell(self._cluster.addresses.lookupds, target)
        return errors + await self._tell(nodes, target)

    async def act(self, action: str, topic: str, channel: str = "") -> list[str]:
        """``pause``, ``unpause`` or ``empty`` on every node of the topic."""
        nodes, errors = await self._nodes(topic)
        what = "channel" if channel else "topic"
        return errors + await self._tell(nodes, f"/{what}/{action}{_query(topic, channel)}")

    async def accept_damage(self, topic: str) -> list[str]:
        """Accept a topic's damage on all nodes that have some (nsqd's /topic/damage/accept)."""
        nodes, errors = await self._nodes(topic)

        async def accept(address: str) -> None:
            try:
                await self._cluster.http.post(address, f"/topic/damage/accept{_query(topic)}")
            except RefusedError as error:
                if error.status != 404:  # 404: a Go nsqd, or the topic is gone
                    raise

        return errors + (await try_all(nodes, accept)).errors

    async def tombstone(self, topic: str, node: str) -> list[str]:
        """Hide a node from consumers of a topic, and delete the topic there."""
        lookupds = self._cluster.addresses.lookupds
        target = f"/topic/tombstone{_query(topic)}&node={escaped(node)}"
        errors = await self._tell(lookupds, target)
        try:
            producer = await self._cluster.described(node)
        except UpstreamError as error:
            # The tombstones stay, as with Go's nsqadmin (NSQ spec 5.2).
            raise NoAnswerError(f"failed to query any nsqd: {error}") from error
        address = producer.http_address
        return errors + await self._tell([address], f"/topic/delete{_query(topic)}")

    async def _nodes(self, topic: str) -> tuple[list[str], list[str]]:
        """Addresses of a topic's nodes, and the errors of finding them."""
        warnings = Warnings()
        producers = await self._cluster.topic_producers(topic, warnings)
        return [each.http_address for each in producers], warnings.errors

    async def _tell(self, addresses: Iterable[str], target: str) -> list[str]:
        async def post(address: str) -> None:
            await self._cluster.http.post(address, target)

        # All at once, where Go's nsqadmin goes one by one (NSQ spec 5.1): a daemon that is silent
        # does not keep the others waiting.
        return (await try_all(addresses, post)).errors


def _query(topic: str, channel: str = "") -> str:
    return f"?topic={escaped(topic)}" + (f"&channel={escaped(channel)}" if channel else "")
