"""Letting go of what nobody needs, when a tool says so instead of when it is time.

See RocketMQ spec 2.4.

Housekeeping does the same by itself. What retention keeps stays, whoever asks.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING

from penstock.rocketmq.broker.answering import answers
from penstock.rocketmq.protocol.codes import RequestCode
from penstock.rocketmq.protocol.command import Command
from penstock.storage.batch import Dialect

if TYPE_CHECKING:
    from penstock.broker.broker import Broker
    from penstock.broker.topic import Topic
    from penstock.rocketmq.broker.state.topic_table import TopicTable
    from penstock.rocketmq.broker.store.message_store import MessageStore
    from penstock.rocketmq.remoting import Connection

logger = logging.getLogger("penstock.mqbroker")


@dataclass(slots=True, eq=False)
class Cleaning:
    """Answers to tools that clean up."""

    broker: Broker
    topics: TopicTable
    store: MessageStore

    @answers(RequestCode.DELETE_EXPIRED_COMMITLOG)
    def delete_expired_messages(self, connection: Connection, request: Command) -> Command:
        """Delete the files of messages that retention does not keep any longer."""
        self.broker.trim()
        return request.answer()

    @answers(RequestCode.CLEAN_EXPIRED_CONSUMEQUEUE)
    def clean_expired_queues(self, connection: Connection, request: Command) -> Command:
        """Forget what queues know of messages that are gone."""
        for topic in self.store.topics.values():
            topic.queues.trim()
        return request.answer()

    @answers(RequestCode.CLEAN_UNUSED_TOPIC)
    async def clean_unused_topics(self, connection: Connection, request: Command) -> Command:
        """Delete the messages of topics that have no configuration.

        Those of NSQ's producers are not concerned, and neither is a topic that somebody reads.
        """
        for topic in list(self.store.topics.values()):
            if topic.name not in self.topics.configs and _is_left_over(topic):
                logger.info(
                    "%s: deleting the messages of %s, a topic without configuration",
                    connection.address,
                    topic.name,
                )
                await self.store.delete(topic.name)
        return request.answer()


def _is_left_over(topic: Topic) -> bool:
    if topic.channels or topic.groups or topic.exiting:
        return False
    # Without a configuration, only its messages tell which side made the topic.
    batches, newest = topic.log.batches_at(topic.log.next_offset - 1)
    return newest < len(batches) and batches[newest].dialect == Dialect.ROCKETMQ
