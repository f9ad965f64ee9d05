"""The followers of a node that takes publishes: their requests are answered, their lag is known.

A publish calls nothing here. While a follower waits for news, the housekeeping's tick looks
whether any log has grown; while none waits, there is nothing to look at.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Annotated, Any, Final

import msgspec
from msgspec import Struct

from penstock.core.errors import StorageError
from penstock.core.malformed import MALFORMED
from penstock.core.units import SECOND
from penstock.net.http.server.service import DeferredResponse, Request, Response
from penstock.net.http.server.v1_api import ApiError, ApiRouter, json_response
from penstock.net.tasks import spawn
from penstock.node.followers import FOLLOWERS_MAX
from penstock.node.node_options import NodeOptions
from penstock.node.ports import Ports
from penstock.replication.copy import small_files
from penstock.replication.feed import CopiedTopic, Source
from penstock.replication.hooks import Hooks
from penstock.replication.messages import Fetch, Hello, ReplicationError, decode_fetch
from penstock.replication.pace import Pace
from penstock.replication.peer import Fence, Peer, address_of
from penstock.replication.secret import Secret
from penstock.replication.state import (
    ReplicationState,
    Role,
    read_state,
    write_state,
)
from penstock.replication.successor import tell_until_heard
from penstock.storage.durability import Durability
from penstock.storage.log import Log

if TYPE_CHECKING:
    from penstock.node.node import Node

logger = logging.getLogger("penstock.replication")

WAIT_NS: Final = SECOND // 2
"""A request that there is no news for is answered after this time all the same: half of what a
copy may lag by default, so that an idle node's copy does not."""
# Room for all topics that a request may name (`messages.TOPICS_MAX`), 160 bytes each.
FETCH_BODY_MAX: Final = 16 * 1024 * 1024
WAITING_MAX: Final = 32
GONE_NS: Final = 60 * SECOND
"""A follower that has not asked for longer is not shown any more."""
GRANT_NS_MAX: Final = 3600 * SECOND
"""The longest lease."""
_FILES_NS: Final = SECOND
_LOOK_SHARE: Final = 20  # with thousands of topics, looking for news may take this part of the time


class Follower(Struct, eq=False):
    """A follower as it was when it asked last."""

    address: str
    pace: Pace
    asked_ns: int = 0
    messages: int = 0
    nbytes: int = 0
    room: int | None = None
    """The bytes of its answer with the next tick; None: at once, as many as it asks for."""


class _Waiting(Struct, eq=False):
    """A request that waits for news, or for its time."""

    fetch: Fetch
    later: DeferredResponse
    pace: Pace
    asked_ns: int
    until_ns: int = 0


class Grant(Struct):
    """The lease of a primary in its epoch, until a time of its monotonic clock; ``members`` are
    copies that have to have everything.
    """

    epoch: int
    until_ns: int
    members: Annotated[list[str], msgspec.Meta(max_length=FOLLOWERS_MAX)] = []


class Primary:
    """The primary's side over a node. ``turn`` is called when the node may not be primary any
    more.
    """

    def __init__(
        self, node: Node, state: ReplicationState | None, secret: Secret, turn: Callable[[], object]
    ) -> None:
        self.state = state
        self.followers: dict[str, Follower] = {}
        self._node = node
        self._secret = secret
        self._turn = turn
        # Positions in journals (`Journal.rewrites`) mean something within one run only.
        self._run = os.urandom(8).hex()
        self._source: Source | None = None
        self._waiting: dict[_Waiting, None] = {}
        self._files: dict[str, bytes] = {}
        self._files_at = 0
        self._look_at = 0
        self._peer: Peer | None = None
        node.followers.ask = self._news
        if node.replicas is not None:
            node.replicas.on_news = self._news
        self._tasks: list[asyncio.Task[None]] = []

    @classmethod
    def of(cls, node: Node, options: NodeOptions, turn: Callable[[], object]) -> Primary:
        """The primary's side of a node. Raises ConfigError, StorageError."""
        store = node.broker.store
        state = read_state(store.disk, store.data_path)
        return cls(node, state, Secret.of(options.replication_secret_file), turn)

    def start(self, options: NodeOptions, ports: Ports) -> None:
        """Tell the primary before, if it may not know, that this node was promoted, and the
        operator's command.
        """
        state = self.state
        if state is None:
            return
        if state.owes_hook:
            self._tasks.append(spawn(self._run_hook(Hooks(options, ports), state), "hook"))
        if not state.owes_fence:
            return
        self._peer = Peer(state.primary, options, self._secret)
        fence = Fence(state.history, state.epoch, address_of(options, ports), state.fork)
        self._tasks.append(spawn(tell_until_heard(self._peer, fence, self._heard), "tell"))

    async def _run_hook(self, hooks: Hooks, state: ReplicationState) -> None:
        await hooks.after(state)
        if self.state is state:  # it is another one's once this node is fenced
            state.owes_hook = False
            self._note_done(state)

    def _heard(self) -> None:
        assert self.state is not None
        self.state.owes_fence = False
        self._note_done(self.state)

    def _note_done(self, state: ReplicationState) -> None:
        """Write down that something owed is done; else the next start does it again."""
        try:
            self._store(state)
        except StorageError as error:
            logger.error("cannot write down what this node owed as primary - %s", error)

    async def close(self) -> None:
        """End what ``start`` began."""
        for task in self._tasks:
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task
        if self._peer is not None:
            await self._peer.close()

    def add_routes(self, router: ApiRouter) -> None:
        router.v1("GET", "/replication", self._status, quiet=True)
        router.v1("POST", "/replication/fetch", self._fetch, max_body=FETCH_BODY_MAX, quiet=True)
        router.v1("POST", "/replication/fence", self._fence)
        router.v1("POST", "/replication/lease", self._lease, quiet=True)

    # --- what followers are given --------------------------------------------------------------

    def _served(self) -> Iterator[CopiedTopic]:
        for topic in self._node.broker.topics.values():
            if isinstance(topic.log, Log) and topic.journal.file is not None:
                yield CopiedTopic(topic.name, topic.log, topic.journal.file, topic.queues)

    def _small_files(self) -> Mapping[str, bytes]:
        """The small files, at most a second old: older than the journals is right, newer is not."""
        now = self._node.clock.monotonic_ns()
        if now >= self._files_at:
            self._files = small_files(self._node.broker.store)
            self._files_at = now + _FILES_NS
        return self._files

    def _fetch(self, request: Request) -> DeferredResponse:
        self._secret.check(request)
        fetch = fetch_of(request)
        source = self._source_for(fetch)
        follower = self._note(fetch)
        # Of another run it says nothing: its logs are compared first, after the Hello.
        if fetch.run == self._run:
            self._count_copy(source, fetch)
        waiting = _Waiting(fetch, DeferredResponse(), follower.pace, follower.asked_ns)
        is_full = len(self._waiting) >= WAITING_MAX
        # One that is behind keeps its way even where strangers have taken all places to wait.
        if fetch.run != self._run or (fetch.hurry and (is_full or follower.room is None)):
            self._complete(waiting)
            # A Hello, or one that catches up: its next request says how far this answer brought it.
            return waiting.later
        if is_full:
            raise ApiError(503, "TOO_MANY_FOLLOWERS")
        if fetch.hurry and follower.room is not None:
            fetch.nbytes = min(fetch.nbytes, follower.room)
        else:
            waiting.until_ns = follower.asked_ns + WAIT_NS
        waiting.later.abandoned = lambda: self._gone(waiting)
        self._waiting[waiting] = None
        return waiting.later

    def _gone(self, waiting: _Waiting) -> None:
        """Forget a follower whose connection is closed: it does not follow any more."""
        self._waiting.pop(waiting, None)
        self._node.followers.gone(waiting.fetch.address)

    def tick(self, now: int) -> None:
        """Answer those for whom there is news, or whose time is over."""
        if not self._waiting or now < self._look_at:
            return
        ready = self._ready(now)
        spent = self._node.clock.monotonic_ns() - now
        # As in housekeeping: the dearer the look, the longer the pause.
        self._look_at = now + min(_LOOK_SHARE * spent, WAIT_NS)
        self._answer(ready)

    def _news(self) -> None:
        """An OK waits for copies."""
        if self._waiting:
            self._answer(self._ready(self._node.clock.monotonic_ns()))

    def _ready(self, now: int) -> list[_Waiting]:
        return [each for each in self._waiting if now >= each.until_ns or self._has_news(each)]

    def _has_news(self, waiting: _Waiting) -> bool:
        assert self._source is not None
        try:
            return self._source.has_news(waiting.fetch)
        except StorageError:  # which the answer says
            return True

    def _answer(self, ready: list[_Waiting]) -> None:
        for each in ready:
            del self._waiting[each]
            self._complete(each)

    def _complete(self, waiting: _Waiting) -> None:
        assert self._source is not None
        waited_ns = self._node.clock.monotonic_ns() - waiting.asked_ns
        response = answer_to(self._source, waiting.fetch, waited_ns)
        waiting.pace.sent(response.body_size())
        waiting.later.complete(response)

    def _source_for(self, fetch: Fetch) -> Source:
        """The source for a follower that may have it. ApiError 409 or 500."""
        # What the log holds back in memory a follower would have, and a kill would take from here.
        if self._node.broker.store.options.durability is Durability.MEMORY:
            raise ApiError(409, "DURABILITY_MEMORY_IS_NOT_COPIED")
        state = self._own_standing()
        if state.role is Role.FENCED:
            # What its end writes down is still to come; then a standby hands over all of it.
            raise ApiError(503, "STEPPING_BACK")
        # Empty: a copy that has just been made, and takes whichever history it is given.
        if fetch.history not in ("", state.history):
            raise ApiError(409, "OTHER_HISTORY")
        # It has followed a later primary: this node was outranked, and has not heard of it yet.
        if fetch.epoch > state.epoch:
            raise ApiError(409, "LOWER_EPOCH")
        if self._source is None:
            hello = Hello(self._run, state.history, state.epoch, state.fork or {})
            self._source = Source(self._served, self._small_files, hello, self._acked)
        return self._source

    def _acked(self) -> tuple[int, int]:
        """The copies that have whatever this node acknowledges, of how many that follow."""
        replicas = self._node.replicas
        acked = replicas.promised if replicas is not None else 0
        return acked, len(self._node.followers)

    def _own_standing(self) -> ReplicationState:
        """The standing, made with the first follower. ApiError 500."""
        if self.state is None:
            state = ReplicationState(os.urandom(16).hex())
            # Durable before anybody copies it: a copy must not outlive the history that it names.
            self.write(state)
            self.state = state
        return self.state

    def write(self, state: ReplicationState) -> None:
        """Write a standing down. ApiError 500."""
        try:
            self._store(state)
        except StorageError as error:
            raise ApiError(500, "INTERNAL_ERROR") from error

    def _store(self, state: ReplicationState) -> None:
        store = self._node.broker.store
        write_state(store.disk, store.data_path, state)

    def _note(self, fetch: Fetch) -> Follower:
        """Remember who asks: a start asks those nodes whether one of them is primary now.

        Those who follow keep their place; for one more than there may be it is ApiError 503.
        """
        state = self._own_standing()
        if fetch.address not in self.followers and len(self.followers) >= FOLLOWERS_MAX:
            self.followers = {each.address: each for each in self.present()}
            if len(self.followers) >= FOLLOWERS_MAX:
                raise ApiError(503, "TOO_MANY_FOLLOWERS")
        known = state.followers
        # Without a history it has followed nobody yet, so it cannot have been promoted meanwhile.
        if fetch.address and fetch.address not in known and fetch.history:
            if len(known) >= FOLLOWERS_MAX:
                known = [each for each in known if each in self.followers]
            known = [*known, fetch.address][-FOLLOWERS_MAX:]
            self.write(msgspec.structs.replace(state, followers=known))
            state.followers = known
        follower = self.followers.get(fetch.address)
        if follower is None:
            follower = self.followers[fetch.address] = Follower(fetch.address, Pace())
        self._measure(follower, fetch)
        return follower

    def _measure(self, follower: Follower, fetch: Fetch) -> None:
        """Note what a follower lacks, and how soon it gets how much of that."""
        held = {each.topic: each.next for each in fetch.held}
        logs = [(each.log, held.get(each.name, 0)) for each in self._served()]
        follower.asked_ns = self._node.clock.monotonic_ns()
        follower.messages = sum(
            max(0, log.next_offset - max(next_, log.start_offset)) for log, next_ in logs
        )
        follower.nbytes = sum(log.bytes_from(max(next_, log.start_offset)) for log, next_ in logs)
        head = sum(log.next_offset for log, _ in logs)
        room = follower.pace.room(follower.asked_ns, head, follower.nbytes)
        # Where an OK, or a SYNC_MASTER's answer, waits for copies, publishes gain by a follower
        # that is there soon.
        follower.room = None if self._node.followers.changed else room

    def _count_copy(self, source: Source, fetch: Fetch) -> None:
        """Tell those who wait for this follower how far it is, if it keeps as the node does what it
        has.
        """
        followers = self._node.followers
        is_fsync = self._node.broker.store.options.durability is Durability.FSYNC
        # An OK of ``fsync`` promises stable storage at each copy that it counts.
        if not followers.changed or not fetch.address or (is_fsync and not fetch.is_synced):
            return
        followers.heard(fetch.address, source.copied(fetch))

    # --- its lease -----------------------------------------------------------------------------

    def _lease(self, request: Request) -> Any:
        """Acknowledge for some more seconds what the members have too."""
        self._secret.check(request)
        lease, replicas = self._node.lease, self._node.replicas
        if lease is None or replicas is None:
            raise ApiError(409, "NEEDS_NO_LEASE")
        try:
            grant = msgspec.json.decode(request.body, type=Grant)
        except MALFORMED:
            raise ApiError(400, "INVALID_BODY") from None
        state = self._own_standing()
        if state.role is not Role.PRIMARY or grant.epoch != state.epoch:
            raise ApiError(409, "OTHER_EPOCH", epoch=state.known_epoch)
        longest = self._node.clock.monotonic_ns() + GRANT_NS_MAX
        lease.grant(min(grant.until_ns, longest), tuple(grant.members))
        replicas.granted()
        return self.figures()

    # --- the end of being primary --------------------------------------------------------------

    def _fence(self, request: Request) -> Any:
        """A node of a higher epoch is primary: take no more publishes from now on."""
        self._secret.check(request)
        fence = fence_of(request)
        state = self.state
        if state is None or fence.history != state.history:
            raise ApiError(409, "OTHER_HISTORY")
        if fence.epoch <= state.epoch:
            raise ApiError(409, "LOWER_EPOCH", epoch=state.epoch)
        if state.is_other_s(fence.epoch, fence.address):
            raise succeeded("STEPPED_BACK", state)
        fenced = msgspec.structs.replace(state)
        fenced.fence(fence.epoch, fence.address, fence.fork)
        # On disk before anything acts on it: after a crash this node must not come back as primary.
        self.write(fenced)
        self.state = fenced
        # At once: the ports close only when the role has ended, and no OK may be given meanwhile.
        for topic in self._node.broker.topics.values():
            # Publishes and channels are refused by it as in a deletion, and nothing is deleted.
            topic.exiting = True
        self._turn()
        return {"role": fenced.role, "epoch": fenced.epoch}

    # --- figures -------------------------------------------------------------------------------

    def present(self) -> list[Follower]:
        """The followers that have asked lately."""
        least = self._node.clock.monotonic_ns() - GONE_NS
        return [each for each in self.followers.values() if each.asked_ns >= least]

    def figures(self) -> dict[str, Any] | None:
        """The node's part of /stats; None of a node that was never copied, nor is to be."""
        state = self.state
        level = self._node.replicas.figures() if self._node.replicas is not None else {}
        if state is None:
            none: dict[str, Any] = {"role": Role.PRIMARY, "epoch": 0, "followers": []}
            if self._node.lease is not None:
                none["lease"] = self._node.lease.figures()
            return none | level if level else None
        now = self._node.clock.monotonic_ns()
        logs = [(each.name, each.log) for each in self._served()]
        lease = self._node.lease
        followers = [
            {
                "address": each.address,
                "has_all": self._node.followers.has_all(each.address, logs),
                "lag_messages": each.messages,
                "lag_bytes": each.nbytes,
                "asked_seconds_ago": round((now - each.asked_ns) / SECOND, 3),
            }
            for each in self.present()
        ]
        return {
            "role": state.role,
            "epoch": state.epoch,
            "history": state.history,
            "followers": followers,
            **({"before": state.primary} if state.primary else {}),
            **({"lease": lease.figures()} if lease is not None else {}),
            **level,
        }

    def _status(self, request: Request) -> Response:
        figures = self.figures()
        return json_response(figures or {"role": Role.PRIMARY, "epoch": 0, "followers": []})


def succeeded(code: str, state: ReplicationState) -> ApiError:
    """The refusal of a node that has a successor: ``FENCED`` for those that would follow it,
    ``STEPPED_BACK`` for a second successor, as of two that are promoted at once one wins.
    """
    primary = state.successor or state.primary
    return ApiError(409, code, epoch=state.known_epoch, primary=primary)


def fence_of(request: Request) -> Fence:
    """The fence in a request. ApiError 400."""
    try:
        return msgspec.json.decode(request.body, type=Fence)
    except MALFORMED:
        raise ApiError(400, "INVALID_BODY") from None


def fetch_of(request: Request) -> Fetch:
    """The request of a follower. ApiError 400."""
    try:
        return decode_fetch(request.body)
    except ReplicationError as error:
        raise ApiError(400, "INVALID_BODY", why=str(error)) from None


def answer_to(source: Source, fetch: Fetch, waited_ns: int = 0) -> Response:
    """The answer to a request that came ``waited_ns`` ago."""
    try:
        pieces = source.answer(fetch, waited_ns)
    except StorageError:
        return json_response({"message": "INTERNAL_ERROR"}, 500)
    return Response(
        200,
        [bytes(each) if isinstance(each, bytearray) else each for each in pieces],
        "application/octet-stream",
    )
