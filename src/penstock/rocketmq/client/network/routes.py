"""Routes: which brokers have which queues of a topic, kept and asked for again now and then."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from reprlib import repr as shortened
from typing import Any, Final

from penstock.rocketmq.client.errors import (
    BadAnswer,
    ClientError,
    NoRoute,
    TopicNotExist,
    refusal,
)
from penstock.rocketmq.client.events import tell
from penstock.rocketmq.client.network.jobs import Job
from penstock.rocketmq.client.network.name_servers import NameServers
from penstock.rocketmq.client.network.runtime import Runtime
from penstock.rocketmq.protocol import fastjson, requests
from penstock.rocketmq.protocol.codes import ResponseCode
from penstock.rocketmq.protocol.errors import BodyError
from penstock.rocketmq.protocol.message_queue import MessageQueue

MASTER: Final = 0
READ, WRITE = 4, 2
REFRESH_S: Final = 1.0
"""A route that was found wrong is asked for again after this time."""
_QUEUES_MAX: Final = 65536


@dataclass(frozen=True, slots=True)
class Route:
    """A topic's queues to read and to write, in their order, and its brokers' addresses."""

    topic: str
    readable: tuple[MessageQueue, ...]
    writable: tuple[MessageQueue, ...]
    brokers: dict[str, dict[int, str]]
    """Addresses by the name of a broker and the number of a replica; 0 is the master."""

    @classmethod
    def parse(cls, topic: str, body: bytes) -> Route:
        """From a name server's answer. Raises BadAnswer."""
        try:
            return cls._read(topic, fastjson.loads(body))
        except (BodyError, KeyError, TypeError, ValueError, AttributeError) as error:
            raise BadAnswer(f"the route of {topic} makes no sense: {shortened(error)}") from None

    @classmethod
    def _read(cls, topic: str, route: dict[str, Any]) -> Route:
        brokers = {
            str(each["brokerName"]): {
                int(number): str(address) for number, address in each["brokerAddrs"].items()
            }
            for each in route.get("brokerDatas") or ()
        }
        readable: list[MessageQueue] = []
        writable: list[MessageQueue] = []
        for each in sorted(route.get("queueDatas") or (), key=lambda one: str(one["brokerName"])):
            name, perm = str(each["brokerName"]), int(each["perm"])
            if perm & READ:
                readable += _queues(topic, name, int(each["readQueueNums"]))
            # Without its master, a broker's queues stay in the route for readers (RocketMQ spec
            # 2.6).
            if perm & WRITE and MASTER in brokers.get(name, ()):
                writable += _queues(topic, name, int(each["writeQueueNums"]))
        ordered = route.get("orderTopicConf")
        if ordered:
            # The order fixes which queues there are: a broker that is added must not shift keys to
            # others.
            writable = [queue for queue in _ordered(topic, str(ordered)) if queue in writable]
        return cls(topic, tuple(readable), tuple(writable), brokers)

    def of_topic(self, topic: str, queues_max: int) -> Route:
        """The route of a topic that will be made after this one's example: the same brokers."""
        readable, writable = (
            tuple(queue._replace(topic=topic) for queue in queues if queue.queueId < queues_max)
            for queues in (self.readable, self.writable)
        )
        return Route(topic, readable, writable, self.brokers)


def _queues(topic: str, broker: str, count: int) -> list[MessageQueue]:
    # A wrong answer must not make this build queues until the memory is used up.
    if not 0 <= count <= _QUEUES_MAX:
        raise ValueError(f"{count} queues")
    return [MessageQueue(broker, number, topic) for number in range(count)]


def _ordered(topic: str, text: str) -> list[MessageQueue]:
    """The queues in ``broker-a:4;broker-b:4``."""
    found: list[MessageQueue] = []
    for each in text.split(";"):
        broker, _, count = each.partition(":")
        found += _queues(topic, broker, int(count))
    return found


class Routes:
    """The routes of the topics that were asked for."""

    def __init__(self, runtime: Runtime, name_servers: NameServers) -> None:
        self._runtime = runtime
        self._name_servers = name_servers
        self._known: dict[str, Route] = {}
        self._by_example: set[str] = set()
        self._asking: dict[str, Job[Route]] = {}
        self._refreshing: set[str] = set()
        self._brokers: dict[str, dict[int, str]] = {}

    @property
    def topics(self) -> list[str]:
        """The topics whose routes are known."""
        return list(self._known)

    @property
    def brokers(self) -> dict[str, dict[int, str]]:
        """The brokers of all routes: addresses by name and number of the replica, those of the
        newest route that has the broker.
        """
        return self._brokers

    async def of(self, topic: str) -> Route:
        """The route of a topic, as it is known. Raises NoRoute, NoNameServer."""
        return self._known.get(topic) or await self.ask(topic)

    async def to_send(self, topic: str) -> Route:
        """The route for a send, which may make a topic that is not there. Raises NoRoute."""
        # A route without writable queues is asked for again: a broker may be back.
        known = self._known.get(topic)
        if known is not None and known.writable:
            return known
        try:
            found = await self.ask(topic)
        except NoRoute:
            found = await self._by_default(topic)
        if not found.writable:
            raise NoRoute(topic, "no broker that is there lets it be written")
        return found

    async def _by_default(self, topic: str) -> Route:
        config = self._runtime.config
        try:
            example = await self.ask(config.create_topic_key)
        except NoRoute:
            reason = await self._without_brokers() or (
                "it is not there, and no broker creates topics: create it (mqadmin "
                "updateTopic), or set autoCreateTopicEnable=true on a broker"
            )
            raise NoRoute(topic, reason) from None
        route = example.of_topic(topic, config.default_topic_queue_nums)
        # So that its refreshes fail in silence until the first send has made it.
        self._by_example.add(topic)
        self._keep(route)
        return route

    async def _without_brokers(self) -> str | None:
        """The reason why there are no routes at all, if there are none; None if it is another."""
        try:
            answer = await self._name_servers.ask(*requests.clusters())
            clusters = fastjson.loads(answer.body) if answer.body else None
        except (ClientError, BodyError):
            return None
        if not isinstance(clusters, dict) or clusters.get("brokerAddrTable"):
            return None
        where = self._name_servers.addresses[0]
        return (
            f"no broker is registered at the name server {where}: start one whose namesrvAddr "
            "names it, and see its log if one runs"
        )

    async def ask(self, topic: str) -> Route:
        """Ask the name servers now. Raises NoRoute, NoNameServer."""
        # A thousand sends to one new topic ask once.
        job = self._asking.get(topic)
        if job is None:
            job = self._runtime.spawn(self._ask(topic), f"route of {topic}")
            if not job.is_done:
                self._asking[topic] = job
                job.then(lambda _: self._asking.pop(topic, None))
        return await job

    async def _ask(self, topic: str) -> Route:
        answer = await self._name_servers.ask(*requests.route(topic))
        if answer.code == ResponseCode.TOPIC_NOT_EXIST:
            raise NoRoute(topic, "no name server knows it")
        if answer.code != ResponseCode.SUCCESS:
            raise refusal("name server", answer.code, answer.remark, f"topic {topic}")
        route = Route.parse(topic, answer.body)
        self._by_example.discard(topic)
        self._keep(route)
        return route

    def _keep(self, route: Route) -> None:
        before = self._known.pop(route.topic, None)
        self._known[route.topic] = route  # the newest is the last
        # Made from all, so that brokers of replaced routes go as well.
        self._brokers = {}
        for each in self._known.values():
            self._brokers.update(each.brokers)
        if before == route:
            return
        tell(
            logging.INFO,
            "route",
            f"the topic[{route.topic}] route info changed: {len(route.readable)} queues to read, "
            f"{len(route.writable)} to write, brokers {sorted(route.brokers)}",
            topic=route.topic,
        )

    def master(self, broker: str) -> str | None:
        """The address of a broker that takes writes; None when it is not there."""
        return self._brokers.get(broker, {}).get(MASTER)

    def reader(self, broker: str, number: int = MASTER) -> str | None:
        """The address of a replica, of the master if it is not there, else of any other."""
        addresses = self._brokers.get(broker, {})
        return (
            addresses.get(number) or addresses.get(MASTER) or next(iter(addresses.values()), None)
        )

    def doubt(self, topic: str) -> None:
        """Something went wrong with this route: ask for it again soon."""
        if topic not in self._refreshing:
            self._refreshing.add(topic)
            self._runtime.later(
                REFRESH_S, lambda: self._runtime.spawn(self._refresh(topic), "route")
            )

    async def _refresh(self, topic: str) -> None:
        self._refreshing.discard(topic)
        try:
            await self.ask(topic)
        except ClientError as error:
            # A topic that sending is about to create is not there yet.
            if not (topic in self._by_example and isinstance(error, NoRoute | TopicNotExist)):
                tell(
                    logging.WARNING,
                    "route-failed",
                    f"updateTopicRouteInfoFromNameServer Exception: {error}",
                    topic=topic,
                )

    async def watch(self) -> None:
        """Ask for all of them again and again."""
        while True:
            await self._runtime.sleep(self._runtime.config.poll_name_server_interval)
            # One after the other: a client of many topics must not flood a name server.
            for topic in self.topics:
                await self._refresh(topic)
