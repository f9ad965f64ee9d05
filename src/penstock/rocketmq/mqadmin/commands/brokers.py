"""Sub-commands about brokers: their figures, their settings, the progress of groups on them."""

from __future__ import annotations

from typing import Final

from penstock.core.errors import PenstockError
from penstock.rocketmq.client.admin import consume_stats
from penstock.rocketmq.client.admin.brokers import broker_config, runtime_info, set_broker_config
from penstock.rocketmq.mqadmin.admin import Admin
from penstock.rocketmq.mqadmin.errors import UsageWanted
from penstock.rocketmq.mqadmin.java_text import cut, to_second
from penstock.rocketmq.mqadmin.output import Output, Table
from penstock.rocketmq.mqadmin.posix_parser import ParsedOptions

STATUS: Final = Table("figures", "%-32s: %s", "name value")
STATUS_OF_CLUSTER: Final = Table("figures", "%-24s %-32s: %s", "broker name value")
CONFIG: Final = "%-50s=  %s\n"
_CONSUMED_FORMAT: Final = "%-64s  %-64s  %-32s  %-4d  %-20d  %-20d  %-20d  %s"
CONSUMED: Final = Table(
    "queues", _CONSUMED_FORMAT,
    "topic group broker queue brokerOffset consumerOffset diff lastTime",
    ("#Topic", "#Group", "#Broker Name", "#QID", "#Broker Offset", "#Consumer Offset", "#Diff",
     "#LastTime"),
)  # fmt: skip
_TIMEOUT_MS: Final = 50_000
_MS_PER_S: Final = 1000


async def broker_status(admin: Admin, given: ParsedOptions, out: Output) -> None:
    """The figures of a broker, or of all in a cluster."""
    if "brokerAddr" in given:
        for name, value in sorted((await runtime_info(admin, given.text("brokerAddr"))).items()):
            out.row(STATUS, name, value)
    elif "clusterName" in given:
        for address in (await admin.clusters()).addresses(given.text("clusterName")):
            for name, value in sorted((await runtime_info(admin, address)).items()):
                out.row(STATUS_OF_CLUSTER, address, name, value)


async def get_broker_config(admin: Admin, given: ParsedOptions, out: Output) -> None:
    """The settings of a broker, or of all in a cluster."""
    if "brokerAddr" in given:
        address = given.text("brokerAddr")
        await _show_config(admin, address, address, out)
    elif "clusterName" in given:
        for broker in (await admin.clusters()).of(given.text("clusterName")):
            master = broker.master or ""
            for address in broker.addresses.values():
                is_master = address == master
                title = f"Master: {master}"
                if not is_master:
                    title = f"My {title}=====Slave: {address}"
                await _show_config(admin, address, title, out)


async def _show_config(admin: Admin, address: str, title: str, out: Output) -> None:
    rule = "=" * 12
    found = await broker_config(admin, address)
    out.text(f"{rule}{title}{rule}\n")
    for name in sorted(found):
        out.text(CONFIG % (name, found[name]))
    out.text("\n")
    out.fact(address, found)


async def update_broker_config(admin: Admin, given: ParsedOptions, out: Output) -> None:
    """Change a setting of a broker, or of the masters of a cluster."""
    changed = {given.text("key"): given.text("value")}
    if "brokerAddr" in given:
        address = given.text("brokerAddr")
        await set_broker_config(admin, address, changed)
        out.say(f"update broker config success, {address}\n", broker=address)
    elif "clusterName" in given:
        for address in (await admin.clusters()).masters(given.text("clusterName")):
            try:
                await set_broker_config(admin, address, changed)
            except PenstockError as error:
                out.say(f"update broker config failed, {address}: {error}\n", broker=address)
            else:
                out.say(f"update broker config success, {address}\n", broker=address)
    else:
        raise UsageWanted


async def broker_consume_stats(admin: Admin, given: ParsedOptions, out: Output) -> None:
    """The progress of all groups on one broker."""
    seconds = given.number("timeoutMillis", _TIMEOUT_MS) / _MS_PER_S
    found = await consume_stats.broker_consume_stats(
        admin, given.text("brokerAddr"), is_order=given.is_true("order"), seconds=seconds
    )
    least = given.number("level")
    out.head(CONSUMED)
    for group, stats in found.groups:
        _show_group(group, stats, least, out)
    out.text(f"\nDiff Total: {found.lag}\n")
    out.fact("diffTotal", found.lag)


def _show_group(group: str, stats: consume_stats.ConsumeStats, least: int, out: Output) -> None:
    for queue, each in stats.queues.items():
        if each.lag >= least and each.last_ms > 0:
            out.row(
                CONSUMED,
                cut(queue.topic, 64),
                group,
                cut(queue.brokerName, 32),
                queue.queueId,
                each.broker_offset,
                each.consumer_offset,
                each.lag,
                to_second(each.last_ms),
            )
