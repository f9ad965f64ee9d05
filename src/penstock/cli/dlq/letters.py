"""Dead-letter topics, and which of their messages are still to be dealt with.

A topic has dead letters when nsqd moves them there, when its name says so, or when it is RocketMQ's
``%DLQ%<group>``. Those to be dealt with are what the channel ``penstock-dlq`` has not finished;
before the first resend there is no such channel, and they are all that the log holds.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final, NamedTuple

from penstock.cli.nodes import Api, NodeError, NotPenstock, Place
from penstock.cli.stored import Stored, stretches
from penstock.core.errors import PenstockError
from penstock.nsq.client.log import LogClient

CHANNEL: Final = "penstock-dlq"
ROCKETMQ_PREFIX: Final = "%DLQ%"
_SUFFIXES: Final = (".dead", ".dead#ephemeral")
_PAGE: Final = 1000


class NoDeadLetters(PenstockError):
    """The topic is not there, or the node has no dead letters at all."""


class DeadTopic(NamedTuple):
    """A dead-letter topic on a node. ``channel`` is that of ``CHANNEL`` in /stats, or None."""

    place: Place
    name: str
    channel: dict[str, Any] | None

    @property
    def is_rocketmq(self) -> bool:
        """Whether it is of a RocketMQ group; NSQ's consumers cannot subscribe to it."""
        return self.name.startswith(ROCKETMQ_PREFIX)


class Run(NamedTuple):
    """Offsets ``[first, next)``."""

    first: int
    next: int


def dead_topics(place: Place) -> list[DeadTopic]:
    """The dead-letter topics of a node, by name. Raises NotPenstock, NodeError."""
    with Api(place.http) as api:
        _require_penstock(api)
        topics = {str(topic["topic_name"]): topic for topic in api.topics()}
        targets = _targets(api, topics)
    names = [
        name
        for name in sorted(topics)
        if name in targets or name.startswith(ROCKETMQ_PREFIX) or name.endswith(_SUFFIXES)
    ]
    return [DeadTopic(place, name, _own_channel(topics[name])) for name in names]


def dead_topic(places: Sequence[Place], name: str) -> list[DeadTopic]:
    """A topic on all nodes that have it. Raises NoDeadLetters when none has."""
    found = []
    others: set[str] = set()
    for place in places:
        with Api(place.http) as api:
            _require_penstock(api)
            topics = {str(topic["topic_name"]): topic for topic in api.topics()}
        others.update(topics)
        if name in topics:
            found.append(DeadTopic(place, name, _own_channel(topics[name])))
    if not found:
        hint = next(
            (f"; did you mean {name}{end}?" for end in _SUFFIXES if name + end in others), ""
        )
        where = ", ".join(place.http for place in places) or "any node"
        raise NoDeadLetters(f"no topic {name!r} on {where}{hint}")
    return found


def open_runs(topic: DeadTopic) -> list[Run]:
    """The offsets of the letters that are to be dealt with, in order."""
    if topic.channel is None:
        with LogClient(topic.place.http) as log:
            (queue,) = log.offsets(topic.name).queues
        return [Run(queue.start, queue.end)] if queue.start < queue.end else []
    runs: list[Run] = []
    with Api(topic.place.http) as api:
        for offset in _peeked(api, topic.name):
            if runs and runs[-1].next == offset:
                runs[-1] = Run(runs[-1].first, offset + 1)
            else:
                runs.append(Run(offset, offset + 1))
    return runs


def read(topic: DeadTopic, runs: Sequence[Run]) -> Iterator[Stored]:
    """The letters at these offsets, in order."""
    with LogClient(topic.place.http) as log:
        for run in runs:
            for stretch in stretches(log, topic.name, run.first, run.next):
                yield from stretch.messages()


def first(runs: Sequence[Run]) -> list[Run]:
    """The first offset of these."""
    return [Run(runs[0].first, runs[0].first + 1)] if runs else []


def newest(runs: Sequence[Run], count: int) -> list[Run]:
    """The last ``count`` offsets of these."""
    taken: list[Run] = []
    for run in reversed(runs):
        if count <= 0:
            break
        taken.append(Run(max(run.first, run.next - count), run.next))
        count -= run.next - run.first
    return taken[::-1]


def count(runs: Sequence[Run]) -> int:
    """How many offsets."""
    return sum(run.next - run.first for run in runs)


def _require_penstock(api: Api) -> None:
    """Raise NotPenstock for another nsqd: it has no dead letters."""
    try:
        api.get("/deadletters")
    except NotPenstock as error:
        text = f"{api.address} is no Penstock node: it has no dead letters"
        raise NotPenstock(text) from error
    except NodeError as error:
        if "MISSING_ARG_TOPIC" not in str(error):
            raise


def _targets(api: Api, topics: dict[str, dict[str, Any]]) -> set[str]:
    """Where the channels of a node send their dead letters."""
    found = set()
    for name, topic in topics.items():
        for channel in topic["channels"] or ():
            try:
                config = api.get("/channel/config", topic=name, channel=channel["channel_name"])
            except NodeError as error:
                if "cannot be reached" in str(error):
                    raise
                continue  # deleted meanwhile, or with a name that is not NSQ's
            if config.get("max_attempts") or config.get("dead_letter_count"):
                found.add(str(config["dead_letter_topic"]))
    return found


def _own_channel(topic: dict[str, Any]) -> dict[str, Any] | None:
    channels = topic["channels"] or ()
    return next((each for each in channels if each["channel_name"] == CHANNEL), None)


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
