"""Rows, settings, and what a broker has stored."""

from __future__ import annotations

from collections.abc import Mapping

from penstock.rocketmq.blocking import RemotingLink
from penstock.rocketmq.protocol.messages import properties
from penstock.rocketmq.protocol.messages.message import decode_all
from penstock.spark.rocketmq.broker_log import BrokerLog
from penstock.spark.sink.rocketmq.rocketmq_sink_settings import RocketmqSinkSettings
from penstock.spark.sink.rocketmq.rows import RocketmqRows
from tests.spark.rocketmq_brokers import Brokers


def rows(topic: str | None = "t") -> RocketmqRows:
    return RocketmqRows("body", topic, 3)


def settings(brokers: Brokers, **options: str) -> RocketmqSinkSettings:
    return RocketmqSinkSettings.parse(
        {"namesrvAddr": brokers.namesrv.rocketmq, "timeout": "60", **options}
    )


def exact(*brokers: Brokers, **options: str) -> RocketmqSinkSettings:
    """Exactly once, at these brokers."""
    addresses = ",".join(each.broker.http for each in brokers)
    given = {"exactlyOnce": "true", "nsqd_http_address": addresses, "timeout": "60"}
    return RocketmqSinkSettings.parse({**given, **options})


def stored(brokers: Brokers, topic: str) -> list[tuple[int, bytes, Mapping[str, str]]]:
    """Queue, body and properties of a topic's messages."""
    link = RemotingLink(brokers.broker.rocketmq, 30.0)
    log = BrokerLog(link, "")
    found: list[tuple[int, bytes, Mapping[str, str]]] = []
    offsets = log.offsets_of([topic])[topic]
    for queue in offsets.queues if offsets is not None else []:
        position = queue.start
        while position < queue.end:
            fetched = list(decode_all(log.fetch(topic, position, queue=queue.queue).data))
            position += len(fetched)
            found += [
                (queue.queue, message.body, properties.parse(message.properties))
                for message in fetched
            ]
    link.close()
    return found
