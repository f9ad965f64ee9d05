"""RocketMQ's broker beside an nsqd, over the same topics: here the two dialects meet."""

from __future__ import annotations

import logging
import os
from typing import TYPE_CHECKING, Final

from penstock.cli import open_doors
from penstock.core.clock import Clock
from penstock.core.errors import ConfigError
from penstock.net.address import split_host_port
from penstock.rocketmq.broker import figures
from penstock.rocketmq.broker.daemon import RocketBroker
from penstock.rocketmq.broker.settings import BrokerSettings

if TYPE_CHECKING:
    from penstock.broker.broker import Broker
    from penstock.broker.channel import Channel
    from penstock.broker.group_figures import ConsumerGroup, ProducerGroup
    from penstock.broker.records import Records
    from penstock.broker.staging import Outcome
    from penstock.broker.topic import Topic
    from penstock.nsq.nsqd.daemon import Nsqd
    from penstock.nsq.nsqd.log_views import LogView
    from penstock.nsq.nsqd.options import NsqdOptions

_log = logging.getLogger("penstock.nsqd")

_NSQDS_OWN: Final = (
    "storePathRootDir", "durability", "flushDiskType", "flushIntervalCommitLog",
    "listenPort", "bindAddress", "nsqTcpAddress", "nsqHttpAddress",
    "nsqGroupRetention",
)  # fmt: skip
"""Properties for which nsqd has flags."""


class NsqdHost:
    """An nsqd as RocketMQ's broker sees it (``rocketmq.broker.host.Host``)."""

    def __init__(self, nsqd: Nsqd) -> None:
        self._nsqd = nsqd
        self.clock: Clock = nsqd.clock
        self.broker: Broker = nsqd.broker
        self.turns = nsqd.turns
        self.answer_turns = nsqd.answer_turns

    def topic(self, name: str) -> Topic:
        return self._nsqd.topic(name)

    def channel(self, topic: Topic, name: str) -> Channel:
        return self._nsqd.channel(topic, name)

    async def delete_topic(self, topic: Topic) -> None:
        await self._nsqd.delete_topic(topic)

    def publish(self, topic: Topic, records: Records, done: Outcome, queue: int) -> None:
        self._nsqd.commits.publish(topic, records, 0, done, queue)

    def hold(self) -> None:
        self._nsqd.commits.hold()

    def release(self) -> bool:
        return self._nsqd.commits.release()


class RocketCompanion:
    """RocketMQ's broker as nsqd sees it (``nsq.nsqd.companion.Companion``)."""

    def __init__(self, settings: BrokerSettings) -> None:
        self.settings = settings
        self.broker: RocketBroker | None = None

    async def start(self, nsqd: Nsqd) -> None:
        self.broker = await RocketBroker.start(self.settings, NsqdHost(nsqd))

    def topic_created(self, topic: Topic) -> None:
        if self.broker is not None:
            self.broker.topic_created(topic)

    def topic_deleted(self, name: str) -> None:
        if self.broker is not None:
            self.broker.topic_deleted(name)

    def consumer_groups(self, topic: str) -> list[ConsumerGroup]:
        return figures.consumer_groups(self.broker.node, topic) if self.broker is not None else []

    def producer_groups(self) -> list[ProducerGroup]:
        return figures.producer_groups(self.broker.node) if self.broker is not None else []

    def log_view(self) -> LogView | None:
        return self.broker.log_view if self.broker is not None else None

    async def close(self) -> None:
        if self.broker is not None:
            await self.broker.close()


def companions(options: NsqdOptions) -> tuple[RocketCompanion, ...]:
    """RocketMQ's broker as nsqd's flags ask for it. Raises ConfigError."""
    settings = _settings(options)
    open_doors.check(options, settings)
    if settings.acl_enable and not options.auth_http_addresses:
        _log.warning("aclEnable=true does not protect NSQ's TCP port; --auth-http-address does")
    return (RocketCompanion(settings),)


def _settings(options: NsqdOptions) -> BrokerSettings:
    settings = BrokerSettings.load_file(options.rocketmq_config or None)
    defaults = BrokerSettings()
    for name, attribute in settings.declared().items():
        if name in _NSQDS_OWN and getattr(settings, attribute) != getattr(defaults, attribute):
            _log.warning("%s: the property %s has no effect here, nsqd's flags say it",
                         options.rocketmq_config, name)  # fmt: skip
    try:
        host, port = split_host_port(options.rocketmq_address)
    except ValueError as error:
        raise ConfigError(f"--rocketmq-address={options.rocketmq_address}: {error}") from None
    settings.listen_port, settings.bind_address = port, host or "0.0.0.0"
    if host not in ("", "0.0.0.0", "::"):
        settings.broker_ip1 = host
    settings.store_path_root_dir = options.data_path or os.getcwd()
    settings.nsq_tcp_address = settings.nsq_http_address = ""  # these ports are nsqd's own
    if options.rocketmq_namesrv_addresses:
        settings.update({"namesrvAddr": ";".join(options.rocketmq_namesrv_addresses)})
    if options.rocketmq_config:
        settings.broker_config_path = os.path.abspath(options.rocketmq_config)
    return settings
