"""The queues of topics that may be written to, as name servers tell them."""

from __future__ import annotations

from operator import itemgetter
from threading import Lock
from typing import Any, Final, NamedTuple

from penstock.core.clock import SYSTEM_CLOCK
from penstock.core.units import SECOND
from penstock.spark.errors import SinkError, SourceError
from penstock.spark.rocketmq.routes import Routes

_WRITE: Final = 2
# As often as Java's clients ask (pollNameServerInterval).
_FRESH_NS: Final = 30 * SECOND
# The topic from whose route clients take the brokers that make others.
_MAKES_TOPICS: Final = "TBW102"
# As many as Java's and C++'s clients want (RocketMQ spec 4.9).
NEW_TOPIC_QUEUES: Final = 4


class NoQueuesError(SinkError):
    """By the name servers, no broker takes messages of a topic."""


class Queue(NamedTuple):
    """A queue at the master that takes its messages."""

    address: str
    queue: int


class Queues:
    """Queues by a topic's route, asked for at first and every half minute; for several threads."""

    def __init__(self, routes: Routes) -> None:
        self._routes = routes
        self._known: dict[str, tuple[list[Queue], int]] = {}
        self._lock = Lock()

    def of(self, topic: str) -> list[Queue]:
        """Raise NoQueuesError for a topic that nobody serves, SourceError when nobody answers."""
        with self._lock:
            queues, asked_ns = self._known.get(topic, ([], 0))
            now_ns = SYSTEM_CLOCK.monotonic_ns()
            if not queues or now_ns - asked_ns > _FRESH_NS:
                queues = self._ask(topic)
                self._known[topic] = queues, now_ns
            return queues

    def forget(self, topic: str) -> None:
        """Ask again the next time."""
        with self._lock:
            self._known.pop(topic, None)

    def close(self) -> None:
        """Close the connections to name servers."""
        self._routes.close()

    def _ask(self, topic: str) -> list[Queue]:
        route = self._routes.route(topic)
        most = 1 << 31
        # No such topic yet: brokers that serve TBW102 make it with the first send
        # (RocketMQ spec 4.9).
        if route is None:
            route, most = self._routes.route(_MAKES_TOPICS), NEW_TOPIC_QUEUES
        queues = [] if route is None else queues_in(route, most)
        if not queues:
            raise NoQueuesError(
                f"topic {topic} is on no broker that takes messages, and none makes it: make it "
                "(mqadmin updateTopic), or set autoCreateTopicEnable=true at brokers"
            )
        return queues


def queues_in(route: Any, most: int) -> list[Queue]:
    """The writable queues of a route, ``most`` of each broker, in the order of Java's clients.

    Raises SourceError.
    """
    try:
        masters = {each["brokerName"]: dict(each["brokerAddrs"]) for each in route["brokerDatas"]}
        return [
            Queue(_master(masters[each["brokerName"]]), number)
            for each in sorted(route["queueDatas"], key=itemgetter("brokerName"))
            if each["perm"] & _WRITE and _master(masters.get(each["brokerName"], {}))
            for number in range(min(most, int(each["writeQueueNums"])))
        ]
    except (KeyError, TypeError, ValueError, AttributeError):
        raise SourceError("a name server answers with a route that makes no sense") from None


def queue_numbered(number: int, queues: list[Queue], topic: str) -> Queue:
    """The queue of this number, always of the same broker where several have one.

    Raises SinkError where none has.
    """
    found = [queue for queue in queues if queue.queue == number]
    if not found:
        most = max(queue.queue for queue in queues)
        raise SinkError(
            f"topic {topic} has no queue {number} to write to, its last is {most}: give it more "
            "(mqadmin updateTopic -w), or leave the column queue out"
        )
    return found[number % len(found)]


def _master(addresses: dict[Any, str]) -> str:
    # Name servers quote the keys of a route by the version of whoever asks (RocketMQ spec 12).
    return addresses.get("0") or addresses.get(0) or ""
