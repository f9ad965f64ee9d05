"""Messages that were delivered in vain: their next try, or their way to the dead letters.

Each try is a level of delay longer than the one before (RocketMQ spec 4.5).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from penstock.rocketmq.broker import names
from penstock.rocketmq.broker.answering import RefusedError
from penstock.rocketmq.broker.delays.timers import DELAY_MS_MAX
from penstock.rocketmq.broker.state.group_table import GroupConfig
from penstock.rocketmq.broker.state.levels import RETRY_BASE
from penstock.rocketmq.broker.store.draft import Draft
from penstock.rocketmq.protocol.codes import ResponseCode
from penstock.rocketmq.protocol.messages import properties
from penstock.rocketmq.protocol.messages.message import StoredMessage

if TYPE_CHECKING:
    from penstock.rocketmq.broker.clients.group_topics import GroupTopics
    from penstock.rocketmq.broker.state.stats import Stats

_OWN_LIMIT_SINCE: Final = 121
"""V3_4_9: such clients say themselves how often a message may be tried."""


@dataclass(slots=True, eq=False)
class Retries:
    """The ways of messages that were delivered in vain."""

    stats: Stats
    group_topics: GroupTopics

    def dead_letter_rule(
        self, draft: Draft, max_reconsume_times: int | None, client_version: int
    ) -> Draft:
        """Rule on a message that a client sends to a retry topic itself.

        Returns the draft, changed to go to the dead letters when it was tried often enough. Raises
        RefusedError when the group does not exist.
        """
        config = self.group_topics.need(draft.topic.removeprefix(names.RETRY_PREFIX))
        # 4.9 makes a dead letter of a message with as many tries; 5.x allows one more.
        if draft.reconsume_times >= most_times(config, max_reconsume_times, client_version):
            self.to_dead_letters(draft, config.group_name)
        return draft

    def to_dead_letters(self, draft: Draft, group: str) -> None:
        self.stats.dead_lettered(origin(draft), group)
        draft.topic = self.group_topics.dead_letter_topic(group).name
        draft.queue = 0
        set_delay(draft, None)

    def dead_letter(self, stored: StoredMessage, group: str) -> Draft:
        """A message that a group was given too often, as it goes to the group's dead letters:
        without a word where it comes from if its properties leave no room for that.
        """
        try:
            draft = next_try(stored)
        except RefusedError:
            draft = Draft.of(stored)
            draft.reconsume_times += 1
            draft.prepared_offset = 0
        self.to_dead_letters(draft, group)
        return draft


def most_times(config: GroupConfig, wanted: int | None, client_version: int) -> int:
    """The most tries of a message: the client's own limit, or its group's setting."""
    # Java heeds a client's own limit only from the client's version 3.4.9 on.
    if wanted is None or client_version < _OWN_LIMIT_SINCE:
        return config.retry_max_times
    return wanted


def next_try(stored: StoredMessage) -> Draft:
    """A copy that knows where it comes from; its topic and queue are for the caller to set.

    Raises RefusedError when that leaves no room in its properties.
    """
    draft = Draft.of(stored)
    draft.reconsume_times += 1
    draft.prepared_offset = 0
    found = properties.parse(stored.properties)
    # Each retry keeps the first topic and id: the client restores the topic from them.
    found.setdefault(properties.RETRY_TOPIC, stored.topic)
    found.setdefault(properties.ORIGIN_MESSAGE_ID, stored.offset_id)
    # Java stores WAIT=false, so that a retry waits neither for the disk nor for a slave.
    found[properties.WAIT] = "false"
    draft.properties = properties.join(found)
    if len(draft.properties.encode("utf-8", "replace")) > properties.BYTES_MAX:
        remark = f"the properties leave no room to say where {stored.offset_id} comes from"
        raise RefusedError(ResponseCode.MESSAGE_ILLEGAL, remark)
    return draft


def origin(draft: Draft) -> str:
    """The topic that its producer had sent a message to."""
    return properties.value_of(draft.properties, properties.RETRY_TOPIC) or draft.topic


def set_delay(draft: Draft, level: int | None) -> None:
    """Give a message a level of delay, or none, instead of any other delay."""
    _replace_delay(draft, properties.DELAY, level)


def set_policy_delay(draft: Draft, config: GroupConfig, times: int) -> None:
    """Give a message the delay of its group after this number of tries, instead of any other."""
    delay_ms = config.group_retry_policy.delay_ms(times)
    if delay_ms is None:
        set_delay(draft, RETRY_BASE + times)
    else:
        _replace_delay(draft, properties.TIMER_DELAY_MS, min(delay_ms, DELAY_MS_MAX) or None)


def _replace_delay(draft: Draft, name: str, value: int | None) -> None:
    found = properties.parse(draft.properties)
    for each in (properties.DELAY, *properties.TIMERS, properties.TIMER_OUT_MS):
        found.pop(each, None)
    if value is not None:
        found[name] = str(value)
    draft.properties = properties.join(found)
