"""Messages that were handled in vain, on their way to the group's retry topic.

See RocketMQ spec 4.5.
"""

from __future__ import annotations

from typing import Final

from penstock.rocketmq.client.consume.offsets import server_of
from penstock.rocketmq.client.consume.received import Received
from penstock.rocketmq.client.errors import ClientError
from penstock.rocketmq.client.message import Message
from penstock.rocketmq.client.names import RETRY
from penstock.rocketmq.client.network.hub import Hub
from penstock.rocketmq.client.produce.publishing import Publisher
from penstock.rocketmq.client.produce.sending import Draft
from penstock.rocketmq.protocol.codes import RequestCode
from penstock.rocketmq.protocol.messages import properties
from penstock.rocketmq.protocol.messages.message import HOST_BITS, TRANSACTION_BITS

TIMES_MAX: Final = 16
_LEVEL_FIRST: Final = 3


class SendBack:
    """A way back to a broker, which delivers messages again later or takes them as dead letters."""

    def __init__(self, hub: Hub, group: str, publisher: Publisher) -> None:
        self._hub = hub
        self._group = group
        self._publisher = publisher

    async def send(self, message: Received, level: int) -> None:
        """Ask the broker that has it; if that fails, send a copy. Raises ClientError."""
        times = self._hub.config.max_reconsume_times
        # Java's default of -1 means 16 for consumers out of order.
        most = TIMES_MAX if times < 0 else times
        fields = {
            "offset": str(message.stored.physical_offset),
            "group": self._group,
            "delayLevel": str(level),
            "originMsgId": message.id,
            "originTopic": message.stored.topic,
            "unitMode": "false",
            "maxReconsumeTimes": str(most),
        }
        code = RequestCode.CONSUMER_SEND_MSG_BACK
        try:
            address = await server_of(self._hub, message.queue)
            await self._hub.demand(address, code, fields, subject=f"group {self._group}")
        except ClientError:
            times = message.reconsume_times + 1  # which the broker does not count for a copy
            await self._send_copy(message, times, 0 if level < 0 else most + 1)

    async def send_aside(self, message: Received) -> None:
        """Send a copy of one that was tried ``max_reconsume_times``, which is a dead letter then.

        Raises ClientError.
        """
        most = self._hub.config.max_reconsume_times
        await self._send_copy(message, message.reconsume_times, most)

    async def _send_copy(self, message: Received, times: int, most: int) -> None:
        """Send a copy to the retry topic: its broker sees when ``times`` is too often."""
        stored = message.stored
        found = dict(message.properties)
        found.setdefault(properties.RETRY_TOPIC, stored.topic)
        found.setdefault(properties.ORIGIN_MESSAGE_ID, message.id)
        found[properties.DELAY] = str(_LEVEL_FIRST + message.reconsume_times)
        # Else the copy would be a half message, or wait for its first delivery time again.
        for name in (properties.TRANSACTION, properties.WAIT, *properties.TIMERS):
            found.pop(name, None)
        topic = RETRY + self._group
        copy = Draft(
            topic,
            stored.body,
            [message.id],
            properties.join(found),
            stored.sys_flag & ~(HOST_BITS | TRANSACTION_BITS),
            stored.flag,
            reconsume_times=times,
            max_reconsume_times=most,
        )
        await self._publisher.deliver(copy, Message(topic, stored.body))
