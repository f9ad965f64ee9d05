"""The sub-command that looks into a consume queue."""

from __future__ import annotations

from typing import Any, Final

from penstock.rocketmq.client.admin.topics import consume_queue
from penstock.rocketmq.mqadmin.admin import Admin
from penstock.rocketmq.mqadmin.errors import CommandFailed
from penstock.rocketmq.mqadmin.java_text import pretty, word
from penstock.rocketmq.mqadmin.output import Output
from penstock.rocketmq.mqadmin.posix_parser import ParsedOptions

_RULE: Final = "=" * 38 + "\n"
_NUMBERS: Final = ("physicOffset", "physicSize", "tagsCode")


async def query(admin: Admin, given: ParsedOptions, out: Output) -> None:
    """The entries of a queue from an index on, and what a group's filter says of each."""
    topic, index = given.text("topic"), given.number("index")
    address = given.text("broker") or (await admin.route(topic)).brokers[0].master
    if not address:
        raise CommandFailed("No topic route data!")
    found = await consume_queue(
        admin,
        address,
        topic,
        given.number("queue"),
        index,
        given.number("count", 10),
        group=given.text("consumer"),
    )
    subscription = found.get("subscriptionData")
    if subscription is not None:
        shown = pretty(dict(sorted(subscription.items())))
        out.text(f"Subscription data: \n{shown}\n{_RULE}")
    if found.get("filterData") is not None:
        out.text(f"Filter data: \n{found['filterData']}\n{_RULE}")
    most, least = found.get("maxQueueIndex", 0), found.get("minQueueIndex", 0)
    out.text(f"Queue data: \nmax: {most}, min: {least}\n{_RULE}")
    for number, each in enumerate(found.get("queueData") or (), index):
        out.text(f"idx: {number}\n{_entry(each)}\n{_RULE}")
    out.fact("queue", found)


def _entry(each: dict[str, Any]) -> str:
    numbers = ", ".join(f"{name}={each.get(name, 0)}" for name in _NUMBERS)
    return (
        f"ConsumeQueueData{{{numbers}, extendDataJson='{word(each.get('extendDataJson'))}', "
        f"bitMap='{word(each.get('bitMap'))}', eval={word(each.get('eval', False))}, "
        f"msg='{word(each.get('msg'))}'}}"
    )
