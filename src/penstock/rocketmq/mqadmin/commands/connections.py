"""Sub-commands that show which clients are connected."""

from __future__ import annotations

from typing import Any, Final

from penstock.rocketmq.client.admin.clients import producers, producers_of
from penstock.rocketmq.mqadmin.admin import Admin
from penstock.rocketmq.mqadmin.errors import CommandFailed
from penstock.rocketmq.mqadmin.output import Output, Table
from penstock.rocketmq.mqadmin.posix_parser import ParsedOptions
from penstock.rocketmq.protocol.versions import version_name

PRODUCERS: Final = Table(
    "connections", "%04d  %-32s %-22s %-8s %s", "number clientId address language version"
)
CONSUMERS: Final = Table(
    "connections",
    "%-36s %-22s %-10s %s",
    "clientId address language version",
    ("#ClientId", "#ClientAddr", "#Language", "#Version"),
)
SUBSCRIPTIONS: Final = Table(
    "subscriptions", "%-20s %s", "topic expression", ("#Topic", "#SubExpression")
)
_DETAILS: Final = (
    ("ConsumeType", "consumeType"),
    ("MessageModel", "messageModel"),
    ("ConsumeFromWhere", "consumeFromWhere"),
)


def columns(connection: dict[str, Any]) -> tuple[str, str, str, str]:
    """Client id, address, language and version of one connection."""
    return (
        str(connection["clientId"]),
        str(connection["clientAddr"]),
        str(connection["language"]),
        version_name(int(connection["version"])),
    )


def sorted_connections(found: dict[str, Any]) -> list[dict[str, Any]]:
    """The connections of an answer, by client id."""
    return sorted(found.get("connectionSet") or (), key=lambda each: str(each["clientId"]))


async def producer_connection(admin: Admin, given: ParsedOptions, out: Output) -> None:
    """The producers of a group, as the first broker of a topic knows them."""
    address = (await admin.route(given.text("topic"))).addresses[0]
    found = sorted_connections(await producers_of(admin, address, given.text("producerGroup")))
    if not found:
        raise CommandFailed("Not found the producer group connection")
    for number, each in enumerate(found, 1):
        out.row(PRODUCERS, number, *columns(each))


async def consumer_connection(admin: Admin, given: ParsedOptions, out: Output) -> None:
    """The consumers of a group and what they subscribe."""
    found = await admin.connections(given.text("consumerGroup"), given.text("brokerAddr"))
    out.head(CONSUMERS)
    for each in sorted_connections(found):
        out.row(CONSUMERS, *columns(each))
    out.text("\nBelow is subscription:\n")
    out.head(SUBSCRIPTIONS)
    table = found.get("subscriptionTable") or {}
    for topic in sorted(table):
        out.row(SUBSCRIPTIONS, str(table[topic]["topic"]), str(table[topic]["subString"]))
    out.text("\n")
    for title, name in _DETAILS:
        out.text(f"{title}: {found.get(name)}\n")
        out.fact(name, found.get(name))


async def producer(admin: Admin, given: ParsedOptions, out: Output) -> None:
    """All producers of a broker, by group."""
    groups = await producers(admin, given.text("broker"))
    for group in sorted(groups):
        if not groups[group]:
            out.text(f"producer group ({group}) instances are empty\n")
        for each in groups[group] or ():
            out.text(
                f"producer group ({group}) instance : clientId={each['clientId']},"
                f"remoteIP={each['remoteIP']}, language={each['language']}, "
                f"version={each['version']}, lastUpdateTimestamp={each['lastUpdateTimestamp']}\n"
            )
    out.fact("groups", groups)
