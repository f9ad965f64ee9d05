"""The settings of a topic and its channels in force: their own, or else what the flags say."""

from __future__ import annotations

from penstock.broker.channels.channel import ChannelOptions
from penstock.broker.dead_letters import dead_letter_topic
from penstock.broker.progress import ChannelSettings, Record, TopicSettings
from penstock.broker.publish.bounds import Bounds, Overflow
from penstock.core.names import is_ephemeral
from penstock.storage.retention import Retention


class TopicConfig:
    """The settings of the topic ``name`` over the defaults for all topics and channels."""

    __slots__ = ("_bounds", "_name", "_options", "channels", "own")

    def __init__(self, name: str, bounds: Bounds, options: ChannelOptions) -> None:
        self.own = TopicSettings()
        self.channels: dict[str, ChannelSettings] = {}
        self._name = name
        self._bounds = bounds
        self._options = options

    @property
    def bounds(self) -> Bounds:
        """The bounds in force."""
        own, default = self.own, self._bounds
        return Bounds(
            default.max_depth if own.max_depth is None else own.max_depth,
            default.max_bytes if own.max_bytes is None else own.max_bytes,
            default.overflow if own.overflow is None else Overflow(own.overflow),
        )

    def retention(self, default: Retention) -> Retention:
        """The retention in force, where ``default`` is that of the node or of RocketMQ's topics."""
        own = self.own
        return Retention(
            default.time_ns if own.retention_ns is None else own.retention_ns,
            default.nbytes if own.retention_bytes is None else own.retention_bytes,
        )

    def of_channel(self, name: str) -> ChannelSettings:
        """The channel's own settings."""
        return self.channels.get(name) or ChannelSettings(name)

    def attempts(self, channel: str) -> tuple[int, str]:
        """The most attempts at a message (0: any number), and the topic it goes to after them."""
        own = self.of_channel(channel)
        most = self._options.max_attempts if own.max_attempts is None else own.max_attempts
        target = dead_letter_topic(
            own.dead_letter_topic or self._options.dead_letter_topic, self._name
        )
        if target == self._name:  # a topic does not take its own dead letters
            most = 0
        return most, target

    def records(self) -> list[Record]:
        """The topic's and the channels' own settings for the journal."""
        own = [each for each in self.channels.values() if not is_ephemeral(each.name)]
        return [self.own, *own] if self.own != TopicSettings() else [*own]
