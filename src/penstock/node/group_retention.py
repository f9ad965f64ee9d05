"""Groups that nobody moves any more: their ages are kept, and ``--group-retention`` deletes them.

A query that is never run again would otherwise hold the log for ever.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Final

from penstock.broker.group_figures import ROCKETMQ_PREFIX
from penstock.broker.topic import Topic
from penstock.core.units import MINUTE, SECOND, format_duration
from penstock.node.log_groups import LogGroups

logger = logging.getLogger("penstock.node")

CHECK_NS: Final = SECOND
KEEP_NS: Final = 10 * MINUTE
"""The most that an age may be too small after a kill, where nothing else was written down."""
DELETIONS_MAX: Final = 10
"""The most groups to delete at once, as each deletion waits for the disk."""


class GroupRetention:
    """A regular look at the groups of all topics, which may keep a log from being trimmed."""

    def __init__(
        self, topics: Mapping[str, Topic], log_groups: LogGroups, limit_ns: int, now: int
    ) -> None:
        """``limit_ns``: the age at which groups are deleted, 0: at none. ``now`` is monotonic."""
        self._topics = topics
        self._log_groups = log_groups
        self._limit_ns = limit_ns
        self._check_at = 0
        self._keep_at = now + KEEP_NS

    def tick(self, now: int) -> None:
        """Look if it is time (monotonic ns)."""
        if now < self._check_at:
            return
        self._check_at = now + CHECK_NS
        keeps = now >= self._keep_at
        if keeps:
            self._keep_at = now + KEEP_NS
        topics = [each for each in self._topics.values() if each.groups]
        for topic in topics:
            topic.age_groups(keep=keeps)
        if self._limit_ns:
            self._delete_expired(topics)

    def _delete_expired(self, topics: list[Topic]) -> None:
        expired = [
            (topic, name)
            for topic in topics
            # While damage is pending nothing of a topic is deleted, nor a group that holds its log.
            if not (topic.exiting or topic.damage.pending)
            for name in topic.group_ages.expired(self._limit_ns)
            if not name.startswith(ROCKETMQ_PREFIX)  # RocketMQ's broker would make it again
        ]
        for topic, name in expired[:DELETIONS_MAX]:
            self._delete(topic, name)

    def _delete(self, topic: Topic, name: str) -> None:
        log = topic.log
        offset = max(log.start_offset, topic.groups[name])
        age = topic.group_ages.age_ns(name) // SECOND * SECOND
        logger.info(
            "TOPIC(%s): deleting group %s, which has not moved for %s (--group-retention="
            "%s): it held %d messages, about %d bytes, from offset %d on",
            topic.name,
            name,
            format_duration(age),
            format_duration(self._limit_ns),
            log.next_offset - offset,
            log.bytes_from(offset),
            offset,
        )
        topic.delete_group(name)
        self._log_groups.deleted(topic, name)
        topic.journal.save_now()  # else a kill would restore it
