"""The visible state of a client while it lives."""

from __future__ import annotations

from dataclasses import dataclass

from penstock.rocketmq.protocol.message_queue import MessageQueue


@dataclass(slots=True)
class ConnectionState:
    """One connection; its counts go on while somebody looks. Times are Unix times in seconds."""

    address: str
    connected_at: float = 0.0
    """The time when it was made; 0 before that."""
    tls: str = ""
    """The version in use, such as ``TLSv1.3``; empty in the clear."""
    server_version: int = 0
    """The number of the server's version, as its answers have it."""
    requests: int = 0
    """Requests sent, one-way ones included."""
    answers: int = 0
    unanswered: int = 0
    """Requests that wait for their answers."""


@dataclass(frozen=True, slots=True)
class QueueState:
    """One queue that a consumer has at present."""

    queue: MessageQueue
    """The queue itself, as ``seek``, ``pause`` and their like take it."""
    next_offset: int
    """The offset at which the next pull begins."""
    commit_offset: int
    """The offset below which everything is done."""
    held: int
    """Messages pulled that are not done."""
    held_bytes: int
    is_locked: bool
    """True if it is locked for this consumer alone, for orderly consumption."""
    is_paused: bool

    @property
    def topic(self) -> str:
        return self.queue.topic

    @property
    def broker(self) -> str:
        """The name of the broker that has it."""
        return self.queue.brokerName
