"""The number and size of the messages in a topic and its channels, to compare with its bounds.

Messages that wait for a sync count, as they are about to become visible.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, Protocol

from penstock.broker.publish.bounds import Bounds

if TYPE_CHECKING:
    from penstock.broker.channels.channel import Channel
    from penstock.broker.channels.channel_state import ChannelState
    from penstock.storage.log import Log
    from penstock.storage.memory_log import MemoryLog


class Fill(NamedTuple):
    """The content of a topic or of one of its channels, in messages and bytes."""

    messages: int
    nbytes: int

    def surplus(self, bounds: Bounds) -> int:
        """The number of messages that are too many; bytes that are too many count as messages."""
        messages = self.messages - bounds.max_depth if bounds.max_depth else 0
        over = self.nbytes - bounds.max_bytes if bounds.max_bytes else 0
        if over > 0 and self.messages:
            messages = max(messages, -(-over * self.messages // self.nbytes))
        return max(0, messages)


class Filled(Protocol):
    """The part of a topic that is measured."""

    log: Log | MemoryLog
    head: int
    channels: dict[str, Channel]


def fill_of(topic: Filled) -> Fill:
    """The fill of a topic: of its fullest channel, or of what waits in the topic itself."""
    size = mean_bytes(topic.log)
    fills = [fill_of_channel(topic.log, channel.state, size) for channel in topic.channels.values()]
    fills.append(fill_waiting(topic))
    return Fill(max(fill.messages for fill in fills), max(fill.nbytes for fill in fills))


def fill_waiting(topic: Filled) -> Fill:
    """Messages that wait in the topic itself, for channels to come or for a pause to end."""
    return Fill(topic.log.append_offset - topic.head, topic.log.bytes_from(topic.head))


def fill_of_channel(log: Log | MemoryLog, state: ChannelState, mean_bytes: float) -> Fill:
    """Messages that one channel needs, with those that wait in the topic for it."""
    skipped = len(state.skips)
    ahead = log.append_offset - state.cursor
    behind = state.unfinished_count - (state.head - state.cursor - skipped)
    # Sizes of single messages are not kept: those skipped are taken for average ones.
    share = (ahead - skipped) / ahead if ahead else 0
    nbytes = log.bytes_from(state.cursor) * share + behind * mean_bytes
    return Fill(ahead - skipped + behind, int(nbytes))


def mean_bytes(log: Log | MemoryLog) -> float:
    """The average size of a message in the log."""
    return log.nbytes / max(1, log.append_offset - log.start_offset)
