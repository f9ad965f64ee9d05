"""Consumer groups that are made, changed and deleted."""

from __future__ import annotations

from typing import Any, Final

from msgspec import Struct, field

from penstock.admin.rocketmq.changes.masters import chosen_masters, told_all
from penstock.admin.rocketmq.changes.topic_changes import remove
from penstock.admin.rocketmq.group_settings import SETTINGS, known_settings
from penstock.admin.rocketmq.names import is_system_group
from penstock.admin.rocketmq.servers import Servers
from penstock.cluster.fanout import Warnings
from penstock.net.http.server.v1_api import ApiError
from penstock.rocketmq.client.admin.groups import delete_group, put_group
from penstock.rocketmq.client.admin.topology import Broker
from penstock.rocketmq.client.errors import BadName
from penstock.rocketmq.client.names import DEAD, RETRY, checked_group

RETRIES_MAX: Final = 10_000
_RETRY_QUEUES_MAX: Final = 1024
_ID_MAX: Final = 1 << 31


class GroupChange(Struct):
    """A group as it shall be on these brokers, or on all of them where none is named. What is null
    stays as it is; a new group has the brokers' own defaults.
    """

    action: str = ""
    group: str = ""
    brokers: list[str] = field(default_factory=list)
    consumes: bool | None = None
    broadcasts: bool | None = None
    from_min: bool | None = None
    retries: int | None = None
    retry_queues: int | None = None
    broker_id: int | None = None
    slow_broker_id: int | None = None
    notifies: bool | None = None

    def check(self) -> None:
        """Raise ApiError 400 for values that no group can have."""
        try:
            checked_group(self.group)
        except BadName:
            raise ApiError(400, "INVALID_GROUP") from None
        if is_system_group(self.group):
            raise ApiError(400, "SYSTEM_GROUP")
        for name, least, most in (
            ("retries", -1, RETRIES_MAX),
            ("retry_queues", 0, _RETRY_QUEUES_MAX),
            ("broker_id", 0, _ID_MAX),
            ("slow_broker_id", 0, _ID_MAX),
        ):
            value = getattr(self, name)
            if value is not None and not least <= value <= most:
                raise ApiError(400, f"INVALID_{name.upper()}")

    def over(self, known: dict[str, Any]) -> dict[str, Any]:
        """The change over what a broker has of the group, as brokers have it."""
        config = {"groupName": self.group} | dict(SETTINGS.values()) | known
        given = {key: getattr(self, name) for name, (key, _) in SETTINGS.items()}
        return config | {key: value for key, value in given.items() if value is not None}


async def create(servers: Servers, body: GroupChange) -> dict[str, Any]:
    """Make a group. Raises ApiError, 409 where a broker has it already, and NoAnswerError."""
    return await _put(servers, body, is_new=True)


async def change(servers: Servers, body: GroupChange) -> dict[str, Any]:
    """Change a group, or make it on further brokers. Raises ApiError and NoAnswerError."""
    return await _put(servers, body, is_new=False)


async def _put(servers: Servers, body: GroupChange, *, is_new: bool) -> dict[str, Any]:
    body.check()
    warnings = Warnings()
    brokers = await chosen_masters(servers, body.brokers)
    known = await known_settings(servers, brokers, body.group, warnings)
    if is_new and any(known.values()):
        raise ApiError(409, "GROUP_EXISTS")

    async def tell(broker: Broker) -> None:
        await put_group(servers, broker.any_address(), body.over(known[broker.name]))

    # Of a broker that did not say what it has, nothing is overwritten.
    await told_all([each for each in brokers if each.name in known], tell, warnings)
    return {"message": warnings.message}


async def delete(servers: Servers, group: str) -> dict[str, Any]:
    """Delete a group with its offsets, its retries and its dead letters. Raises ApiError,
    NoAnswerError.
    """
    if is_system_group(group):
        raise ApiError(400, "SYSTEM_GROUP")
    warnings = Warnings()
    brokers = await chosen_masters(servers, ())
    topics = await servers.topics()

    async def tell(broker: Broker) -> None:
        await delete_group(servers, broker.any_address(), group, with_offsets=True)

    await told_all(brokers, tell, warnings)
    for topic in {RETRY + group, DEAD + group} & set(topics):
        await remove(servers, brokers, topic, warnings)
    return {"message": warnings.message}
