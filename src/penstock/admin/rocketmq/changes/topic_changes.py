"""Topics that are made, changed and deleted, on brokers and at name servers."""

from __future__ import annotations

from typing import Any, Final

from msgspec import Struct, field

from penstock.admin.rocketmq.changes.masters import chosen_masters, told_all
from penstock.admin.rocketmq.names import SYSTEM, kind_of
from penstock.admin.rocketmq.servers import Servers, gathered
from penstock.admin.rocketmq.topics import topic_configs
from penstock.cluster.fanout import Warnings
from penstock.net.http.server.v1_api import ApiError
from penstock.rocketmq.client.admin.topics import (
    delete_topic,
    forget_topic,
    put_topic,
    topic_fields,
)
from penstock.rocketmq.client.admin.topology import Broker
from penstock.rocketmq.client.errors import BadName
from penstock.rocketmq.client.names import checked_topic

QUEUES_MAX: Final = 1024
"""Queues of a topic on one broker."""
_QUEUES: Final = 8
_PERM: Final = 6
_PERMISSIONS: Final = (0, 2, 4, 6)


class TopicChange(Struct):
    """A topic as it shall be on these brokers, or on all of them where none is named; ``perm`` is 4
    to read and 2 to write. What is null stays as it is; a new topic has 8 queues to be read and
    written.
    """

    action: str = ""
    topic: str = ""
    brokers: list[str] = field(default_factory=list)
    read_queues: int | None = None
    write_queues: int | None = None
    perm: int | None = None

    def check(self) -> None:
        """Raise ApiError 400 for values that no topic can have."""
        try:
            checked_topic(self.topic)
        except BadName:
            raise ApiError(400, "INVALID_TOPIC") from None
        for queues in (self.read_queues, self.write_queues):
            if queues is not None and not 0 <= queues <= QUEUES_MAX:
                raise ApiError(400, "INVALID_QUEUES")
        if self.perm is not None and self.perm not in _PERMISSIONS:
            raise ApiError(400, "INVALID_PERM")


async def create(servers: Servers, body: TopicChange) -> dict[str, Any]:
    """Make a topic. Raises ApiError, 409 where it is there already, and NoAnswerError."""
    body.check()
    if body.topic in await servers.topics():
        raise ApiError(409, "TOPIC_EXISTS")
    return await _put(servers, body)


async def change(servers: Servers, body: TopicChange) -> dict[str, Any]:
    """Change a topic, or make it on further brokers. Raises ApiError and NoAnswerError."""
    body.check()
    await servers.route(body.topic)
    return await _put(servers, body)


async def _put(servers: Servers, body: TopicChange) -> dict[str, Any]:
    await _refuse_system(servers, body.topic)
    warnings = Warnings()
    brokers = await chosen_masters(servers, body.brokers)

    async def tell(broker: Broker) -> None:
        # From each broker: what the body says nothing of may differ between them.
        known = await topic_configs(servers, broker)
        fields = _fields(body, known.get(body.topic) or {})
        await put_topic(servers, broker.any_address(), fields)

    await told_all(brokers, tell, warnings)
    return {"message": warnings.message}


def _fields(body: TopicChange, known: dict[str, Any]) -> dict[str, object]:
    """The header of a change, in which all that the body says nothing of stays as it is."""
    wanted = (
        ("readQueueNums", body.read_queues, _QUEUES),
        ("writeQueueNums", body.write_queues, _QUEUES),
        ("perm", body.perm, _PERM),
    )
    read, write, perm = (
        int(known.get(name, usual)) if given is None else given for name, given, usual in wanted
    )
    return topic_fields(
        body.topic,
        read,
        write,
        perm,
        int(known.get("topicSysFlag") or 0),
        is_order=bool(known.get("order")),
        filter_type=known.get("topicFilterType") or "SINGLE_TAG",
    )


async def delete(servers: Servers, topic: str) -> dict[str, Any]:
    """Delete a topic on all its brokers, then at the name servers.

    Raises ApiError and NoAnswerError.
    """
    await _refuse_system(servers, topic)
    warnings = Warnings()
    brokers = [each for each in (await servers.route(topic)).brokers if each.master]
    await remove(servers, brokers, topic, warnings)
    return {"message": warnings.message}


async def remove(servers: Servers, brokers: list[Broker], topic: str, warnings: Warnings) -> None:
    """Delete a topic on these brokers and at all name servers. Raises NoAnswerError."""

    async def tell(broker: Broker) -> None:
        await delete_topic(servers, broker.any_address(), topic)

    async def forget(address: str) -> None:
        await forget_topic(servers, address, topic)

    await told_all(brokers, tell, warnings)
    # Afterwards: a broker that still has a topic registers it at once with name servers again.
    await gathered(servers.addresses, forget, warnings)


async def _refuse_system(servers: Servers, topic: str) -> None:
    """Brokers' own topics stay as they are: without them no message is delayed or tried again."""
    clusters = await servers.clusters()
    if kind_of(topic, {*clusters.names, *clusters.brokers}) == SYSTEM:
        raise ApiError(400, "SYSTEM_TOPIC")
