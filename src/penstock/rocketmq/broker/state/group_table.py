"""Consumer groups as RocketMQ configures them (RocketMQ spec 10, SubscriptionGroupConfig)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, fields
from typing import Any, Final

from penstock.rocketmq.broker.state.retry_policy import BY_LEVELS, RetryPolicy
from penstock.rocketmq.broker.state.topic_table import QUEUES_MAX, DataVersion
from penstock.rocketmq.java_settings import java_name
from penstock.rocketmq.protocol.errors import BodyError

GROUPS_MAX: Final = 100_000


@dataclass(slots=True)
class GroupConfig:
    """One group; the fields have the names of their JSON, in Python's spelling."""

    group_name: str
    consume_enable: bool = True
    consume_from_min_enable: bool = True
    consume_broadcast_enable: bool = True
    retry_queue_nums: int = 1
    retry_max_times: int = 16
    broker_id: int = 0
    which_broker_when_consume_slowly: int = 1
    notify_consumer_ids_changed_enable: bool = True
    consume_message_orderly: bool = False
    """5.x, as all that follow: for a proxy, which has its clients handle messages in order then."""
    consume_timeout_minute: int = 15
    group_sys_flag: int = 0
    group_retry_policy: RetryPolicy = BY_LEVELS
    attributes: dict[str, str] = field(default_factory=dict)
    subscription_data_set: list[Any] | None = None

    def as_json(self) -> dict[str, Any]:
        value = {java_name(each.name): getattr(self, each.name) for each in fields(self)}
        value["groupRetryPolicy"] = self.group_retry_policy.as_json()
        if self.subscription_data_set is None:  # fastjson leaves it out
            del value["subscriptionDataSet"]
        return value

    @classmethod
    def from_json(cls, value: Any) -> GroupConfig:
        """Absent fields have their defaults. Raises BodyError."""
        if not isinstance(value, dict) or not isinstance(value.get("groupName"), str):
            raise BodyError("a group configuration without groupName")
        found: dict[str, Any] = {}
        for each in fields(cls):
            given = value.get(java_name(each.name))
            if given is None:
                continue
            reader = _READERS.get(each.name)
            if reader is not None:
                given = reader(given)
            elif each.name != "group_name" and type(given) is not type(each.default):
                raise BodyError(f"{java_name(each.name)} of a group is {given!r}")
            found[each.name] = given
        if found.get("retry_queue_nums", 0) > QUEUES_MAX:
            raise BodyError(f"retryQueueNums of a group is more than {QUEUES_MAX}")
        return cls(**found)


def _attributes(value: Any) -> dict[str, str]:
    if not isinstance(value, dict):
        raise BodyError("the attributes of a group are not a map")
    return {str(key): str(given) for key, given in value.items()}


def _subscriptions(value: Any) -> list[Any]:
    if not isinstance(value, list):
        raise BodyError("subscriptionDataSet of a group is not a list")
    return value


_READERS: Final[dict[str, Callable[[Any], Any]]] = {
    "group_retry_policy": RetryPolicy.from_json,
    "attributes": _attributes,
    "subscription_data_set": _subscriptions,
}
"""The parsers of the fields that are more than one value."""


@dataclass(slots=True)
class GroupTable:
    """All groups by name, and the version of the whole."""

    configs: dict[str, GroupConfig] = field(default_factory=dict)
    version: DataVersion = field(default_factory=DataVersion)

    def get(self, name: str) -> GroupConfig | None:
        return self.configs.get(name)

    def find(self, name: str, now_ms: int, *, auto_create: bool) -> GroupConfig | None:
        """The group of that name, made when it is not there and that is allowed.

        Raises BodyError when there are too many.
        """
        config = self.configs.get(name)
        if config is None and auto_create:
            config = GroupConfig(name)
            self.put(config, now_ms)
        return config

    def put(self, config: GroupConfig, now_ms: int) -> None:
        """Make or change a group. Raises BodyError when there are too many."""
        self.put_all((config,), now_ms)

    def put_all(self, configs: Sequence[GroupConfig], now_ms: int) -> None:
        """Make or change groups, all or none. Raises BodyError when there would be too many."""
        new = {config.group_name for config in configs} - self.configs.keys()
        if new and len(self.configs) + len(new) > GROUPS_MAX:
            raise BodyError(f"more than {GROUPS_MAX} consumer groups")
        for config in configs:
            self.configs[config.group_name] = config
            self.version.next(now_ms)

    def delete(self, name: str, now_ms: int) -> GroupConfig | None:
        """Forget a group; None when there was no group of that name."""
        config = self.configs.pop(name, None)
        if config is not None:
            self.version.next(now_ms)
        return config

    def as_json(self) -> dict[str, Any]:
        """The table as the Java classes print it; also the content of the groups file."""
        return {
            "dataVersion": self.version.as_json(),
            "subscriptionGroupTable": {
                name: config.as_json() for name, config in self.configs.items()
            },
        }

    def load(self, value: Any) -> None:
        """Take over what was kept. Raises BodyError."""
        table = value.get("subscriptionGroupTable") if isinstance(value, dict) else None
        if not isinstance(table, dict):
            raise BodyError("groups without subscriptionGroupTable")
        self.configs = {name: GroupConfig.from_json(config) for name, config in table.items()}
        self.version.load(value.get("dataVersion"))
