"""Questions of administrators that a broker passes on to a consumer, and its answers (2.4)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from penstock.rocketmq.broker.admin.message_queries import need_frame
from penstock.rocketmq.broker.answering import RefusedError, answers
from penstock.rocketmq.broker.state.clients import Member
from penstock.rocketmq.protocol.codes import RequestCode, ResponseCode
from penstock.rocketmq.protocol.command import Command
from penstock.rocketmq.protocol.ids import OffsetId
from penstock.rocketmq.protocol.signing import CREDENTIALS
from penstock.rocketmq.remoting import LateAnswerError, NoAnswerError

if TYPE_CHECKING:
    from penstock.rocketmq.broker.broker_settings import BrokerSettings
    from penstock.rocketmq.broker.state.clients import Clients
    from penstock.rocketmq.broker.store.message_store import MessageStore
    from penstock.rocketmq.remoting import Connection

ANSWER_S: Final = 10.0
"""The time that the consumer has to answer."""
_RELAYS_SINCE: Final = 62
"""V3_1_8_SNAPSHOT: such clients answer these questions."""


@dataclass(slots=True, eq=False)
class ClientRelays:
    """Relays of questions to the members of consumer groups."""

    settings: BrokerSettings
    clients: Clients[Connection]
    store: MessageStore

    @answers(RequestCode.GET_CONSUMER_RUNNING_INFO)
    async def consumer_running_info(self, connection: Connection, request: Command) -> Command:
        member = self._member(request)
        return await _relay(member, request, _fields(request), request.body)

    @answers(RequestCode.CONSUME_MESSAGE_DIRECTLY)
    async def consume_directly(self, connection: Connection, request: Command) -> Command:
        """The consumer is given one stored message, and says what came of handling it."""
        member = self._member(request)
        # The broker adds the message: the tool knows its id alone (RocketMQ spec 2.4).
        frame = need_frame(self.store, OffsetId.parse(request.text("msgId")).offset)
        ext = {**_fields(request), "brokerName": self.settings.broker_name}
        return await _relay(member, request, ext, frame)

    def _member(self, request: Command) -> Member[Connection]:
        """The consumer that a request names. Raises RefusedError if it is offline or too old."""
        group, client_id = request.text("consumerGroup"), request.text("clientId")
        member = self.clients.consumer_of(group, client_id)
        if member is None:
            remark = f"The Consumer <{group}> <{client_id}> not online"
            raise RefusedError(ResponseCode.SYSTEM_ERROR, remark)
        if member.version < _RELAYS_SINCE:
            remark = (
                f"The Consumer <{client_id}> Version <{member.version}> too low to finish, "
                "please upgrade it to V3_1_8_SNAPSHOT"
            )
            raise RefusedError(ResponseCode.SYSTEM_ERROR, remark)
        return member


def _fields(request: Command) -> dict[str, str]:
    """The fields of a request but for those of its account: Java's broker passes them on, too, and
    whoever has an administrator's signature can sign other requests with it, as it does not cover
    the code.
    """
    ext = request.ext or {}
    return {name: value for name, value in ext.items() if name not in CREDENTIALS}


async def _relay(
    member: Member[Connection], request: Command, ext: dict[str, str], body: bytes
) -> Command:
    """The consumer's answer, unchanged. Raises RefusedError when it does not answer."""
    who = f"consumer <{request.text('consumerGroup')}> <{member.client_id}>"
    try:
        answer = await member.peer.invoke(request.code, ext, body, seconds=ANSWER_S)
    except LateAnswerError as error:
        remark = f"{who} Timeout: {error}"
        raise RefusedError(ResponseCode.CONSUME_MSG_TIMEOUT, remark) from None
    except NoAnswerError as error:
        raise RefusedError(ResponseCode.SYSTEM_ERROR, f"invoke {who}: {error}") from None
    return request.answer(answer.code, answer.remark, ext=answer.ext, body=answer.body)
