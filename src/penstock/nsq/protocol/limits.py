"""The limits a server puts on what a connection may ask for."""

from __future__ import annotations

from dataclasses import dataclass

from penstock.core.units import HOUR, MILLISECOND, MINUTE, SECOND

MAX_LINE = 16384
"""Bytes of a command line, its LF included; a longer one ends the connection without a word."""


@dataclass(frozen=True, slots=True)
class Limits:
    """Sizes in bytes, durations in nanoseconds; the defaults are nsqd's (NSQ spec 1.11)."""

    max_msg_size: int = 1024 * 1024
    max_body_size: int = 5 * 1024 * 1024
    max_rdy_count: int = 2500
    max_req_timeout: int = 1 * HOUR
    msg_timeout: int = 1 * MINUTE
    max_msg_timeout: int = 15 * MINUTE
    # Half of nsqd's ClientTimeout of 60 s, which has no flag (NSQ spec 3.15).
    heartbeat_interval: int = 30 * SECOND
    min_heartbeat_interval: int = 1 * SECOND
    max_heartbeat_interval: int = 1 * MINUTE
    output_buffer_size: int = 16 * 1024
    min_output_buffer_size: int = 64
    max_output_buffer_size: int = 64 * 1024
    output_buffer_timeout: int = 250 * MILLISECOND
    # NSQ's documents say 1 ms; nsqd has had a flag for it since 1.2.0 (NSQ spec 0).
    min_output_buffer_timeout: int = 25 * MILLISECOND
    max_output_buffer_timeout: int = 30 * SECOND
