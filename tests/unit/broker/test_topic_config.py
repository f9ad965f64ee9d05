"""Settings in force: a topic's own and its channels' own, over the defaults."""

from __future__ import annotations

from penstock.broker.channels.channel import ChannelOptions
from penstock.broker.progress import ChannelSettings, TopicSettings
from penstock.broker.publish.bounds import Bounds, Overflow
from penstock.broker.topic_config import TopicConfig


def config() -> TopicConfig:
    return TopicConfig("t", Bounds(max_depth=9, max_bytes=70), ChannelOptions(max_attempts=5))


def test_what_is_not_set_is_as_the_defaults() -> None:
    settings = config()
    assert settings.bounds == Bounds(9, 70)
    settings.own = TopicSettings(max_bytes=0, overflow="drop-oldest")
    assert settings.bounds == Bounds(9, 0, Overflow("drop-oldest"))


def test_a_channel_has_its_own_number_of_attempts_and_dead_letters() -> None:
    settings = config()
    assert settings.attempts("c") == (5, "t.dead")
    settings.channels["c"] = ChannelSettings("c", 0, "lost.%s")
    assert settings.attempts("c") == (0, "lost.t")
    assert settings.of_channel("c").max_attempts == 0
    assert settings.of_channel("other") == ChannelSettings("other")


def test_a_topic_does_not_take_its_own_dead_letters() -> None:
    settings = config()
    settings.channels["c"] = ChannelSettings("c", 3, "t")
    assert settings.attempts("c") == (0, "t")


def test_only_what_was_set_and_lasts_is_written_down() -> None:
    settings = config()
    assert settings.records() == []
    own, durable = TopicSettings(max_depth=1), ChannelSettings("c", 2)
    settings.own = own
    settings.channels = {"c": durable, "e": ChannelSettings("e#ephemeral", 2)}
    assert settings.records() == [own, durable]
