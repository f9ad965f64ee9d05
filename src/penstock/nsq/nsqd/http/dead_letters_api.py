"""/deadletters/topics: the dead-letter topics of a node, with how many letters are left in each."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from penstock.broker.topic import Topic
from penstock.net.http.server.service import Request
from penstock.nsq.dead_letters.topics import CHANNEL, is_named_so, is_rocketmq


class DeadTopics:
    """The endpoint of one nsqd."""

    def __init__(self, topics: Mapping[str, Topic]) -> None:
        self._topics = topics

    def handle(self, request: Request) -> Any:
        """``channel`` is null until the first letter was sent again."""
        topics = self._topics
        targets = {
            channel.dead_letter_topic
            for topic in topics.values()
            for channel in topic.channels.values()
            if channel.max_attempts or channel.dead_letter_count
        }
        return {
            "topics": [
                {
                    "topic": name,
                    "letters": _left(topics[name]),
                    "is_rocketmq": is_rocketmq(name),
                    "channel": CHANNEL if CHANNEL in topics[name].channels else None,
                }
                for name in sorted(topics)
                if name in targets or is_named_so(name)
            ]
        }


def _left(topic: Topic) -> int:
    channel = topic.channels.get(CHANNEL)
    if channel is None:
        return topic.log.next_offset - topic.log.start_offset
    return channel.state.unfinished_count
