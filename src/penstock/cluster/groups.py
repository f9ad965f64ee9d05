"""Groups that read the log: their figures in the nodes' /stats, and the sums over nodes.

RocketMQ's consumer groups and the readers of /log/commit (Spark) are told alike. Go's nsqd has
neither. Numbers are messages and messages a second.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Final, NamedTuple

from msgspec import Struct

from penstock.cluster.stats import ClientStats

ROCKETMQ: Final = "rocketmq"
LOG: Final = "log"
PACKED_MARK: Final = b'{"packed":'
"""The beginning of a packed answer of /stats (penstock.nsq.nsqd.stats.packed_stats)."""


class GroupOnNode(Struct):
    """A group on one node. ``end`` is what its offsets add up to once it has caught up, ``age`` the
    seconds since it moved or had nothing to read; None if the node does not tell.
    """

    node: str
    lag: int
    rate: float
    committed: dict[str, int]
    end: int
    clients: int
    age: int | None


class Group(Struct):
    """A group on all nodes of a topic; the owner is the newest, the age is the greatest. It is
    stale if some node says that it has held the log for long without a move; ``expires_in`` is the
    least number of seconds until a node deletes it. ``pipeline`` is the one that reads for it,
    ``verdict`` what nsqadmin's rule says of its lag.
    """

    topic: str
    group: str
    kind: str
    lag: int
    rate: float
    clients: int
    nodes: list[GroupOnNode]
    owner: str | None = None
    age: int | None = None
    expires_in: int | None = None
    stale: bool = False
    pipeline: dict[str, Any] | None = None
    verdict: dict[str, Any] | None = None


class Member(ClientStats):
    """A consumer in a group."""

    language: str = ""

    @property
    def software(self) -> str:
        """The client's user agent or, as RocketMQ's have none, its language and version."""
        return self.user_agent or f"{self.language} {self.version}".strip()


class ReportedGroup(Struct):
    """A group in the /stats of a node; groups whose readers are not connected have no clients."""

    group_name: str = ""
    lag: int = 0
    rate: float = 0
    committed: dict[str, int] | None = None
    client_count: int | None = None
    clients: list[Member] | None = None
    owner: str | None = None
    age: int | None = None
    expires_in: int | None = None
    stale: bool = False

    def on(self, node: str) -> GroupOnNode:
        """The group on this node, as the API describes it."""
        committed = self.committed or {}
        end = sum(committed.values()) + self.lag
        return GroupOnNode(
            node, self.lag, self.rate, committed, end, self.client_count or 0, self.age
        )


class ReportedGroups(Struct):
    """A topic's groups in the /stats of a node."""

    topic_name: str = ""
    consumer_groups: list[ReportedGroup] | None = None
    log_groups: list[ReportedGroup] | None = None


class NodeGroups(Struct):
    """The part of an nsqd's /stats that is read."""

    topics: list[ReportedGroups] | None = None


class PackedGroups(NodeGroups, rename={"topics": "groups"}):
    """The part that is read of a packed answer, which has the topics with groups apart."""

    topics: list[ReportedGroups] | None = None


def groups_kind(body: bytes) -> type[NodeGroups]:
    """The type to read an answer as."""
    return PackedGroups if body.startswith(PACKED_MARK) else NodeGroups


class _Key(NamedTuple):
    topic: str
    group: str
    kind: str


def whole_groups(answers: Iterable[tuple[str, NodeGroups]], topic: str = "") -> list[Group]:
    """The groups (of one topic if it is named), summed over the nodes that report them, by name."""
    found: dict[_Key, list[tuple[str, ReportedGroup]]] = {}
    for node, groups in answers:
        for key, group in _keyed(groups):
            if topic in ("", key.topic):
                found.setdefault(key, []).append((node, group))
    return [_whole(key, parts) for key, parts in sorted(found.items(), key=lambda each: each[0])]


def _keyed(groups: NodeGroups) -> Iterator[tuple[_Key, ReportedGroup]]:
    for topic in groups.topics or ():
        for kind, named in ((ROCKETMQ, topic.consumer_groups), (LOG, topic.log_groups)):
            for group in named or ():
                yield _Key(topic.topic_name, group.group_name, kind), group


def _whole(key: _Key, parts: list[tuple[str, ReportedGroup]]) -> Group:
    nodes = [group.on(node) for node, group in parts]
    aged = [(group.age, group) for _, group in parts if group.age is not None]
    owners = [(age, group.owner) for age, group in aged if group.owner is not None]
    expiries = [group.expires_in for _, group in aged if group.expires_in is not None]
    return Group(
        *key,
        lag=sum(each.lag for each in nodes),
        rate=sum(each.rate for each in nodes),
        clients=sum(each.clients for each in nodes),
        nodes=nodes,
        # The least age: the owner that committed last.
        owner=min(owners, default=(0, None))[1],
        age=max((age for age, _ in aged), default=None),
        expires_in=min(expiries, default=None),
        stale=any(group.stale for _, group in parts),
    )
