"""Locks of queues for orderly consumption: the broker grants a queue to one member at a time.

See RocketMQ spec 4.8.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from typing import Final

from penstock.rocketmq.client.errors import ClientError
from penstock.rocketmq.client.events import tell
from penstock.rocketmq.client.network.hub import Hub
from penstock.rocketmq.protocol import fastjson
from penstock.rocketmq.protocol.codes import RequestCode
from penstock.rocketmq.protocol.errors import BodyError
from penstock.rocketmq.protocol.message_queue import MessageQueue

# RocketMQ spec 4.8: a broker's lock ends after 60 s without a renewal.
RENEW_S: Final = 20.0


class Locks:
    """The locks that the brokers grant, and that are given back."""

    def __init__(self, hub: Hub, group: str) -> None:
        self._hub = hub
        self._group = group

    async def lock(self, queues: Iterable[MessageQueue]) -> set[MessageQueue] | None:
        """The queues among these, all of one broker, that are this member's now; None when the
        broker does not say.
        """
        wanted = list(queues)
        address = self._hub.routes.master(wanted[0].brokerName)
        if address is None:
            return None
        try:
            answer = await self._hub.demand(
                address, RequestCode.LOCK_BATCH_MQ, None, self._body(wanted)
            )
            found = fastjson.loads(answer.body).get("lockOKMQSet") or []
            return {MessageQueue.from_json(each) for each in found} & set(wanted)
        except (ClientError, BodyError, AttributeError) as error:
            tell(
                logging.WARNING,
                "lock-failed",
                f"lockBatchMQ exception: {error}",
                address=address,
                group=self._group,
            )
            return None

    async def unlock(self, queue: MessageQueue) -> None:
        """Somebody else may have it; a broker that is gone has forgotten it anyway."""
        address = self._hub.routes.master(queue.brokerName)
        if address is None:
            return
        try:
            await self._hub.demand(address, RequestCode.UNLOCK_BATCH_MQ, None, self._body([queue]))
        except ClientError as error:
            tell(
                logging.WARNING,
                "lock-failed",
                f"unlockBatchMQ exception: {error}",
                address=address,
                group=self._group,
            )

    def _body(self, queues: list[MessageQueue]) -> bytes:
        return fastjson.dumps(
            {
                "clientId": self._hub.client_id,
                "consumerGroup": self._group,
                "mqSet": [queue._asdict() for queue in queues],
            }
        )
