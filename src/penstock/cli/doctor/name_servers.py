"""RocketMQ's name servers, brokers and groups under the doctor's eyes, as nsqadmin judges them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from penstock.admin.rocketmq.brokers import cluster
from penstock.admin.rocketmq.consumer_groups import all_groups
from penstock.admin.rocketmq.group_rates import GroupRates
from penstock.admin.rocketmq.servers import Servers
from penstock.cli.doctor.report import Finding, Report, error, warning
from penstock.cluster.upstream_errors import NoAnswerError
from penstock.core.clock import Clock
from penstock.core.counted import counted

TIMEOUT_S: Final = 5.0
_SILENT: Final = "silent"


async def examine_name_servers(
    addresses: Sequence[str], options: Sequence[str], clock: Clock
) -> Report:
    """Ask the name servers and the brokers that they name; ``options`` are of the client.

    Nothing is changed. Raises ConfigError.
    """
    servers = Servers(addresses, options, TIMEOUT_S, TIMEOUT_S, clock)
    try:
        whole = await cluster(servers)
        groups = await all_groups(servers, GroupRates())
    except NoAnswerError as problem:
        return Report(
            [
                error(
                    "unreachable",
                    f"name server {'; '.join(servers.addresses)}",
                    str(problem),
                    "Start it: brokers go on, but clients that start find none.",
                )
            ]
        )
    finally:
        await servers.close()
    findings = [*_name_servers(whole["name_servers"])]
    for broker in whole["brokers"]:
        findings += _broker(broker)
    findings += versions(whole["brokers"])
    for each in groups["groups"]:
        findings += group(each)
    answered = [each for each in whole["name_servers"] if each["answers"]]
    checked = [f"name server {each['address']}" for each in answered]
    checked += [
        f"broker {each['broker']}, {each['address']}: {each['version']}"
        for each in whole["brokers"]
        if each["answers"]
    ]
    checked += [f"{counted(len(groups['groups']), 'group')} of RocketMQ"]
    return Report(findings, checked)


def _name_servers(rows: Sequence[Mapping[str, Any]]) -> Iterator[Finding]:
    """Look at each, and at those that know less than another."""
    most = max((each["brokers"] or 0 for each in rows), default=0)
    for each in rows:
        where = f"name server {each['address']}"
        if not each["answers"]:
            yield error(
                "unreachable",
                where,
                "it does not answer",
                "Start it, or take its address "
                "out of those that brokers and clients are given: they go on with the "
                "others.",
            )
        elif each["brokers"] < most:
            yield warning(
                "not-registered",
                where,
                f"it knows {each['brokers']} of {counted(most, 'broker')}",
                "Clients that ask there do not find the others: give each broker all name servers.",
            )


def _broker(row: Mapping[str, Any]) -> Iterator[Finding]:
    where = f"broker {row['broker']}, {row['address']}"
    for each in row["verdicts"]:
        if each["kind"] == _SILENT:
            yield error(
                "unreachable",
                where,
                "it is registered, and does not answer there",
                "Start it. If it runs, its brokerIP1, or a firewall, is wrong: clients are "
                "sent there.",
            )
        else:
            yield warning(
                "disk-space",
                where,
                f"{each['share']:.0%} of its disk is used",
                "Make room, or lower fileReservedTime: when it is full, it refuses what is sent.",
            )


def versions(rows: Sequence[Mapping[str, Any]]) -> Iterator[Finding]:
    """Compare the versions of the brokers that answered."""
    found: dict[str, list[str]] = {}
    for each in rows:
        if each["answers"]:
            found.setdefault(each["version"], []).append(each["broker"])
    if len(found) > 1:
        told = "; ".join(f"{version} at {', '.join(places)}" for version, places in found.items())
        yield warning(
            "versions",
            "RocketMQ's brokers",
            told,
            "Upgrade one broker after the other until all are of one version.",
        )


def group(row: Mapping[str, Any]) -> Iterator[Finding]:
    """Say nsqadmin's verdicts on a group."""
    where = f"RocketMQ's group {row['group']}"
    waiting = f"{counted(row['lag'], 'message')} wait{'s' if row['lag'] == 1 else ''}"
    for each in row["verdicts"]:
        match each["kind"]:
            case "unattended":
                yield warning(
                    "unread",
                    where,
                    f"{waiting} in {', '.join(row['topics'])}, and it has no member",
                    f"Start its consumers, or remove it: mqadmin deleteSubGroup -g {row['group']}",
                )
            case "disabled":
                yield warning(
                    "paused",
                    where,
                    f"{waiting}, and it may not consume",
                    f"Let it: mqadmin updateSubGroup -g {row['group']} -s true",
                )
            case "letters":
                letters = counted(each["letters"], "dead letter")
                yield warning(
                    "dead-letters",
                    where,
                    letters,
                    "Look at the topic "
                    f"%DLQ%{row['group']}, and send them again, in nsqadmin; or: mqadmin "
                    f"consumeMessage -t %DLQ%{row['group']}",
                )
            case _:
                yield warning(
                    "lag",
                    where,
                    waiting,
                    "Look whether it becomes less: mqadmin "
                    f"consumerProgress -g {row['group']}. More consumers help, up to the "
                    "number of queues.",
                )
