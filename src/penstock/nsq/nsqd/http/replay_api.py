"""Channels that start, or go on, at a place of the log: /channel/create with one, /channel/seek."""

from __future__ import annotations

import logging
from typing import Any

from penstock.broker.topic import Topic
from penstock.core.clock import Clock
from penstock.net.http.server.service import Request
from penstock.net.http.server.v1_api import ApiError, ApiRouter, Query
from penstock.node.http.api_arguments import (
    existing_channel,
    existing_topic,
    position,
    within_log,
)
from penstock.node.registry import Registry
from penstock.nsq.nsqd.http.write_down import check_written

logger = logging.getLogger("penstock.nsqd")


class ReplayApi:
    """The endpoints of one nsqd that choose where a channel reads."""

    def __init__(self, registry: Registry, clock: Clock) -> None:
        self._registry = registry
        self._topics = registry.topics
        self._clock = clock

    def add_routes(self, router: ApiRouter) -> None:
        router.v1("POST", "/channel/create", within_log(self._create))
        router.v1("GET", "/channel/seek", within_log(self._preview))
        router.v1("POST", "/channel/seek", within_log(self._seek))

    def _create(self, request: Request) -> Any:
        """Create a channel as NSQ does; with a position it must be a new one, and starts there."""
        query = Query.parse(request.query)
        _, name = query.topic_and_channel()
        topic = existing_topic(self._topics, query)
        offset = position(query, topic, self._clock.wall_ns())
        if offset is None:
            self._registry.channel(topic, name)
            check_written(topic)
            return None
        # One that is there keeps its place: /channel/seek is for moving it.
        if name in topic.channels:
            raise ApiError(409, "CHANNEL_EXISTS")
        topic.seek(self._registry.channel(topic, name), offset)
        check_written(topic)
        return {"offset": offset}

    def _preview(self, request: Request) -> Any:
        """Tell what a move of a channel's cursor would do; nothing changes.

        ``delivered`` are the messages that come then, ``again`` those of them that the channel has
        done with, ``skipped`` those before them that it would not get any more.
        """
        query = Query.parse(request.query)
        topic, channel = existing_channel(self._topics, query)
        offset = _place(query, topic, self._clock)
        state, end = channel.state, topic.log.next_offset
        head = max(topic.head, state.head)  # what is behind it will come whatever is done here
        below = state.unfinished_below(offset)
        delivered = end - offset
        still = state.unfinished_count - below + end - max(offset, head)
        return {
            "offset": offset,
            "delivered": delivered,
            "again": delivered - still,
            "skipped": below + max(0, offset - head),
        }

    def _seek(self, request: Request) -> Any:
        """Move a channel's cursor; what it held is forgotten, as when it is emptied."""
        query = Query.parse(request.query)
        topic, channel = existing_channel(self._topics, query)
        offset = _place(query, topic, self._clock)
        topic.seek(channel, offset)
        logger.info("CHANNEL(%s:%s): moved to offset %d", topic.name, channel.name, offset)
        # First: the channel is moved, whether that can be written down or not.
        channel.dispatch(self._clock.monotonic_ns())
        check_written(topic)
        return {"offset": offset}


def _place(query: Query, topic: Topic, clock: Clock) -> int:
    """The offset that must be given; ApiError 400, and what ``position`` raises."""
    offset = position(query, topic, clock.wall_ns())
    if offset is None:
        raise ApiError(400, "MISSING_ARG_OFFSET")
    return offset
