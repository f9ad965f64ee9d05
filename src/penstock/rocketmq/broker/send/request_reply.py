"""Replies of consumers, pushed on to the producer that asked (RocketMQ spec 2.1).

A reply names its producer's client id. It is given to that producer at once, over the connection of
its heartbeats, and by default stored as well, for whoever wants to look at it.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from penstock.core.clock import wall_ms
from penstock.core.errors import StorageError
from penstock.rocketmq.broker.answering import RefusedError, answers
from penstock.rocketmq.broker.send.send_header import SendHeader
from penstock.rocketmq.broker.store.draft import Draft
from penstock.rocketmq.protocol.codes import RequestCode, ResponseCode
from penstock.rocketmq.protocol.command import Command
from penstock.rocketmq.protocol.messages import properties
from penstock.rocketmq.remoting import NoAnswerError

if TYPE_CHECKING:
    from penstock.core.chance import Chance
    from penstock.core.clock import Clock
    from penstock.rocketmq.broker.broker_settings import BrokerSettings
    from penstock.rocketmq.broker.delays.publisher import Publisher
    from penstock.rocketmq.broker.registration import NameServers
    from penstock.rocketmq.broker.send.sending import Sends
    from penstock.rocketmq.broker.state.clients import Clients
    from penstock.rocketmq.broker.state.topic_table import TopicTable
    from penstock.rocketmq.protocol.ids import Host
    from penstock.rocketmq.remoting import Connection

logger = logging.getLogger("penstock.mqbroker")

PUSH_S: Final = 10.0
"""The time that the producer has to answer."""
_NOT_STORED: Final = "0"
"""The id of a reply that is not stored; clients want to read a number."""


@dataclass(slots=True, eq=False)
class Replies:
    """Answers to replies."""

    settings: BrokerSettings
    topics: TopicTable
    clients: Clients[Connection]
    sends: Sends
    publisher: Publisher
    name_servers: NameServers
    address: Host
    clock: Clock
    chance: Chance

    @answers(RequestCode.SEND_REPLY_MESSAGE, RequestCode.SEND_REPLY_MESSAGE_V2)
    async def send_reply(self, connection: Connection, request: Command) -> Command:
        header = SendHeader.of(request)
        header.check()
        topics_before = self.topics.version.counter
        config = self.sends.checked_topic(connection, header)
        draft = self._draft(connection, header, request.body)
        if draft.queue < 0:
            draft.queue = self.chance.below(max(1, config.write_queues))
        problem = await self._push(header, draft)
        ext = {
            "MSG_REGION": self.settings.region_id,
            "TRACE_ON": str(self.settings.trace_on).lower(),
        }
        if problem is None:
            ext |= {"msgId": _NOT_STORED, "queueId": str(draft.queue), "queueOffset": "0"}
        if self.settings.store_reply_message_enable:
            ext |= await self._store(draft)
        await self.name_servers.registered_since(topics_before)
        code = ResponseCode.SUCCESS if problem is None else ResponseCode.SYSTEM_ERROR
        return request.answer(code, problem, ext=ext)

    def _draft(self, connection: Connection, header: SendHeader, body: bytes) -> Draft:
        """The reply as it is stored. Raises RefusedError when it is too large."""
        most = self.settings.max_message_size
        if (
            len(body) > most
            or len(header.properties.encode("utf-8", "replace")) > properties.BYTES_MAX
        ):
            remark = (
                f"the reply is too large: bodies of {most} bytes are the limit, and properties of "
                f"{properties.BYTES_MAX}"
            )
            raise RefusedError(ResponseCode.MESSAGE_ILLEGAL, remark)
        return Draft(
            header.topic,
            header.queue,
            body,
            header.properties,
            header.flag,
            header.sys_flag,
            header.born_ms,
            connection.host,
            header.reconsume_times,
        )

    async def _push(self, header: SendHeader, draft: Draft) -> str | None:
        """Give a reply to its producer; what went wrong, or None."""
        found = properties.parse(draft.properties)
        client_id = found.get(properties.REPLY_TO_CLIENT)
        if client_id is None:
            return f"reply message properties[{properties.REPLY_TO_CLIENT}] is null"
        producer = self.clients.producer_of(client_id)
        if producer is None:
            return f"push reply message fail, channel of <{client_id}> not found."
        found[properties.PUSH_REPLY_TIME] = str(wall_ms(self.clock))
        ext = {
            "producerGroup": header.producer_group,
            "topic": header.topic,
            "defaultTopic": header.default_topic,
            "defaultTopicQueueNums": str(header.default_queues),
            "queueId": str(header.queue),
            "sysFlag": str(header.sys_flag),
            "bornTimestamp": str(header.born_ms),
            "flag": str(header.flag),
            "properties": properties.join(found),
            "reconsumeTimes": str(header.reconsume_times),
            "unitMode": str(header.unit_mode).lower(),
            "bornHost": str(draft.born_host),
            "storeHost": str(self.address),
            "storeTimestamp": str(wall_ms(self.clock)),
        }
        try:
            answer = await producer.peer.invoke(
                RequestCode.PUSH_REPLY_MESSAGE_TO_CLIENT, ext, draft.body, seconds=PUSH_S
            )
        except NoAnswerError as error:
            return f"push reply message to {client_id} fail: {error}"
        if answer.code != ResponseCode.SUCCESS:
            return f"push reply message to {client_id} fail: it answered {answer.code}"
        return None

    async def _store(self, draft: Draft) -> dict[str, str]:
        """The place of a stored reply; nothing on failure, since the producer has it anyway."""
        try:
            placed = await self.publisher.publish_one(draft)
        except StorageError as error:
            logger.error("a reply is not stored: %s", error)
            return {}
        return {
            "msgId": placed.message_id,
            "queueId": str(draft.queue),
            "queueOffset": str(placed.queue_offset),
        }
