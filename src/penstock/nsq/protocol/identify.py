"""IDENTIFY: what a client says about itself and asks for, and what the server grants.

Numbers of the JSON are milliseconds and bytes; 0 or absent keeps what the connection has, -1 turns
a thing off (NSQ spec 1.4 and 1.5). The checks stop at the first value out of range, and their
order is nsqd's.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from penstock.core.gojson import Kind, dumps, loads_struct
from penstock.core.units import MILLISECOND
from penstock.nsq.protocol.errors import ProtocolError
from penstock.nsq.protocol.limits import Limits

_FIELDS = {
    "client_id": Kind.STRING,
    "hostname": Kind.STRING,
    "user_agent": Kind.STRING,
    "feature_negotiation": Kind.BOOL,
    "heartbeat_interval": Kind.INT,
    "output_buffer_size": Kind.INT,
    "output_buffer_timeout": Kind.INT,
    "tls_v1": Kind.BOOL,
    "deflate": Kind.BOOL,
    "deflate_level": Kind.INT,
    "snappy": Kind.BOOL,
    "sample_rate": Kind.INT32,
    "msg_timeout": Kind.INT,
    "topology_region": Kind.STRING,
    "topology_zone": Kind.STRING,
}


@dataclass(frozen=True, slots=True)
class Identity:
    """A connection's attributes, as they hold after its last IDENTIFY. Durations in nanoseconds.

    ``heartbeat_interval`` 0 means no heartbeats, ``output_buffer_timeout`` 0 no timed flush,
    ``sample_rate`` 0 no sampling.
    """

    client_id: str
    hostname: str
    heartbeat_interval: int
    output_buffer_size: int
    output_buffer_timeout: int
    msg_timeout: int
    sample_rate: int = 0
    user_agent: str = ""
    feature_negotiation: bool = False
    tls_v1: bool = False
    deflate: bool = False
    deflate_level: int = 0
    snappy: bool = False
    topology_region: str = ""
    topology_zone: str = ""

    @classmethod
    def unknown(cls, remote_ip: str, limits: Limits) -> Identity:
        """The identity of a connection that has not sent IDENTIFY yet."""
        return cls(
            client_id=remote_ip,
            hostname=remote_ip,
            heartbeat_interval=limits.heartbeat_interval,
            output_buffer_size=limits.output_buffer_size,
            output_buffer_timeout=limits.output_buffer_timeout,
            msg_timeout=limits.msg_timeout,
        )


@dataclass(frozen=True, slots=True)
class Features:
    """The server's features, as announced to its clients."""

    version: str
    tls_v1: bool = False
    deflate: bool = True
    max_deflate_level: int = 6
    snappy: bool = True
    auth_required: bool = False
    topology_region: str = ""
    topology_zone: str = ""


@dataclass(frozen=True, slots=True)
class Negotiated:
    """The outcome: the data of the response frame, and the layers to put on after it was sent."""

    response: bytes
    tls_v1: bool = False
    deflate: bool = False
    deflate_level: int = 6
    snappy: bool = False


def identify(body: bytes, limits: Limits, current: Identity) -> Identity:
    """The attributes of a connection that had ``current`` and sent this JSON.

    Raises ProtocolError E_BAD_BODY (NSQ spec 1.3, IDENTIFY rows 6 to 11).
    """
    try:
        asked = loads_struct(body, _FIELDS)
    except ValueError as error:
        raise ProtocolError("E_BAD_BODY", "IDENTIFY failed to decode JSON body") from error
    heartbeat_interval = _heartbeat_interval(asked["heartbeat_interval"], limits, current)
    size, timeout = _output_buffer(asked, limits, current)
    rate = asked["sample_rate"]
    if not 0 <= rate <= 99:
        raise _invalid("sample rate", rate)
    return replace(
        current,
        heartbeat_interval=heartbeat_interval,
        output_buffer_size=size,
        output_buffer_timeout=timeout,
        sample_rate=rate,
        msg_timeout=_msg_timeout(asked["msg_timeout"], limits, current),
        **{name: asked[name] for name in _TAKEN_AS_THEY_ARE},
    )


# As in nsqd an absent client_id becomes empty: the default, the remote IP, is lost.
_TAKEN_AS_THEY_ARE = (
    "client_id",
    "hostname",
    "user_agent",
    "feature_negotiation",
    "tls_v1",
    "deflate",
    "deflate_level",
    "snappy",
    "topology_region",
    "topology_zone",
)


def _heartbeat_interval(milliseconds: int, limits: Limits, current: Identity) -> int:
    # V2 protocol: no heartbeats and no deadlines; SUB is refused then (NSQ spec 1.9).
    if milliseconds == -1:
        return 0
    if milliseconds == 0:
        return current.heartbeat_interval
    least, most = limits.min_heartbeat_interval, limits.max_heartbeat_interval
    return _duration("heartbeat interval", milliseconds, least, most)


def _output_buffer(asked: dict[str, Any], limits: Limits, current: Identity) -> tuple[int, int]:
    # The time-out is checked before the size, as nsqd does (NSQ spec 1.4).
    size, milliseconds = asked["output_buffer_size"], asked["output_buffer_timeout"]
    timeout = current.output_buffer_timeout
    if milliseconds == -1:
        timeout = 0
    elif milliseconds != 0:
        least, most = limits.min_output_buffer_timeout, limits.max_output_buffer_timeout
        timeout = _duration("output buffer timeout", milliseconds, least, most)
    # nsqd's -1 for the size switches off the timer as well, whatever the client asked for.
    if size == -1:  # every write goes straight through, so there is nothing left to flush
        return 1, 0
    if size == 0:
        return current.output_buffer_size, timeout
    if not limits.min_output_buffer_size <= size <= limits.max_output_buffer_size:
        raise _invalid("output buffer size", size)
    return size, timeout


def _msg_timeout(milliseconds: int, limits: Limits, current: Identity) -> int:
    if milliseconds == 0:
        return current.msg_timeout
    return _duration("msg timeout", milliseconds, 1000 * MILLISECOND, limits.max_msg_timeout)


def _duration(what: str, milliseconds: int, least: int, most: int) -> int:
    if not least // MILLISECOND <= milliseconds <= most // MILLISECOND:
        raise _invalid(what, milliseconds)
    return milliseconds * MILLISECOND


def _invalid(what: str, value: int) -> ProtocolError:
    return ProtocolError("E_BAD_BODY", f"IDENTIFY {what} ({value}) is invalid")


def negotiate(identity: Identity, features: Features, limits: Limits) -> Negotiated:
    """The answer to an IDENTIFY; plain ``OK`` and no upgrade unless the client negotiates.

    Raises ProtocolError E_IDENTIFY_FAILED when both compressions would be on.
    """
    # nsqd upgrades nothing without feature_negotiation, even if TLS was asked for.
    if not identity.feature_negotiation:
        return Negotiated(b"OK")
    tls_v1 = identity.tls_v1 and features.tls_v1
    deflate = identity.deflate and features.deflate
    snappy = identity.snappy and features.snappy
    if deflate and snappy:
        text = "cannot enable both deflate and snappy compression"
        raise ProtocolError("E_IDENTIFY_FAILED", text)
    # nsqd announces a level without deflate, too: 6, or less by --max-deflate-level.
    level = identity.deflate_level if deflate and identity.deflate_level > 0 else 6
    level = min(level, features.max_deflate_level)
    # The order of the keys is part of what clients and tests have seen (NSQ spec 1.5).
    answer = {
        "max_rdy_count": limits.max_rdy_count,
        "version": features.version,
        "max_msg_timeout": limits.max_msg_timeout // MILLISECOND,
        "msg_timeout": identity.msg_timeout // MILLISECOND,
        "tls_v1": tls_v1,
        "deflate": deflate,
        "deflate_level": level,
        "max_deflate_level": features.max_deflate_level,
        "snappy": snappy,
        "sample_rate": identity.sample_rate,
        "auth_required": features.auth_required,
        "output_buffer_size": identity.output_buffer_size,
        "output_buffer_timeout": identity.output_buffer_timeout // MILLISECOND,
        "topology_region": features.topology_region,
        "topology_zone": features.topology_zone,
    }
    return Negotiated(dumps(answer), tls_v1, deflate, level, snappy)
