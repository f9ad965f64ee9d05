"""Routes of topics: brokers register them and clients ask for them (RocketMQ spec 2.6).

A broker is a name with addresses by id, 0 being the master. Only a master's registration lists
topics. A broker that is silent for too long, or whose connection ends, is taken out, and topics go
with their last broker. All of it is memory: brokers register again and again.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any, Final

from penstock.core.clock import Clock
from penstock.core.units import MILLISECOND
from penstock.rocketmq.protocol.registration import Registration, TopicConfig

MASTER: Final = 0
WRITE: Final = 2
READ_WRITE: Final = 6
EXPIRY_MS: Final = 120_000

_UNIT: Final = 1
_UNIT_SUBSCRIBED: Final = 2


@dataclass(frozen=True, slots=True)
class QueueData:
    """The queues that one broker has of a topic."""

    broker: str
    read_queues: int
    write_queues: int
    perm: int
    sys_flag: int

    def as_json(self) -> dict[str, Any]:
        return {
            "brokerName": self.broker,
            "perm": self.perm,
            "readQueueNums": self.read_queues,
            "topicSysFlag": self.sys_flag,
            "writeQueueNums": self.write_queues,
        }


@dataclass(slots=True)
class Broker:
    """A broker name: its cluster, and its addresses by id."""

    name: str
    cluster: str
    addresses: dict[int, str] = field(default_factory=dict)

    def as_json(self) -> dict[str, Any]:
        return {
            "brokerAddrs": dict(sorted(self.addresses.items())),
            "brokerName": self.name,
            "cluster": self.cluster,
        }


@dataclass(slots=True)
class LiveBroker:
    """One broker process: when it was heard last, how its topics were versioned, its connection."""

    broker: str
    cluster: str
    heard_ns: int
    expiry_ms: int
    data_version: dict[str, Any]
    ha_address: str
    connection: object


@dataclass(frozen=True, slots=True)
class BrokerIdentity:
    """A broker's identity as it registers."""

    cluster: str
    name: str
    address: str
    id: int
    ha_address: str = ""


class Routes:
    """The tables of a name server."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self.topics: dict[str, dict[str, QueueData]] = {}
        self.brokers: dict[str, Broker] = {}
        self.clusters: dict[str, dict[str, None]] = {}
        self.live: dict[str, LiveBroker] = {}
        self._filter_servers: dict[str, list[str]] = {}
        self.registration_count = 0
        self.gone_counts = {"connection": 0, "silence": 0}
        """Brokers taken out without a farewell, by what ended."""
        self.route_counts = {True: 0, False: 0}
        """Routes that were asked for, by whether there was one."""

    # --- brokers -------------------------------------------------------------------------------

    def register(
        self,
        who: BrokerIdentity,
        registration: Registration,
        connection: object,
        expiry_ms: int = EXPIRY_MS,
    ) -> tuple[str, str]:
        """A broker is there, with its topics; for a slave, its master's address and HA address."""
        self.registration_count += 1
        # First: an address under another name or cluster leaves that one before it is entered here.
        broker = self._broker_of(who)
        for other in [i for i, a in broker.addresses.items() if a == who.address and i != who.id]:
            del broker.addresses[other]  # a slave that became master, or the other way round
        first = broker.addresses.get(who.id) != who.address  # a promoted slave has its own table
        broker.addresses[who.id] = who.address
        # Java's name servers take topics of masters only, and of these what is new or changed.
        if who.id == MASTER:
            # Compared before the new version is noted below.
            changed = first or self._is_changed(who.address, registration.data_version)
            for config in registration.topics.values():
                if changed or who.name not in self.topics.get(config.name, ()):
                    self._put_topic(who.name, config)
        self.live[who.address] = LiveBroker(
            who.name,
            who.cluster,
            self._clock.monotonic_ns(),
            expiry_ms,
            registration.data_version,
            who.ha_address,
            connection,
        )
        if registration.filter_servers:
            self._filter_servers[who.address] = registration.filter_servers
        else:
            self._filter_servers.pop(who.address, None)
        master = broker.addresses.get(MASTER, "") if who.id != MASTER else ""
        return master, self.live[master].ha_address if master in self.live else ""

    def _broker_of(self, who: BrokerIdentity) -> Broker:
        """The entry of a broker name, which may have been in another cluster so far, and its
        address with another name.
        """
        before = self.live.get(who.address)
        if before is not None and before.broker != who.name:
            self.unregister(who.address)
        broker = self.brokers.setdefault(who.name, Broker(who.name, who.cluster))
        if broker.cluster != who.cluster:
            self._leave_cluster(broker)
            broker.cluster = who.cluster
        self.clusters.setdefault(who.cluster, {})[who.name] = None
        return broker

    def _put_topic(self, broker: str, config: TopicConfig) -> None:
        self.topics.setdefault(config.name, {})[broker] = QueueData(
            broker, config.read_queues, config.write_queues, config.perm, config.sys_flag
        )

    def _is_changed(self, address: str, data_version: dict[str, Any]) -> bool:
        live = self.live.get(address)
        return live is None or _differ(live.data_version, data_version)

    def query_version(
        self, address: str, data_version: dict[str, Any]
    ) -> tuple[bool, dict[str, Any] | None]:
        """A flag, True if a broker's topics are not known as of this version, and the version
        that is known.

        The question is a sign of life.
        """
        live = self.live.get(address)
        if live is None:
            return True, None
        live.heard_ns = self._clock.monotonic_ns()
        return _differ(live.data_version, data_version), live.data_version

    def unregister(self, address: str) -> None:
        """The broker at this address is gone, and the topics that only it had."""
        live = self.live.pop(address, None)
        self._filter_servers.pop(address, None)
        if live is None:
            return
        broker = self.brokers.get(live.broker)
        if broker is None:
            return
        # The number may be another address's already, as after a promotion.
        for number in [i for i, known in broker.addresses.items() if known == address]:
            del broker.addresses[number]
        if not broker.addresses:
            self._forget(broker)

    def _forget(self, broker: Broker) -> None:
        del self.brokers[broker.name]
        self._leave_cluster(broker)
        for topic in [name for name, queues in self.topics.items() if broker.name in queues]:
            del self.topics[topic][broker.name]
            if not self.topics[topic]:
                del self.topics[topic]

    def _leave_cluster(self, broker: Broker) -> None:
        names = self.clusters.get(broker.cluster, {})
        names.pop(broker.name, None)
        if not names:
            self.clusters.pop(broker.cluster, None)

    def disconnected(self, connection: object) -> list[str]:
        """A connection ended; the addresses of the brokers that were on it and are gone now."""
        # Of this very connection: a broker that came back on a new one before the old one ended
        # stays.
        gone = [address for address, live in self.live.items() if live.connection is connection]
        # Java drops a broker with its connection, and does not wait until it is silent for long.
        for address in gone:
            self.unregister(address)
        self.gone_counts["connection"] += len(gone)
        return gone

    def drop_expired(self) -> list[LiveBroker]:
        """Brokers not heard for too long, taken out."""
        now = self._clock.monotonic_ns()
        late = [
            address
            for address, live in self.live.items()
            if now - live.heard_ns > live.expiry_ms * MILLISECOND
        ]
        gone = [self.live[address] for address in late]
        for address in late:
            self.unregister(address)
        self.gone_counts["silence"] += len(gone)
        return gone

    # --- topics --------------------------------------------------------------------------------

    def route(self, topic: str) -> dict[str, Any] | None:
        """Brokers and queues of a topic, as the JSON of the answer; None when nobody has it."""
        queues = self.topics.get(topic, {})
        brokers = [self.brokers[name] for name in queues if name in self.brokers]
        self.route_counts[bool(brokers)] += 1
        if not brokers:
            return None
        addresses = [address for broker in brokers for address in broker.addresses.values()]
        return {
            "brokerDatas": [broker.as_json() for broker in brokers],
            "filterServerTable": {
                address: self._filter_servers[address]
                for address in addresses
                if address in self._filter_servers
            },
            "queueDatas": [queue.as_json() for queue in queues.values()],
        }

    def delete_topic(self, topic: str) -> None:
        """Forget a topic, until a broker registers it again."""
        self.topics.pop(topic, None)

    def wipe_write_permission(self, broker: str) -> int:
        """Let no producer send to a broker; how many topics that changed."""
        # Java changes its tables only: the next registration that differs undoes it.
        return self._set_permissions(broker, lambda perm: perm & ~WRITE)

    def add_write_permission(self, broker: str) -> int:
        """Let producers send to a broker again; how many topics that concerned."""
        # Java sets reading and writing, whatever the topic had before.
        return self._set_permissions(broker, lambda perm: READ_WRITE)

    def _set_permissions(self, broker: str, changed: Any) -> int:
        count = 0
        for queues in self.topics.values():
            if broker in queues:
                queues[broker] = replace(queues[broker], perm=changed(queues[broker].perm))
                count += 1
        return count

    def topics_of_cluster(self, cluster: str) -> list[str]:
        """The topics that any broker of a cluster has."""
        brokers = self.clusters.get(cluster, {})
        return [topic for topic, queues in self.topics.items() if any(b in queues for b in brokers)]

    def unit_topics(self) -> list[str]:
        return self._with_flags(_UNIT, _UNIT)

    def unit_subscribed_topics(self) -> list[str]:
        return self._with_flags(_UNIT_SUBSCRIBED, _UNIT_SUBSCRIBED)

    def only_unit_subscribed_topics(self) -> list[str]:
        return self._with_flags(_UNIT | _UNIT_SUBSCRIBED, _UNIT_SUBSCRIBED)

    def _with_flags(self, mask: int, wanted: int) -> list[str]:
        return [
            topic
            for topic, queues in self.topics.items()
            if queues and next(iter(queues.values())).sys_flag & mask == wanted
        ]

    # --- the whole -----------------------------------------------------------------------------

    def cluster_info(self) -> dict[str, Any]:
        """All brokers and clusters, as the JSON of the answer."""
        return {
            "brokerAddrTable": {name: broker.as_json() for name, broker in self.brokers.items()},
            "clusterAddrTable": {name: list(names) for name, names in self.clusters.items()},
        }

    def system_topics(self) -> tuple[list[str], str | None]:
        """Names of clusters and brokers, which are topics too, and any broker's address."""
        # Brokers have a topic named after their cluster, and one after themselves.
        names = [*self.clusters, *self.brokers]
        addresses = (a for broker in self.brokers.values() for a in broker.addresses.values())
        return names, next(addresses, None)


def _differ(one: dict[str, Any], other: dict[str, Any]) -> bool:
    """True if two versions differ; brokers before 5.0 have no ``stateVersion``."""
    parts = ("counter", "timestamp", "stateVersion")
    return any(one.get(part, 0) != other.get(part, 0) for part in parts)
