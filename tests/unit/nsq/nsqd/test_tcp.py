"""Connections of an nsqd: phases, buffers, localities, the port of no primary."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator
from types import SimpleNamespace
from typing import Any, ClassVar, cast

import numpy as np
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from penstock.broker.channels.consumer import Delivery, Locality
from penstock.core.clock import SYSTEM_CLOCK
from penstock.net.budget import Memory, MemoryQueue
from penstock.nsq.nsqd.nsqd_options import NsqdOptions
from penstock.nsq.nsqd.tcp import connection, refusal_port
from penstock.nsq.nsqd.tcp.connection import Connection, Pause, Phase
from penstock.nsq.nsqd.tcp.outbox import Outbox, frames_of
from penstock.nsq.nsqd.tcp.refusal_port import RefusalPort
from penstock.nsq.nsqd.tcp.session import TOPOLOGY_EXPERIMENT, locality
from penstock.nsq.protocol import frames
from penstock.nsq.protocol.bodies import Bodies
from penstock.nsq.protocol.events import Auth, Failure, Identify, Nop, Publish
from penstock.nsq.protocol.frames import FrameReader, MessageBlock
from penstock.nsq.protocol.identify import Identity
from penstock.storage.batch import Batch
from tests.programs.nsq.nsqd.conftest import options

# --- phases: whatever waits for whatever, commands keep their order


HELD_MAX, UNSENT_MAX = 60, 10
COMMANDS = {
    "PUB": b"PUB t\n\0\0\0\1x",  # its answer comes later
    "NOP": b"NOP\n",  # needs none
    "IDENTIFY": b"IDENTIFY\n\0\0\0\2{}",  # is answered at once, so it must wait for its turn
    "AUTH": b"AUTH\n\0\0\0\1s",  # suspends the connection
}


class Socket:
    """A socket whose client sends when it is read from, and reads when it is told to."""

    def __init__(self) -> None:
        self.is_paused = False
        self.is_closed = False
        self.unsent = 0

    def pause_reading(self) -> None:
        assert not self.is_paused
        self.is_paused = True

    def resume_reading(self) -> None:
        assert self.is_paused
        self.is_paused = False

    def get_write_buffer_size(self) -> int:
        return self.unsent

    def get_extra_info(self, name: str) -> Any:
        return ("127.0.0.1", 1)

    def set_write_buffer_limits(self, high: int) -> None: ...

    def write(self, data: bytes) -> None: ...

    def close(self) -> None:
        self.is_closed = True


class Session:
    """Notes what is handled, and checks that it may be."""

    def __init__(self, own: Connection) -> None:
        self.own = own
        self.handled: list[str] = []

    def _note(self, command: str) -> None:
        assert self.own.phase is Phase.HANDLING
        self.handled.append(command)

    def _on_publish(self, event: Publish) -> None:
        self._note("PUB")
        self.own.owed += 1

    def _on_nop(self, event: Nop) -> None:
        self._note("NOP")

    def _on_identify(self, event: Identify) -> None:
        assert not self.own.owed
        self._note("IDENTIFY")

    def _on_auth(self, event: Auth) -> None:
        assert not self.own.owed
        self._note("AUTH")
        self.own.suspend()

    def _on_failure(self, event: Failure) -> None:
        raise AssertionError(event.text)

    def set_writable(self, writable: bool) -> None: ...

    def ended(self) -> None: ...

    def lost(self) -> None: ...

    handlers: ClassVar = {
        Publish: _on_publish, Nop: _on_nop, Identify: _on_identify, Auth: _on_auth,
        Failure: _on_failure,
    }  # fmt: skip


class Phases(RuleBasedStateMachine):
    """A connection beside the list of the commands that its client has sent."""

    loop: asyncio.AbstractEventLoop

    def __init__(self) -> None:
        super().__init__()
        options = NsqdOptions()
        node = SimpleNamespace(clock=SYSTEM_CLOCK, turns=MemoryQueue(Memory.of().requests))
        context: Any = SimpleNamespace(
            node=node,
            options=options,
            limits=options.limits(),
            tls_required=False,
            publisher=None,
        )
        self.transport = Socket()
        self.own = Connection(context, cast(Any, Session))
        self.in_loop(lambda: self.own.connection_made(cast(Any, self.transport)))
        self.session = cast(Session, self.own.session)
        self.sent: list[str] = []
        self.to_read = b"  V2"
        self.is_blocked = False
        self.has_ended_sending = False

    def in_loop(self, call: Callable[[], object]) -> None:
        async def run() -> None:
            call()

        self.loop.run_until_complete(run())

    def _read(self) -> None:
        while self.to_read and not self.transport.is_paused:
            data, self.to_read = self.to_read[:40], self.to_read[40:]
            self.in_loop(lambda data=data: self.own.data_received(data))

    @precondition(lambda self: not self.has_ended_sending)
    @rule(commands=st.lists(st.sampled_from(sorted(COMMANDS)), min_size=1, max_size=8))
    def send(self, commands: list[str]) -> None:
        self.sent += commands
        self.to_read += b"".join(COMMANDS[each] for each in commands)
        self._read()

    @precondition(lambda self: not self.has_ended_sending and not self.to_read)
    @rule()
    def end_sending(self) -> None:
        self.has_ended_sending = True
        self.in_loop(self.own.eof_received)

    @precondition(lambda self: self.own.owed)
    @rule()
    def answer(self) -> None:
        self.own.owed -= 1
        self.in_loop(self.own.answered)
        self._read()

    @precondition(lambda self: self.own.phase is Phase.SUSPENDED)
    @rule()
    def resume(self) -> None:
        self.in_loop(self.own.resume)
        self._read()

    @precondition(lambda self: not self.is_blocked)
    @rule(is_much=st.booleans())
    def block(self, is_much: bool) -> None:
        """The client reads no answers any more."""
        self.is_blocked = True
        self.transport.unsent = UNSENT_MAX + is_much
        self.in_loop(self.own.pause_writing)

    @precondition(lambda self: self.is_blocked)
    @rule()
    def unblock(self) -> None:
        self.is_blocked = False
        self.transport.unsent = 0
        self.in_loop(self.own.resume_writing)
        self._read()

    @invariant()
    def each_waits_for_something(self) -> None:
        own = self.own
        handled = self.session.handled
        assert handled == self.sent[: len(handled)]
        if own.phase is Phase.BEHIND:
            assert own.owed
            assert own._next is not None
        if own.phase is Phase.CHOKED:
            assert self.is_blocked
        assert self.transport.is_paused == bool(own._pauses)
        if Pause.FULL in own._pauses:
            assert own.phase is not Phase.HANDLING or self.is_blocked
        if own.phase is Phase.HANDLING and not self.to_read:
            assert handled == self.sent
            is_over = self.has_ended_sending and not own.owed
            assert self.transport.is_closed == is_over

    def teardown(self) -> None:
        for _ in range(2 * len(self.sent) + 1):
            if self.is_blocked:
                self.unblock()
            elif self.own.owed:
                self.answer()
            elif self.own.phase is Phase.SUSPENDED:
                self.resume()
        assert self.session.handled == self.sent
        assert not self.transport.is_paused


@pytest.fixture(autouse=True, scope="module")
def _loop() -> Iterator[None]:
    Phases.loop = asyncio.new_event_loop()
    yield
    Phases.loop.close()


@pytest.fixture(autouse=True)
def _small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection, "_HELD_BYTES_MAX", HELD_MAX)
    monkeypatch.setattr(connection, "_UNSENT_BYTES_MAX", UNSENT_MAX)


TestPhases = Phases.TestCase
TestPhases.settings = settings(max_examples=150, stateful_step_count=30, deadline=None)


# --- when buffered messages leave (NSQ spec 1.9)


MILLISECOND = 10**6
FIRST = 100
EQUAL = [b"aaa", b"bbb", b"ccc", b"ddd"]
MIXED = [b"a", b"bb", b"ccc", b"dddd"]


class Transport:
    """Notes what is written, one entry a call."""

    def __init__(self) -> None:
        self.writes: list[bytes] = []

    def write(self, data: bytes | memoryview) -> None:
        self.writes.append(bytes(data))

    def writelines(self, pieces: Iterable[bytes | memoryview]) -> None:
        self.writes.append(b"".join(pieces))


def outbox(size: int, timeout: int) -> tuple[Outbox, list[bytes]]:
    transport = Transport()
    return Outbox(cast(asyncio.Transport, transport), size, timeout), transport.writes


@pytest.mark.parametrize(
    ("size", "timeout_ms", "steps"),
    [
        (100, 0, ["send OK -> OK", "buffer m1m2 ->", "send ERR -> m1m2ERR", "flush ->"]),
        (100, 0, ["answer 1 ->", "answer 2 ->", "last 3 -> 123", "turn ->"]),
        (100, 0, ["answer 1 ->", "turn -> 1", "answer 2 ->", "turn -> 2"]),
        (100, 0, ["answer OK ->", "send ERR -> OKERR"]),
        (4, 0, ["buffer m1 ->", "buffer m2 -> m1m2"]),
        (100, 0, ["alone m1 -> m1"]),
        (1, 0, ["buffer m1 -> m1", "buffer m2 -> m2"]),
        (100, 10, ["buffer m1 ->", "buffer m2 ->", "wait -> m1m2", "buffer m3 ->", "wait -> m3"]),
        (100, 10, ["buffer m1 ->", "flush -> m1", "buffer m2 ->", "wait -> m2", "wait ->"]),
        (100, 0, ["buffer m1 ->", "wait ->"]),
        (100, 10, ["buffer m1 ->", "close ->", "wait ->"]),
    ],
    ids=["a response goes out at once and takes the messages along",
         "the answers of one commit leave together",
         "an answer waits for others until the loop comes round",
         "an error follows the answers that waited", "a full buffer leaves",
         "nothing waits for a client that takes no more", "a size of one lets all through",
         "the timer flushes once and is set anew", "a flush stops the timer",
         "without a timer messages wait for the buffer", "closing drops what waits"],
)  # fmt: skip
async def test_what_leaves_when(size: int, timeout_ms: int, steps: list[str]) -> None:
    """Each step, and the one write that it leads to, if any."""
    box, writes = outbox(size, timeout_ms * MILLISECOND)
    for step in steps:
        done, _, written = step.partition(" ->")
        what, _, text = done.partition(" ")
        data = text.encode()
        if what == "send":
            box.send(data)
        elif what in ("answer", "last"):
            box.answer(data, more_owed=what == "answer")
        elif what in ("buffer", "alone"):
            box.buffer([data], len(data), more_to_come=what == "buffer")
        elif what in ("turn", "wait"):
            await asyncio.sleep(0.03 if what == "wait" else 0)
        else:
            getattr(box, what)()
        assert [write.decode() for write in writes] == written.split(), step
        writes.clear()


async def test_what_waits_goes_to_the_transport_it_was_meant_for() -> None:
    box, writes = outbox(100, 0)
    other = Transport()
    box.buffer([b"m1"], 2, more_to_come=True)
    box.use(cast(asyncio.Transport, other))
    box.send(b"OK")
    assert (writes, other.writes) == ([b"m1"], [b"OK"])


def batch_of(bodies: list[bytes]) -> Batch:
    records = Bodies.from_list(bodies)
    frames, positions = records.encode(FIRST + 5000, 77)
    table = None if positions is None else np.asarray(positions, np.uint32)
    return Batch.build(FIRST, FIRST + 5000, 77, records.count, records.stride, [frames],
                       table=table, delay_ns=0)  # fmt: skip


def seen(frames: bytes) -> list[tuple[int, int, bytes, bytes]]:
    """Timestamp, attempts, id and body of each frame."""
    reader = FrameReader()
    reader.receive_data(frames)
    return [
        (message.timestamp_ns, message.attempts, message.id, message.body)
        for block in reader.events()
        if isinstance(block, MessageBlock)
        for message in block
    ]


@pytest.mark.parametrize("bodies", [EQUAL, MIXED])
@pytest.mark.parametrize("attempts", [1, 2, 300, 65535])
@pytest.mark.parametrize(("first", "next_"), [(0, 4), (1, 3), (2, 3), (3, 4)])
def test_a_part_of_a_batch(bodies: list[bytes], attempts: int, first: int, next_: int) -> None:
    batch = batch_of(bodies)
    before = bytes(batch.raw)
    frames = frames_of(Delivery(batch, FIRST + first, FIRST + next_, attempts))
    assert seen(bytes(frames)) == [
        (77, attempts, b"%016x" % (FIRST + 5000 + place), bodies[place])
        for place in range(first, next_)
    ]
    assert bytes(batch.raw) == before  # other consumers get the same bytes


def test_the_first_delivery_copies_nothing() -> None:
    batch = batch_of(EQUAL)
    frames = frames_of(Delivery(batch, FIRST, FIRST + 2, 1))
    assert isinstance(frames, memoryview)
    assert frames.obj is batch.frames.obj


# --- localities


@pytest.mark.parametrize(
    ("zone", "region", "own_zone", "own_region", "expected"),
    [
        ("z", "r", "z", "r", Locality.ZONE),
        ("z", "other", "z", "r", Locality.ZONE),
        ("other", "r", "z", "r", Locality.REGION),
        ("other", "other", "z", "r", Locality.ANYWHERE),
        ("", "", "z", "r", Locality.ANYWHERE),
        ("", "", "", "", Locality.ANYWHERE),
        ("", "r", "", "r", Locality.REGION),
    ],
)
def test_localities(
    zone: str, region: str, own_zone: str, own_region: str, expected: Locality
) -> None:
    given = options("", topology_zone=own_zone, topology_region=own_region)
    identity = Identity("", "", 0, 0, 0, 0, topology_zone=zone, topology_region=region)
    assert locality(identity, given) is Locality.ANYWHERE
    given.enable_experiment = (TOPOLOGY_EXPERIMENT,)
    assert locality(identity, given) is expected


# --- the port of a node that is no primary


class Pipe:
    """A transport that keeps what is written."""

    def __init__(self) -> None:
        self.written = b""
        self.closed = False

    def write(self, data: bytes) -> None:
        self.written += data

    def close(self) -> None:
        self.closed = True

    def is_closing(self) -> bool:
        return self.closed


async def test_each_client_gets_one_error_when_it_has_spoken() -> None:
    port, pipe = RefusalPort(lambda: "E_FOLLOWER go there"), Pipe()
    client = cast(asyncio.Protocol, port())
    client.connection_made(cast(asyncio.Transport, pipe))
    assert pipe.written == b""
    client.data_received(b"  V2")
    client.data_received(b"IDENTIFY\n")
    assert pipe.written == frames.error("E_FOLLOWER go there")
    assert pipe.closed
    client.connection_lost(None)
    client.data_received(b"more")


async def test_silent_clients_are_closed_with_the_port() -> None:
    port, pipe = RefusalPort(lambda: "E_FOLLOWER go there"), Pipe()
    cast(asyncio.Protocol, port()).connection_made(cast(asyncio.Transport, pipe))
    port.close_connections()
    assert pipe.closed
    assert pipe.written == b""


async def test_a_client_that_says_nothing_is_closed_in_the_end(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(refusal_port, "SILENCE_S", 0.01)
    port, pipe = RefusalPort(lambda: "E_FOLLOWER go there"), Pipe()
    client = cast(asyncio.Protocol, port())
    client.connection_made(cast(asyncio.Transport, pipe))
    for _ in range(1000):
        if pipe.closed:
            break
        await asyncio.sleep(0.01)
    assert pipe.closed
    client.connection_lost(None)
    assert not port.connections
