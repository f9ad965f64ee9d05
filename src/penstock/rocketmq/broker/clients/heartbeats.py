"""Heartbeats: clients join groups, leave them, and hear when members change.

See RocketMQ spec 2.3, 4.1.

A group that nobody has made is made by its first member, with its retry topic, which must be in the
routes right after that. A client that is silent for 120 s is taken out like one that hung up.
"""

from __future__ import annotations

import logging
from functools import partial
from typing import TYPE_CHECKING, Final

from penstock.net.tasks import spawn
from penstock.rocketmq.broker import names
from penstock.rocketmq.broker.answering import answers, json_answer
from penstock.rocketmq.broker.clients import group_topics
from penstock.rocketmq.broker.periodic import Periodic
from penstock.rocketmq.broker.state.clients import ConsumerData, ConsumerGroup, Heartbeat, Member
from penstock.rocketmq.broker.state.subscriptions import TAG, Subscription
from penstock.rocketmq.protocol import fastjson
from penstock.rocketmq.protocol.codes import RequestCode, ResponseCode
from penstock.rocketmq.protocol.command import Command
from penstock.rocketmq.protocol.signing import ACCESS_KEY

if TYPE_CHECKING:
    from penstock.rocketmq.broker.controller import Controller
    from penstock.rocketmq.remoting import Connection

logger = logging.getLogger("penstock.mqbroker")

SCAN_S: Final = 10.0


@answers(RequestCode.HEART_BEAT)
def heart_beat(controller: Controller, connection: Connection, request: Command) -> Command | None:
    """The answer to a first heartbeat waits for name servers to know the retry topic."""
    heartbeat = Heartbeat.parse(request.body)
    heartbeat.consumers = [data for data in heartbeat.consumers if _is_legal(data, connection)]
    topics_before = controller.topics.version.counter
    for data in heartbeat.consumers:
        config = group_topics.group_config(controller, data.group)
        if config is not None:
            group_topics.retry_topic(controller, config, unit_mode=data.unit_mode)
    member = Member(
        heartbeat.client_id, connection, connection.address, request.language, request.version,
        controller.clock.monotonic_ns(), request.optional(ACCESS_KEY) or "",
    )  # fmt: skip
    for group in controller.clients.beat(heartbeat, member, controller.now_ms):
        _warn_of_problems(group, connection)
        _notify(controller, group)
    # ali-ons looks for the retry topic's route right after this, and logs errors without it.
    if controller.topics.version.counter == topics_before:
        return request.answer()
    spawn(_answer_when_registered(controller, connection, request), "first heartbeat of a group")
    return None


async def _answer_when_registered(
    controller: Controller, connection: Connection, request: Command
) -> None:
    await controller.registered()
    if not request.is_one_way:
        connection.send(request.answer())


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
            logger.warning("%s: the subscription of %s to %s delivers nothing: %s",
                         connection.address, group.name, each.topic, each.problem)  # fmt: skip


@answers(RequestCode.UNREGISTER_CLIENT)
def unregister_client(controller: Controller, connection: Connection, request: Command) -> Command:
    left = controller.clients.leave(
        connection, request.optional("producerGroup"), request.optional("consumerGroup")
    )
    for group in left:
        _notify(controller, group)
    return request.answer(ext={})


@answers(RequestCode.GET_CONSUMER_LIST_BY_GROUP)
def consumer_list(controller: Controller, connection: Connection, request: Command) -> Command:
    name = request.text("consumerGroup")
    group = controller.clients.consumers.get(name)
    if group is None:
        remark = f"no consumer for this group, {name}"
        # Java answers an error for a group without members, in these words.
        return request.answer(ResponseCode.SYSTEM_ERROR, remark, ext={})
    ids = dict.fromkeys(member.client_id for member in group.members.values())
    answer = json_answer(request, {"consumerIdList": list(ids)})
    answer.ext = {}
    return answer


@answers(RequestCode.CHECK_CLIENT_CONFIG)
def check_client_config(
    controller: Controller, connection: Connection, request: Command
) -> Command:
    """Check that this broker can filter as a client wants it; asked before its first heartbeat."""
    value = fastjson.loads(request.body)
    data = value.get("subscriptionData") if isinstance(value, dict) else None
    if data is None:
        return request.answer()
    subscription = Subscription.from_json(data)
    if subscription.kind == TAG:
        return request.answer()  # tags are for the client to check
    if not controller.settings.enable_property_filter:
        remark = f"The broker does not support consumer to filter message by {subscription.kind}"
        return request.answer(ResponseCode.SYSTEM_ERROR, remark)
    if subscription.problem is not None:
        return request.answer(ResponseCode.SUBSCRIPTION_PARSE_FAILED, subscription.problem)
    return request.answer()


def _notify(controller: Controller, group: ConsumerGroup[Connection]) -> None:
    """Tell all members that they are others than before; each then picks its queues again.

    Members of a broadcast group have all queues, whoever else there is. One that does not read
    what it is told looks for itself every 20 s.
    """
    config = controller.groups.configs.get(group.name)
    wanted = config is None or config.notify_consumer_ids_changed_enable
    if (
        group.is_broadcast
        or not wanted
        or not controller.settings.notify_consumer_ids_changed_enable
    ):
        return
    # Java tells all members, the newcomer as well.
    for connection in group.members:
        if not connection.is_congested:
            connection.tell(RequestCode.NOTIFY_CONSUMER_IDS_CHANGED, {"consumerGroup": group.name})


def connection_ended(controller: Controller, connection: Connection) -> None:
    """The client of a connection leaves its groups."""
    for group in controller.clients.disconnected(connection):
        _notify(controller, group)


def end_silent_clients(controller: Controller) -> None:
    """Take out clients whose heartbeats have stopped, and end their connections."""
    for connection in controller.clients.expired(controller.clock.monotonic_ns()):
        logger.warning("%s sent no heartbeat for too long, closing", connection.address)
        connection_ended(controller, connection)
        connection.close()


def silent_clients(controller: Controller) -> Periodic:
    """The service that looks for such clients."""
    return Periodic("scan of clients", SCAN_S, partial(end_silent_clients, controller))
