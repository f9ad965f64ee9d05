"""The topics of a broker as RocketMQ configures them: queues, permissions, how they come to be.

A topic that nobody has made is made by the first message to it, after the template that the message
names, if there is such a template and it may be inherited (reference 4.9).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Final

from penstock.rocketmq.broker import names
from penstock.rocketmq.protocol.registration import TopicConfig

INHERIT: Final = 1
WRITE: Final = 2
READ: Final = 4
READ_WRITE: Final = READ | WRITE

QUEUES_MAX: Final = 10_000
_TEMPLATE_QUEUES: Final = 8


@dataclass(slots=True)
class DataVersion:
    """How often a table has changed, and when last (ms); what name servers compare."""

    counter: int = 0
    timestamp_ms: int = 0

    def next(self, now_ms: int) -> None:
        self.counter += 1
        self.timestamp_ms = now_ms

    def as_json(self) -> dict[str, Any]:
        return {"counter": self.counter, "timestamp": self.timestamp_ms}


@dataclass(slots=True)
class TopicTable:
    """All topics by name, and the version of the whole."""

    configs: dict[str, TopicConfig] = field(default_factory=dict)
    version: DataVersion = field(default_factory=DataVersion)

    def get(self, name: str) -> TopicConfig | None:
        return self.configs.get(name)

    def put(self, config: TopicConfig, now_ms: int) -> None:
        """Make or change a topic."""
        self.configs[config.name] = config
        self.version.next(now_ms)

    def delete(self, name: str, now_ms: int) -> TopicConfig | None:
        """Forget a topic; None when there was none of that name."""
        config = self.configs.pop(name, None)
        if config is not None:
            self.version.next(now_ms)
        return config

    def make_for_send(
        self, name: str, template_name: str, queues: int, now_ms: int
    ) -> TopicConfig | None:
        """The topic that a message goes to, made if need be; None when that is not allowed.

        ``queues`` is what the producer would like; a group's retry topic has one and needs no
        template.
        """
        config = self.configs.get(name)
        if config is not None:
            return config
        if names.is_inner(name):
            return self.make_inner(name, 1, now_ms)
        template = self.configs.get(template_name)
        if template is None or not template.perm & INHERIT:
            return None
        count = max(1, min(queues, template.write_queues, QUEUES_MAX))
        config = TopicConfig(name, count, count, template.perm & ~INHERIT,
                             sys_flag=template.sys_flag)  # fmt: skip
        self.put(config, now_ms)
        return config

    def make_inner(self, name: str, queues: int, now_ms: int) -> TopicConfig:
        """A group's own topic, for retries or dead letters."""
        config = self.configs.get(name)
        if config is None:
            config = TopicConfig(name, queues, queues, READ_WRITE)
            self.put(config, now_ms)
        return config

    def add_system_topics(
        self, cluster: str, broker: str, now_ms: int, *, auto_create: bool, trace: bool
    ) -> None:
        """What every broker has from its start; topics that are there stay as they are."""
        wanted = [
            TopicConfig(names.SELF_TEST_TOPIC, 1, 1),
            TopicConfig(names.BENCHMARK_TOPIC, 1024, 1024),
            TopicConfig(cluster, 16, 16, READ_WRITE | INHERIT),
            TopicConfig(broker, 1, 1, READ_WRITE | INHERIT),
            TopicConfig(names.OFFSET_MOVED_TOPIC, 1, 1),
            TopicConfig(names.SCHEDULE_TOPIC, 18, 18),
            TopicConfig(names.HALF_TOPIC, 1, 1),
            TopicConfig(names.OP_HALF_TOPIC, 1, 1),
            TopicConfig(names.GIVEN_UP_HALF_TOPIC, 1, 1),
            TopicConfig(f"{cluster}_REPLY_TOPIC", 1, 1),
        ]
        if auto_create:
            inherited = READ_WRITE | INHERIT
            wanted.append(TopicConfig(names.TEMPLATE_TOPIC, _TEMPLATE_QUEUES, _TEMPLATE_QUEUES,
                                      inherited))  # fmt: skip
        if trace:
            wanted.append(TopicConfig(names.TRACE_TOPIC, 1, 1))
        for config in wanted:
            if config.name not in self.configs:
                self.put(config, now_ms)

    def system_topics(self, cluster: str, broker: str) -> list[str]:
        """The names of those that are the broker's own."""
        own = names.SYSTEM_TOPICS | {cluster, broker, f"{cluster}_REPLY_TOPIC"}
        return [name for name in self.configs if name in own]

    def as_json(self) -> dict[str, Any]:
        """As the Java classes print it; also what is kept in the topics file."""
        return {
            "dataVersion": self.version.as_json(),
            "topicConfigTable": {name: config.as_json() for name, config in self.configs.items()},
        }
