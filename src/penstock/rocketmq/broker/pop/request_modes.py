"""The choice of groups to pop or pull, and each member's queues (RocketMQ spec 2.7: 400 to 402).

Only a client that leaves the sharing of queues to its broker asks. A member that pulls gets its own
queues. Members that pop need none: each may pop all queues, or those of a few members and its own.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from penstock.core.errors import PenstockError
from penstock.rocketmq.broker import names
from penstock.rocketmq.broker.answering import RefusedError, answers, json_answer
from penstock.rocketmq.broker.pop.request_mode_table import FILE, POP, text_of, wanted
from penstock.rocketmq.broker.state.topic_table import QUEUES_MAX, READ
from penstock.rocketmq.protocol import fastjson
from penstock.rocketmq.protocol.codes import RequestCode, ResponseCode
from penstock.rocketmq.protocol.command import Command
from penstock.rocketmq.protocol.errors import BodyError
from penstock.rocketmq.protocol.message_queue import MessageQueue

if TYPE_CHECKING:
    from penstock.rocketmq.broker.broker_settings import BrokerSettings
    from penstock.rocketmq.broker.clients.group_topics import GroupTopics
    from penstock.rocketmq.broker.pop.request_mode_table import RequestModes
    from penstock.rocketmq.broker.registration import NameServers
    from penstock.rocketmq.broker.state.clients import Clients
    from penstock.rocketmq.broker.state.files import StateFiles
    from penstock.rocketmq.broker.state.topic_table import TopicTable
    from penstock.rocketmq.remoting import Connection

_ANY_QUEUE: Final = -1
_ROUTE_S: Final = 3.0


@dataclass(slots=True, eq=False)
class RequestModeCommands:
    """Commands about how groups consume, and who has which queues."""

    settings: BrokerSettings
    topics: TopicTable
    clients: Clients[Connection]
    files: StateFiles
    group_topics: GroupTopics
    request_modes: RequestModes
    name_servers: NameServers

    @answers(RequestCode.SET_MESSAGE_REQUEST_MODE)
    def set_request_mode(self, connection: Connection, request: Command) -> Command:
        """Let a group pop or pull a topic; it is written down before the answer.

        5.x's clients ask for it before they first heartbeat, so the group is made here if need be.
        """
        topic, group, mode, share = wanted(fastjson.loads(request.body))
        if topic.startswith(names.RETRY_PREFIX):
            remark = "retry topic is not allowed to set mode"
            raise RefusedError(ResponseCode.NO_PERMISSION, remark)
        if self.topics.get(topic) is None:
            raise RefusedError(ResponseCode.TOPIC_NOT_EXIST, f"topic[{topic}] not exist")
        if names.group_problem(group) or self.group_topics.config(group) is None:
            remark = "subscription group does not exist"
            raise RefusedError(ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST, remark)
        self.request_modes.put(topic, group, mode, share)
        self.files.save(FILE)
        return request.answer()

    @answers(RequestCode.GET_ALL_MESSAGE_REQUEST_MODE)
    def all_request_modes(self, connection: Connection, request: Command) -> Command:
        return json_answer(request, self.request_modes.as_json())

    @answers(RequestCode.QUERY_ASSIGNMENT)
    async def query_assignment(self, connection: Connection, request: Command) -> Command:
        """The queues of a member, and how it gets their messages.

        Without a list in the body the client leaves its queues as they are.
        """
        value = fastjson.loads(request.body)
        if not isinstance(value, dict):
            raise BodyError("a question for queues that is not an object")
        topic, group = text_of(value, "topic"), text_of(value, "consumerGroup")
        mode, share = self.request_modes.of(topic, group)
        queues = await self._queues(topic)
        if value.get("messageModel") != "BROADCASTING":
            members = self._members(group)
            strategy, own = str(value.get("strategyName")), text_of(value, "clientId")
            if not queues or not members or strategy not in _STRATEGIES:
                return json_answer(request, {})
            if mode == POP:
                queues = _popped(queues, members, own, share, strategy)
            else:
                queues = _share(queues, members, own, strategy)
        return json_answer(
            request,
            {
                "messageQueueAssignments": [
                    {"messageQueue": queue._asdict(), "mode": mode}
                    for queue in dict.fromkeys(queues)
                ]
            },
        )

    def _members(self, group: str) -> list[str]:
        online = self.clients.consumers.get(group)
        # In one order for all who ask, or a queue would have two members, and another none.
        return sorted({m.client_id for m in online.members.values()}) if online is not None else []

    async def _queues(self, topic: str) -> list[MessageQueue]:
        """The queues of a topic that can be read, here and at other brokers, in their order."""
        config = self.topics.get(topic)
        readable = {}
        if config is not None and config.perm & READ:
            readable[self.settings.broker_name] = config.read_queues
        for broker, count in (await self._route(topic)).items():
            readable.setdefault(broker, count)
        return [
            MessageQueue(broker, queue, topic)
            for broker in sorted(readable)
            for queue in range(readable[broker])
        ]

    async def _route(self, topic: str) -> dict[str, int]:
        """The number of queues by broker of the topic, from name servers; empty if none answers."""
        try:
            answer = await self.name_servers.ask(
                RequestCode.GET_ROUTEINFO_BY_TOPIC, {"topic": topic}, seconds=_ROUTE_S
            )
            value = fastjson.loads(answer.body) if answer is not None and answer.body else None
        except PenstockError:
            return {}
        found = value.get("queueDatas") if isinstance(value, dict) else None
        readable = {}
        for each in found if isinstance(found, list) else ():
            broker, queues, perm = (
                each.get(name) if isinstance(each, dict) else None
                for name in ("brokerName", "readQueueNums", "perm")
            )
            if (
                isinstance(broker, str)
                and type(queues) is int
                and type(perm) is int
                and perm & READ
            ):
                readable[broker] = min(queues, QUEUES_MAX)
        return readable


def _average(
    queues: Sequence[MessageQueue], members: Sequence[str], own: str
) -> list[MessageQueue]:
    """Neighbouring queues; the first members have one more when it does not come out even."""
    place = members.index(own)
    least, more = divmod(len(queues), len(members))
    start = place * least + min(place, more)
    return list(queues[start : start + least + (place < more)])


def _in_turn(
    queues: Sequence[MessageQueue], members: Sequence[str], own: str
) -> list[MessageQueue]:
    return list(queues[members.index(own) :: len(members)])


_STRATEGIES: Final = {"AVG": _average, "AVG_BY_CIRCLE": _in_turn}


def _share(
    queues: Sequence[MessageQueue], members: Sequence[str], own: str, strategy: str
) -> list[MessageQueue]:
    """The queues of one member; none when it is not in the group (yet)."""
    return _STRATEGIES[strategy](queues, members, own) if own in members else []


def _popped(
    queues: Sequence[MessageQueue], members: Sequence[str], own: str, share: int, strategy: str
) -> list[MessageQueue]:
    """The queues that one member pops: all, or its own and those of the ``share`` next members."""
    # Everybody pops everything: the entries are the same for all queues of a broker, with -1 for
    # any.
    if share <= 0 or share >= len(members) - 1:
        return [queue._replace(queueId=_ANY_QUEUE) for queue in queues]
    if own not in members:
        return []
    place = members.index(own)
    if len(members) > len(queues):  # so that nobody has none
        return [queues[place % len(queues)]]
    next_ones = [members[(place + step) % len(members)] for step in range(share + 1)]
    return [queue for member in next_ones for queue in _share(queues, members, member, strategy)]
