"""Heartbeats: clients join groups, leave them, and hear when members change.

See RocketMQ spec 2.3, 4.1.

A group that nobody has made is made by its first member, with its retry topic, which must be in the
routes right after that. A client that is silent for 120 s is taken out like one that hung up.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from penstock.core.clock import wall_ms
from penstock.net.tasks import spawn
from penstock.rocketmq.broker import names
from penstock.rocketmq.broker.answering import answers, json_answer
from penstock.rocketmq.broker.state.clients import ConsumerData, ConsumerGroup, Heartbeat, Member
from penstock.rocketmq.broker.state.subscriptions import TAG, Subscription
from penstock.rocketmq.protocol import fastjson
from penstock.rocketmq.protocol.codes import RequestCode, ResponseCode
from penstock.rocketmq.protocol.command import Command
from penstock.rocketmq.protocol.signing import ACCESS_KEY

if TYPE_CHECKING:
    from penstock.core.clock import Clock
    from penstock.rocketmq.broker.broker_settings import BrokerSettings
    from penstock.rocketmq.broker.clients.group_topics import GroupTopics
    from penstock.rocketmq.broker.registration import NameServers
    from penstock.rocketmq.broker.state.clients import Clients
    from penstock.rocketmq.broker.state.group_table import GroupTable
    from penstock.rocketmq.broker.state.topic_table import TopicTable
    from penstock.rocketmq.remoting import Connection

logger = logging.getLogger("penstock.mqbroker")

SCAN_S: Final = 10.0


@dataclass(slots=True, eq=False)
class Heartbeats:
    """Answers to clients that join and leave groups."""

    settings: BrokerSettings
    topics: TopicTable
    groups: GroupTable
    clients: Clients[Connection]
    group_topics: GroupTopics
    name_servers: NameServers
    clock: Clock

    @answers(RequestCode.HEART_BEAT)
    def heart_beat(self, connection: Connection, request: Command) -> Command | None:
        """The answer to a first heartbeat waits for name servers to know the retry topic."""
        heartbeat = Heartbeat.parse(request.body)
        # The rest of it counts: Java skips a group that it cannot make (RocketMQ spec 4.1).
        heartbeat.consumers = [data for data in heartbeat.consumers if _is_legal(data, connection)]
        topics_before = self.topics.version.counter
        for data in heartbeat.consumers:
            config = self.group_topics.config(data.group)
            # Java makes the retry topic with the first heartbeat, as clients ask for its route
            # (RocketMQ spec 4.1).
            if config is not None:
                self.group_topics.retry_topic(config, unit_mode=data.unit_mode)
        member = Member(
            heartbeat.client_id,
            connection,
            connection.address,
            request.language,
            request.version,
            self.clock.monotonic_ns(),
            request.optional(ACCESS_KEY) or "",
        )
        for group in self.clients.beat(heartbeat, member, wall_ms(self.clock)):
            _warn_of_problems(group, connection)
            self._notify(group)
        # ali-ons looks for the retry topic's route right after this, and logs errors without it.
        if self.topics.version.counter == topics_before:
            return request.answer()
        spawn(self._answer_when_registered(connection, request), "first heartbeat of a group")
        return None

    async def _answer_when_registered(self, connection: Connection, request: Command) -> None:
        await self.name_servers.registered()
        if not request.is_one_way:
            connection.send(request.answer())

    @answers(RequestCode.UNREGISTER_CLIENT)
    def unregister_client(self, connection: Connection, request: Command) -> Command:
        left = self.clients.leave(
            connection, request.optional("producerGroup"), request.optional("consumerGroup")
        )
        for group in left:
            self._notify(group)
        return request.answer(ext={})

    @answers(RequestCode.GET_CONSUMER_LIST_BY_GROUP)
    def consumer_list(self, connection: Connection, request: Command) -> Command:
        name = request.text("consumerGroup")
        group = self.clients.consumers.get(name)
        if group is None:
            remark = f"no consumer for this group, {name}"
            # Java answers an error for a group without members, in these words.
            return request.answer(ResponseCode.SYSTEM_ERROR, remark, ext={})
        # Each once: a client that reconnects has two connections for a moment, and nobody would
        # take the share of queues that falls to its second entry.
        ids = dict.fromkeys(member.client_id for member in group.members.values())
        answer = json_answer(request, {"consumerIdList": list(ids)})
        answer.ext = {}
        return answer

    @answers(RequestCode.CHECK_CLIENT_CONFIG)
    def check_client_config(self, connection: Connection, request: Command) -> Command:
        """Check that this broker can filter as a client wants; asked before its first heartbeat."""
        value = fastjson.loads(request.body)
        data = value.get("subscriptionData") if isinstance(value, dict) else None
        if data is None:
            return request.answer()
        subscription = Subscription.from_json(data)
        if subscription.kind == TAG:
            return request.answer()  # tags are for the client to check
        if not self.settings.enable_property_filter:
            remark = (
                f"The broker does not support consumer to filter message by {subscription.kind}"
            )
            return request.answer(ResponseCode.SYSTEM_ERROR, remark)
        if subscription.problem is not None:
            return request.answer(ResponseCode.SUBSCRIPTION_PARSE_FAILED, subscription.problem)
        return request.answer()

    def _notify(self, group: ConsumerGroup[Connection]) -> None:
        """Tell all members that they are others than before; each then picks its queues again.

        Members of a broadcast group have all queues, whoever else there is. One that does not read
        what it is told looks for itself every 20 s.
        """
        config = self.groups.configs.get(group.name)
        wanted = config is None or config.notify_consumer_ids_changed_enable
        if group.is_broadcast or not wanted or not self.settings.notify_consumer_ids_changed_enable:
            return
        # Java tells all members, the newcomer as well.
        for connection in group.members:
            if not connection.is_congested:
                connection.tell(
                    RequestCode.NOTIFY_CONSUMER_IDS_CHANGED, {"consumerGroup": group.name}
                )

    def connection_ended(self, connection: Connection) -> None:
        """The client of a connection leaves its groups."""
        for group in self.clients.disconnected(connection):
            self._notify(group)

    def end_silent_clients(self) -> None:
        """Take out clients whose heartbeats have stopped, and end their connections."""
        for connection in self.clients.expired(self.clock.monotonic_ns()):
            logger.warning("%s sent no heartbeat for too long, closing", connection.address)
            # Now, not with the end of its connection: that may take long where the machine is off.
            self.connection_ended(connection)
            connection.close()


def _is_legal(data: ConsumerData, connection: Connection) -> bool:
    problem = names.group_problem(data.group)
    if problem is not None:
        logger.warning(
            "%s sent a heartbeat that is ignored in part: %s", connection.address, problem
        )
    return problem is None


def _warn_of_problems(group: ConsumerGroup[Connection], connection: Connection) -> None:
    for each in group.subscriptions.values():
        if each.problem is not None:
            logger.warning(
                "%s: the subscription of %s to %s delivers nothing: %s",
                connection.address,
                group.name,
                each.topic,
                each.problem,
            )
