"""/api/lost: the last figures of nodes that do not answer. Ours, not upstream's."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from penstock.admin.history.lost_nodes import LostNode, LostNodes
from penstock.admin.history.sample import Sample
from penstock.admin.nodes.node_topics import NodeTopic, node_topics
from penstock.admin.router import AdminRouter
from penstock.cluster.stats import ChannelStats
from penstock.net.http.server.service import Request
from penstock.net.http.server.v1_api import Query

_COUNTS: Final = {
    "depth": "depth",
    "backend_depth": "backend_depth",
    "in_flight_count": "in_flight",
    "deferred_count": "deferred",
    "message_count": "messages",
    "requeue_count": "requeues",
    "timeout_count": "timeouts",
}
"""Keys of the API, and the columns of a look that they come from."""
_MOST: Final = 2.0**62


class LostApi:
    """The one endpoint. A node has the topics that are asked for: one by its name, if messages of
    it are there, or all of one node; nobody is connected there.
    """

    def __init__(self, lost: LostNodes) -> None:
        self._lost = lost

    def add_routes(self, router: AdminRouter) -> None:
        router.v1("GET", "/api/lost", self._answer)

    def _answer(self, request: Request) -> Any:
        query = Query.parse(request.query)
        topic, node = query.get("topic") or "", query.get("node") or ""
        found = [each for each in self._lost if node in ("", each.node)]
        if topic:
            return {
                "nodes": [_told(each, topics) for each in found if (topics := _one(each, topic))]
            }
        return {
            "nodes": [_told(each, node_topics(each.sample, {}) if node else []) for each in found]
        }


def _told(lost: LostNode, topics: list[NodeTopic]) -> dict[str, Any]:
    return {
        "node": lost.node,
        "at": lost.at,
        "until": lost.until,
        "depth": lost.depth,
        "topics": topics,
    }


def _one(lost: LostNode, topic: str) -> list[NodeTopic]:
    """The topic of this name with its channels, unless the node has no message of it."""
    opened = {topic: channels_of(lost.sample, topic, lost.node)}
    return [
        each
        for each in node_topics(lost.sample, opened)
        if each.topic_name == topic and _holds(each)
    ]


def _holds(topic: NodeTopic) -> bool:
    within = topic.in_channels
    return (topic.depth + within.depth + within.in_flight_count + within.deferred_count) > 0


def channels_of(sample: Sample, topic: str, node: str) -> list[ChannelStats]:
    """The channels of a topic as a look had them, without consumers."""
    row, found = len(sample.names), []
    for name, channels in sample.names:
        for channel in channels:
            if name == topic:
                found.append(_channel(sample, row, topic, channel, node))
            row += 1
    return found


def _channel(sample: Sample, row: int, topic: str, channel: str, node: str) -> ChannelStats:
    stats = ChannelStats(node=node, topic_name=topic, channel_name=channel)
    for key, column in _COUNTS.items():
        value = np.clip(np.nan_to_num(getattr(sample, column)[row]), -_MOST, _MOST)
        setattr(stats, key, int(value))
    stats.memory_depth = stats.depth - stats.backend_depth
    stats.paused = bool(sample.paused[row])
    return stats
