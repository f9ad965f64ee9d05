"""The reason why a node does not take rows, in a sentence that names them and the remedy."""

from __future__ import annotations

from penstock.log_api.errors import LogError, NoLog
from penstock.spark.errors import SinkError
from penstock.spark.sink.pieces import Piece


def too_big(error: LogError) -> bool:
    """True if fewer messages in one request may be taken."""
    return error.status == 413


def refusal(
    error: LogError, piece: Piece, partition: int, size_setting: str = "--max-msg-size"
) -> SinkError:
    """The error for messages that a node will never take."""
    if isinstance(error, NoLog):
        return SinkError(f"node {error.node} is not an nsqd: it takes no messages over HTTP")
    if too_big(error):
        return SinkError(
            f"{piece.where(partition)}: {piece.sizes().max()} bytes are more than node "
            f"{error.node} takes ({error.reason}): raise its {size_setting}, or make the message "
            "smaller"
        )
    if error.reason == "INVALID_DEFER":
        longest = int(piece.delays.argmax())
        return SinkError(
            f"{piece.slice(longest, longest + 1).where(partition)}: defer_ms "
            f"{piece.delays[longest]} is more than node {error.node} takes: raise its "
            "--max-req-timeout, or delay for less"
        )
    if error.reason == "TOPIC_IS_EPHEMERAL":
        return SinkError(
            f"{piece.where(partition)}: an ephemeral topic remembers no writer, so exactlyOnce is "
            "not for it"
        )
    return SinkError(f"{piece.where(partition)}: refused by node {error}")
