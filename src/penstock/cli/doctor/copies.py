"""Primaries, their followers and fenced nodes under the doctor's eyes.

A follower registers nowhere, so beside the nodes that were asked, those that they name as primary
or follower are asked for their role.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

from msgspec import Struct

from penstock.cli.doctor.examined_nodes import ExaminedNode
from penstock.cli.doctor.report import Finding, error, warning
from penstock.cluster.http_client import HttpClient
from penstock.cluster.replication_status import (
    COPY_BEHIND,
    FENCED,
    FOLLOWER,
    NOT_FOLLOWING,
    PRIMARY,
    TARGET,
    WITHOUT_COPIES,
    Replication,
    unasked_nodes,
)
from penstock.cluster.upstream_errors import UpstreamError
from penstock.core.counted import counted

_TOPICS_MAX: Final = 5


class KnownRole(Struct):
    """A node's role, as it said itself; ``is_asked`` if it is one of those to be examined."""

    address: str
    said: Replication
    is_asked: bool = True


async def examine_copies(http: HttpClient, nodes: Sequence[ExaminedNode]) -> list[Finding]:
    """Look at the roles of these nodes, and of those that they name."""
    known = {each.info.http_address: KnownRole(each.address, each.replication) for each in nodes}
    known |= {each.address: known[each.info.http_address] for each in nodes}
    others = unasked_nodes([(each.address, each.replication) for each in nodes], known)
    for address, status in zip(others, await _roles(http, others), strict=True):
        if status is not None:
            known[address] = KnownRole(address, status, is_asked=False)
    found: list[Finding] = []
    for node in nodes:
        where, status = f"nsqd {node.address}", node.replication
        if status.role == FOLLOWER:
            found += _follower(node, known.get(status.primary))
        elif status.role == FENCED:
            found += _fenced(where, status)
        else:
            found += _primary(where, status)
    return found + list(_two_primaries({each.address: each for each in known.values()}.values()))


async def _roles(http: HttpClient, addresses: Iterable[str]) -> list[Replication | None]:
    async def ask(address: str) -> Replication | None:
        try:
            return await http.get(address, TARGET, Replication)
        except UpstreamError:
            return None

    return await asyncio.gather(*(ask(each) for each in addresses))


def _follower(node: ExaminedNode, primary: KnownRole | None) -> Iterator[Finding]:
    """Look at a follower, whose primary is None if that does not answer."""
    where, address, status = f"nsqd {node.address}", node.address, node.replication
    addresses = node.address, node.info.http_address
    if primary is None:
        what = f"its primary {status.primary} does not answer; {_age(status)}"
        remedy = f"Start that again, if it can be. {_promotion(address, status)}."
        yield error("no-primary", where, what, remedy)
    elif primary.said.role == FOLLOWER:
        own = primary.said.primary
        is_circle = own in addresses
        remedy = (
            f"penstock promote {address}, or the other."
            if is_circle
            else (f"Start it with --follow={own}.")
        )
        yield error(
            "follows-follower",
            where,
            f"it follows {status.primary}, which is itself a follower, of {own}, "
            "and gives no copies",
            remedy,
        )
    elif primary.said.role == FENCED:
        yield error(
            "follows-fenced",
            where,
            f"it follows {status.primary}, which is fenced: "
            f"{primary.said.primary} is primary in epoch {primary.said.fenced_epoch}",
            f"Start it with --follow={primary.said.primary}.",
        )
    elif status.trouble == NOT_FOLLOWING:
        yield error(
            "not-following",
            where,
            f"{status.error}; {_age(status)}",
            "Its log says since "
            "when. Look at the address in --follow, the secret, TLS and the disks of "
            "both; a primary with a new disk has another history.",
        )
    elif status.trouble == COPY_BEHIND:
        yield warning(
            "copy-behind",
            where,
            f"it lacks {_lacks(status)} of {status.primary}; {_age(status)}",
            "A first copy takes its time. "
            "Else the network or this node's disk is slower than the publishes. If the "
            "primary is lost, so is what is lacking.",
        )
    if status.put_aside:
        yield warning(
            "put-aside",
            where,
            f"messages that its primary has not were put aside: {_shown(status.put_aside)}",
            "They are in aside/ of its data path, a data "
            "path each: read it with nsqd, or publish it again with penstock replay, "
            "and remove it. This is said until the next start.",
        )


def _age(status: Replication) -> str:
    if status.lag_seconds is None:
        return "it was not whole since its start"
    return f"it was whole {status.lag_seconds:g} s ago" if status.lag_seconds else "it is whole"


def _promotion(address: str, status: Replication) -> str:
    if status.was_whole:
        return (
            f"If it is gone, and takes no publishes any more: penstock promote {address}; what "
            "it acknowledged since this one was whole is lost"
        )
    return (
        f"This copy is not whole: penstock promote {address} --force loses {_lacks(status)}. "
        "A backup may have more"
    )


def _lacks(status: Replication) -> str:
    """The messages that a follower knows it lacks."""
    if not status.lag_messages:
        return "messages, how many is not known"
    return f"at least {counted(status.lag_messages, 'message')}"


def _fenced(where: str, status: Replication) -> Iterator[Finding]:
    own = f"; messages that only it has: {_shown(status.only_here)}" if status.only_here else ""
    yield error(
        "fenced",
        where,
        f"it takes no publishes: {status.primary} is primary in epoch {status.fenced_epoch}{own}",
        f"Start it with --follow={status.primary}: it becomes a "
        "copy, and puts what only it has into aside/ of its data path.",
    )


def _primary(where: str, status: Replication) -> Iterator[Finding]:
    """Look for the copies that an OK of this primary is to promise."""
    if not status.trouble:
        return
    copies = "copy follows" if status.replicas_acked == 1 else "copies follow"
    follow = f"fewer than {status.replicas_acked:,} {copies} as --replicas-acked wants"
    remedy = "Start the followers, with --durability=fsync if it has that."
    if status.trouble == WITHOUT_COPIES:
        yield warning(
            "without-copies",
            where,
            f"{follow}: publishes are acknowledged without them",
            f"{remedy} What comes until then is on this node alone.",
        )
    else:
        yield error(
            "without-copies",
            where,
            f"{follow}: publishes are refused",
            f"{remedy} Or let it go on without them: --replicas-missing=go-on.",
        )


def _two_primaries(known: Iterable[KnownRole]) -> Iterator[Finding]:
    """Look for nodes of one history that take publishes side by side."""
    histories: dict[str, list[KnownRole]] = {}
    for each in known:
        if each.said.role == PRIMARY and each.said.history:
            histories.setdefault(each.said.history, []).append(each)
    for nodes in histories.values():
        if len(nodes) < 2:
            continue
        epochs = {each.said.epoch for each in nodes}
        shown = ", ".join(f"{each.address} (epoch {each.said.epoch})" for each in nodes)
        newest = max(nodes, key=lambda each: each.said.epoch).address
        if len(epochs) > 1:
            remedy = (
                f"{newest} tells the one before it by itself when it can reach it: mend the "
                "network, or stop the others, and start them with "
                f"--follow={newest}"
            )
        else:
            remedy = (
                "Two followers were promoted at once. Choose one, stop the others, and start "
                "them with --follow: what only they have is put aside. A lease in "
                "--promote-before-hook prevents it"
            )
        yield error(
            "two-primaries",
            ", ".join(f"nsqd {each.address}" for each in nodes),
            f"they are copies of one another, and all take publishes: {shown}",
            f"{remedy}.",
        )


def _shown(counts: Mapping[str, int]) -> str:
    found = sorted(counts.items(), key=lambda each: -each[1])
    listed = [f"{count:,} of {topic}" for topic, count in found[:_TOPICS_MAX]]
    more = len(found) - len(listed)
    return ", ".join(listed) + (f" and of {counted(more, 'more topic')}" if more else "")
