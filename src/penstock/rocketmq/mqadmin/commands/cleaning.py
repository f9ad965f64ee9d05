"""Sub-commands that let brokers clean up at once."""

from __future__ import annotations

from penstock.rocketmq.mqadmin.admin import Admin
from penstock.rocketmq.mqadmin.options import Given
from penstock.rocketmq.mqadmin.output import Output
from penstock.rocketmq.protocol.codes import RequestCode


async def clean_expired(admin: Admin, given: Given, out: Output) -> None:
    """Forget the parts of consume queues whose messages are gone."""
    await _clean(admin, given, RequestCode.CLEAN_EXPIRED_CONSUMEQUEUE, out)


async def delete_expired(admin: Admin, given: Given, out: Output) -> None:
    """Delete the messages that are older than the broker keeps them."""
    await _clean(admin, given, RequestCode.DELETE_EXPIRED_COMMITLOG, out)


async def clean_unused(admin: Admin, given: Given, out: Output) -> None:
    """Delete the queues of topics that are no more."""
    await _clean(admin, given, RequestCode.CLEAN_UNUSED_TOPIC, out)


async def _clean(admin: Admin, given: Given, code: RequestCode, out: Output) -> None:
    addresses = (
        [given.text("brokerAddr")] if "brokerAddr" in given else await _brokers(admin, given)
    )
    for address in addresses:
        await admin.ask(address, code)
    out.say("success" if addresses else "false", brokers=addresses)


async def _brokers(admin: Admin, given: Given) -> list[str]:
    clusters = await admin.clusters()
    wanted = given.text("cluster")
    names = [wanted] if wanted else list(clusters.names)
    return [address for name in names for address in clusters.addresses(name)]
