"""/damage shows the damage and data loss of topics; /topic/damage/accept accepts it.

Until an operator does that, nothing of a damaged topic is deleted, and the node is unhealthy.
Deleting or emptying the topic accepts its damage, too.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any

from penstock.broker.topic import Topic
from penstock.net.http.server.service import Request
from penstock.net.http.server.v1_api import ApiError, ApiRouter, Query
from penstock.node.http.api_arguments import topic_named

logger = logging.getLogger("penstock.nsqd")


class DamageApi:
    """The endpoints of one nsqd."""

    def __init__(self, topics: Mapping[str, Topic]) -> None:
        self._topics = topics

    def add_routes(self, router: ApiRouter) -> None:
        router.v1("GET", "/damage", self._damage)
        router.v1("POST", "/topic/damage/accept", self._accept)

    def _damage(self, request: Request) -> Any:
        """The damage of one topic or, without ``topic``, of all damaged topics."""
        wanted = Query.parse(request.query).get("topic") or ""
        topics = self._topics
        shown = [
            {"topic_name": name, **damage_of(topics[name])}
            for name in sorted(topics)
            if wanted in ("", name)
        ]
        return {"topics": [each for each in shown if len(each) > 1]}

    def _accept(self, request: Request) -> None:
        topic = topic_named(self._topics, Query.parse(request.query).required("topic"))
        accepted = list(topic.damage.pending)
        if not topic.accept_damage():
            raise ApiError(500, "INTERNAL_ERROR")
        for damage in accepted:
            logger.warning("TOPIC(%s): damage accepted: %s", topic.name, damage)


def damage_of(topic: Topic) -> dict[str, Any]:
    """The fields of /stats about a topic's damage; empty for an undamaged topic."""
    pending, lost = topic.damage.pending, topic.damage.lost_messages
    shown: dict[str, Any] = {"lost_count": lost} if lost else {}
    if pending:
        shown["damage"] = [str(damage) for damage in pending]
    return shown
