"""A promoted node's message to the former primary, who is primary now: repeated until heard."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable
from typing import Final

import msgspec

from penstock.replication.peer import Fence, Peer, PeerError

logger = logging.getLogger("penstock.replication")

ASK_S: Final = 2.0
TELL_S: float = 0.5
"""The time until it is told again, doubled each time."""
TELL_S_MAX: Final = 10.0
_FINAL: Final = ("OTHER_HISTORY", "LOWER_EPOCH", "STEPPED_BACK", "NOT_FOUND")
"""Refusals after which there is nothing more to tell."""


async def tell(
    peer: Peer, fence: Fence, unreached: Callable[[PeerError], None] = lambda error: None
) -> bool:
    """Tell a node that there is a primary of a higher epoch; False if it cannot be reached, after
    ``unreached`` was called.

    Raises PeerError if it refuses.
    """
    try:
        await peer.post("/replication/fence", msgspec.json.encode(fence), ASK_S)
    except PeerError as error:
        # A code means that somebody has answered; without one the node cannot be reached.
        if error.code:
            raise
        unreached(error)
        return False
    return True


async def tell_until_heard(peer: Peer, fence: Fence, heard: Callable[[], None]) -> None:
    """Tell the primary before, again and again, until it has taken it or has it from elsewhere."""
    pause = TELL_S
    while True:
        try:
            told = await tell(peer, fence)
        except PeerError as error:
            logger.error(
                "the primary before does not take that this node is primary in epoch %d: %s",
                fence.epoch,
                error,
            )
            told = error.code in _FINAL
        if told:
            heard()
            return
        await asyncio.sleep(pause)
        pause = min(2 * pause, TELL_S_MAX)


def shown(only_here: dict[str, int], topics_max: int = 10) -> str:
    """The number of messages by topic, as a line of text."""
    found: Iterable[tuple[str, int]] = sorted(only_here.items(), key=lambda each: -each[1])
    listed = [f"{count} of {topic}" for topic, count in found]
    more = f" and of {len(listed) - topics_max} more topics" if len(listed) > topics_max else ""
    return ", ".join(listed[:topics_max]) + more
