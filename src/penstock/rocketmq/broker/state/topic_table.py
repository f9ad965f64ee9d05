"""The topics of a broker as RocketMQ configures them: queues, permissions, how they come to be.

A topic that nobody has made is made by the first message to it, after the template that the message
names, if there is such a template and it may be inherited (RocketMQ spec 4.9).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final

from penstock.rocketmq.broker import names
from penstock.rocketmq.protocol.errors import BodyError
from penstock.rocketmq.protocol.registration import TopicConfig

INHERIT: Final = 1
WRITE: Final = 2
READ: Final = 4
READ_WRITE: Final = READ | WRITE

QUEUES_MAX: Final = 10_000
TEMPLATE_QUEUES: Final = 8


@dataclass(slots=True)
class DataVersion:
    """The number of changes of a table and the time of the last (ms); name servers compare them."""

    counter: int = 0
    timestamp_ms: int = 0

    def next(self, now_ms: int) -> None:
        self.counter += 1
        self.timestamp_ms = now_ms

    def as_json(self) -> dict[str, Any]:
        return {"counter": self.counter, "timestamp": self.timestamp_ms}

    def load(self, value: Any) -> None:
        """Take over what was kept; absent parts are 0. Raises BodyError."""
        found = value if isinstance(value, dict) else {}
        counter, timestamp = found.get("counter", 0), found.get("timestamp", 0)
        if type(counter) is not int or type(timestamp) is not int:
            raise BodyError(f"the version {counter!r}, {timestamp!r} is not a pair of numbers")
        self.counter, self.timestamp_ms = counter, timestamp


@dataclass(slots=True)
class TopicTable:
    """All topics by name, and the version of the whole."""

    configs: dict[str, TopicConfig] = field(default_factory=dict)
    version: DataVersion = field(default_factory=DataVersion)
    listeners: list[Callable[[], None]] = field(default_factory=list, compare=False)
    """Called in order by ``changed``: the table's file is written, name servers are told."""

    def get(self, name: str) -> TopicConfig | None:
        return self.configs.get(name)

    def queue_count(self, name: str) -> int:
        """The queues of a topic that anybody may have sent to; one where none are configured."""
        config = self.configs.get(name)
        return 1 if config is None else max(config.read_queues, config.write_queues)

    def put(self, config: TopicConfig, now_ms: int) -> None:
        """Make or change a topic."""
        self.configs[config.name] = config
        self.version.next(now_ms)

    def changed(self) -> None:
        """Let the listeners know that topics were put or deleted. Raises StorageError."""
        for listener in self.listeners:
            listener()

    def delete(self, name: str, now_ms: int) -> TopicConfig | None:
        """Forget a topic; None when there was no topic of that name."""
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
        # Java makes a retry topic without a template, with one queue.
        if names.is_inner(name):
            return self.make_inner(name, 1, now_ms)
        template = self.configs.get(template_name)
        # TBW102 carries INHERIT in Java; without it, or without TBW102, sends get code 17.
        if template is None or not template.perm & INHERIT:
            return None
        # Java takes what the producer asks for, but not more than the template has.
        count = max(1, min(queues, template.write_queues, QUEUES_MAX))
        config = TopicConfig(
            name, count, count, template.perm & ~INHERIT, sys_flag=template.sys_flag
        )
        self.put(config, now_ms)
        return config

    def make_inner(self, name: str, queues: int, now_ms: int, sys_flag: int = 0) -> TopicConfig:
        """A group's own topic, for retries or dead letters."""
        config = self.configs.get(name)
        if config is None:
            config = TopicConfig(name, queues, queues, READ_WRITE, sys_flag=sys_flag)
            self.put(config, now_ms)
        return config

    def set_template(self, queues: int, now_ms: int, *, inherited: bool) -> None:
        """Let senders make topics, of at most this number of queues, or not."""
        known = self.configs.get(names.TEMPLATE_TOPIC)
        if known is None and not inherited:
            return
        perm = READ_WRITE | INHERIT if inherited else READ_WRITE
        if known is None or (known.write_queues, known.perm) != (queues, perm):
            self.put(TopicConfig(names.TEMPLATE_TOPIC, queues, queues, perm), now_ms)

    def add_system_topics(
        self,
        cluster: str,
        broker: str,
        now_ms: int,
        *,
        auto_create: bool,
        trace: bool,
        template_queues: int = TEMPLATE_QUEUES,
    ) -> None:
        """Make the topics that every broker has; those that are there stay as they are."""
        wanted = [
            TopicConfig(names.SELF_TEST_TOPIC, 1, 1),
            TopicConfig(names.BENCHMARK_TOPIC, 1024, 1024),
            # Java's brokers register both, and its name server lists them as system topics
            # (RocketMQ spec 6).
            TopicConfig(cluster, 16, 16, READ_WRITE | INHERIT),
            TopicConfig(broker, 1, 1, READ_WRITE | INHERIT),
            TopicConfig(names.OFFSET_MOVED_TOPIC, 1, 1),
            # A queue for each of the 18 default levels (RocketMQ spec 4.6).
            TopicConfig(names.SCHEDULE_TOPIC, 18, 18),
            TopicConfig(names.HALF_TOPIC, 1, 1),
            TopicConfig(names.OP_HALF_TOPIC, 1, 1),
            TopicConfig(names.GIVEN_UP_HALF_TOPIC, 1, 1),
            TopicConfig(f"{cluster}_REPLY_TOPIC", 1, 1),
        ]
        if trace:
            wanted.append(TopicConfig(names.TRACE_TOPIC, 1, 1))
        # An operator may have given them other queues.
        for config in wanted:
            if config.name not in self.configs:
                self.put(config, now_ms)
        self.set_template(template_queues, now_ms, inherited=auto_create)

    def set_order(self, ordered: set[str], now_ms: int) -> bool:
        """Let these topics be ordered, beside those that are; whether that changed anything.

        As 5.x does: a topic may have been made ordered without a word to name servers.
        """
        new = [self.configs[name] for name in ordered & self.configs.keys()]
        new = [config for config in new if not config.order]
        for config in new:
            config.order = True
        if new:
            self.version.next(now_ms)
        return bool(new)

    def as_json(self) -> dict[str, Any]:
        """The table as the Java classes print it; also the content of the topics file."""
        return {
            "dataVersion": self.version.as_json(),
            "topicConfigTable": {name: config.as_json() for name, config in self.configs.items()},
        }

    def load(self, value: Any) -> None:
        """Take over what was kept. Raises BodyError."""
        table = value.get("topicConfigTable") if isinstance(value, dict) else None
        if not isinstance(table, dict):
            raise BodyError("topics without topicConfigTable")
        self.configs = {n: TopicConfig.from_json(config, n) for n, config in table.items()}
        self.version.load(value.get("dataVersion"))
