"""The search of a copy for its primary, once the one that it follows is gone or stepped back."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Final, Protocol

from penstock.core.errors import PenstockError
from penstock.node.node_options import NodeOptions
from penstock.replication.peer import Peer, PeerError, PeerStatus
from penstock.replication.secret import Secret
from penstock.replication.state import ReplicationState, Role

logger = logging.getLogger("penstock.replication")

Search = Callable[[], Awaitable[list[str]]]
"""A way to learn the HTTP addresses of nodes, of which one may be the primary."""

LOOK_S: Final = 1.0
"""The time between two looks whether the primary is followed."""
SILENT_LOOKS: Final = 3
"""The looks in a row at which it must not have been, before others are asked."""
ASK_S: Final = 2.0


class Follower(Protocol):
    """The copy that looks for its primary."""

    options: NodeOptions
    state: ReplicationState
    secret: Secret
    searches: list[Search]

    @property
    def address(self) -> str: ...

    @property
    def is_lost(self) -> bool:
        """True while it follows nobody, and is not being promoted."""
        ...

    async def follow_instead(self, primary: str) -> None:
        """Follow this node from now on. Raises PenstockError."""
        ...


async def find_primaries(follower: Follower) -> None:
    """Look for the primary of a copy whenever it follows nobody, until it is cancelled."""
    looks = 0
    while True:
        await asyncio.sleep(LOOK_S)
        looks = looks + 1 if follower.is_lost else 0
        if looks < SILENT_LOOKS:
            continue
        try:
            found = await primary_of(follower)
            if found and follower.is_lost:
                logger.warning("%s is primary now, in place of %s", found, follower.state.primary)
                await follower.follow_instead(found)
        except PenstockError as error:
            logger.warning("cannot look for the primary - %s", error)
        looks = 0


async def primary_of(follower: Follower) -> str:
    """The address of another primary of the copy's history, in its epoch or a later one; empty if
    none is found.
    """
    state = follower.state
    named = [state.successor]
    for answer in await asyncio.gather(*(search() for search in follower.searches)):
        named += answer
    asked = [each for each in dict.fromkeys(named) if each not in ("", follower.address)]
    statuses = await asyncio.gather(*(_status(each, follower) for each in asked))
    found = [
        (status.epoch, address)
        for address, status in zip(asked, statuses, strict=True)
        if status is not None
        and status.role == Role.PRIMARY
        and status.history == state.history
        and status.epoch >= state.known_epoch
    ]
    _, address = max(found, default=(0, ""))
    return "" if address == state.primary else address


async def _status(address: str, follower: Follower) -> PeerStatus | None:
    try:
        peer = Peer(address, follower.options, follower.secret)
    except PenstockError:
        return None
    try:
        return await peer.status(ASK_S)
    except PeerError:
        return None
    finally:
        await peer.close()
