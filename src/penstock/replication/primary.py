"""The followers of a node that takes publishes: they are sent what is new, their lag is known.

A publish calls nothing here unless its OK waits for copies. The housekeeping's tick looks whether
any log has grown, for as long as anybody follows.
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
from penstock.net.http.server.service import Request, Response
from penstock.net.http.server.v1_api import ApiError, ApiRouter, json_response
from penstock.net.tasks import spawn
from penstock.node.followers import FOLLOWERS_MAX, Place
from penstock.node.node_options import NodeOptions
from penstock.node.ports import Ports
from penstock.replication.copy import small_files
from penstock.replication.feed import NBYTES_MAX, CopiedTopic, Feed, Source
from penstock.replication.hooks import Hooks
from penstock.replication.messages import Fetch, Hello, ReplicationError, decode_fetch
from penstock.replication.pace import GENTLE_NBYTES, Pace
from penstock.replication.peer import Fence, Peer, address_of
from penstock.replication.secret import Secret
from penstock.replication.state import (
    ReplicationState,
    Role,
    read_state,
    write_state,
)
from penstock.replication.stream import WAIT_NS, CopyStream
from penstock.replication.successor import tell_until_heard
from penstock.storage.durability import Durability
from penstock.storage.log import Log

if TYPE_CHECKING:
    from penstock.node.node import Node

logger = logging.getLogger("penstock.replication")

# Room for all topics that a request may name (`messages.TOPICS_MAX`), 160 bytes each.
FETCH_BODY_MAX: Final = 16 * 1024 * 1024
STREAMS_MAX: Final = 32
GONE_NS: Final = 60 * SECOND
"""A follower that has said nothing for longer is not shown any more."""
GRANT_NS_MAX: Final = 3600 * SECOND
"""The longest lease."""
_FILES_NS: Final = SECOND
# The pause after a tick, in multiples of the tick's time: a look for news at thousands of topics is
# dear, and so are the answers to a follower that is behind.
_LOOK_SHARE: Final = 20
_COPY_SHARE: Final = 8


class Follower(Struct, eq=False):
    """A follower as it was when it said something last."""

    address: str
    pace: Pace
    asked_ns: int = 0
    ends: Mapping[Place, int] = {}
    """The ends of what it keeps."""


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
        self._streams: dict[CopyStream, None] = {}
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

    def _fetch(self, request: Request) -> CopyStream:
        self._secret.check(request)
        fetch = fetch_of(request)
        source = self._source_for(fetch)
        answers = self._node.memory.answers
        if len(self._streams) >= STREAMS_MAX or not answers.has_room(GENTLE_NBYTES):
            raise ApiError(503, "TOO_MANY_FOLLOWERS")
        follower = self._note(fetch)
        # An OK of ``fsync`` promises stable storage at each copy that it counts.
        is_fsync = self._node.broker.store.options.durability is Durability.FSYNC
        counts = bool(fetch.address) and (fetch.is_synced or not is_fsync)
        feed = Feed(source, fetch)
        stream = CopyStream(
            feed,
            fetch.address,
            self._node.clock,
            answers,
            heard=lambda stream: self._heard_from(stream, follower, counts=counts),
            closed=self._gone,
        )
        # Of another run it says nothing: its logs are compared first, after the Hello.
        if feed.is_known:
            self._heard_from(stream, follower, counts=counts)
        stream.with_first_answer()
        if feed.is_known:
            self._streams[stream] = None
        return stream

    def _heard_from(self, stream: CopyStream, follower: Follower, *, counts: bool) -> None:
        """Take note of a follower's word, and tell those who wait for it how far it is."""
        follower.asked_ns, follower.ends = stream.heard_ns, stream.feed.ends
        followers = self._node.followers
        # Where an OK, or a SYNC_MASTER's answer, waits for copies, publishes gain by a follower
        # that is there soon.
        if followers.changed:
            stream.room = GENTLE_NBYTES
            if counts:
                followers.heard(stream.address, stream.feed.ends)
        elif stream.feed.more:
            head, nbytes = stream.feed.unsent()
            follower.pace.sent(stream.sent)
            stream.sent = 0
            room = follower.pace.room(stream.heard_ns, head, nbytes)
            stream.is_paced, stream.room = room is not None, room or NBYTES_MAX

    def _gone(self, stream: CopyStream) -> None:
        """Forget a follower whose connection is closed: it does not follow any more."""
        if stream not in self._streams:
            return
        del self._streams[stream]
        if all(each.address != stream.address for each in self._streams):
            self._node.followers.gone(stream.address)

    def tick(self, now: int) -> None:
        """Send followers their news, and end the connections of those that are silent."""
        if not self._streams or now < self._look_at:
            return
        for each in list(self._streams):
            each.look(now)
        spent = self._node.clock.monotonic_ns() - now
        # As in housekeeping: the dearer the look, the longer the pause.
        share = _COPY_SHARE if any(each.feed.more for each in self._streams) else _LOOK_SHARE
        self._look_at = now + min(share * spent, WAIT_NS)

    def _news(self) -> None:
        """An OK waits for copies."""
        now = self._node.clock.monotonic_ns()
        for each in list(self._streams):
            each.news(now)

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
        follower.asked_ns = self._node.clock.monotonic_ns()
        return follower

    def _lag(self, follower: Follower) -> tuple[int, int]:
        """The messages and the bytes that a follower lacks."""
        messages = nbytes = 0
        for each in self._served():
            log = each.log
            start = max(log.start_offset, follower.ends.get((each.name, log.id_base), 0))
            messages += max(0, log.next_offset - start)
            nbytes += log.bytes_from(start)
        return messages, nbytes

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
        # Not as if they were gone: that may let waiting publishes go on without them.
        streams, self._streams = self._streams, {}
        for stream in streams:
            stream.end()
        self._turn()
        return {"role": fenced.role, "epoch": fenced.epoch}

    # --- figures -------------------------------------------------------------------------------

    def present(self) -> list[Follower]:
        """The followers that have said something lately."""
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
        followers = []
        for each in self.present():
            messages, nbytes = self._lag(each)
            followers.append({
                "address": each.address,
                "has_all": self._node.followers.has_all(each.address, logs),
                "lag_messages": messages,
                "lag_bytes": nbytes,
                "asked_seconds_ago": round((now - each.asked_ns) / SECOND, 3),
            })  # fmt: skip
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
