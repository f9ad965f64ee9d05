"""One message handed to one member of a group, which handles it at once."""

from __future__ import annotations

from typing import Any, Final

from penstock.admin.rocketmq.messages.finding import by_id, the_one
from penstock.admin.rocketmq.servers import Servers
from penstock.cluster.fanout import Warnings
from penstock.rocketmq.protocol.codes import RequestCode

_RESULT: Final = {
    "result": "consumeResult", "remark": "remark", "spent_ms": "spentTimeMills",
    "ordered": "order",
}  # fmt: skip


async def consume_directly(
    servers: Servers, topic: str, message_id: str, group: str, client: str
) -> dict[str, Any]:
    """The member's own account of it: CR_SUCCESS, CR_LATER, CR_THROW_EXCEPTION and so on.

    No offset moves, and a failure is not tried again. Raises ApiError 404, Refused where the member
    is not online.
    """
    warnings = Warnings()
    message = the_one(await by_id(servers, topic, message_id, warnings))
    address = (await servers.broker(message.broker)).any_address()
    fields = {
        "consumerGroup": group, "clientId": client, "msgId": message.offset_id,
        "brokerName": message.broker, "topic": topic,
    }  # fmt: skip
    found = await servers.ask_json(address, RequestCode.CONSUME_MESSAGE_DIRECTLY, fields)
    told = {name: found.get(key) for name, key in _RESULT.items()}
    return {**told, "message": warnings.message}
