"""Lists of connected clients, as the tools show them (RocketMQ spec 2.4, 10)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from penstock.core.clock import wall_ms
from penstock.core.units import MILLISECOND
from penstock.rocketmq.broker.answering import RefusedError, answers, json_answer
from penstock.rocketmq.protocol.codes import RequestCode, ResponseCode
from penstock.rocketmq.protocol.command import Command

if TYPE_CHECKING:
    from penstock.core.clock import Clock
    from penstock.rocketmq.broker.state.clients import Clients, Member
    from penstock.rocketmq.remoting import Connection


@dataclass(slots=True, eq=False)
class ConnectionLists:
    """Answers about the members of groups."""

    clients: Clients[Connection]
    clock: Clock

    @answers(RequestCode.GET_CONSUMER_CONNECTION_LIST)
    def consumer_connections(self, connection: Connection, request: Command) -> Command:
        """The members of a consumer group, how it consumes and what it subscribes."""
        name = request.text("consumerGroup")
        group = self.clients.consumers.get(name)
        if group is None:
            raise RefusedError(
                ResponseCode.CONSUMER_NOT_ONLINE, f"the consumer group[{name}] not online"
            )
        return json_answer(
            request,
            {
                "connectionSet": [member.as_json() for member in group.members.values()],
                "consumeFromWhere": group.consume_from,
                "consumeType": group.consume_type,
                "messageModel": group.model,
                "subscriptionTable": {
                    topic: subscription.as_json()
                    for topic, subscription in group.subscriptions.items()
                },
            },
        )

    @answers(RequestCode.GET_PRODUCER_CONNECTION_LIST)
    def producer_connections(self, connection: Connection, request: Command) -> Command:
        """The members of a producer group."""
        name = request.text("producerGroup")
        members = self.clients.producers.get(name)
        if members is None:
            raise RefusedError(ResponseCode.SYSTEM_ERROR, f"the producer group[{name}] not exist")
        return json_answer(
            request, {"connectionSet": [member.as_json() for member in members.values()]}
        )

    @answers(RequestCode.GET_ALL_PRODUCER_INFO)
    def all_producers(self, connection: Connection, request: Command) -> Command:
        """The members of every producer group, and when each was heard last."""
        data = {
            group: [self._producer(member) for member in members.values()]
            for group, members in self.clients.producers.items()
        }
        return json_answer(request, {"data": data})

    def _producer(self, member: Member[Connection]) -> dict[str, Any]:
        silent_ms = (self.clock.monotonic_ns() - member.heard_ns) // MILLISECOND
        return {
            "clientId": member.client_id,
            "language": member.language.name,
            "lastUpdateTimestamp": wall_ms(self.clock) - silent_ms,
            "remoteIP": f"/{member.address}",  # as Java prints an address
            "version": member.version,
        }
