"""What a client tells a node about itself, how patient it is, and how it takes setbacks.

The names are those of go-nsq's options (NSQ reference 7.1), which every NSQ tool accepts too; so
are the defaults, but for those that the comments tell of.
"""

from __future__ import annotations

import json
import platform
import ssl
from dataclasses import dataclass

from penstock import __version__

MILLISECONDS = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class Config:
    """Options of connections, producers and consumers; times in seconds, sizes in bytes."""

    # A connection
    dial_timeout: float = 1.0
    """For the TCP connection; the handshake after it has ``read_timeout``."""
    read_timeout: float = 60.0
    """How long an answer may take."""
    write_timeout: float = 1.0
    """How long the node may refuse to take what is sent."""
    local_addr: str = ""
    """Connect from this address, host:port."""

    # What IDENTIFY says
    client_id: str = ""
    """The short host name when empty."""
    hostname: str = ""
    user_agent: str = f"penstock/{__version__}"
    heartbeat_interval: float = 30.0
    """-1 for none."""
    sample_rate: int = 0
    """Percent of the messages to receive; 0 for all."""
    output_buffer_size: int = 16384
    output_buffer_timeout: float = 0.25
    """How long the node may gather messages; -1 to send each at once."""
    msg_timeout: float = 0.0
    """How long a message may stay unanswered; 0 for the node's own choice."""
    max_msg_size: int = 0
    """The longest message to accept; 0 for the longest that any node sends."""
    auth_secret: str = ""
    skip_lookupd_authorization: bool = True
    """Send the secret to nsqlookupd as well: go-nsq's name says the opposite of what it does."""

    # Layers
    tls_v1: bool = False
    tls_config: ssl.SSLContext | None = None
    """Instead of all the other ``tls_*``."""
    tls_root_ca_file: str = ""
    tls_cert: str = ""
    tls_key: str = ""
    tls_insecure_skip_verify: bool = False
    tls_min_version: str = "tls1.2"
    deflate: bool = False
    deflate_level: int = 6
    snappy: bool = False

    # Finding nodes
    lookupd_poll_interval: float = 60.0
    """Also how long to wait before a node given directly is tried again, at most."""
    lookupd_poll_jitter: float = 0.3
    lookupd_poll_timeout: float = 60.0

    # Messages
    max_in_flight: int = 1
    max_attempts: int = 5
    """Give up a message that comes more often; 0 for never."""
    default_requeue_delay: float = 90.0
    """Times the attempts so far."""
    max_requeue_delay: float = 900.0
    backoff_strategy: str = "exponential"
    """``exponential``, ``full_jitter``."""
    backoff_multiplier: float = 1.0
    max_backoff_duration: float = 120.0
    """0 for no backoff."""
    low_rdy_idle_timeout: float = 10.0
    low_rdy_timeout: float = 30.0
    rdy_redistribute_interval: float = 5.0

    def identify_body(self) -> bytes:
        """The JSON of IDENTIFY; times in milliseconds."""
        host = self.hostname or platform.node()
        asked: dict[str, object] = {
            "client_id": self.client_id or host.partition(".")[0],
            "hostname": host,
            "user_agent": self.user_agent,
            "feature_negotiation": True,
            "heartbeat_interval": _milliseconds(self.heartbeat_interval),
            "output_buffer_size": self.output_buffer_size,
            "output_buffer_timeout": _milliseconds(self.output_buffer_timeout),
            "sample_rate": self.sample_rate,
            "msg_timeout": _milliseconds(self.msg_timeout),
        }
        return json.dumps(asked).encode()


def _milliseconds(seconds: float) -> int:
    return -1 if seconds < 0 else int(seconds * MILLISECONDS)
