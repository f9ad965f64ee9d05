"""Endpoints that only read: /api/topics, /api/nodes, /api/counter (NSQ spec 5.2)."""

from __future__ import annotations

import re
from typing import Any, Final

from penstock.admin.router import AdminRouter
from penstock.cluster.cluster import Cluster
from penstock.cluster.fanout import Warnings
from penstock.cluster.producers import Producer
from penstock.cluster.stats import (
    ChannelStats,
    TopicStats,
    channels_named,
    whole_channel,
    whole_topic,
)
from penstock.cluster.upstream_errors import NoAnswerError
from penstock.core.gojson import dumps
from penstock.core.quote import quote
from penstock.net.http.server.service import Request, Response
from penstock.net.http.server.v1_api import NSQ_HEADER, ApiError, Query

_JSON: Final = (("Content-Type", "application/json; charset=utf-8"), NSQ_HEADER)
_BAD_ESCAPE: Final = re.compile(rb"%(?![0-9a-fA-F]{2})")


class ReadApi:
    """The handlers that change nothing."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    def add_routes(self, router: AdminRouter) -> None:
        router.v1("GET", "/api/topics", answering(self._topics))
        router.v1("GET", "/api/topics/:topic", answering(self._topic))
        router.v1("GET", "/api/topics/:topic/:channel", answering(self._channel))
        router.v1("GET", "/api/nodes", answering(self._nodes))
        router.v1("GET", "/api/nodes/:node", answering(self._node))
        router.v1("GET", "/api/counter", answering(self._counter))

    async def _topics(self, request: Request) -> Any:
        problem = _query_problem(request.query)
        if problem:
            raise ApiError(400, problem)
        warnings = Warnings()
        topics = await self._cluster.topics(warnings)
        # No other spelling counts, not even `1` (NSQ spec 5.2).
        if Query.parse(request.query).get("inactive") == "true":
            inactive = await self._cluster.inactive_topics(topics, warnings)
            return {"topics": inactive, "message": warnings.message}
        # `null`, not an empty list, as Go's nil slice (NSQ spec 5.2).
        return {"topics": topics or None, "message": warnings.message}

    async def _topic(self, request: Request) -> Response:
        name, warnings = text_of(request.param), Warnings()
        producers = await self._cluster.topic_producers(name, warnings)
        if not producers:
            return self._without_producers(name, warnings)
        stats = await self._cluster.stats(producers, warnings, name, clients=False)
        return with_message(whole_topic(name, stats), warnings)

    def _without_producers(self, name: str, warnings: Warnings) -> Response:
        """An nsqlookupd knows the topic, or else nobody does."""
        # Go's nsqadmin answers 502 to both (NSQ spec 5.2).
        if not self._cluster.addresses.lookupds:
            raise _missing("TOPIC_NOT_FOUND", warnings)
        return with_message(whole_topic(name, ()), warnings)

    async def _channel(self, request: Request) -> Response:
        topic, name = names(request)
        warnings = Warnings()
        producers = await self._cluster.topic_producers(topic, warnings)
        found: list[ChannelStats] = []
        if producers:
            stats = await self._cluster.stats(producers, warnings, topic, name, clients=True)
            found = channels_named(name, stats)
        if not found:
            raise _missing("CHANNEL_NOT_FOUND", warnings)
        return with_message(whole_channel(name, found), warnings)

    async def _nodes(self, request: Request) -> Any:
        """All nodes; ``topics=false`` is ours: without their topics."""
        warnings = Warnings()
        with_topics = Query.parse(request.query).get("topics") != "false"
        producers = await self._cluster.producers(warnings, with_topics=with_topics)
        return {"nodes": producers or None, "message": warnings.message}

    async def _node(self, request: Request) -> Any:
        """A node with all that is on it; with ``level=topics``, which is ours, in brief."""
        name, warnings, query = text_of(request.param), Warnings(), Query.parse(request.query)
        is_brief = query.get("level") == "topics"
        node = await self._cluster.node(name, warnings, is_brief=is_brief)
        if node is None:
            raise _missing("NODE_NOT_FOUND", warnings, by_itself=True)
        if is_brief:
            from penstock.admin.nodes.node_topics import brief  # loads numpy

            names = (query.get("open") or "").split(",")
            return await brief(self._cluster, node, names, warnings)
        topics = await self._cluster.stats([node], warnings, clients=True)
        return {
            "node": name,
            "topics": topics or None,
            "total_messages": sum(each.message_count for each in topics),
            "total_clients": _total_clients(topics),
            "message": warnings.message,
        }

    async def _counter(self, request: Request) -> Any:
        warnings = Warnings()
        producers = await self._cluster.producers(warnings)
        stats = await self._counted(producers, warnings)
        counts = {
            f"{each.topic_name}:{each.channel_name}:{each.node}": {
                "node": each.node,
                "topic_name": each.topic_name,
                "channel_name": each.channel_name,
                "message_count": each.message_count,
            }
            for topic in stats
            for each in topic.channels or ()
        }
        return {"stats": dict(sorted(counts.items())), "message": warnings.message}

    async def _counted(self, producers: list[Producer], warnings: Warnings) -> list[TopicStats]:
        if not producers and self._cluster.addresses.lookupds:
            return []
        return await self._cluster.stats(producers, warnings, clients=False)


def answering(handler: Any) -> Any:
    """The handler, with 502 where no daemon could be asked."""

    async def answer(request: Request) -> Any:
        try:
            return await handler(request)
        except NoAnswerError as error:
            raise ApiError(502, f"UPSTREAM_ERROR: {error}") from error

    return answer


def with_message(stats: TopicStats | ChannelStats, warnings: Warnings) -> Response:
    """The object, with ``message`` as its last key."""
    # Put in afterwards: it stands at the root alone, and the objects below are of the same type.
    body = dumps(stats)[:-1] + b',"message":' + dumps(warnings.message) + b"}"
    return Response(200, body, headers=_JSON)


def names(request: Request) -> tuple[str, str]:
    """The topic and the channel of a path that has both."""
    topic, _, channel = request.param.partition("/")
    return text_of(topic), text_of(channel)


def text_of(param: str) -> str:
    """A part of the path as proper Unicode.

    NSQ has names ``.`` and ``..``, which browsers take out of a path, with the name before: there
    they are ``~.`` and ``~..``, which are not names.
    """
    return param[1:] if param in ("~.", "~..") else proper(param)


def proper(text: str) -> str:
    """A text as proper Unicode."""
    return text.encode("utf-8", "surrogateescape").decode("utf-8", "replace")


def _query_problem(query: bytes) -> str:
    """The error of Go's parser for a query that it does not take; empty for others."""
    for pair in query.split(b"&"):
        if b";" in pair:
            return "invalid semicolon separator in query"
        found = _BAD_ESCAPE.search(pair)
        if found is not None:
            return f"invalid URL escape {quote(pair[found.start() :][:3])}"
    return ""


def _missing(code: str, warnings: Warnings, *, by_itself: bool = False) -> ApiError:
    """404; but a node that could not be asked may have it."""
    if warnings.errors and not by_itself:
        return ApiError(502, "UPSTREAM_ERROR: " + "\n".join(warnings.errors))
    return ApiError(404, code)


def _total_clients(topics: list[TopicStats]) -> int:
    return sum(len(each.clients or ()) for topic in topics for each in topic.channels or ())
