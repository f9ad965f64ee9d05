"""The follower's loop over a primary that answers at once, refuses or is away."""

from __future__ import annotations

import asyncio
import threading
from typing import Any, cast

import msgspec
import pytest

from penstock.core.errors import DiskFullError
from penstock.replication.copy import Copy
from penstock.replication.feed import Feed, Source
from penstock.replication.following import BEHIND_NS, Pulling
from penstock.replication.lag import FRESH_NS
from penstock.replication.messages import (
    Fetch,
    Frames,
    Hello,
    ReplicationError,
    decode_ack,
    decode_fetch,
)
from penstock.replication.peer import Peer, PeerError
from penstock.replication.state import ReplicationState
from penstock.storage.durability import Durability
from penstock.storage.log import LogOptions
from penstock.storage.store import Store
from penstock.testing.clock import FakeClock
from penstock.testing.disk import FaultyDisk, FaultyFile
from tests.unit.replication.pieces import Primary, new_copy


class Other:
    """The primary as a peer."""

    address = "a:4151"

    def __init__(self, primary: Primary, clock: FakeClock) -> None:
        self.primary = primary
        self.error: PeerError | None = None
        self.clock = clock
        self.takes_ns = 0
        """The time that its answers are on the way."""

    async def stream(self, target: str, body: bytes, seconds: float) -> Stream:
        assert target == "/replication/fetch"
        await asyncio.sleep(0)
        if self.error is not None:
            raise self.error
        return Stream(self, decode_fetch(body))


class Stream:
    """The connection to a run of the primary, with which it ends."""

    def __init__(self, other: Other, fetch: Fetch) -> None:
        self.other, self.source = other, other.primary.source
        self.feed = Feed(self.source, fetch)
        self.heard_ns = other.clock.monotonic_ns()

    @property
    def has_ended(self) -> bool:
        return self.source is not self.other.primary.source

    async def next(self, seconds: float) -> bytes:
        await asyncio.sleep(0)
        if self.other.error is not None:
            raise self.other.error
        if self.has_ended:
            raise PeerError("a:4151 has closed the connection")
        clock = self.other.clock
        answer = b"".join(self.feed.answer(clock.monotonic_ns() - self.heard_ns))
        clock.advance(self.other.takes_ns)
        return answer

    def say(self, data: bytes) -> None:
        [frame] = Frames(1000).feed(data)
        self.feed.acknowledge(decode_ack(frame))
        self.heard_ns = self.other.clock.monotonic_ns()

    def close(self) -> None:
        self.feed.more = False


class Story:
    """A follower, its clock, and how often its standing was written."""

    def __init__(self, state: ReplicationState | None = None) -> None:
        self.primary, self.copy, self.clock = Primary(), new_copy(), FakeClock()
        self.state = state or ReplicationState(epoch=0)
        self.peer = Other(self.primary, self.clock)
        self.saved = 0
        self.is_full = False
        """True while it cannot be written."""
        self.written: ReplicationState | None = None
        self.pulling = Pulling(self.copy, self.state, cast(Peer, self.peer), self.clock,
                               self.save, 1)  # fmt: skip

    def save(self) -> None:
        if self.is_full:
            raise DiskFullError("/data/replication.json: No space left on device")
        self.saved += 1
        self.written = msgspec.structs.replace(self.state)

    async def follow(self, steps: int = 6) -> None:
        for _ in range(steps):
            await self.pulling.step()


async def test_a_follower_takes_history_and_epoch_and_then_everything() -> None:
    story = Story()
    story.primary.publish("t", b"1")
    assert story.pulling.lag_ns is None
    await story.follow()
    assert (story.state.history, story.state.epoch, story.saved) == ("history", 1, 2)
    assert story.pulling.error is None
    assert story.pulling.lag_ns == 0


async def test_the_lag_grows_from_the_moment_when_all_was_here() -> None:
    story = Story()
    story.primary.publish("t", b"1")
    await story.follow()
    story.peer.error = PeerError("a:4151 does not answer")
    with pytest.raises(PeerError):
        await story.pulling.step()
    story.clock.advance(FRESH_NS)
    assert story.pulling.lag_ns == FRESH_NS


async def test_what_came_while_an_answer_was_on_its_way_is_not_known() -> None:
    story = Story()
    story.primary.publish("t", b"1")
    await story.follow()
    story.peer.takes_ns = 1000
    await story.pulling.step()
    assert (story.pulling.lag_ns, story.pulling.lag.ns) == (0, 1000)


async def test_a_primary_that_is_fenced_for_this_node_may_be_promoted_over_again() -> None:
    """A promotion of this node has failed since: what its primary had is nowhere else."""
    story = Story()
    story.primary.publish("t", b"1")
    await story.follow()
    was_whole = story.state.was_whole
    story.pulling.address = "b:4151"
    told = {"message": "FENCED", "epoch": 2, "primary": "b:4151"}
    story.peer.error = PeerError("a:4151 refuses: FENCED", "FENCED", told)
    with pytest.raises(ReplicationError, match=r"stepped back for this node, .* promote it again"):
        await story.pulling.step()
    assert story.written is not None
    assert (story.written.successor, story.written.fenced_epoch) == ("", 2)
    assert (story.written.was_whole, story.written.next_epoch) == (was_whole, 3)


@pytest.mark.parametrize(
    ("state", "reason"),
    [
        (ReplicationState("another", 1), "another history than this copy"),
        (ReplicationState("history", 3), "is of epoch 1, older than this copy's, 3"),
    ],
)
async def test_a_wrong_primary_is_refused_and_nothing_is_changed(
    state: ReplicationState, reason: str
) -> None:
    story = Story(state)
    story.primary.publish("t", b"1")
    with pytest.raises(ReplicationError, match=reason):
        await story.pulling.step()
    assert not story.copy.topics
    assert story.saved == 0


async def test_a_fenced_primary_is_followed_no_more_and_its_successor_s_epoch_is_kept() -> None:
    story = Story()
    story.primary.publish("t", b"1")
    await story.follow()
    told = {"message": "FENCED", "epoch": 2, "primary": "c:4151"}
    story.peer.error = PeerError("a:4151 refuses: FENCED", "FENCED", told)
    before = story.saved
    for _ in range(2):
        story.clock.advance(1)
        with pytest.raises(ReplicationError, match="a:4151 is fenced: c:4151 is primary in epoch"):
            await story.pulling.step()
    assert story.saved == before + 1, "once"
    assert story.written is not None
    assert (story.written.successor, story.written.fenced_epoch) == ("c:4151", 2)
    assert (story.written.was_whole, story.written.next_epoch) == (False, 3)
    assert story.pulling.lag.ns == 2


@pytest.mark.parametrize(
    "told",
    [
        {},
        {"epoch": 0, "primary": "c"},
        {"epoch": 1 << 64, "primary": "c"},
        {"epoch": 2, "primary": 3},
    ],
)
async def test_a_refusal_that_does_not_name_the_successor_changes_nothing(
    told: dict[str, Any],
) -> None:
    story = Story()
    story.primary.publish("t", b"1")
    await story.follow()
    story.peer.error = PeerError("a:4151 refuses: FENCED", "FENCED", told)
    before = story.saved
    with pytest.raises(PeerError, match="a:4151 refuses: FENCED, and not for which node"):
        await story.pulling.step()
    assert (story.saved, story.state.successor) == (before, "")


async def test_under_a_later_epoch_what_the_primary_has_not_is_put_aside() -> None:
    story = Story(ReplicationState("history", 1))
    story.primary.publish("t", b"1")
    await story.follow()
    successor = Primary()
    successor.publish("u", b"1")
    hello = Hello("run 2", "history", 2, {})
    successor.source = Source(successor.served, dict, hello)
    story.peer.primary = successor
    await story.follow()
    assert story.copy.put_aside == {"t": 1}
    assert (story.state.epoch, story.state.is_settled) == (2, True)
    assert story.saved == 4, "history, that it was whole, the epoch, and that all is settled"


async def test_a_copy_falls_behind_by_what_it_knows_and_not_by_silence() -> None:
    story = Story()
    for _ in range(3):
        story.primary.publish("t", b"x" * 3_000_000)
    await story.pulling.step()
    await story.pulling.step()
    assert story.copy.behind == {"t": 2}
    assert not story.state.was_whole
    await story.follow()
    assert story.state.was_whole
    story.peer.error = PeerError("a:4151 does not answer")
    story.clock.advance(3600 * BEHIND_NS)
    with pytest.raises(PeerError):
        await story.pulling.step()
    assert story.state.was_whole
    story.peer.error = None
    for _ in range(3):
        story.primary.publish("t", b"x" * 3_000_000)
    await story.pulling.step()
    assert not story.state.was_whole
    await story.follow()
    assert story.state.was_whole


async def test_a_standing_that_cannot_be_written_is_written_when_it_can_be() -> None:
    """A start takes what is written, also when the primary is gone."""
    story = Story()
    for _ in range(3):
        story.primary.publish("t", b"x" * 3_000_000)
    await story.follow(3)
    story.is_full = True
    with pytest.raises(DiskFullError):
        await story.follow()
    story.is_full = False
    await story.follow(1)
    assert story.written is not None
    assert story.written.was_whole
    assert not story.copy.never_drop
    for _ in range(3):
        story.primary.publish("t", b"x" * 3_000_000)
    story.clock.advance(2 * BEHIND_NS)
    story.is_full = True
    with pytest.raises(DiskFullError):
        await story.pulling.step()
    story.is_full = False
    story.primary.publish("t", b"x" * 3_000_000)
    await story.pulling.step()
    assert not story.written.was_whole


async def test_a_copy_whose_own_disk_is_full_says_what_it_lacks() -> None:
    story = Story()
    story.primary.publish("t", b"1")
    await story.follow()
    disk = story.copy.store.disk
    assert isinstance(disk, FaultyDisk)
    disk.fill()
    for was_whole in (True, False):
        story.primary.publish("t", b"x" * 1000)
        with pytest.raises(DiskFullError):
            await story.pulling.step()
        assert not story.copy.is_whole
        assert story.copy.behind == {"t": 1 if was_whole else 2}
        assert story.state.was_whole is was_whole, "for ten seconds"
        story.clock.advance(BEHIND_NS + 1)
    disk.heal()
    before = story.saved
    story.primary.publish("t", *[b"x" * 3_000_000] * 2)
    await story.pulling.step()
    assert story.written is not None
    assert (story.written.was_whole, story.saved) == (False, before + 1), "once there is room"
    await story.follow()
    assert story.copy.is_whole
    assert story.written.was_whole


async def test_a_follower_of_another_epoch_is_not_whole_before_it_has_compared() -> None:
    story = Story()
    story.primary.publish("t", b"1")
    await story.follow()
    hello = Hello("run 2", "history", 2, {})
    story.primary.source = Source(story.primary.served, dict, hello)
    await story.pulling.step()
    assert not story.state.was_whole
    await story.follow()
    assert story.state.was_whole


async def test_the_loop_tells_its_error_and_ends_when_it_is_stopped() -> None:
    story: Any = Story()
    story.peer.error = PeerError("a:4151 does not answer")
    story.pulling.start()
    while story.pulling.error != "a:4151 does not answer":
        await _turn()
    await story.pulling.stop()
    story.peer.error = None
    story.pulling.resume()
    while story.pulling.error is not None:
        await _turn()
    await story.pulling.stop()


async def test_a_sync_whose_step_is_cancelled_comes_to_its_end(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As by the time that a promotion gives the old primary; it syncs what is here then."""
    options = LogOptions(durability=Durability.FSYNC)
    copy = Copy(Store(FaultyDisk("/data"), "/data", options))
    story = Story()
    pulling = Pulling(copy, story.state, cast(Peer, story.peer), story.clock, story.save, 1)
    story.primary.publish("t", b"1")
    await pulling.step()
    begun, gate, sync = threading.Event(), threading.Event(), FaultyFile.sync

    def waiting(file: FaultyFile) -> None:
        if file.path.endswith(".log"):
            begun.set()
            assert gate.wait(30)
        sync(file)

    monkeypatch.setattr(FaultyFile, "sync", waiting)
    step = asyncio.create_task(pulling.step())
    while not begun.is_set():
        await _turn()
    step.cancel()
    await _turn()
    gate.set()
    with pytest.raises(asyncio.CancelledError):
        await step
    copy.sync()
    log = copy.topics["t"].log
    assert log.synced_offset == log.append_offset == 1


async def _turn() -> None:
    await asyncio.sleep(0.001)
