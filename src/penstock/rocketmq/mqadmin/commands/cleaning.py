"""Sub-commands that let brokers clean up at once."""

from __future__ import annotations

from penstock.rocketmq.client.admin.brokers import Cleaning, clean
from penstock.rocketmq.mqadmin.admin import Admin
from penstock.rocketmq.mqadmin.output import Output
from penstock.rocketmq.mqadmin.posix_parser import ParsedOptions


async def clean_expired(admin: Admin, given: ParsedOptions, out: Output) -> None:
    """Forget the parts of consume queues whose messages are gone."""
    await _clean(admin, given, Cleaning.EXPIRED_QUEUES, out)


async def delete_expired(admin: Admin, given: ParsedOptions, out: Output) -> None:
    """Delete the messages that are older than the broker keeps them."""
    await _clean(admin, given, Cleaning.EXPIRED_MESSAGES, out)


async def clean_unused(admin: Admin, given: ParsedOptions, out: Output) -> None:
    """Delete the queues of topics that are no more."""
    await _clean(admin, given, Cleaning.UNUSED_TOPICS, out)


async def _clean(admin: Admin, given: ParsedOptions, what: Cleaning, out: Output) -> None:
    addresses = (
        [given.text("brokerAddr")] if "brokerAddr" in given else await _brokers(admin, given)
    )
    for address in addresses:
        await clean(admin, address, what)
    out.say("success" if addresses else "false", brokers=addresses)


async def _brokers(admin: Admin, given: ParsedOptions) -> list[str]:
    clusters = await admin.clusters()
    wanted = given.text("cluster")
    names = [wanted] if wanted else list(clusters.names)
    return [address for name in names for address in clusters.addresses(name)]
