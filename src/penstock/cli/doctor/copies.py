"""Primaries, their followers and fenced nodes under the doctor's eyes.

A follower registers nowhere, so beside the nodes that were asked, those that they name as primary
or follower are asked for their role.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

from msgspec import Struct

from penstock.cli.doctor.nodes import Node
from penstock.cli.doctor.report import Finding, error, warning
from penstock.cluster.asker import Asker
from penstock.cluster.copies import (
    COPY_BEHIND,
    FENCED,
    FOLLOWER,
    NOT_FOLLOWING,
    PRIMARY,
    TARGET,
    WITHOUT_COPIES,
    Replication,
    not_asked,
)
from penstock.cluster.errors import UpstreamError
from penstock.core.counted import counted

_TOPICS_MAX: Final = 5


class Known(Struct):
    """A node's role, as it said itself; ``is_asked`` if it is one of those to be examined."""

    address: str
    said: Replication
    is_asked: bool = True


async def examine_copies(asker: Asker, nodes: Sequence[Node]) -> list[Finding]:
    """Look at the roles of these nodes, and of those that they name."""
    known = {each.info.http_address: Known(each.address, each.replication) for each in nodes}
    known |= {each.address: known[each.info.http_address] for each in nodes}
    others = not_asked([(each.address, each.replication) for each in nodes], known)
    for address, said in zip(others, await _roles(asker, others), strict=True):
        if said is not None:
            known[address] = Known(address, said, is_asked=False)
    found: list[Finding] = []
    for node in nodes:
        where, said = f"nsqd {node.address}", node.replication
        if said.role == FOLLOWER:
            found += _follower(node, known.get(said.primary))
        elif said.role == FENCED:
            found += _fenced(where, said)
        else:
            found += _primary(where, said)
    return found + list(_two_primaries({each.address: each for each in known.values()}.values()))


async def _roles(asker: Asker, addresses: Iterable[str]) -> list[Replication | None]:
    async def ask(address: str) -> Replication | None:
        try:
            return await asker.get(address, TARGET, Replication)
        except UpstreamError:
            return None

    return await asyncio.gather(*(ask(each) for each in addresses))


def _follower(node: Node, primary: Known | None) -> Iterator[Finding]:
    """Look at a follower, whose primary is None if that does not answer."""
    where, address, said = f"nsqd {node.address}", node.address, node.replication
    addresses = node.address, node.info.http_address
    if primary is None:
        what = f"its primary {said.primary} does not answer; {_age(said)}"
        remedy = f"Start that again, if it can be. {_promotion(address, said)}."
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
            f"it follows {said.primary}, which is itself a follower, of {own}, and gives no copies",
            remedy,
        )
    elif primary.said.role == FENCED:
        yield error(
            "follows-fenced",
            where,
            f"it follows {said.primary}, which is fenced: "
            f"{primary.said.primary} is primary in epoch {primary.said.fenced_epoch}",
            f"Start it with --follow={primary.said.primary}.",
        )
    elif said.trouble == NOT_FOLLOWING:
        yield error(
            "not-following",
            where,
            f"{said.error}; {_age(said)}",
            "Its log says since "
            "when. Look at the address in --follow, the secret, TLS and the disks of "
            "both; a primary with a new disk has another history.",
        )
    elif said.trouble == COPY_BEHIND:
        yield warning(
            "copy-behind",
            where,
            f"it lacks {_lacks(said)} of {said.primary}; {_age(said)}",
            "A first copy takes its time. "
            "Else the network or this node's disk is slower than the publishes. If the "
            "primary is lost, so is what is lacking.",
        )
    if said.put_aside:
        yield warning(
            "put-aside",
            where,
            f"messages that its primary has not were put aside: {_shown(said.put_aside)}",
            "They are in aside/ of its data path, a data "
            "path each: read it with nsqd, or publish it again with penstock replay, "
            "and remove it. This is said until the next start.",
        )


def _age(said: Replication) -> str:
    if said.lag_seconds is None:
        return "it was not whole since its start"
    return f"it was whole {said.lag_seconds:g} s ago" if said.lag_seconds else "it is whole"


def _promotion(address: str, said: Replication) -> str:
    if said.was_whole:
        return (
            f"If it is gone, and takes no publishes any more: penstock promote {address}; what "
            "it acknowledged since this one was whole is lost"
        )
    return (
        f"This copy is not whole: penstock promote {address} --force loses {_lacks(said)}. "
        "A backup may have more"
    )


def _lacks(said: Replication) -> str:
    """The messages that a follower knows it lacks."""
    if not said.lag_messages:
        return "messages, how many is not known"
    return f"at least {counted(said.lag_messages, 'message')}"


def _fenced(where: str, said: Replication) -> Iterator[Finding]:
    own = f"; messages that only it has: {_shown(said.only_here)}" if said.only_here else ""
    yield error(
        "fenced",
        where,
        f"it takes no publishes: {said.primary} is primary in epoch {said.fenced_epoch}{own}",
        f"Start it with --follow={said.primary}: it becomes a "
        "copy, and puts what only it has into aside/ of its data path.",
    )


def _primary(where: str, said: Replication) -> Iterator[Finding]:
    """Look for the copies that an OK of this primary is to promise."""
    if not said.trouble:
        return
    copies = "copy follows" if said.replicas_acked == 1 else "copies follow"
    follow = f"fewer than {said.replicas_acked:,} {copies} as --replicas-acked wants"
    remedy = "Start the followers, with --durability=fsync if it has that."
    if said.trouble == WITHOUT_COPIES:
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


def _two_primaries(known: Iterable[Known]) -> Iterator[Finding]:
    """Look for nodes of one history that take publishes side by side."""
    histories: dict[str, list[Known]] = {}
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
