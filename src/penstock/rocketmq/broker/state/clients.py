"""Connected clients: producers and consumers by group, from their heartbeats (RocketMQ spec 4.1).

A client belongs to a connection; when it ends, or is silent for too long, the client leaves its
groups. Heartbeats come in several accents: enums by name or by number, parts left out, versions as
texts.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Final, Generic, TypeVar

from penstock.core.units import SECOND
from penstock.rocketmq.broker import names
from penstock.rocketmq.broker.state.group_table import GROUPS_MAX
from penstock.rocketmq.broker.state.subscriptions import Subscription
from penstock.rocketmq.protocol import fastjson
from penstock.rocketmq.protocol.command import Language
from penstock.rocketmq.protocol.errors import BodyError

EXPIRY_NS: Final = 120 * SECOND

CONSUME_TYPES: Final = ("CONSUME_ACTIVELY", "CONSUME_PASSIVELY", "CONSUME_POP")
MESSAGE_MODELS: Final = ("BROADCASTING", "CLUSTERING")
CONSUME_FROM: Final = (
    "CONSUME_FROM_LAST_OFFSET",
    "CONSUME_FROM_LAST_OFFSET_AND_FROM_MIN_WHEN_BOOT_FIRST",
    "CONSUME_FROM_MIN_OFFSET",
    "CONSUME_FROM_MAX_OFFSET",
    "CONSUME_FROM_FIRST_OFFSET",
    "CONSUME_FROM_TIMESTAMP",
)

Peer = TypeVar("Peer")


@dataclass(slots=True)
class ConsumerData:
    """The part of a heartbeat about one consumer group."""

    group: str
    consume_type: str
    model: str
    consume_from: str
    subscriptions: list[Subscription]
    unit_mode: bool = False


@dataclass(slots=True)
class Heartbeat:
    """The body of a heartbeat."""

    client_id: str
    consumers: list[ConsumerData]
    producers: list[str]

    @classmethod
    def parse(cls, body: bytes) -> Heartbeat:
        """Parse the fields that JSON holds. Raises BodyError."""
        value = fastjson.loads_leniently(body)
        if not isinstance(value, dict) or not isinstance(value.get("clientID"), str):
            raise BodyError("a heartbeat without clientID")
        consumers = [_consumer(each) for each in _list(value, "consumerDataSet")]
        producers = [_group(each) for each in _list(value, "producerDataSet")]
        if len(value["clientID"]) > names.CLIENT_ID_LENGTH_MAX:
            raise BodyError(f"a clientID of more than {names.CLIENT_ID_LENGTH_MAX} characters")
        if any(len(group) > names.GROUP_LENGTH_MAX for group in producers):
            raise BodyError(f"a producer group of more than {names.GROUP_LENGTH_MAX} characters")
        return cls(value["clientID"], consumers, producers)


def _group(value: Any) -> str:
    name = value.get("groupName") if isinstance(value, dict) else None
    if not isinstance(name, str) or not name:
        raise BodyError("a heartbeat with a group that has no groupName")
    return name


def _consumer(value: Any) -> ConsumerData:
    group = _group(value)
    return ConsumerData(
        group,
        _enum(value.get("consumeType"), CONSUME_TYPES, 1),
        _enum(value.get("messageModel"), MESSAGE_MODELS, 1),
        _enum(value.get("consumeFromWhere"), CONSUME_FROM, 0),
        # One Python client says subscriptionData; its pulls bring the filter.
        [Subscription.from_json(each) for each in _list(value, "subscriptionDataSet")],
        value.get("unitMode") is True,
    )


def _list(value: dict[Any, Any], name: str) -> list[Any]:
    # C++ leaves out lists that would be empty.
    found = value.get(name) or []
    if not isinstance(found, list):
        raise BodyError(f"{name} is not a list")
    return found


def _enum(value: Any, words: tuple[str, ...], default: int) -> str:
    if isinstance(value, str) and value in words:
        return value
    # C++ sends the ordinals of Java's enums.
    if type(value) is int and 0 <= value < len(words):
        return words[value]
    return words[default]


@dataclass(slots=True)
class Member(Generic[Peer]):
    """One client in a group, with its connection and the ``access_key`` of its account, if any."""

    client_id: str
    peer: Peer
    address: str
    language: Language
    version: int
    heard_ns: int
    access_key: str = ""

    def as_json(self) -> dict[str, Any]:
        return {
            "clientAddr": self.address,
            "clientId": self.client_id,
            "language": self.language.name,
            "version": self.version,
        }


@dataclass(slots=True)
class ConsumerGroup(Generic[Peer]):
    """The live members of a consumer group and what they subscribe."""

    name: str
    consume_type: str = CONSUME_TYPES[1]
    model: str = MESSAGE_MODELS[1]
    consume_from: str = CONSUME_FROM[0]
    members: dict[Peer, Member[Peer]] = field(default_factory=dict)
    subscriptions: dict[str, Subscription] = field(default_factory=dict)

    @property
    def is_broadcast(self) -> bool:
        return self.model == MESSAGE_MODELS[0]

    def member(self, client_id: str) -> Member[Peer] | None:
        """The member of that client id; of several, that of the newest connection."""
        # The old connection of a client that reconnected may not have ended yet.
        members = reversed(self.members.values())
        return next((member for member in members if member.client_id == client_id), None)

    def subscribe(self, subscriptions: Iterable[Subscription], now_ms: int) -> bool:
        """Take over the newest subscriptions; whether the topics are others than before.

        The last heartbeat wins: topics that it does not name are dropped, as in Java.
        """
        # Members that disagree make it change to and fro, as in Java (RocketMQ spec 4.1).
        wanted = {subscription.topic: subscription for subscription in subscriptions}
        changed = wanted.keys() != self.subscriptions.keys()
        for topic in [topic for topic in self.subscriptions if topic not in wanted]:
            del self.subscriptions[topic]
        for topic, subscription in wanted.items():
            known = self.subscriptions.get(topic)
            # A client that has not noticed a change yet must not bring the old filter back.
            if known is None or subscription.version > known.version:
                subscription.born_ms = now_ms
                self.subscriptions[topic] = subscription
        return changed


@dataclass(slots=True)
class _Client(Generic[Peer]):
    """The groups of one connection, so that its end need not search all there are."""

    client_id: str
    consumes: set[str] = field(default_factory=set)
    produces: set[str] = field(default_factory=set)


class Clients(Generic[Peer]):
    """All groups of one broker."""

    def __init__(self) -> None:
        self.consumers: dict[str, ConsumerGroup[Peer]] = {}
        self.producers: dict[str, dict[Peer, Member[Peer]]] = {}
        self._clients: dict[Peer, _Client[Peer]] = {}
        self._producer_by_id: dict[str, Member[Peer]] = {}

    def beat(
        self, heartbeat: Heartbeat, member: Member[Peer], now_ms: int = 0
    ) -> list[ConsumerGroup[Peer]]:
        """A heartbeat of this member; the groups whose members or topics changed by it.

        Raises BodyError when there are too many groups.
        """
        changed = []
        client = self._client(member)
        for data in heartbeat.consumers:
            group = self._consumer_group(data.group)
            group.consume_type, group.model = data.consume_type, data.model
            group.consume_from = data.consume_from
            # By connection, not client id: a client that reconnects has to be told the members
            # again.
            joined = member.peer not in group.members
            group.members[member.peer] = member
            client.consumes.add(data.group)
            if group.subscribe(data.subscriptions, now_ms) or joined:
                changed.append(group)
        for name in heartbeat.producers:
            if name not in self.producers and len(self.producers) >= GROUPS_MAX:
                raise BodyError(f"more than {GROUPS_MAX} producer groups")
            self.producers.setdefault(name, {})[member.peer] = member
            client.produces.add(name)
            self._take_id(member)
        return changed

    def _take_id(self, member: Member[Peer]) -> None:
        """Send replies to the newest client of an id; another account cannot take the id over."""
        known = self._producer_by_id.get(member.client_id)
        if known is None or known.access_key == member.access_key:
            self._producer_by_id[member.client_id] = member

    def _client(self, member: Member[Peer]) -> _Client[Peer]:
        client = self._clients.get(member.peer)
        if client is None:
            client = self._clients[member.peer] = _Client(member.client_id)
        elif client.client_id != member.client_id:
            # Another id over the same connection: replies go by the newest one.
            self._forget_id(client.client_id, member.peer)
            client.client_id = member.client_id
        return client

    def _consumer_group(self, name: str) -> ConsumerGroup[Peer]:
        group = self.consumers.get(name)
        if group is None:
            if len(self.consumers) >= GROUPS_MAX:
                raise BodyError(f"more than {GROUPS_MAX} consumer groups")
            group = self.consumers[name] = ConsumerGroup(name)
        return group

    def leave(
        self, peer: Peer, producer_group: str | None, consumer_group: str | None
    ) -> list[ConsumerGroup[Peer]]:
        """A client leaves groups; the consumer groups that changed by it."""
        client = self._clients.get(peer)
        if client is None:
            return []
        if producer_group in client.produces:
            self._leave_producers(producer_group, peer, client)
        if consumer_group in client.consumes:
            return [self._leave_consumers(consumer_group, peer, client)]
        return []

    def disconnected(self, peer: Peer) -> list[ConsumerGroup[Peer]]:
        """A connection ended; the consumer groups that changed by it."""
        client = self._clients.pop(peer, None)
        if client is None:
            return []
        for name in list(client.produces):
            self._leave_producers(name, peer, client)
        return [self._leave_consumers(name, peer, client) for name in list(client.consumes)]

    def expired(self, now: int) -> list[Peer]:
        """The connections of clients that were not heard for too long (monotonic ns)."""
        groups = [group.members for group in self.consumers.values()]
        late = [
            peer
            for members in (*groups, *self.producers.values())
            for peer, member in members.items()
            if now - member.heard_ns > EXPIRY_NS
        ]
        return list(dict.fromkeys(late))

    def _leave_consumers(self, name: str, peer: Peer, client: _Client[Peer]) -> ConsumerGroup[Peer]:
        client.consumes.discard(name)
        group = self.consumers[name]
        del group.members[peer]
        if not group.members:
            del self.consumers[name]
        return group

    def _leave_producers(self, name: str, peer: Peer, client: _Client[Peer]) -> None:
        client.produces.discard(name)
        members = self.producers[name]
        del members[peer]
        if not members:
            del self.producers[name]
        if not client.produces:
            self._forget_id(client.client_id, peer)

    def _forget_id(self, client_id: str, peer: Peer) -> None:
        member = self._producer_by_id.get(client_id)
        if member is not None and member.peer == peer:
            del self._producer_by_id[client_id]

    def subscribers(self, topic: str) -> list[str]:
        """The consumer groups that subscribe to a topic."""
        return [name for name, group in self.consumers.items() if topic in group.subscriptions]

    def consumer_of(self, group: str, client_id: str) -> Member[Peer] | None:
        """The member of a consumer group with that client id."""
        found = self.consumers.get(group)
        return found.member(client_id) if found is not None else None

    def producer_of(self, client_id: str) -> Member[Peer] | None:
        """The producer of that client id, in whatever group."""
        return self._producer_by_id.get(client_id)
