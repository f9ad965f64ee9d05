"""What a broker must do, told simply: sets of offsets instead of logs, cursors and ranges."""

from __future__ import annotations

from dataclasses import dataclass, field

GRAIN_NS = 10_000_000  # time-outs may come this much late, never early


@dataclass
class Held:
    """A message in flight: who has it, and the earliest time that it may be taken away."""

    consumer: int
    deadline: int
    delivered: int


@dataclass
class ModelChannel:
    """One channel. Every offset in ``owed`` must be delivered and finished in the end."""

    start: int
    owed: set[int] = field(default_factory=set)
    may_come: set[int] = field(default_factory=set)  # finished, but a crash may have forgotten it
    held: dict[int, Held] = field(default_factory=dict)
    attempts: dict[int, int] = field(default_factory=dict)
    uncertain: set[int] = field(default_factory=set)  # attempts only bounded, after a crash
    not_before: dict[int, int] = field(default_factory=dict)
    unsaved: set[int] = field(default_factory=set)  # finished since the last save
    unsynced: set[int] = field(default_factory=set)  # finished since the journal was synced last
    paused: bool = False
    max_attempts: int = 0  # 0: any number
    released: set[int] = field(default_factory=set)  # deferred once, and let go before their time

    def deliver(self, offset: int, attempts: int, consumer: int, now: int, timeout: int) -> None:
        """Check that this delivery is right and note it."""
        assert offset in self.owed or offset in self.may_come, f"{offset} is not for this channel"
        assert offset not in self.held, f"{offset} is in flight already"
        assert not self.paused, "a paused channel delivers nothing"
        assert not self.max_attempts or attempts <= self.max_attempts, "one attempt too many"
        early = self.not_before.get(offset, 0) - now
        assert early <= 0, f"{offset} comes {early} ns before its time"
        known = self.attempts.get(offset, 0)
        if offset in self.uncertain:
            assert 1 <= attempts <= known + 1, f"{offset}: attempt {attempts} after {known}"
            self.uncertain.discard(offset)
        else:
            assert attempts == known + 1, f"{offset}: attempt {attempts} after {known}"
        self.attempts[offset] = attempts
        self.may_come.discard(offset)
        self.owed.add(offset)
        self.held[offset] = Held(consumer, now + timeout, now)

    def finish(self, offset: int) -> None:
        del self.held[offset]
        self.owed.discard(offset)
        self.unsaved.add(offset)

    def let_go(self, offset: int, not_before: int = 0) -> None:
        """It is in flight no more, but still to be delivered."""
        del self.held[offset]
        if not_before:
            self.not_before[offset] = not_before

    def give_up(self, offsets: set[int]) -> None:
        """These are done without having been finished: moved, cancelled or dropped."""
        self.unsaved |= offsets
        self.owed -= offsets
        self.may_come -= offsets

    def release(self, offset: int) -> None:
        """A deferred message may come now."""
        self.not_before.pop(offset, None)
        self.released.add(offset)

    def seek(self, owed: set[int], due: dict[int, int]) -> None:
        """All is forgotten, and these come (again), as if for the first time."""
        for known in (self.may_come, self.held, self.attempts, self.uncertain, self.released):
            known.clear()
        self.unsaved.clear()
        self.unsynced.clear()
        self.owed = owed
        self.not_before = dict(due)

    def may_come_from(self, due: dict[int, int]) -> None:
        """After a crash only the delays that were asked for at publish are sure."""
        self.not_before = {o: time for o, time in due.items() if o not in self.released}

    def empty(self) -> None:
        self.unsaved |= self.owed | self.may_come
        for offsets in (self.owed, self.may_come, self.held):
            offsets.clear()

    def saved(self) -> None:
        self.unsynced |= self.unsaved
        self.unsaved.clear()

    def synced(self) -> None:
        self.saved()
        self.unsynced.clear()

    def restart(self, forgotten: set[int], clean: bool, power_cut: bool) -> None:
        """The broker was restarted; what it may have forgotten of the finished may come again.

        What was written before a kill is on disk no sooner than the journal is synced.
        """
        self.may_come |= forgotten
        self.held.clear()
        if clean or power_cut:
            self.synced()
        else:
            self.saved()
        if not clean:
            self.uncertain = set(self.attempts)

    def drop(self, lost: set[int]) -> None:
        """A power cut took these messages; their offsets may be given to others."""
        for offsets in (self.owed, self.may_come, self.uncertain, self.unsaved, self.unsynced):
            offsets -= lost
        for offset in lost:
            self.attempts.pop(offset, None)
            self.not_before.pop(offset, None)


@dataclass
class ModelTopic:
    """The log and the channels that read it."""

    bodies: dict[int, bytes] = field(default_factory=dict)
    due: dict[int, int] = field(default_factory=dict)  # of deferred ones: not before, for ever
    durable: set[int] = field(default_factory=set)  # a power cut must not take these
    append_offset: int = 0
    next_offset: int = 0  # what is behind it cannot be seen yet
    head: int = 0
    paused: bool = False
    channels: dict[str, ModelChannel] = field(default_factory=dict)
    groups: dict[str, int] = field(default_factory=dict)

    def publish(self, bodies: list[bytes], due: int) -> None:
        for body in bodies:
            self.bodies[self.append_offset] = body
            if due:
                self.due[self.append_offset] = due
            self.append_offset += 1

    def show(self, end: int) -> None:
        """Make the messages below this offset visible."""
        self.next_offset = end
        self.distribute()

    def distribute(self) -> None:
        if self.paused or not self.channels:
            return
        for offset in range(self.head, self.next_offset):
            for channel in self.channels.values():
                if offset in self.bodies and offset >= channel.start:
                    channel.owed.add(offset)
                    if offset in self.due:
                        channel.not_before[offset] = self.due[offset]
        self.head = self.next_offset

    def empty(self) -> None:
        self.head = self.next_offset
