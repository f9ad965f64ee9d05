"""The sub-command that shows how much comes and goes in all topics."""

from __future__ import annotations

from contextlib import suppress
from typing import Final

from penstock.core.errors import PenstockError
from penstock.rocketmq.client.admin.brokers import rates
from penstock.rocketmq.client.admin.consume_stats import consume_stats
from penstock.rocketmq.client.names import DEAD, RETRY
from penstock.rocketmq.mqadmin.admin import Admin
from penstock.rocketmq.mqadmin.java_text import cut
from penstock.rocketmq.mqadmin.output import Output, Shown, Table
from penstock.rocketmq.mqadmin.posix_parser import ParsedOptions

TOPICS: Final = Table(
    "topics", "%-64s  %-64s %12d %11.2f %11s %14d %14s",
    "topic group accumulation inTps outTps in24Hours out24Hours",
    ("#Topic", "#Consumer Group", "#Accumulation", "#InTPS", "#OutTPS", "#InMsg24Hour",
     "#OutMsg24Hour"), "%-64s  %-64s %12s %11s %11s %14s %14s",
)  # fmt: skip
PUT, GET = "TOPIC_PUT_NUMS", "GROUP_GET_NUMS"


async def all_stats(admin: Admin, given: ParsedOptions, out: Output) -> None:
    """Messages that come and go, by topic and group."""
    out.head(TOPICS)
    for topic in await admin.topics():
        if topic.startswith((RETRY, DEAD)) or given.text("topic", topic) != topic:
            continue
        with suppress(PenstockError):
            await _show_topic(admin, topic, out, only_active="activeTopic" in given)


async def _show_topic(admin: Admin, topic: str, out: Output, *, only_active: bool) -> None:
    masters = [each.master for each in (await admin.route(topic)).brokers if each.master]
    groups = await admin.groups_of(topic)
    rate_in, total_in = await _sum(admin, masters, PUT, topic)
    if not groups and (total_in or not only_active):
        out.row(
            TOPICS,
            cut(topic, 64),
            "",
            0,
            rate_in,
            Shown("", None),
            total_in,
            Shown("NO_CONSUMER", None),
        )
    for group in groups:
        rate_out, total_out = await _sum(admin, masters, GET, f"{topic}@{group}")
        lag = 0
        with suppress(PenstockError):
            lag = max(0, (await consume_stats(admin, group, topic)).lag)
        if total_in or total_out or not only_active:
            out.row(
                TOPICS,
                cut(topic, 64),
                cut(group, 64),
                lag,
                rate_in,
                Shown(f"{rate_out:.2f}", rate_out),
                total_in,
                Shown(str(total_out), total_out),
            )


async def _sum(admin: Admin, masters: list[str], name: str, key: str) -> tuple[float, int]:
    rate, total = 0.0, 0
    for address in masters:
        with suppress(PenstockError):
            more = await rates(admin, address, name, key)
            rate, total = rate + more[0], total + more[1]
    return rate, total
