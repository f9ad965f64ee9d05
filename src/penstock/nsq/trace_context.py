"""Identifiers of a message's spans, computed from what its consumers know of it.

NSQ's messages have no headers, so none can carry a trace. Instead nsqd (``--trace-messages``) and
the consumers compute the same identifiers: the trace and the publish span from the topic and the
message's id, the span of a delivery from these, the channel and the attempts. A consumer makes the
delivery the parent of the span that it adds, in any language:

    sha256("orders/0400000000000007")            bytes 0-15: trace id, 16-23: publish span id
    sha256("orders/0400000000000007/billing/1")  bytes 0-7: span id of the first delivery
"""

from __future__ import annotations

from hashlib import sha256
from typing import Final, NamedTuple

from penstock.core.ids import ID_LENGTH

_VERSION: Final = "00"


class SpanIds(NamedTuple):
    """The identifiers of a span: its trace's, of 128 bits, and its own, of 64."""

    trace_id: int
    span_id: int


def publish_span(topic: str, message_id: int) -> SpanIds:
    """The identifiers of the span of a message's publish, which is the root of its trace."""
    digest = sha256(f"{topic}/{message_id:016x}".encode()).digest()
    return SpanIds(int.from_bytes(digest[:16]), int.from_bytes(digest[16:24]))


def delivery_span(topic: str, channel: str, message_id: int, attempts: int) -> SpanIds:
    """The identifiers of the span of a delivery to a channel; attempts count from 1."""
    digest = sha256(f"{topic}/{message_id:016x}/{channel}/{attempts}".encode()).digest()
    return SpanIds(publish_span(topic, message_id).trace_id, int.from_bytes(digest[:8]))


def traceparent(
    topic: str, channel: str, message_id: bytes | str, attempts: int, every: int = 1
) -> str:
    """The header ``traceparent`` (W3C Trace Context) of a message that a consumer has received.

    ``message_id`` is its 16 hex digits, ``every`` the ``--trace-messages`` of its nsqd: the flag
    for sampled traces is on for those messages alone that nsqd traces. Raises ValueError for what
    is no message id of Penstock's.
    """
    digits = message_id.decode("ascii") if isinstance(message_id, bytes) else message_id
    if len(digits) != ID_LENGTH:
        raise ValueError(f"{digits!r} is no message id of {ID_LENGTH} hex digits")
    number = int(digits, 16)
    ids = delivery_span(topic, channel, number, attempts)
    sampled = every > 0 and number % every == 0
    return f"{_VERSION}-{ids.trace_id:032x}-{ids.span_id:016x}-{sampled:02x}"
