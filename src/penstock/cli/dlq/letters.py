"""Asking nodes for their dead-letter topics and letters."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final, NamedTuple

from penstock.cli.nodes import Api, NotPenstock, Place
from penstock.cli.stored import stretches
from penstock.core.errors import PenstockError
from penstock.nsq.client.log import LogClient
from penstock.nsq.dead_letters.runs import Run, joined
from penstock.nsq.dead_letters.topics import CHANNEL, SUFFIXES, is_rocketmq
from penstock.nsq.stored import Stored

_PAGE: Final = 1000


class NoDeadLetters(PenstockError):
    """The topic is not there, or the node has no dead letters at all."""


class DeadTopic(NamedTuple):
    """A dead-letter topic on a node. ``channel`` is CHANNEL, or None before the first resend."""

    place: Place
    name: str
    channel: str | None

    @property
    def is_rocketmq(self) -> bool:
        """True for a topic of a RocketMQ group; NSQ's consumers cannot subscribe to it."""
        return is_rocketmq(self.name)


def dead_topics(place: Place) -> list[DeadTopic]:
    """The dead-letter topics of a node, by name. Raises NotPenstock, NodeError."""
    with Api(place.http) as api:
        return [DeadTopic(place, each["topic"], each["channel"]) for each in _dead_topics(api)]


def dead_topic(places: Sequence[Place], name: str) -> list[DeadTopic]:
    """A topic on all nodes that have it. Raises NoDeadLetters when none has."""
    found = []
    others: set[str] = set()
    for place in places:
        with Api(place.http) as api:
            _dead_topics(api)  # raises for another nsqd
            topics = {str(topic["topic_name"]): topic for topic in api.topics()}
        others.update(topics)
        if name in topics:
            found.append(DeadTopic(place, name, _own_channel(topics[name])))
    if not found:
        meant = next((name + end for end in SUFFIXES if name + end in others), "")
        hint = f"; did you mean {meant}?" if meant else ""
        where = ", ".join(place.http for place in places) or "any node"
        raise NoDeadLetters(f"no topic {name!r} on {where}{hint}")
    return found


def open_runs(topic: DeadTopic) -> list[Run]:
    """The offsets of the letters that are to be dealt with, in order."""
    if topic.channel is None:
        with LogClient(topic.place.http) as log:
            (queue,) = log.offsets(topic.name).queues
        return [Run(queue.start, queue.end)] if queue.start < queue.end else []
    with Api(topic.place.http) as api:
        return joined(_peeked(api, topic.name))


def read(topic: DeadTopic, runs: Sequence[Run]) -> Iterator[Stored]:
    """The letters at these offsets, in order."""
    with LogClient(topic.place.http) as log:
        for run in runs:
            for stretch in stretches(log, topic.name, run.first, run.next):
                yield from stretch.messages()


def _dead_topics(api: Api) -> list[dict[str, Any]]:
    """The dead-letter topics of a node. Raises NotPenstock for another nsqd: it has none."""
    try:
        found: list[dict[str, Any]] = api.get("/deadletters/topics")["topics"]
    except NotPenstock as error:
        text = f"{api.address} is no Penstock node: it has no dead letters"
        raise NotPenstock(text) from error
    return found


def _own_channel(topic: dict[str, Any]) -> str | None:
    channels = topic["channels"] or ()
    return CHANNEL if any(each["channel_name"] == CHANNEL for each in channels) else None


def _peeked(api: Api, topic: str) -> Iterator[int]:
    """The offsets that the channel still needs, page by page."""
    at: int | None = 0
    while at is not None:
        page = api.get(
            "/channel/peek", topic=topic, channel=CHANNEL, limit=_PAGE, preview=0, **{"from": at}
        )
        for message in page["messages"]:
            yield int(message["offset"])
        at = page["next"]
