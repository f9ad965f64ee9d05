"""Groups in /stats, beside NSQ's keys.

With a dialect that has groups a topic has ``consumer_groups`` and the whole
``producer_groups``. A topic whose log is read over HTTP has ``log_groups``.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from penstock.broker.group_figures import ConsumerGroup, GroupMember
from penstock.core.units import SECOND, format_duration
from penstock.node.dialect import Dialect
from penstock.node.log_groups import LogGroup


def consumer_groups(
    dialects: Sequence[Dialect], topic: str, name: str, *, with_clients: bool
) -> list[dict[str, Any]]:
    """The groups of a topic, or the one of that name."""
    return [
        _consumer_group(group, with_clients)
        for dialect in dialects
        for group in dialect.consumer_groups(topic)
        if name in ("", group.name)
    ]


def _consumer_group(group: ConsumerGroup, with_clients: bool) -> dict[str, Any]:
    return {
        "group_name": group.name,
        "message_model": group.model,
        "lag": group.lag,
        "committed": {str(queue): offset for queue, offset in group.committed.items()},
        "rate": group.rate,
        "client_count": len(group.members),
        "clients": _clients(group.members) if with_clients else None,
    }


def log_groups(groups: Iterable[LogGroup], name: str) -> list[dict[str, Any]]:
    """The groups of the log, or the one of that name."""
    return [
        {
            "group_name": group.name,
            "committed": {"0": group.committed},
            "lag": group.lag,
            "rate": group.rate,
            "owner": group.owner,
            "age": group.age,
            "expires_in": group.expires_in,
            "stale": group.stale,
        }
        for group in groups
        if name in ("", group.name)
    ]


def producer_groups(dialects: Sequence[Dialect]) -> list[dict[str, Any]]:
    """All groups of producers with their connections."""
    return [
        {
            "group_name": group.name,
            "client_count": len(group.members),
            "clients": _clients(group.members),
        }
        for dialect in dialects
        for group in dialect.producer_groups()
    ]


def _clients(members: Iterable[GroupMember]) -> list[dict[str, Any]]:
    return [
        {
            "client_id": member.client_id,
            "remote_address": member.address,
            "language": member.language,
            "version": member.version,
        }
        for member in members
    ]


def consumer_lines(topic: dict[str, Any]) -> list[str]:
    """The groups of a topic as lines for people."""
    lines = []
    for group in topic.get("consumer_groups", ()):
        committed = ",".join(f"{queue}={offset}" for queue, offset in group["committed"].items())
        lines.append(
            f"      {{{group['group_name']:<25}}} {group['message_model']:<12} "
            f"lag: {group['lag']:<8} rate: {group['rate']:<8.1f} "
            f"clients: {group['client_count']:<4} committed: {committed}\n"
        )
        lines += [_client_line(client) for client in group["clients"] or ()]
    return lines


def log_lines(topic: dict[str, Any]) -> list[str]:
    """The groups that read a topic's log as lines for people."""
    lines = []
    for group in topic.get("log_groups", ()):
        committed = ",".join(f"{queue}={offset}" for queue, offset in group["committed"].items())
        owner = "" if group["owner"] is None else f" owner: {group['owner']}"
        lines.append(
            f"      {{{group['group_name']:<25}}} {'LOG':<12} lag: {group['lag']:<8} "
            f"rate: {group['rate']:<8.1f} age: {format_duration(group['age'] * SECOND):<9} "
            f"committed: {committed}{owner}{' STALE' * group['stale']}\n"
        )
    return lines


def producer_lines(stats: dict[str, Any]) -> list[str]:
    """The groups of producers as lines for people; none on a node without a dialect."""
    if not stats.get("producer_groups"):
        return []
    lines = ["\nProducer groups:\n"]
    for group in stats["producer_groups"]:
        lines.append(f"   {{{group['group_name']:<25}}} clients: {group['client_count']}\n")
        lines += [_client_line(client) for client in group["clients"]]
    return lines


def _client_line(client: dict[str, Any]) -> str:
    return (
        f"        [{client['language']} {client['client_id']}] {client['remote_address']} "
        f"version: {client['version']}\n"
    )
