"""The errors that can occur between a client of a node's log and the node."""

from __future__ import annotations

from penstock.core.errors import PenstockError


class NodeError(PenstockError):
    """Anything that a client of a node's log can report."""


class LogError(NodeError):
    """A node refused; ``status`` is HTTP's, ``reason`` the node's word."""

    def __init__(self, node: str, status: int, reason: str) -> None:
        super().__init__(f"{node}: {status} {reason}")
        self.node = node
        self.status = status
        self.reason = reason


class NoLog(LogError):
    """The server has no log over HTTP: it is Go's nsqd, or no nsqd at all."""


class NoDialect(LogError):
    """The node does not speak the dialect that its reader asks for."""


class TlsNeeded(LogError):
    """Plain HTTP is closed there; ``https_port`` is the port that is open, 0 without one."""

    def __init__(self, node: str, https_port: int) -> None:
        super().__init__(node, 403, "TLS_REQUIRED")
        self.https_port = https_port


class GroupInUse(LogError):
    """Another owner moved the group ``seconds`` ago."""

    def __init__(self, node: str, owner: str, seconds: float) -> None:
        super().__init__(node, 409, f"GROUP_IN_USE by {owner}, {seconds:.0f} s ago")
        self.owner = owner
        self.seconds = seconds


class TopicNotFound(NodeError):
    """The node does not have the topic."""

    def __init__(self, topic: str, node: str) -> None:
        super().__init__(f"{node} has no topic {topic!r}")
        self.topic = topic
        self.node = node


class OffsetOutOfRange(NodeError):
    """The offset is before the first the node still has, or after the next to come."""

    def __init__(
        self, topic: str, node: str, offset: int, start: int, end: int, log: str = ""
    ) -> None:
        where = f"topic {topic!r} on {node}"
        super().__init__(f"offset {offset} of {where} is outside {start}..{end}")
        self.topic = topic
        self.node = node
        self.offset = offset
        self.start = start
        self.end = end
        self.log = log


class NodeUnreachable(NodeError):
    """The node gave no answer."""

    def __init__(self, node: str, topic: str, reason: str) -> None:
        super().__init__(f"{node} cannot be reached for topic {topic!r}: {reason}")
        self.node = node
        self.topic = topic


class TlsFailed(NodeUnreachable):
    """The node and we do not agree on TLS, which trying again does not change."""


class BatchCommitted(LogError):
    """The writer has committed this batch in the topic, or a newer one."""


class BatchDecided(LogError):
    """A decision says which attempts at this batch are committed; no others are taken."""
