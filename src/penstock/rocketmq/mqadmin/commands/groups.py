"""Sub-commands that make, change, show and delete groups."""

from __future__ import annotations

from penstock.core.errors import PenstockError
from penstock.rocketmq.client.admin.groups import delete_group, group_configs, put_group
from penstock.rocketmq.client.names import DEAD, RETRY
from penstock.rocketmq.mqadmin.admin import Admin
from penstock.rocketmq.mqadmin.commands import topics
from penstock.rocketmq.mqadmin.errors import UsageWanted
from penstock.rocketmq.mqadmin.java_text import GROUP_FIELDS, group_config, word
from penstock.rocketmq.mqadmin.output import Output
from penstock.rocketmq.mqadmin.posix_parser import ParsedOptions


async def update_sub_group(admin: Admin, given: ParsedOptions, out: Output) -> None:
    """Make a group, or change it."""
    config = {
        "groupName": given.text("groupName"),
        "consumeEnable": given.is_true("consumeEnable", True),
        "consumeFromMinEnable": given.is_true("consumeFromMinEnable"),
        "consumeBroadcastEnable": given.is_true("consumeBroadcastEnable"),
        "retryQueueNums": given.number("retryQueueNums", 1),
        "retryMaxTimes": given.number("retryMaxTimes", 16),
        "brokerId": given.number("brokerId"),
        "whichBrokerWhenConsumeSlowly": given.number("whichBrokerWhenConsumeSlowly", 1),
        "notifyConsumerIdsChangedEnable": given.is_true("notifyConsumerIdsChanged", True),
    }
    if "consumeMessageOrderly" in given:  # 4.9 knows none
        config["consumeMessageOrderly"] = given.is_true("consumeMessageOrderly")
    for address in await _brokers(admin, given):
        await put_group(admin, address, config)
        out.say(f"create subscription group to {address} success.\n", broker=address)
    out.text(group_config(config))
    out.fact("group", config)


async def _brokers(admin: Admin, given: ParsedOptions) -> list[str]:
    if "brokerAddr" in given:
        return [given.text("brokerAddr")]
    if "clusterName" in given:
        return (await admin.clusters()).masters(given.text("clusterName"))
    raise UsageWanted


async def delete_sub_group(admin: Admin, given: ParsedOptions, out: Output) -> None:
    """Delete a group; of a whole cluster with its retry topic and its dead letters."""
    group = given.text("groupName")
    with_offsets = given.is_true("removeOffset")
    cluster = "" if "brokerAddr" in given else given.text("clusterName")
    for address in await _brokers(admin, given):
        await delete_group(admin, address, group, with_offsets=with_offsets)
        inside = f" in cluster [{cluster}]" if cluster else ""
        text = f"delete subscription group [{group}] from broker [{address}]{inside} success.\n"
        out.say(text, broker=address)
    if cluster:
        try:
            await topics.delete(admin, cluster, RETRY + group, out)
            await topics.delete(admin, cluster, DEAD + group, out)
        except PenstockError as error:
            out.say(f"{error}\n")


async def get_consumer_config(admin: Admin, given: ParsedOptions, out: Output) -> None:
    """A group's configuration on each broker."""
    group = given.text("groupName")
    clusters = await admin.clusters()
    found = []
    for broker in clusters.brokers.values():
        known = await group_configs(admin, broker.any_address())
        config = (known.get("subscriptionGroupTable") or {}).get(group)
        if config is None:
            continue
        cluster = clusters.cluster_of(broker.name)
        found.append({"cluster": cluster, "broker": broker.name, "config": config})
        rule = "=" * 29
        out.text(f"{rule}{cluster}:{broker.name}{rule}\n")
        for name in GROUP_FIELDS:
            value = config.get(name)
            out.text(f"{name:<40}=  {'' if value is None else word(value)}\n")
    out.fact("groups", found)
