"""A node that takes no publishes: the follower of another, or a primary that was fenced.

It opens no broker over its data path, so nothing of it can be published to, consumed, paused or
deleted by mistake: what is not offered here is refused. Promotion closes it, and the data path is
opened as after a crash; that way is tested best of all.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Awaitable, Callable
from contextlib import suppress
from functools import partial
from typing import Final

import msgspec

from penstock.core.clock import SYSTEM_CLOCK, Clock
from penstock.core.counted import counted
from penstock.core.errors import ConfigError, LaterFormatError, PenstockError, StorageError
from penstock.core.units import MILLISECOND, SECOND
from penstock.net.budget import Memory
from penstock.net.gate import ProtocolFactory
from penstock.net.http.server.service import DeferredResponse, HttpServer
from penstock.net.tasks import spawn
from penstock.net.tls.tls_server import over_tls
from penstock.net.vitals.vitals import HEALTHY, Vitals
from penstock.node.node_options import NodeOptions
from penstock.node.ports import Ports, server_tls
from penstock.replication.copied_node import CopiedNode
from penstock.replication.copy import Copy, small_files
from penstock.replication.feed import Source
from penstock.replication.finding import Search, find_primaries
from penstock.replication.following import NOT_OURS, Pulling
from penstock.replication.hooks import Hooks
from penstock.replication.messages import Hello
from penstock.replication.peer import Fence, Peer, PeerError, Successor, address_of
from penstock.replication.secret import Secret
from penstock.replication.state import (
    ReplicationState,
    Role,
    only_here,
    read_state,
    write_state,
)
from penstock.replication.successor import ASK_S, shown, tell
from penstock.storage.files.patient_disk import PatientDisk
from penstock.storage.log import LogOptions
from penstock.storage.store import Store

logger = logging.getLogger("penstock.replication")


class SteppedBackError(PenstockError):
    """The old primary has stepped back for another node."""

    def __init__(self, primary: str, successor: Successor) -> None:
        winner, epoch = successor.primary, successor.epoch
        super().__init__(
            f"not promoted: {primary} has stepped back for {winner} already, in epoch {epoch}: "
            f"start this node with --follow={winner}; if that one is gone for good, promote this "
            "one with --force"
        )
        self.successor = successor


class NotWholeError(PenstockError):
    """A copy that lacks what is known about; ``behind`` is the number of messages by topic."""

    def __init__(self, text: str, behind: dict[str, int]) -> None:
        super().__init__(text)
        self.behind = behind


class LagError(PenstockError):
    """A promotion that might lose more than ``--promote-max-lag``."""


EndRole = Callable[[], Awaitable[None] | None]
"""A way to end a node's role; what is given is done once it serves in the next one."""
DRAIN_S: Final = 30.0
TRIES_MAX: Final = 2
"""A forced promotion begins again where the old primary has stepped back for another node."""
_REMEDIES: Final = {
    "nsqd": "--follow={} makes it a copy",
    "mqbroker": "brokerRole=SLAVE and a brokerId above 0 make it a copy",
}
"""The way of a fenced node to be of use again, by program; the primary's address goes in."""


class Standby:
    """The data path and ports of a follower or fenced node; ``turn`` is called when it is
    promoted.
    """

    def __init__(
        self,
        options: NodeOptions,
        state: ReplicationState,
        secret: Secret,
        turn: EndRole,
        clock: Clock = SYSTEM_CLOCK,
        ports: Ports | None = None,
        program: str = "nsqd",
    ) -> None:
        """Open what an earlier run has left. Raises ConfigError, StorageError."""
        self.options = options
        self.state = state
        self.secret = secret
        self.clock = clock
        self.ports = ports or Ports(options)
        self.memory = Memory.of(options)
        self._hooks = Hooks(options, self.ports)
        self._turn = turn
        self._data_path = options.data_path or os.getcwd()
        is_own = not state.history or not state.is_settled
        self._disk = PatientDisk()
        self.copy = Copy(
            _open_store(options, self._data_path, self._disk),
            never_drop=is_own,
            moment=f"{clock.wall_ns()}",
        )
        self.copy.refuse_foreign = not state.history and bool(self.copy.topics)
        state.was_whole = state.was_whole and not self.copy.is_retaking
        self._program = program
        self._remedy = _REMEDIES[program]
        self.vitals = Vitals(program, clock, health=lambda: self.health)
        self.vitals.checks.append(lambda: [f"NOK - {self.refusal}"])
        hello = Hello(os.urandom(8).hex(), state.history, state.epoch)
        self.source = Source(self.copy.served, partial(small_files, self.copy.store), hello)
        self.pulling: Pulling | None = None
        self.promoters: set[DeferredResponse] = set()
        """The answers to those who promote this node, who have them once it takes publishes."""
        self.serves: Awaitable[None] | None = None
        """Done then; None before the promotion."""
        self.searches: list[Search] = []
        """Ways to learn of nodes, of which one may be the primary once the one before is gone."""
        self.stepped: list[Callable[[], None]] = []
        """Called when an answer was taken (``Pulling.stepped``)."""
        self._finding: asyncio.Task[None] | None = None
        self._peer: Peer | None = None
        self._http: HttpServer | None = None
        self._promoting = asyncio.Lock()
        self._in_sync = False
        """True if a lease says that all that the primary acknowledged is here."""
        self._epoch_least = 0

    async def open(self, http: HttpServer, tcp: ProtocolFactory | None = None) -> None:
        """Open the ports and follow; ``tcp`` answers NSQ's clients, where their port is open.

        Raises ConfigError, ListenError, StorageError.
        """
        self._http = http
        tls = server_tls(self.options)
        https = over_tls(tls, self._http, logger) if tls is not None else None
        if self.ports.replication_address:
            await self.ports.open_replication(self._http)
        await self.ports.open(tcp, self._http, https)
        self.vitals.start()
        if read_state(self.copy.store.disk, self._data_path) != self.state:
            self.save()  # else it follows on a full disk too
        self._disk.hand.watch()
        # It follows nobody by itself while some messages may be here alone.
        if self.state.role is Role.FENCED:
            logger.error("%s; %s", self.refusal, self._only_here_told())
            self._return_as_copy()
        else:
            self._follow()

    def _follow(self) -> None:
        """Begin to follow the primary."""
        self._peer = Peer(self.state.primary, self.options, self.secret)
        self.pulling = Pulling(
            self.copy, self.state, self._peer, self.clock, self.save, self.options.sync_timeout
        )
        self.pulling.address = self.address
        self.pulling.stepped = self.stepped
        self.pulling.start()
        if self._finding is None:
            self._finding = spawn(find_primaries(self), "find the primary")

    @property
    def is_lost(self) -> bool:
        """True while this copy follows nobody, and is not being promoted."""
        is_following = self.pulling is None or self.pulling.error is None
        return not (is_following or self._promoting.locked())

    async def follow_instead(self, primary: str) -> None:
        """Follow another node from now on. Raises PenstockError."""
        async with self._promoting:
            if self.pulling is None or self.state.role is not Role.FOLLOWER:
                return
            await self.pulling.stop()
            if self._peer is not None:
                await self._peer.close()
            self.state.follow(primary)
            self.save()
            self._follow()

    def _return_as_copy(self) -> None:
        """Follow the successor of this fenced node if nothing is here alone, where nodes change
        their roles by themselves. Raises StorageError.
        """
        state = self.state
        # It says where its epoch began once it is primary: then it has taken all that it wants.
        is_told = state.fork is not None and bool(state.primary)
        is_nsqd = self._program == "nsqd"
        changes = self.options.follow or (is_nsqd and self.options.needs_lease)
        if not (is_told and changes) or self.pulling is not None or self.only_here():
            return
        logger.warning("nothing is here alone: this node becomes a copy of %s", state.primary)
        state.follow(state.primary)
        self.save()
        if is_nsqd:
            self._follow()
        else:  # it opens other ports as a copy
            self._turn()

    def node(self) -> CopiedNode:
        """The copy as a node of another dialect, which only reads."""
        options = self.options.replace(
            group_retention=0, replicas_acked=0, e2e_processing_latency_percentiles=()
        )
        node = CopiedNode(self.copy, options, self.clock, self.memory)
        node.vitals = self.vitals
        return node

    def save(self) -> None:
        """Write the standing down. Raises StorageError."""
        write_state(self.copy.store.disk, self._data_path, self.state)

    def take_state(self, state: ReplicationState) -> None:
        """Take what the successor tells a fenced node. Raises StorageError."""
        write_state(self.copy.store.disk, self._data_path, state)
        self.state = state
        logger.error("%s; %s", self.refusal, self._only_here_told())
        self._return_as_copy()

    # --- what it says --------------------------------------------------------------------------

    @property
    def role(self) -> Role:
        """The node's role as others see it: a promoted follower is primary once it takes publishes,
        which this object never does.
        """
        role = self.state.role
        return Role.FOLLOWER if role is Role.PRIMARY else role

    @property
    def address(self) -> str:
        """The address at which other nodes ask this one."""
        return address_of(self.options, self.ports)

    @property
    def promotion_s(self) -> float:
        """The time that the hook before a promotion and the old primary may take, in seconds."""
        options = self.options
        hook_s = options.promote_hook_timeout / SECOND if options.promote_before_hook else 0
        return TRIES_MAX * (hook_s + ASK_S) + DRAIN_S

    @property
    def code(self) -> str:
        """NSQ's code of the refusal."""
        return "E_FENCED" if self.state.role is Role.FENCED else "E_FOLLOWER"

    @property
    def refusal(self) -> str:
        """The reason why nothing is taken here, and where it is."""
        state = self.state
        if state.role is Role.FENCED:
            remedy = self._remedy.format(state.primary or "HOST:PORT")
            return (
                f"fenced: {state.primary or 'another node'} is primary in epoch "
                f"{state.fenced_epoch}, this node was in epoch {state.epoch}; "
                f"{remedy}"
            )
        return f"a copy of the node at {state.primary}, which takes publishes and consumers"

    def refusal_line(self) -> str:
        """The refusal as NSQ's clients read it: its code, then the reason."""
        return f"{self.code} {self.refusal}"

    def only_here(self) -> dict[str, int]:
        """Messages of a fenced node that its successor has not, by topic."""
        if self.state.role is not Role.FENCED or self.state.fork is None:
            return {}
        return only_here(self.state.fork or {}, self.copy.ends)

    def _only_here_told(self) -> str:
        if self.state.fork is None:
            return "how many messages only this node has is not known before the other tells"
        found = self.only_here()
        if not found:
            return "all its messages are there"
        return f"messages that only this node has: {shown(found)}"

    @property
    def health(self) -> str:
        """``OK``, or why this node does not follow."""
        if self.state.role is Role.FENCED:
            return f"NOK - {self.refusal}"
        if problem := self._disk.problem(self._data_path):
            return f"NOK - {problem}"
        error = self.pulling.error if self.pulling is not None else None
        return HEALTHY if error is None else f"NOK - cannot follow: {error}"

    # --- promotion -----------------------------------------------------------------------------

    async def promote(
        self, *, force: bool = False, in_sync: bool = False, epoch: int = 0
    ) -> dict[str, object]:
        """Become primary: the old one is asked to step back, and all it has is taken, if it can be
        reached. Raises PenstockError; then this node goes on as it was.

        A copy that is not whole is not promoted unless by ``force``, reachable primary or not:
        what it lacks may take longer to come than an old primary that has stepped back can wait.
        ``in_sync``: a lease says that it has all that was acknowledged, however long it has heard
        nothing. ``epoch`` is the least one that it may have.
        """
        self._in_sync, self._epoch_least = in_sync, epoch
        async with self._promoting:
            if self.pulling is None or self._peer is None or not self.state.history:
                raise PenstockError("only a follower that has followed can be promoted")
            if self.state.role is Role.PRIMARY:
                raise PenstockError("this node is being promoted already")
            if not force:
                self._check_whole()
                if self.pulling.error is not None:
                    self._check_lag()
            try:
                return await self._try(self.pulling, self._peer, force=force)
            except SteppedBackError as error:
                taken = error.successor
                self.pulling.hear(taken.epoch, taken.primary)
                if taken.primary != self.address and not force:
                    raise
                return await self._try(self.pulling, self._peer, force=force)

    def _check_whole(self) -> None:
        """Raise SteppedBackError or NotWholeError for a copy that only force makes primary."""
        state = self.state
        if state.successor:
            successor = Successor(state.fenced_epoch, state.successor)
            raise SteppedBackError(state.primary, successor)
        if not state.was_whole:
            raise NotWholeError(self._lacks(), self.copy.behind)

    @property
    def lag_refusal(self) -> str:
        """The reason why a promotion needs force by ``--promote-max-lag``, where the primary is
        gone; empty if it needs none.
        """
        bound, pulling = self.options.promote_max_lag, self.pulling
        reason = "" if pulling is None or self._in_sync else pulling.lag_beyond(bound)
        if not reason or pulling is None:
            return ""
        copied = (
            f"{self.state.primary} acknowledged only what a copy has, so nothing is lost if no "
            "other node has copied it: "
            if pulling.acked
            else ""
        )
        return (
            f"{reason}, which is beyond --promote-max-lag={bound}: {copied}"
            "wait until it follows again, or promote it with --force"
        )

    @property
    def needs_force(self) -> str:
        """The reason why only force makes this node primary now; empty if it needs none."""
        try:
            self._check_whole()
        except PenstockError as error:
            return str(error).removeprefix("not promoted: ")
        is_followed = self.pulling is not None and self.pulling.error is None
        return "" if is_followed else self.lag_refusal

    def _check_lag(self) -> None:
        """Raise LagError where the primary may have acknowledged too much that is not here."""
        if reason := self.lag_refusal:
            raise LagError(f"not promoted: this copy may lack too much: {reason}")

    async def _try(self, pulling: Pulling, peer: Peer, *, force: bool) -> dict[str, object]:
        """Become primary in the next epoch. Raises PenstockError; then this node follows on."""
        facts = self._facts(pulling, force=force)
        # The hook comes first: it may refuse, and until it agrees this copy goes on following.
        least = max(self.state.next_epoch, self._epoch_least)
        epoch = await self._hooks.before(self.state, least, facts)
        # From here on this copy moves only by ``_drain``.
        await pulling.stop()
        try:
            return await self._promote(pulling, peer, epoch, force=force)
        except PenstockError:
            pulling.resume()
            raise

    def _lacks(self) -> str:
        """The messages that this node knows a promotion would lose."""
        behind = self.copy.behind
        known = (
            f"at least {counted(sum(behind.values()), 'message')} ({shown(behind)})"
            if behind
            else "how many messages is not known here"
        )
        return (
            f"not promoted: this copy is not whole, it had not got all that "
            f"{self.state.primary} had when it last heard from it; what would be lost: "
            f"{known}, and topics that it has not begun; wait until it is whole, or lose them "
            "with --force"
        )

    def _facts(self, pulling: Pulling, *, force: bool) -> dict[str, str]:
        """The state of the copy, in the environment of a hook that decides."""
        seconds = seconds_up(pulling.lag_ns)
        return {
            "PENSTOCK_MAX_LAG": str(self.options.promote_max_lag),
            "PENSTOCK_LAG_MESSAGES": str(self.copy.messages_behind),
            "PENSTOCK_WHOLE": "true" if self.state.was_whole else "false",
            "PENSTOCK_FORCE": "true" if force else "false",
            "PENSTOCK_LAG_SECONDS": "" if seconds is None else f"{seconds:g}",
        }

    async def _promote(
        self, pulling: Pulling, peer: Peer, epoch: int, *, force: bool
    ) -> dict[str, object]:
        was_told = await self._step_back(pulling, peer, epoch)
        is_whole = was_told and await self._drain(pulling)
        if not is_whole and not force:
            self._check_lag()  # again: now it is known that the rest does not come
        lost_ns = pulling.lag.ns
        # Each follower had it before the OK, and this is one of them.
        is_copied = self._in_sync or (pulling.acked >= pulling.copies > 0 and not self.lag_refusal)
        for copy in self.copy.topics.values():
            copy.cancel_commit()
        # Much may be unsynced; the ports answer meanwhile.
        # Before the new epoch is written down: it begins at ends that survive a power cut.
        await asyncio.to_thread(self.copy.sync)
        # A copy: this node stays what it was until the new standing is on disk.
        promoted = msgspec.structs.replace(self.state)
        promoted.promote(self.copy.ends, epoch)
        promoted.owes_hook = bool(self.options.promote_after_hook)
        # The epochs before the standing. A crash in between leaves a follower with a mark too many;
        # a primary without its mark would give out offsets that readers saw other messages at.
        take_back = self.copy.store.epochs.promoted(self.copy.ends)
        try:
            write_state(self.copy.store.disk, self._data_path, promoted)
        except StorageError:
            with suppress(StorageError):  # as after the crash
                take_back()
            raise
        self.state = promoted
        logger.warning("promoted: primary in epoch %d", promoted.epoch)
        self.serves = self._turn()
        return {
            "role": promoted.role,
            "epoch": promoted.epoch,
            "old_primary_told": was_told,
            "before_hook": bool(self.options.promote_before_hook),
            "whole": is_whole,
            "copied": is_copied,
            "lag_seconds": 0 if is_whole else seconds_up(lost_ns),
            "lag_messages": self.copy.messages_behind,
        }

    async def _step_back(self, pulling: Pulling, peer: Peer, epoch: int) -> bool:
        fence = Fence(self.state.history, epoch, self.address, None)
        try:
            return await tell(peer, fence, pulling.unreached)
        except PeerError as error:
            # Nobody of this history is there, so nobody there can give an OK for it.
            if error.code in NOT_OURS:
                return False
            if error.code == "FOLLOWER":
                return False  # it takes nothing, and has heard of no such epoch
            if error.code == "STEPPED_BACK":
                raise SteppedBackError(peer.address, error.successor) from error
            raise PenstockError(f"not promoted: {error}") from error

    async def _drain(self, pulling: Pulling) -> bool:
        """Take what the old primary has, which no longer grows; False if that fails."""
        # Earlier answers do not count: the old primary may have taken more before it stepped back.
        self.copy.is_whole = False
        with suppress(TimeoutError):
            async with asyncio.timeout(DRAIN_S):
                while not self.copy.is_whole:
                    try:
                        await pulling.step()
                    except PenstockError as error:  # it opens its ports again just now
                        logger.info("%s", error)
                        await asyncio.sleep(0.05)
                return True
        return False

    # --- the end -------------------------------------------------------------------------------

    async def close(self) -> None:
        """End all connections and close the data path."""
        await self.ports.close()
        if self._finding is not None:
            self._finding.cancel()
            with suppress(asyncio.CancelledError):
                await self._finding
        if self.pulling is not None:
            await self.pulling.stop()
        self._disk.hand.rest()
        if self._peer is not None:
            await self._peer.close()
        if self._http is not None:
            self._http.close_connections(but_for=self.promoters)
        self.vitals.close()
        try:
            self.copy.close()
        except StorageError as error:
            logger.critical("failed to save everything - %s", error)


def seconds_up(nanoseconds: int | None) -> float | None:
    """Seconds with three places, rounded up: the figure promises what is not older."""
    return None if nanoseconds is None else -(-nanoseconds // MILLISECOND) / 1000


def _open_store(options: NodeOptions, data_path: str, disk: PatientDisk) -> Store:
    """Open the store of the data path. Raises ConfigError, LaterFormatError."""
    log_options = LogOptions(
        options.max_bytes_per_file, max(0, options.mem_queue_size), options.durability
    )
    try:
        return Store(disk, data_path, log_options)
    except LaterFormatError:
        raise
    except StorageError as error:
        raise ConfigError(f"failed to lock data-path: {error}") from error
