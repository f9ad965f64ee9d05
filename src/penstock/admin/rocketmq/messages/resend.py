"""Messages of RocketMQ handled again.

They are sent to the topic that they came from or to one group alone, or handed to one member.
"""

from __future__ import annotations

from typing import Any, Final

from penstock.admin.rocketmq.messages.finding import by_id, the_one
from penstock.admin.rocketmq.names import group_of
from penstock.admin.rocketmq.servers import Servers
from penstock.cluster.fanout import Warnings
from penstock.core.clock import SYSTEM_CLOCK
from penstock.rocketmq.client.admin.messages import again, consume_directly
from penstock.rocketmq.client.aio.hub import AioHub
from penstock.rocketmq.client.consume.received import Received
from penstock.rocketmq.client.errors import ClientError
from penstock.rocketmq.client.message import Message
from penstock.rocketmq.client.names import RETRY
from penstock.rocketmq.client.produce.publishing import Publisher
from penstock.rocketmq.client.produce.sending import Draft
from penstock.rocketmq.protocol.messages import properties
from penstock.rocketmq.protocol.messages.message import HOST_BITS, TRANSACTION_BITS

PRODUCER: Final = "nsqadmin"
IDS_MAX: Final = 100
"""Messages that one request may name."""
_INT_MAX: Final = 0x7FFFFFFF
_RESULT: Final = {
    "result": "consumeResult",
    "remark": "remark",
    "spent_ms": "spentTimeMills",
    "ordered": "order",
}


async def resend(servers: Servers, topic: str, ids: list[str]) -> dict[str, Any]:
    """Send messages again; the originals stay, as brokers delete no single message.

    Letters and retries of a group go to that group alone, as new tries; others to their topic.
    """
    warnings = Warnings()
    sent, missing, failed = [], [], []
    # A client for this request alone: its producer leaves the group with it.
    hub = AioHub(servers.hub.config, SYSTEM_CLOCK, None)
    publisher = Publisher(PRODUCER, hub, traces=False)
    try:
        for message_id in ids:
            found = await by_id(servers, topic, message_id, warnings)
            if not found:
                missing.append(message_id)
                continue
            try:
                sent.append(await _send(hub, publisher, found[0]))
            except ClientError as error:
                failed.append(f"{message_id}: {error}")
    finally:
        await hub.end()
    warnings.add(failed)
    return {"sent": sent, "not_found": missing, "message": warnings.message}


async def _send(hub: AioHub, publisher: Publisher, message: Received) -> str:
    """The id of the new message."""
    group = group_of(message.stored.topic)
    if group:
        draft, target = _retry(message, group), Message(RETRY + group, message.stored.body)
        return (await hub.run(publisher.deliver(draft, target)))[0].id
    return (await hub.run(publisher.send(again(message)))).id


def _retry(message: Received, group: str) -> Draft:
    """The message as a first try of its group, which sees the topic that it was sent to."""
    found = dict(message.properties)
    found.setdefault(properties.RETRY_TOPIC, message.topic)
    found.setdefault(properties.ORIGIN_MESSAGE_ID, message.id)
    # Else it would begin a transaction again, or wait once more before it comes.
    for name in (properties.TRANSACTION, properties.WAIT, properties.DELAY, *properties.TIMERS):
        found.pop(name, None)
    flags = message.stored.sys_flag & ~(HOST_BITS | TRANSACTION_BITS)
    return Draft(
        RETRY + group,
        message.stored.body,
        [message.id],
        properties.join(found),
        flags,
        message.stored.flag,
        # Whatever the group's limit, 0 included: else it might be a dead letter again at once
        # (RocketMQ spec 4.5).
        max_reconsume_times=_INT_MAX,
    )


async def hand_over(
    servers: Servers, topic: str, message_id: str, group: str, client: str
) -> dict[str, Any]:
    """Hand one message to one member, which handles it at once.

    What comes is its own account of that: CR_SUCCESS, CR_LATER, CR_THROW_EXCEPTION and so on.

    No offset moves, and a failure is not tried again. Raises ApiError 404, Refused where the member
    is not online.
    """
    warnings = Warnings()
    message = the_one(await by_id(servers, topic, message_id, warnings))
    address = (await servers.broker(message.broker)).any_address()
    found = await consume_directly(
        servers, address, group, client, message.offset_id, brokerName=message.broker, topic=topic
    )
    told = {name: found.get(key) for name, key in _RESULT.items()}
    return {**told, "message": warnings.message}
