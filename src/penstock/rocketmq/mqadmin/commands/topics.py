"""Sub-commands that make, change and delete topics."""

from __future__ import annotations

from typing import Any, Final

from penstock.rocketmq.client.admin import name_servers, topics
from penstock.rocketmq.client.admin.errors import Refused
from penstock.rocketmq.client.admin.topology import MASTER, QueueData, TopicRoute
from penstock.rocketmq.mqadmin.admin import Admin
from penstock.rocketmq.mqadmin.errors import CommandFailed, UsageWanted
from penstock.rocketmq.mqadmin.java_text import topic_config
from penstock.rocketmq.mqadmin.output import Output
from penstock.rocketmq.mqadmin.posix_parser import ParsedOptions

ORDERS: Final = "ORDER_TOPIC_CONFIG"
"""The namespace of the name server's values that order topics' queues."""
_UNIT, _UNIT_SUB = 1, 2


async def update_topic(admin: Admin, given: ParsedOptions, out: Output) -> None:
    """Make a topic, or change it."""
    is_order = given.is_true("order")
    sys_flag = _UNIT * given.is_true("unit") + _UNIT_SUB * given.is_true("hasUnitSub")
    fields = topics.topic_fields(
        given.text("topic"),
        given.number("readQueueNums", 8),
        given.number("writeQueueNums", 8),
        given.number("perm", 6),
        sys_flag,
        is_order=is_order,
    )
    if "attributes" in given:  # 4.9 knows none
        fields["attributes"] = given.text("attributes")
    if "brokerAddr" in given:
        address = given.text("brokerAddr")
        await topics.put_topic(admin, address, fields)
        if is_order:
            await _order_on(admin, address, fields, out)
        out.say(f"create topic to {address} success.\n", broker=address)
    else:
        await _update_in_cluster(admin, given.text("clusterName"), fields, out, is_order=is_order)
    out.text(topic_config(fields))
    out.fact("topic", fields)


async def _update_in_cluster(
    admin: Admin, cluster: str, fields: dict[str, Any], out: Output, *, is_order: bool
) -> None:
    clusters = await admin.clusters()
    for address in clusters.masters(cluster):
        await topics.put_topic(admin, address, fields)
        out.say(f"create topic to {address} success.\n", broker=address)
    if is_order:
        queues = fields["writeQueueNums"]
        orders = ";".join(f"{name}:{queues}" for name in clusters.names[cluster])
        await put_value(admin, ORDERS, fields["topic"], orders)
        out.say(f"set cluster orderConf. isOrder=true, orderConf=[{orders}]", orderConf=orders)


async def _order_on(admin: Admin, address: str, fields: dict[str, Any], out: Output) -> None:
    """Add one broker to the order of a topic's queues."""
    order = f"{(await admin.clusters()).name_of(address)}:{fields['writeQueueNums']}"
    try:
        before = await name_servers.value_of(admin, ORDERS, fields["topic"])
    except Refused:
        # Code 22: nobody has ordered this topic's queues yet.
        before = ""
    orders = {each.split(":")[0]: each for each in before.split(";") if each}
    orders[order.split(":")[0]] = order
    await put_value(admin, ORDERS, fields["topic"], ";".join(orders.values()))
    out.say(f"set broker orderConf. isOrder=true, orderConf=[{order}]", orderConf=order)


async def delete_topic(admin: Admin, given: ParsedOptions, out: Output) -> None:
    """Delete a topic on all brokers of a cluster, and at the name servers."""
    await delete(admin, given.text("clusterName"), given.text("topic"), out)


async def delete(admin: Admin, cluster: str, topic: str, out: Output) -> None:
    """Delete a topic."""
    for address in (await admin.clusters()).masters(cluster):
        await topics.delete_topic(admin, address, topic)
    out.say(f"delete topic [{topic}] from cluster [{cluster}] success.\n", topic=topic)
    for address in admin.name_servers:
        await topics.forget_topic(admin, address, topic, cluster)
    out.say(f"delete topic [{topic}] from NameServer success.\n", topic=topic)


async def update_topic_perm(admin: Admin, given: ParsedOptions, out: Output) -> None:
    """Let a topic be read or written, or not."""
    topic, perm = given.text("topic"), given.number("perm")
    route = await admin.route(topic)
    if "brokerAddr" in given:
        await _change_perm(admin, given.text("brokerAddr"), route, topic, perm, out)
    elif "clusterName" in given:
        for broker in (await admin.clusters()).of(given.text("clusterName")):
            if broker.master:
                queue = _queue_at(route, broker.name)
                await topics.put_topic(admin, broker.master, _with_perm(topic, queue, perm))
                _tell_perm(queue.perm, perm, broker.master, out)
    else:
        raise UsageWanted


def _queue_at(route: TopicRoute, broker: str) -> QueueData:
    """A broker's own queues, which stay as they are; those of the first for one that has none."""
    return next((each for each in route.queues if each.brokerName == broker), route.queues[0])


def _with_perm(topic: str, queue: QueueData, perm: int) -> dict[str, Any]:
    return topics.topic_fields(
        topic, queue.readQueueNums, queue.writeQueueNums, perm, queue.topicSysFlag
    )


async def _change_perm(
    admin: Admin, address: str, route: TopicRoute, topic: str, perm: int, out: Output
) -> None:
    name = next((each.name for each in route.brokers if each.addresses.get(MASTER) == address), "")
    if not name:
        raise CommandFailed("updateTopicPerm error broker not exit or broker is not master!.")
    old = next((each.perm for each in route.queues if each.brokerName == name), 0)
    if old == perm:
        out.say("new perm equals to the old one!\n")
        return
    fields = _with_perm(topic, _queue_at(route, name), perm)
    await topics.put_topic(admin, address, fields)
    _tell_perm(old, perm, address, out)
    out.text(f"{topic_config(fields)}.\n")


def _tell_perm(old: int, new: int, address: str, out: Output) -> None:
    text = f"update topic perm from {old} to {new} in {address} success.\n"
    out.say(text, broker=address, before=old, after=new)


async def update_order_conf(admin: Admin, given: ParsedOptions, out: Output) -> None:
    """Show, set or delete the order of a topic's queues."""
    topic, method = given.text("topic"), given.text("method")
    if method == "get":
        order = await name_servers.value_of(admin, ORDERS, topic)
        out.say(f"get orderConf success. topic=[{topic}], orderConf=[{order}] ", orderConf=order)
    elif method == "put":
        order = given.text("orderConf")
        if not order:
            raise CommandFailed("please set orderConf with option -v.")
        await put_value(admin, ORDERS, topic, order)
        out.say(f"update orderConf success. topic=[{topic}], orderConf=[{order}]", orderConf=order)
    elif method == "delete":
        await delete_value(admin, ORDERS, topic)
        out.say(f"delete orderConf success. topic=[{topic}]")
    else:
        raise UsageWanted


async def put_value(admin: Admin, namespace: str, key: str, value: str) -> None:
    """Store a value at all name servers."""
    for address in admin.name_servers:
        await name_servers.put_value(admin, address, namespace, key, value)


async def delete_value(admin: Admin, namespace: str, key: str) -> None:
    """Forget a value at all name servers."""
    for address in admin.name_servers:
        await name_servers.delete_value(admin, address, namespace, key)
