"""Which groups pop and which pull, and what that gives each member (reference 2.7, 400 to 402).

Only a client that leaves the sharing of queues to its broker asks. Who pulls gets queues of its
own. Who pops needs none: each member may pop all queues, or those of a few members beside its own.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

from penstock.core.errors import PenstockError
from penstock.rocketmq.broker import names
from penstock.rocketmq.broker.answering import RefusedError, answers, json_answer
from penstock.rocketmq.broker.topics import QUEUES_MAX, READ
from penstock.rocketmq.protocol import fastjson
from penstock.rocketmq.protocol.codes import RequestCode, ResponseCode
from penstock.rocketmq.protocol.command import Command
from penstock.rocketmq.protocol.errors import BodyError
from penstock.rocketmq.protocol.message_queue import MessageQueue

if TYPE_CHECKING:
    from penstock.rocketmq.broker.node import Node
    from penstock.rocketmq.remoting import Connection

FILE: Final = "messageRequestMode.json"
POP: Final = "POP"
PULL: Final = "PULL"
_ANY_QUEUE: Final = -1
_ROUTE_S: Final = 3.0


class RequestModes:
    """The mode of each topic and group for which one was set; the others pull."""

    def __init__(self) -> None:
        self._table: dict[str, dict[str, tuple[str, int]]] = {}

    def put(self, topic: str, group: str, mode: str, share: int) -> None:
        """``share``: beside how many other members' queues one pops; 0: all of them."""
        self._table.setdefault(topic, {})[group] = (mode, share)

    def of(self, topic: str, group: str) -> tuple[str, int]:
        return self._table.get(topic, {}).get(group, (PULL, 0))

    def forget_topic(self, topic: str) -> None:
        self._table.pop(topic, None)

    def as_json(self) -> dict[str, Any]:
        """As the Java classes print it; also what is kept in the file."""
        return {
            "messageRequestModeMap": {
                topic: {
                    group: {"consumerGroup": group, "mode": mode, "popShareQueueNum": share,
                            "topic": topic}
                    for group, (mode, share) in groups.items()
                }
                for topic, groups in self._table.items()
            }
        }  # fmt: skip

    def load(self, value: Any) -> None:
        """Take over what was kept. Raises BodyError."""
        table = value.get("messageRequestModeMap") if isinstance(value, dict) else None
        if not isinstance(table, dict):
            raise BodyError("request modes without messageRequestModeMap")
        for groups in table.values():
            for each in groups.values() if isinstance(groups, dict) else ():
                self.put(*_wanted(each))


def _wanted(value: Any) -> tuple[str, str, str, int]:
    """Topic, group, mode and share. Raises BodyError."""
    if not isinstance(value, dict):
        raise BodyError("a request mode that is no object")
    mode, share = value.get("mode"), value.get("popShareQueueNum", 0)
    if mode not in (POP, PULL) or type(share) is not int:
        raise BodyError("a request mode is POP or PULL, and popShareQueueNum is a number")
    return _text(value, "topic"), _text(value, "consumerGroup"), mode, share


def _text(value: dict[Any, Any], name: str) -> str:
    found = value.get(name)
    if not isinstance(found, str) or not found:
        raise BodyError(f"{name} is missing")
    return found


@answers(RequestCode.SET_MESSAGE_REQUEST_MODE)
def set_request_mode(node: Node, connection: Connection, request: Command) -> Command:
    """Let a group pop or pull a topic; it is written down before the answer."""
    topic, group, mode, share = _wanted(fastjson.loads(request.body))
    if topic.startswith(names.RETRY_PREFIX):
        remark = "retry topic is not allowed to set mode"
        raise RefusedError(ResponseCode.NO_PERMISSION, remark)
    if node.topics.get(topic) is None:
        raise RefusedError(ResponseCode.TOPIC_NOT_EXIST, f"topic[{topic}] not exist")
    if group not in node.groups.configs:
        remark = "subscription group does not exist"
        raise RefusedError(ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST, remark)
    node.request_modes.put(topic, group, mode, share)
    node.state.save(FILE)
    return request.answer()


@answers(RequestCode.GET_ALL_MESSAGE_REQUEST_MODE)
def all_request_modes(node: Node, connection: Connection, request: Command) -> Command:
    return json_answer(request, node.request_modes.as_json())


@answers(RequestCode.QUERY_ASSIGNMENT)
async def query_assignment(node: Node, connection: Connection, request: Command) -> Command:
    """The queues of a member, and how it gets their messages.

    Without a list in the body the client leaves its queues as they are.
    """
    value = fastjson.loads(request.body)
    if not isinstance(value, dict):
        raise BodyError("a question for queues that is no object")
    topic, group = _text(value, "topic"), _text(value, "consumerGroup")
    mode, share = node.request_modes.of(topic, group)
    queues = await _queues(node, topic)
    if value.get("messageModel") != "BROADCASTING":
        members = _members(node, group)
        strategy, own = value.get("strategyName"), _text(value, "clientId")
        if not queues or not members or strategy not in _STRATEGIES:
            return json_answer(request, {})
        if mode == POP:
            queues = _popped(queues, members, own, share, str(strategy))
        else:
            queues = _share(queues, members, own, str(strategy))
    return json_answer(request, {
        "messageQueueAssignments": [
            {"messageQueue": queue._asdict(), "mode": mode} for queue in dict.fromkeys(queues)
        ]
    })  # fmt: skip


def _members(node: Node, group: str) -> list[str]:
    online = node.clients.consumers.get(group)
    return sorted({m.client_id for m in online.members.values()}) if online is not None else []


async def _queues(node: Node, topic: str) -> list[MessageQueue]:
    """The queues of a topic that can be read, here and at other brokers, in their order."""
    config = node.topics.get(topic)
    readable = {}
    if config is not None and config.perm & READ:
        readable[node.settings.broker_name] = config.read_queues
    for broker, count in (await _route(node, topic)).items():
        readable.setdefault(broker, count)
    return [
        MessageQueue(broker, queue, topic)
        for broker in sorted(readable)
        for queue in range(readable[broker])
    ]


async def _route(node: Node, topic: str) -> dict[str, int]:
    """How many queues name servers say the topic's brokers have; nothing when none answers."""
    if node.name_servers is None:
        return {}
    try:
        answer = await node.name_servers.ask(
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
        if isinstance(broker, str) and type(queues) is int and type(perm) is int and perm & READ:
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
    """What one member pops: all, or its own queues and those of the ``share`` next members."""
    if share <= 0 or share >= len(members) - 1:
        return [queue._replace(queueId=_ANY_QUEUE) for queue in queues]
    if own not in members:
        return []
    place = members.index(own)
    if len(members) > len(queues):  # so that nobody has none
        return [queues[place % len(queues)]]
    next_ones = [members[(place + step) % len(members)] for step in range(share + 1)]
    return [queue for member in next_ones for queue in _share(queues, members, member, strategy)]
