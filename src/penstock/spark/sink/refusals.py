"""Why a node does not take rows, in a sentence that names them and the remedy."""

from __future__ import annotations

from penstock.nsq.client.log import LogError, NoLog
from penstock.spark.errors import SinkError


def too_big(error: LogError) -> bool:
    """True if fewer messages in one request may be taken."""
    return error.status == 413


def refusal(error: LogError, where: str, size: int, delay_ms: int) -> SinkError:
    """The error for messages that a node will never take; ``size`` is the largest, in bytes."""
    if isinstance(error, NoLog):
        return SinkError(f"node {error.node} is no nsqd: it takes no messages over HTTP")
    if too_big(error):
        return SinkError(
            f"{where}: {size} bytes are more than node {error.node} takes ({error.reason}): raise "
            "its --max-msg-size, or make the message smaller"
        )
    if error.reason == "INVALID_DEFER":
        return SinkError(
            f"{where}: defer_ms {delay_ms} is more than node {error.node} takes: raise its "
            "--max-req-timeout, or delay for less"
        )
    return SinkError(f"{where}: refused by node {error}")
