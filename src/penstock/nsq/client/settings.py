"""What a client tells a node about itself, and how patient it is."""

from __future__ import annotations

import json
import platform
from dataclasses import dataclass

from penstock import __version__


@dataclass(frozen=True, slots=True)
class Settings:
    """Settings of a connection.

    The first group goes into IDENTIFY, in milliseconds and bytes; None leaves the choice to the
    server. ``heartbeat_interval`` -1 turns heartbeats off, which only producers may.
    The times of the second group are in seconds.
    """

    client_id: str = ""
    hostname: str = ""
    user_agent: str = f"penstock/{__version__}"
    heartbeat_interval: int | None = None
    msg_timeout: int | None = None
    output_buffer_size: int | None = None
    output_buffer_timeout: int | None = None
    sample_rate: int | None = None
    auth_secret: str = ""

    connect_timeout: float = 5.0
    answer_timeout: float = 60.0

    def identify_body(self) -> bytes:
        """The JSON of IDENTIFY."""
        host = self.hostname or platform.node()
        asked: dict[str, object] = {
            "client_id": self.client_id or host.partition(".")[0],
            "hostname": host,
            "user_agent": self.user_agent,
            "feature_negotiation": True,
        }
        optional = ("heartbeat_interval", "msg_timeout", "sample_rate")
        for name in (*optional, "output_buffer_size", "output_buffer_timeout"):
            value = getattr(self, name)
            if value is not None:
                asked[name] = value
        return json.dumps(asked).encode()
