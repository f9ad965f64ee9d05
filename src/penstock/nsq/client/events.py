"""What a client has to say while it works, as lines for people and as fields for programs.

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
        "ready", "backoff", "resume", "waters", "redistribute", "starved",
        "lookup", "lookup-failed", "discovered",
        "handler-failed", "given-up", "error-frame", "protocol",
    )
)  # fmt: skip


def tell(level: int, event: str, text: str, **fields: Any) -> None:
    """Log a line, ``(address) text`` when the fields have an address, with its fields."""
    if LOGGER.isEnabledFor(level):
        address = fields.get("address")
        line = f"({address}) {text}" if address else text
        LOGGER.log(level, "%s", line, extra={"nsq": {"event": event, **fields}})
