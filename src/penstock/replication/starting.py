"""Opening a data path in its role: as a primary's, or as one that takes no publishes.

A node cannot know what it is not told. So a primary that was copied asks its followers at the start
whether one of them was promoted.
"""

from __future__ import annotations

import asyncio
import logging
import os
from typing import Final

from penstock.cluster.exchange import Endpoint
from penstock.core.errors import ConfigError
from penstock.node.node_options import NodeOptions
from penstock.node.ports import Ports
from penstock.replication.peer import Peer, PeerError, PeerStatus
from penstock.replication.secret import Secret
from penstock.replication.standby import EndRole, Standby
from penstock.replication.state import ReplicationState, Role, read_state
from penstock.storage.files.disk import OsDisk

logger = logging.getLogger("penstock.replication")

ASK_S: Final = 10.0
"""The time for an answer. A machine that is gone is given up with its connection, much earlier; a
node that is only slow must not be taken for one, as this one might take publishes in its place.
"""


async def standby_for(
    options: NodeOptions,
    turn: EndRole,
    *,
    is_turn: bool = False,
    ports: Ports | None = None,
    program: str = "nsqd",
) -> Standby | None:
    """The standby over the options' data path, not open yet; None where a primary is to be opened.

    A node that is fenced while it runs (``is_turn``) follows nobody before it is started again: its
    successor may be about to take what it has. Raises ConfigError, StorageError.
    """
    options.check()
    has_http = options.http_address or (options.https_address and options.tls_cert)
    if options.follow and not has_http and not (ports and ports.replication_address):
        raise ConfigError("--follow needs an HTTP port: it is promoted by it")
    if options.follow:
        try:
            Endpoint.of(options.follow).host_and_port()
        except ValueError as error:
            raise ConfigError(
                f"--follow={options.follow}: {error}; give the primary's HTTP address, HOST:PORT"
            ) from error
    data_path = options.data_path or os.getcwd()
    secret = Secret.of(options.replication_secret_file)
    state = _standing_of(data_path)
    # One that was promoted just now has asked the old primary already, which may be silent.
    is_decided = is_turn and state is not None and state.role is not Role.FOLLOWER
    if not is_decided:
        state = await decide(options, state, data_path, secret)
    if state is None or state.role is Role.PRIMARY:
        return None
    return Standby(options, state, secret, turn, ports=ports, program=program)


def _standing_of(data_path: str) -> ReplicationState | None:
    """The standing of a data path; what is not a folder is refused later by the lock.

    Raises ConfigError, StorageError.
    """
    if not os.path.isdir(data_path):
        return None
    if not os.access(data_path, os.R_OK | os.X_OK):
        raise ConfigError(
            f"failed to lock data-path: open {data_path}: permission denied; run "
            "this as the user whom the folder belongs to"
        )
    return read_state(OsDisk(), data_path)


async def decide(
    options: NodeOptions, state: ReplicationState | None, data_path: str, secret: Secret
) -> ReplicationState | None:
    """The standing under which a node starts; None for one that has nothing to do with copies.

    Raises ConfigError where the flags and the data path contradict each other.
    """
    if options.follow:
        return await _as_follower(options, state, secret)
    if state is None or state.role is Role.FENCED:
        return state
    if state.role is Role.FOLLOWER and options.needs_lease:
        return state  # which of them is primary, the lease decides
    if state.role is Role.FOLLOWER:
        raise ConfigError(
            f"the data path {data_path} is a copy of the node at {state.primary}: start it with "
            f"--follow={state.primary}; then `penstock promote` makes it primary"
        )
    return await _unless_outranked(options, state, secret)


async def _as_follower(
    options: NodeOptions, state: ReplicationState | None, secret: Secret
) -> ReplicationState:
    """The standing of a node with ``--follow``; one that was promoted ignores it until the other
    was promoted after it.
    """
    own = state or ReplicationState(epoch=0)
    if state is None or state.role is not Role.PRIMARY:
        own.follow(options.follow)
        return own
    found = await _status(options.follow, options, secret)
    if found is not None and found.history == own.history and found.epoch > own.epoch:
        own.follow(options.follow)
        own.fenced_epoch = max(found.epoch, own.fenced_epoch)
    # It was promoted once, and copies find their primary by themselves: the flag may name any node.
    elif own.primary and (found is None or found.history == own.history):
        own = await _unless_outranked(options, own, secret)
        if own.role is Role.PRIMARY:
            logger.warning(
                "--follow=%s has no effect: this node was promoted, and is primary in "
                "epoch %d; take the flag away",
                options.follow,
                own.epoch,
            )
    else:
        raise ConfigError(
            f"--follow={options.follow}: this data path is a primary's, of epoch {own.epoch}, and "
            f"{'that node is not in a higher one' if found else 'that node cannot be reached'}"
        )
    return own


def _bare(address: str) -> str:
    """An address without the way to ask there, which may have been changed since."""
    return address.removeprefix("https://")


async def _unless_outranked(
    options: NodeOptions, state: ReplicationState, secret: Secret
) -> ReplicationState:
    """The node's standing, or fenced if a node that has copied it was promoted meanwhile."""
    asked = [each for each in dict.fromkeys([*state.followers, state.primary]) if each]
    statuses = await asyncio.gather(*(_status(each, options, secret) for each in asked))
    outranking: list[tuple[int, bool, str]] = []
    for address, found in zip(asked, statuses, strict=True):
        # It starts all the same, or one lost machine would stop two. A successor keeps telling
        # until it is heard (`successor.tell_until_heard`).
        if found is None:
            logger.warning(
                "cannot ask %s whether it was promoted; if it was, it will tell", address
            )
        elif found.history == state.history and found.epoch > state.epoch:
            is_primary = found.role == Role.PRIMARY
            outranking.append((found.epoch, is_primary, _successor(address, found, asked)))
    if outranking:
        # The highest epoch; of equal ones the node that calls itself primary.
        epoch, _, successor = max(outranking)
        state.fence(epoch, successor, None)
    return state


def _successor(address: str, found: PeerStatus, asked: list[str]) -> str:
    """The primary that a node of a higher epoch knows of: itself, or one that has copied us too.

    A fenced node takes the word of its successor alone. One that is just being promoted still names
    the primary that it has followed, which is us.
    """
    others = {_bare(each): each for each in asked}
    return address if found.role == Role.PRIMARY else others.get(_bare(found.primary), address)


async def _status(address: str, options: NodeOptions, secret: Secret) -> PeerStatus | None:
    try:
        peer = Peer(address, options, secret)
    except PeerError:
        return None
    try:
        return await peer.status(ASK_S)
    except PeerError as error:
        logger.warning("%s", error)
        return None
    finally:
        await peer.close()
