"""A client's log of its work, as lines for people and as fields for programs.

Every record of the logger ``penstock.nsq.client`` has an attribute ``nsq``, a dictionary: ``event``
(one of the words of ``EVENTS``), ``topic``, ``channel`` and ``address`` where they make sense, and
what else the event has to tell. The wording is go-nsq's where it has one.
"""

from __future__ import annotations

import logging
from typing import Any, Final

LOGGER: Final = logging.getLogger("penstock.nsq.client")

EVENTS: Final = frozenset(
    (
        "connecting", "connected", "connect-failed", "disconnected", "reconnecting", "closing",
        "ready", "backoff", "resume", "waters", "redistribute",
        "lookup", "lookup-failed", "discovered",
        "handler-failed", "given-up", "error-frame", "protocol",
    )
)  # fmt: skip


def tell(
    level: int, event: str, text: str, *, trace: BaseException | None = None, **fields: Any
) -> None:
    """Log a line, ``[topic/channel] (address) text``, without the parts that no field has.

    ``trace`` is an exception whose traceback goes with the line.
    """
    if LOGGER.isEnabledFor(level):
        address, channel = fields.get("address"), fields.get("channel")
        line = f"({address}) {text}" if address else text
        if channel:  # a producer's events may name a topic, but never a channel
            line = f"[{fields['topic']}/{channel}] {line}"
        LOGGER.log(level, "%s", line, exc_info=trace, extra={"nsq": {"event": event, **fields}})
