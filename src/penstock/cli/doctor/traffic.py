"""Topics, channels and groups of a node in which messages wait for nobody."""

from __future__ import annotations

from collections.abc import Iterator

from penstock.cli.doctor.nodes import Node
from penstock.cli.doctor.report import Finding, warning
from penstock.cluster.exchange import target
from penstock.cluster.figures import ToldChannel, ToldTopic
from penstock.cluster.groups import ToldGroup
from penstock.core.counted import counted
from penstock.core.units import SECOND, format_duration


def examine_traffic(node: Node) -> Iterator[Finding]:
    """Look at what waits in each topic of a node."""
    for topic in node.stats.topics or ():
        where = f"nsqd {node.address}, topic {topic.topic_name}"
        if topic.topic_name in node.dead_letters:
            yield from _dead(where, topic.topic_name, node.dead_letters[topic.topic_name])
            continue
        yield from _topic(where, topic)
        for channel in topic.channels or ():
            yield from _channel(f"{where}, channel {channel.channel_name}", topic, channel)
        for group in (*(topic.log_groups or ()), *(topic.consumer_groups or ())):
            yield from _group(f"{where}, group {group.group_name}", topic.topic_name, group)


def _dead(where: str, name: str, letters: int) -> Iterator[Finding]:
    if letters:
        yield warning("dead-letters", where, f"{counted(letters, 'dead letter')}",
                      f"Look with: penstock dlq show {name}. When the cause is mended: "
                      f"penstock dlq resend {name} --all")  # fmt: skip


def _topic(where: str, topic: ToldTopic) -> Iterator[Finding]:
    """Look at what waits for a channel; RocketMQ's consumers need none."""
    if topic.paused and topic.depth:
        yield warning("paused", where, f"it is paused, and {_wait(topic.depth)}",
                      f"POST {target('/topic/unpause', topic=topic.topic_name)}")  # fmt: skip
    elif topic.depth and topic.consumer_groups is None and not (topic.channels or topic.log_groups):
        yield warning("no-channel", where, f"{_wait(topic.depth)}, and there is no channel",
                      "The first consumer that subscribes gets them: start it, or empty or delete "
                      "the topic.")  # fmt: skip


def _channel(where: str, topic: ToldTopic, channel: ToldChannel) -> Iterator[Finding]:
    names = {"topic": topic.topic_name, "channel": channel.channel_name}
    if not channel.depth:
        return
    if channel.paused:
        yield warning("paused", where, f"it is paused, and {_wait(channel.depth)}",
                      f"POST {target('/channel/unpause', **names)}")  # fmt: skip
    elif not channel.client_count:
        yield warning("unread", where, f"{_wait(channel.depth)}, and nobody reads it",
                      "Start its consumers. A channel that nobody needs holds its messages for "
                      f"ever: POST {target('/channel/delete', **names)}")  # fmt: skip


def _group(where: str, topic: str, group: ToldGroup) -> Iterator[Finding]:
    if group.age is not None and group.stale:
        age = format_duration(group.age * SECOND)
        deleting = target("/log/group/delete", topic=topic, group=group.group_name)
        yield warning("unread", where, f"{_wait(group.lag)}, and it has not moved for {age}",
                      "Start the job that reads with it. A group that nobody needs holds the log: "
                      f"POST {deleting}")  # fmt: skip
    elif group.age is None and group.lag and not group.client_count:
        yield warning("unread", where, f"{_wait(group.lag)}, and it has no member",
                      "Start its consumers, or remove it: mqadmin deleteSubGroup")  # fmt: skip


def _wait(number: int) -> str:
    return f"{counted(number, 'message')} wait{'s' if number == 1 else ''}"
