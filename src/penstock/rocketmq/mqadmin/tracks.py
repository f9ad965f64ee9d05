"""The state of a message in each group: consumed, filtered, not yet, or nobody is there."""

from __future__ import annotations

from typing import NamedTuple

from penstock.core.errors import PenstockError
from penstock.rocketmq.client.admin.consume_stats import consume_stats
from penstock.rocketmq.client.admin.errors import Refused
from penstock.rocketmq.client.admin.messages import is_wanted
from penstock.rocketmq.mqadmin.admin import Admin
from penstock.rocketmq.protocol.codes import ResponseCode
from penstock.rocketmq.protocol.membership import PULLS
from penstock.rocketmq.protocol.messages.message import StoredMessage


class Track(NamedTuple):
    """A message in one group; the fields have the names that upstream prints."""

    consumerGroup: str
    trackType: str
    exceptionDesc: str | None = None

    def __str__(self) -> str:
        described = "null" if self.exceptionDesc is None else self.exceptionDesc
        return (
            f"MessageTrack [consumerGroup={self.consumerGroup}, trackType={self.trackType}, "
            f"exceptionDesc={described}]"
        )


async def tracks(admin: Admin, message: StoredMessage) -> list[Track]:
    """A message in all groups that consume its topic."""
    return [await _track(admin, message, group) for group in await admin.groups_of(message.topic)]


async def _track(admin: Admin, message: StoredMessage, group: str) -> Track:
    try:
        found = await admin.connections(group)
        if found.get("consumeType") == PULLS:
            return Track(group, "PULL")
        if not await _is_consumed(admin, message, group):
            return Track(group, "NOT_CONSUME_YET")
        return Track(group, "CONSUMED" if is_wanted(message, found) else "CONSUMED_BUT_FILTERED")
    except Refused as error:
        offline = error.code == ResponseCode.CONSUMER_NOT_ONLINE
        described = f"CODE:{error.code} DESC:{error.words}"
        return Track(group, "NOT_ONLINE" if offline else "UNKNOWN", described)
    except PenstockError as error:
        return Track(group, "UNKNOWN", str(error))


async def _is_consumed(admin: Admin, message: StoredMessage, group: str) -> bool:
    clusters = await admin.clusters()
    for queue, each in (await consume_stats(admin, group)).queues.items():
        broker = clusters.brokers.get(queue.brokerName)
        if (
            (queue.topic, queue.queueId) == (message.topic, message.queue)
            and broker is not None
            and broker.master == str(message.store_host)
            and each.consumer_offset > message.queue_offset
        ):
            return True
    return False
