"""Topics at a broker: their settings, the bounds of their queues, and who reads them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from penstock.rocketmq.client.admin.client import AdminClient
from penstock.rocketmq.client.admin.consume_stats import queue_table
from penstock.rocketmq.protocol import requests
from penstock.rocketmq.protocol.codes import RequestCode
from penstock.rocketmq.protocol.message_queue import MessageQueue

_EXAMPLE: Final = "TBW102"


async def topic_stats(
    client: AdminClient, address: str, topic: str
) -> dict[MessageQueue, dict[str, Any]]:
    """By queue its ``minOffset``, ``maxOffset`` and ``lastUpdateTimestamp``, in their order."""
    found = await client.ask_json(address, *requests.topic_stats(topic))
    return queue_table(found.get("offsetTable"))


async def consume_queue(
    client: AdminClient,
    address: str,
    topic: str,
    number: int,
    index: int,
    count: int,
    *,
    group: str = "",
) -> dict[str, Any]:
    """Entries of a queue from an index on (``queueData``), and what a group's filter says."""
    fields: dict[str, object] = {"topic": topic, "queueId": number, "index": index, "count": count}
    if group:
        fields["consumerGroup"] = group
    return await client.ask_json(address, RequestCode.QUERY_CONSUME_QUEUE, fields)


async def groups_of(client: AdminClient, address: str, topic: str) -> list[str]:
    """The groups that consume a topic, as a broker knows them, sorted."""
    code = RequestCode.QUERY_TOPIC_CONSUME_BY_WHO
    found = await client.ask_json(address, code, {"topic": topic})
    return sorted(map(str, found.get("groupList") or ()))


async def topic_configs(client: AdminClient, address: str) -> dict[str, Any]:
    """The ``topicConfigTable`` of a broker, settings by topic, and its ``dataVersion``."""
    return await client.ask_json(address, *requests.topic_configs())


async def system_topics(client: AdminClient, address: str) -> set[str]:
    """The topics that a broker has made for itself."""
    found = await client.ask_json(address, RequestCode.GET_SYSTEM_TOPIC_LIST_FROM_BROKER)
    return set(found.get("topicList") or ())


def topic_fields(
    topic: str,
    read: int,
    write: int,
    perm: int,
    sys_flag: int,
    *,
    is_order: bool = False,
    filter_type: str = "SINGLE_TAG",
) -> dict[str, object]:
    """A topic's settings as ``put_topic`` sends them."""
    return {
        "topic": topic,
        "defaultTopic": _EXAMPLE,
        "readQueueNums": read,
        "writeQueueNums": write,
        "perm": perm,
        "topicFilterType": filter_type,
        "topicSysFlag": sys_flag,
        "order": "true" if is_order else "false",
    }


async def put_topic(client: AdminClient, address: str, fields: Mapping[str, object]) -> None:
    """Make a topic on a broker, or change it."""
    await client.ask(address, RequestCode.UPDATE_AND_CREATE_TOPIC, fields)


async def delete_topic(client: AdminClient, address: str, topic: str) -> None:
    """Delete a topic on a broker."""
    await client.ask(address, RequestCode.DELETE_TOPIC_IN_BROKER, {"topic": topic})


async def forget_topic(client: AdminClient, address: str, topic: str, cluster: str = "") -> None:
    """Delete a topic, or what one cluster has of it, at a name server."""
    fields = {"topic": topic} | ({"clusterName": cluster} if cluster else {})
    await client.ask(address, RequestCode.DELETE_TOPIC_IN_NAMESRV, fields)
