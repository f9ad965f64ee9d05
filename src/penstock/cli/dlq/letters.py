"""Dead-letter topics on the nodes of a command, and their letters."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from penstock.cli.shared.nodes import Place
from penstock.cluster.asker import Asker
from penstock.cluster.cluster import NO_CLIENTS, STATS, TopicNames
from penstock.cluster.errors import RefusedError
from penstock.core.errors import PenstockError
from penstock.nsq.dead_letters import letters
from penstock.nsq.dead_letters.pending import Run
from penstock.nsq.dead_letters.topics import SUFFIXES, is_rocketmq


class NoDeadLetters(PenstockError):
    """The topic is not there."""


class NotPenstock(PenstockError):
    """The node is another nsqd, which has no dead letters at all."""


class DeadTopic(NamedTuple):
    """A dead-letter topic on a node."""

    place: Place
    name: str

    @property
    def is_rocketmq(self) -> bool:
        """True for a topic of a RocketMQ group; NSQ's consumers cannot subscribe to it."""
        return is_rocketmq(self.name)


async def dead_topics(asker: Asker, place: Place) -> list[DeadTopic]:
    """The dead-letter topics of a node, by name. Raises NotPenstock, UpstreamError."""
    try:
        found = await letters.topics_of(asker, place.http)
    except RefusedError as error:
        if not error.is_unknown:
            raise
        raise NotPenstock(f"{place.shown} is no Penstock node: it has no dead letters") from error
    return [DeadTopic(place, each.topic) for each in found]


async def dead_topic(asker: Asker, places: Sequence[Place], name: str) -> list[DeadTopic]:
    """A topic on all nodes that have it. Raises NoDeadLetters when none has."""
    found = []
    others: set[str] = set()
    for place in places:
        await dead_topics(asker, place)  # raises for another nsqd
        names = (await asker.get(place.http, STATS + NO_CLIENTS, TopicNames)).names()
        others.update(names)
        if name in names:
            found.append(DeadTopic(place, name))
    if not found:
        meant = next((name + end for end in SUFFIXES if name + end in others), "")
        hint = f"; did you mean {meant}?" if meant else ""
        where = ", ".join(place.shown for place in places) or "any node"
        raise NoDeadLetters(f"no topic {name!r} on {where}{hint}")
    return found


async def open_runs(asker: Asker, topic: DeadTopic) -> list[Run]:
    """The offsets of the letters that are to be dealt with, in order."""
    pages = letters.open_runs(asker, topic.place.http, topic.name)
    return [run async for runs in pages for run in runs]
