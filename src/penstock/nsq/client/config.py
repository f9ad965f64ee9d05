"""A client's settings: the facts it tells a node, its time-outs, and its response to failures.

The names are those of go-nsq's options (NSQ spec 7.1), which every NSQ tool accepts too; so
are the defaults and the ranges, but for those that the comments name.
"""

from __future__ import annotations

import json
import platform
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from penstock import __version__
from penstock.core.errors import ConfigError
from penstock.core.nearest import did_you_mean
from penstock.core.redaction import without_secrets
from penstock.core.settings.client_options import (
    CODE_ONLY,
    COUNT,
    FILE,
    FRACTION,
    SECONDS,
    OneOf,
    Option,
    option,
    options_of,
)
from penstock.core.settings.option_kinds import BOOL, INT, STRING, Kind
from penstock.net.address import split_host_port

if TYPE_CHECKING:
    import ssl

MILLISECONDS = 1000
MINUTE: Final = 60.0
HOUR: Final = 3600.0

_BACKOFF_STRATEGY: Final = OneOf(
    "exponential", "full_jitter", empty="exponential", refusal="invalid value type"
)
_TLS_VERSION: Final = OneOf(
    "ssl3.0", "tls1.0", "tls1.1", "tls1.2", "tls1.3", empty="", refusal="{} is not a tls version"
)


class Address(Kind):
    """A host and its port."""

    placeholder = "host:port"
    is_checked = True

    def from_config(self, value: str) -> str:
        split_host_port(value)
        return value


ADDRESS: Final = Address()


@dataclass(frozen=True, slots=True, kw_only=True)
class Config:
    """Options of connections, producers and consumers; times in seconds, sizes in bytes.

    ``validate`` is called by every producer and consumer that is given one.
    """

    # A connection
    dial_timeout: float = option(
        1.0, SECONDS, "For the TCP connection; the handshake after it has `read_timeout`."
    )
    read_timeout: float = option(
        60.0, SECONDS, "How long an answer may take.", least=0.1, most=5 * MINUTE
    )
    write_timeout: float = option(
        1.0,
        SECONDS,
        "How long the node may refuse to take what is sent.",
        least=0.1,
        most=5 * MINUTE,
    )
    local_addr: str = option("", ADDRESS, "Connect from this address.")

    # What IDENTIFY says
    client_id: str = option("", STRING, "The short host name when empty.")
    hostname: str = option("", STRING, "The machine's when empty.")
    user_agent: str = option(f"penstock/{__version__}", STRING, "Shown by the node's statistics.")
    heartbeat_interval: float = option(
        30.0, SECONDS, "At most `read_timeout`; anything negative for none."
    )
    sample_rate: int = option(
        0, INT, "Percent of the messages to receive; 0 for all.", least=0, most=99
    )
    output_buffer_size: int = option(
        16384, INT, "How much the node may gather before it sends; -1 to gather nothing."
    )
    output_buffer_timeout: float = option(
        0.25, SECONDS, "How long the node may gather messages; negative to send each at once."
    )
    msg_timeout: float = option(
        0.0,
        SECONDS,
        "How long a message may stay unanswered; 0 for the node's own choice.",
        least=0,
    )
    # In go-nsq 0 is for no bound (NSQ spec 7.1). A frame of any size would take any memory.
    max_msg_size: int = option(
        0, INT, "The longest message to accept, in bytes; 0 for 64 MiB.", least=0
    )
    auth_secret: str = option(
        "", STRING, "The secret that AUTH sends if a node requires it.", shown=False
    )
    skip_lookupd_authorization: bool = option(
        True,
        BOOL,
        "Send the secret to nsqlookupd as well: go-nsq's name says the opposite of what it does.",
    )

    # Layers
    tls_v1: bool = option(
        False,
        BOOL,
        "TLS where a node offers it; nothing else where `tls_config`, `tls_root_ca_file` or"
        " `tls_cert` is given, or a secret is to be sent.",
    )
    tls_config: ssl.SSLContext | None = option(  # noqa: RUF009 - a field, not a value
        None, CODE_ONLY, "An `ssl.SSLContext` instead of all the other `tls_*`."
    )
    tls_root_ca_file: str = option("", FILE, "Who may sign the node's certificate (PEM).")
    tls_cert: str = option("", FILE, "Our certificate (PEM).")
    tls_key: str = option("", FILE, "Its key (PEM), where it is not in the same file.")
    tls_server_name: str = option(
        "", STRING, "The name in the node's certificate, where it is not its host's."
    )
    tls_insecure_skip_verify: bool = option(False, BOOL, "Accept any certificate of the node.")
    # go-nsq's default is tls1.0, which OpenSSL of today refuses anyway (NSQ spec 1.6, 7.1).
    tls_min_version: str = option("tls1.2", _TLS_VERSION, "The oldest TLS to accept.")
    deflate: bool = option(False, BOOL, "Compress with deflate.")
    deflate_level: int = option(6, INT, "1 is quick, 9 is small.", least=1, most=9)
    snappy: bool = option(False, BOOL, "Compress with snappy.")

    # Finding nodes
    lookupd_poll_interval: float = option(
        60.0,
        SECONDS,
        "Also how long to wait before a node given directly is tried again, at most.",
        least=0.01,
        most=5 * MINUTE,
    )
    lookupd_poll_jitter: float = option(
        0.3,
        FRACTION,
        "The first poll is late by up to this part of the interval.",
        least=0,
        most=1,
    )
    lookupd_poll_timeout: float = option(
        60.0, SECONDS, "For a whole request to nsqlookupd; 0 for as long as it takes."
    )

    # Messages
    max_in_flight: int = option(
        1, INT, "How many messages may be unanswered, over all connections.", least=0
    )
    max_attempts: int = option(
        5, COUNT, "Give up a message that comes more often; 0 for never.", least=0
    )
    default_requeue_delay: float = option(
        90.0, SECONDS, "Times the attempts so far.", least=0, most=HOUR
    )
    max_requeue_delay: float = option(
        900.0, SECONDS, "The longest of these delays.", least=0, most=HOUR
    )
    backoff_strategy: str = option(
        "exponential", _BACKOFF_STRATEGY, "Twice as long each time, or anything up to that."
    )
    backoff_multiplier: float = option(
        1.0,
        SECONDS,
        "What is doubled: a backoff of level n lasts this times 2^n.",
        least=0,
        most=HOUR,
    )
    max_backoff_duration: float = option(
        120.0, SECONDS, "The longest backoff; 0 for no backoff.", least=0, most=HOUR
    )
    low_rdy_idle_timeout: float = option(
        10.0,
        SECONDS,
        "With fewer messages in flight than nodes: a node that is silent for this time is left.",
        least=1,
        most=5 * MINUTE,
    )
    low_rdy_timeout: float = option(
        30.0, SECONDS, "And any other node after this time.", least=1, most=5 * MINUTE
    )
    rdy_redistribute_interval: float = option(
        5.0, SECONDS, "The time between two looks at that.", least=0.001, most=5
    )

    def with_option(self, name: str, value: str | bool = True) -> Config:
        """A copy with that option set from a text, as NSQ's tools do: ``msg-timeout``, ``3s``.

        ``-`` and ``_`` are the same, durations need a unit. An option named without a value is
        True, which only switches can be. Raises ConfigError.
        """
        known = OPTIONS.get(name.replace("-", "_"))
        if known is None:
            raise ConfigError(f"invalid option {without_secrets(name.replace('-', '_'))}")
        return replace(self, **{known.name: known.read(value)})

    def validate(self) -> Config:
        """Itself, if all values can be used, and used together. Raises ConfigError."""
        for each in OPTIONS.values():
            each.check(getattr(self, each.name))
        if self.heartbeat_interval > self.read_timeout:
            heartbeat, read = map(SECONDS.show, (self.heartbeat_interval, self.read_timeout))
            raise ConfigError(f"HeartbeatInterval {heartbeat} must be less than ReadTimeout {read}")
        return self

    def identify_body(self) -> bytes:
        """The JSON of IDENTIFY; times in milliseconds."""
        host = self.hostname or platform.node()
        client_id = self.client_id or host.partition(".")[0]
        asked: dict[str, object] = {
            "client_id": client_id,
            "deflate": self.deflate,
            "deflate_level": self.deflate_level,
            "feature_negotiation": True,
            "heartbeat_interval": _milliseconds(self.heartbeat_interval),
            "hostname": host,
            # Ignored since nsqd 1.0, as short_id is; go-nsq still sends both (NSQ spec 1.4, 7.2).
            "long_id": host,
            "msg_timeout": _milliseconds(self.msg_timeout),
            "output_buffer_size": self.output_buffer_size,
            "output_buffer_timeout": _milliseconds(self.output_buffer_timeout),
            "sample_rate": self.sample_rate,
            "short_id": client_id,
            "snappy": self.snappy,
            "tls_v1": self.tls_v1,
            "user_agent": self.user_agent,
        }
        return json.dumps(asked, separators=(",", ":")).encode()


OPTIONS: Final[dict[str, Option]] = options_of(Config)


def refuse_unknown(client: str, given: Mapping[str, object]) -> None:
    """Raise TypeError for arguments that a client does not have: options belong into Config."""
    for name in given:
        if name in OPTIONS:
            raise TypeError(f"{client}: {name} is an option: give config=Config({name}=...)")
        raise TypeError(f"{client} has no argument {name}{did_you_mean(name, OPTIONS)}")


def _milliseconds(seconds: float) -> int:
    return -1 if seconds < 0 else int(seconds * MILLISECONDS)
