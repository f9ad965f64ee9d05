"""The HTTP API of nsqlookupd: look-ups for consumers, edits for administrators."""

from __future__ import annotations

from typing import Any

from penstock import __version__
from penstock.core.settings.version import NSQ_VERSION
from penstock.net.http.server.guard import Guard
from penstock.net.http.server.service import Request
from penstock.net.http.server.v1_api import ApiError, ApiRouter, Query
from penstock.nsq.debug_pages import add_debug_pages
from penstock.nsq.nsqlookupd.metrics import LookupCounts
from penstock.nsq.nsqlookupd.registry import Producer, Registration, Registry

_NEVER = -6795364578871345152
"""The number that Go prints for the nanoseconds of a time that was never set."""


class LookupApi:
    """The handlers; all are quick, as the registry is in memory."""

    def __init__(self, registry: Registry, guard: Guard, counts: LookupCounts) -> None:
        self._registry = registry
        self._counts = counts
        self._guard = guard

    def router(self) -> ApiRouter:
        """The routes of nsqlookupd."""
        router = ApiRouter(self._guard)
        router.v1("GET", "/info", _info)
        router.v1("GET", "/debug", self._debug)
        router.v1("GET", "/lookup", self._lookup)
        router.v1("GET", "/topics", lambda request: {"topics": self._registry.topics()})
        router.v1("GET", "/channels", self._channels)
        router.v1("GET", "/nodes", self._nodes)
        router.v1("POST", "/topic/create", self._create_topic)
        router.v1("POST", "/topic/delete", self._delete_topic)
        router.v1("POST", "/topic/tombstone", self._tombstone)
        router.v1("POST", "/channel/create", self._create_channel)
        router.v1("POST", "/channel/delete", self._delete_channel)
        add_debug_pages(router, index="/debug/pprof")
        return router

    def _lookup(self, request: Request) -> Any:
        topic = Query.parse(request.query).required("topic")
        is_known = self._registry.has_topic(topic)
        self._counts[is_known] += 1
        if not is_known:
            raise ApiError(404, "TOPIC_NOT_FOUND")
        producers = self._registry.topic_producers(topic)
        return {
            "channels": self._registry.channels(topic),
            "producers": [_peer(producer) for producer in producers],
        }

    def _channels(self, request: Request) -> Any:
        # nsqlookupd checks no name here: an unknown topic has an empty list.
        topic = Query.parse(request.query).required("topic")
        return {"channels": self._registry.channels(topic)}

    def _nodes(self, request: Request) -> Any:
        nodes = []
        for producer, topics in self._registry.nodes():
            node = _peer(producer)
            # Go's nsqadmin reads the two lists by the same index, and crashes if one is shorter.
            node["tombstones"] = [hidden for _, hidden in topics]
            node["topics"] = [topic for topic, _ in topics]
            nodes.append(node)
        return {"producers": nodes}

    def _debug(self, request: Request) -> Any:
        entries = sorted(self._registry.entries())
        return {key: [_debug_entry(each) for each in found] for key, found in entries}

    def _create_topic(self, request: Request) -> None:
        self._registry.create_topic(Query.parse(request.query).topic())

    def _delete_topic(self, request: Request) -> None:
        # nsqlookupd answers 200 whether or not there was such a topic.
        self._registry.delete_topic(Query.parse(request.query).required("topic"))

    def _create_channel(self, request: Request) -> None:
        self._registry.create_channel(*Query.parse(request.query).topic_and_channel())

    def _delete_channel(self, request: Request) -> None:
        topic, channel = Query.parse(request.query).topic_and_channel()
        if not self._registry.delete_channel(topic, channel):
            raise ApiError(404, "CHANNEL_NOT_FOUND")

    def _tombstone(self, request: Request) -> None:
        query = Query.parse(request.query)
        # nsqlookupd answers 200 whether or not a producer matched.
        self._registry.tombstone(query.required("topic"), query.required("node"))


def _info(request: Request) -> Any:
    return {"version": NSQ_VERSION, "penstock_version": __version__}


def _peer(producer: Producer) -> dict[str, Any]:
    info = producer.info
    return {
        "remote_address": producer.remote_address,
        "hostname": info.hostname,
        "broadcast_address": info.broadcast_address,
        "tcp_port": info.tcp_port,
        "http_port": info.http_port,
        "version": info.version,
        "topology_zone": info.topology_zone,
        "topology_region": info.topology_region,
    }


def _debug_entry(registration: Registration) -> dict[str, Any]:
    producer = registration.producer
    tombstoned = registration.tombstoned_at is not None
    return {
        "broadcast_address": producer.info.broadcast_address,
        "hostname": producer.info.hostname,
        "http_port": producer.info.http_port,
        "id": producer.remote_address,
        "last_update": producer.last_update,
        "tcp_port": producer.info.tcp_port,
        "tombstoned": tombstoned,
        "tombstoned_at": registration.tombstoned_wall if tombstoned else _NEVER,
        "topology_region": producer.info.topology_region,
        "topology_zone": producer.info.topology_zone,
        "version": producer.info.version,
    }
