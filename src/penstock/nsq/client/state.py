"""The visible state of a connection while it lives."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(slots=True)
class ConnectionState:
    """One connection; its counts go on while somebody looks. Times are Unix times in seconds."""

    address: str
    connected_at: float = 0.0
    """The time at which the handshake was done; 0 before that."""
    server_version: str = ""
    tls: str = ""
    """The version in use, such as ``TLSv1.3``; empty in the clear."""
    compression: str = ""
    """``deflate``, ``snappy``; empty without."""

    ready: int = 0
    """The RDY that the node was told last."""
    in_flight: int = 0
    """Messages received and not answered yet."""
    messages: int = 0
    """Messages received."""
    finished: int = 0
    requeued: int = 0
    last_heartbeat: float | None = None
    """The time of the node's last sign of life."""
    last_heartbeat_monotonic: float | None = None
    """The time of the node's last sign of life, on the clock that never goes back."""
    last_error: str = ""
    """The error frame that came last."""
    left: bool = False
    """The node has answered CLS: it sends no more messages."""
