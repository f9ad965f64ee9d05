"""Dead-letter topics on the nodes of a command, and the choice of letters that it is about."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from penstock.cli.replay.selection import BodyFilter
from penstock.cli.shared.node_selection import NodeAddress
from penstock.cluster.cluster import NO_CLIENTS, STATS, TopicNames
from penstock.cluster.http_client import HttpClient
from penstock.cluster.upstream_errors import RefusedError
from penstock.core.errors import PenstockError, UsageError
from penstock.nsq.dead_letters import listing
from penstock.nsq.dead_letters.listing import OffsetRun
from penstock.nsq.dead_letters.topics import SUFFIXES, is_rocketmq
from penstock.nsq.stored import Stored


class NoDeadLetters(PenstockError):
    """The topic is not there."""


class NotPenstock(PenstockError):
    """The node is another nsqd, which has no dead letters at all."""


class DeadTopic(NamedTuple):
    """A dead-letter topic on a node."""

    place: NodeAddress
    name: str

    @property
    def is_rocketmq(self) -> bool:
        """True for a topic of a RocketMQ group; NSQ's consumers cannot subscribe to it."""
        return is_rocketmq(self.name)


async def dead_topics(http: HttpClient, place: NodeAddress) -> list[DeadTopic]:
    """The dead-letter topics of a node, by name. Raises NotPenstock, UpstreamError."""
    try:
        found = await listing.topics_of(http, place.http)
    except RefusedError as error:
        if not error.is_unknown:
            raise
        raise NotPenstock(
            f"{place.shown} is not a Penstock node: it has no dead letters"
        ) from error
    return [DeadTopic(place, each.topic) for each in found]


async def dead_topic(http: HttpClient, places: Sequence[NodeAddress], name: str) -> list[DeadTopic]:
    """A topic on all nodes that have it. Raises NoDeadLetters when none has."""
    found = []
    others: set[str] = set()
    for place in places:
        await dead_topics(http, place)  # raises for another nsqd
        names = (await http.get(place.http, STATS + NO_CLIENTS, TopicNames)).names()
        others.update(names)
        if name in names:
            found.append(DeadTopic(place, name))
    if not found:
        meant = next((name + end for end in SUFFIXES if name + end in others), "")
        hint = f"; did you mean {meant}?" if meant else ""
        where = ", ".join(place.shown for place in places) or "any node"
        raise NoDeadLetters(f"no topic {name!r} on {where}{hint}")
    return found


async def open_runs(http: HttpClient, topic: DeadTopic) -> list[OffsetRun]:
    """The offsets of the letters that are to be dealt with, in order."""
    pages = listing.open_runs(http, topic.place.http, topic.name)
    return [run async for runs in pages for run in runs]


class LetterChoice:
    """All letters, or those that match everything that is given.

    ``ids`` and ``offsets`` name letters, ``channels`` the channels they came from; ``grep`` and
    ``fields`` are about bodies. Raises UsageError.
    """

    def __init__(
        self,
        *,
        ids: Sequence[str] = (),
        offsets: Sequence[int] = (),
        channels: Sequence[str] = (),
        grep: str | None = None,
        fields: Sequence[str] = (),
    ) -> None:
        self._ids = frozenset(text.lower() for text in ids)
        self._offsets = frozenset(offsets)
        self._channels = frozenset(channels)
        self._filter = BodyFilter(grep, fields)
        for text in self._ids:
            if len(text) != 16 or not set(text) <= set("0123456789abcdef"):
                raise UsageError(f"--id {text}: an id has 16 hexadecimal digits")

    @property
    def takes_all(self) -> bool:
        """True if nothing is required of a letter."""
        named = self._ids or self._offsets or self._channels
        return not named and self._filter.takes_all

    def takes(self, letter: Stored) -> bool:
        """True if the letter is meant."""
        origin = letter.origin
        # The id it had before it died is the one that logs of consumers show.
        known_as = {letter.id} if origin is None else {letter.id, origin.id}
        came_from = {origin.channel} if origin is not None else set()
        return (
            (not self._ids or not known_as.isdisjoint(self._ids))
            and (not self._offsets or letter.offset in self._offsets)
            and (not self._channels or not came_from.isdisjoint(self._channels))
            and self._filter.takes(letter.body)
        )
