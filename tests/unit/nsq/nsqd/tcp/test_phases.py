"""The table of a connection's phases: whatever waits for whatever, commands keep their order."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any, ClassVar, cast

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from penstock.core.clock import SYSTEM_CLOCK
from penstock.net.budget import Memory, Turns
from penstock.nsq.nsqd.options import NsqdOptions
from penstock.nsq.nsqd.tcp import connection
from penstock.nsq.nsqd.tcp.connection import Connection, Pause, Phase
from penstock.nsq.protocol.events import Auth, Failure, Identify, Nop, Publish

HELD_MAX, UNSENT_MAX = 60, 10
COMMANDS = {
    "PUB": b"PUB t\n\0\0\0\1x",  # its answer comes later
    "NOP": b"NOP\n",  # needs none
    "IDENTIFY": b"IDENTIFY\n\0\0\0\2{}",  # is answered at once, so it must wait for its turn
    "AUTH": b"AUTH\n\0\0\0\1s",  # suspends the connection
}


class Transport:
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
        node = SimpleNamespace(clock=SYSTEM_CLOCK, turns=Turns(Memory.of().requests))
        context: Any = SimpleNamespace(
            node=node,
            options=options,
            limits=options.limits(),
            tls_required=False,
            publisher=None,
        )
        self.transport = Transport()
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
