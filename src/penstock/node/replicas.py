"""The word of followers that an OK waits for, where a node is told to wait for some.

A publish is held back, neither acknowledged nor visible, until as many followers as are wanted have
it at the node's durability level. They say so by their next request, so one round trip serves all
publishes of a pass. Where fewer are there, publishes are refused at once, or acknowledged without
a copy, as the operator has chosen; either way it is said.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Mapping
from enum import StrEnum
from typing import Any, NamedTuple

from penstock.broker.publish.batching import Outcome
from penstock.broker.topic import Topic
from penstock.core.clock import Clock
from penstock.core.errors import ExitingError, LateCopyError, NotCopiedError, StorageError
from penstock.core.units import SECOND
from penstock.node.followers import Followers, Place
from penstock.node.lease import Lease
from penstock.storage.log import Log

logger = logging.getLogger("penstock.replication")

Copied = Callable[[Topic, list[Outcome], int], None]
"""A topic is copied up to an offset, for which these producers waited."""


class Missing(StrEnum):
    """The way on with fewer followers than are wanted."""

    REFUSE = "refuse"
    GO_ON = "go-on"


class ReplicaOptions(NamedTuple):
    """``acked`` followers are waited for, each publish no longer than ``timeout`` ns."""

    acked: int = 0
    timeout: int = 5 * SECOND
    missing: Missing = Missing.REFUSE


class _WaitingPublishes(NamedTuple):
    """Publishes that wait for copies of a log up to ``end``."""

    end: int
    since_ns: int
    outcomes: list[Outcome]


class Replicas:
    """The followers of a node, and the publishes that wait for them.

    ``on_copied`` is set by the one who holds publishes back: it shows what is copied and tells the
    producers. ``on_news`` is called once in a pass of the loop that holds more back.
    """

    def __init__(
        self,
        clock: Clock,
        options: ReplicaOptions,
        followers: Followers | None = None,
        lease: Lease | None = None,
    ) -> None:
        self.options = options
        self.lease = lease
        """The lease without which nothing is acknowledged; None where none is needed."""
        self.followers = Followers(clock) if followers is None else followers
        if self.waits:
            self.followers.changed.append(self._changed)
        self.on_copied: Copied = lambda topic, outcomes, end: None
        self.on_news: Callable[[], None] = lambda: None
        self._clock = clock
        self._held: dict[Topic, deque[_WaitingPublishes]] = {}
        self._is_enough = False
        # Neither: the first look says how it is.
        self._is_said: bool | None = None
        self._has_news = False
        self._loop = asyncio.get_running_loop()

    @property
    def refusal(self) -> StorageError | None:
        """The error of a publish now; None if it is taken."""
        if self.lease is not None and (reason := self.lease.refusal):
            return NotCopiedError(reason)
        if self._is_enough or self.options.missing is Missing.GO_ON:
            return None
        return NotCopiedError(f"{self._present} of {self.options.acked} copies follow")

    @property
    def _members(self) -> tuple[str, ...] | None:
        """The copies that have to have everything; None if any will do."""
        return None if self.lease is None else self.lease.members

    @property
    def _present(self) -> int:
        """The number of copies that follow and count."""
        members = self._members
        return len(self.followers) if members is None else self.followers.count(members)

    @property
    def _may_go_on(self) -> bool:
        """True if publishes are acknowledged without copies."""
        # Of members the lease says that they have everything, until it names them no more.
        return self.options.missing is Missing.GO_ON and not self._members

    @property
    def waits(self) -> bool:
        """True if publishes wait for copies."""
        return self.options.acked > 0

    def granted(self) -> None:
        """Look again: the lease names others."""
        self._changed()

    @property
    def in_force(self) -> int:
        """The number of copies of what is acknowledged now."""
        return self.options.acked if self._is_enough else 0

    @property
    def promised(self) -> int:
        """The number of copies without which nothing is acknowledged, whatever happens."""
        return self.options.acked if self.options.missing is Missing.REFUSE else 0

    def figures(self) -> dict[str, Any]:
        """The part of /stats."""
        return {
            "replicas_acked": self.options.acked,
            "replicas_in_force": self.in_force,
            "replicas_missing": self.options.missing,
            "messages_waiting": sum(
                topic.log.append_offset - topic.log.next_offset
                for topic in self._held
                if isinstance(topic.log, Log)
            ),
        }

    # --- publishes -----------------------------------------------------------------------------

    def wait(self, topic: Topic, end: int, outcomes: list[Outcome]) -> None:
        """Tell these producers when the topic's log is copied up to ``end``, or cannot be."""
        self._held.setdefault(topic, deque()).append(
            _WaitingPublishes(end, self._clock.monotonic_ns(), outcomes)
        )
        if not self._is_enough and self._may_go_on:
            self._release(topic, end)
        elif not self._has_news:
            self._has_news = True
            self._loop.call_soon(self._tell_news)

    def _tell_news(self) -> None:
        self._has_news = False
        self.on_news()

    def abandon(self, topic: Topic | None = None) -> None:
        """Tell the producers of a topic, or of all, that it is exiting."""
        for each in list(self._held) if topic is None else [topic]:
            self.fail(each, ExitingError())

    def fail(self, topic: Topic, error: StorageError) -> None:
        """Tell the producers of a topic that wait."""
        for held in self._held.pop(topic, ()):
            _tell(held.outcomes, error)

    # --- followers -----------------------------------------------------------------------------

    def heard(self, address: str, ends: Mapping[Place, int]) -> None:
        """Note how far a follower is, and release what is copied often enough."""
        self.followers.heard(address, ends)

    def _changed(self) -> None:
        self._look()
        for topic in list(self._held):
            assert isinstance(topic.log, Log)
            members = self._members
            if members:
                end = self.followers.copied_by(members, topic.name, topic.log)
            elif self._may_go_on and not self._is_enough:
                end = topic.log.copies_end
            else:
                end = self.followers.copied(topic.name, topic.log, self.options.acked)
            if end > topic.log.next_offset:
                self._release(topic, end)

    def gone(self, address: str) -> None:
        """Forget a follower that has closed its connection."""
        self.followers.gone(address)

    def tick(self, now: int) -> None:
        """Forget followers that are silent, and give up publishes that have waited too long."""
        self.followers.forget_silent(now)
        self._look()
        late = now - self.options.timeout
        given_up: list[Outcome] = []  # told at the end, as who is told may publish again at once
        for waiting in self._held.values():
            for place, held in enumerate(waiting):
                # They are in the order of their times: the others have not waited too long either.
                if held.since_ns > late:
                    break
                if held.outcomes:
                    # The entry stays: the message is in the log, and is shown once it is copied.
                    waiting[place] = held._replace(outcomes=[])
                    given_up += held.outcomes
        _tell(given_up, LateCopyError(f"not copied within {self.options.timeout / SECOND:g} s"))

    def _release(self, topic: Topic, end: int) -> None:
        """Show the publishes of a topic that end at ``end`` or before, and tell their producers.

        None may wait any more, if one that was told meanwhile has published there.
        """
        waiting, shown = self._held.get(topic), 0
        if waiting is None:
            return
        outcomes: list[Outcome] = []
        while waiting and waiting[0].end <= end:
            held = waiting.popleft()
            outcomes += held.outcomes
            shown = held.end
        if not waiting:
            del self._held[topic]
        if shown:
            self.on_copied(topic, outcomes, shown)

    def _look(self) -> None:
        """See whether enough follow, and say so when that has changed."""
        present, acked = self._present, self.options.acked
        self._is_enough = present >= acked
        if self._is_enough is self._is_said:
            return
        self._is_said = self._is_enough
        if not self.waits:
            return
        if self._is_enough:
            logger.info("copies that follow: %d; an OK waits for %d", present, acked)
        elif self.options.missing is Missing.REFUSE:
            logger.error("%d of %d copies follow: publishes are refused", present, acked)
        else:
            logger.error(
                "%d of %d copies follow: publishes are acknowledged without them", present, acked
            )
            for topic in list(self._held) if self._may_go_on else ():
                assert isinstance(topic.log, Log)
                self._release(topic, topic.log.copies_end)


def _tell(outcomes: list[Outcome], error: StorageError) -> None:
    for done in outcomes:
        done(error)
