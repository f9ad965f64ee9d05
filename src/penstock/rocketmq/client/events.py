"""Events of a client at work, as lines for people and as fields for programs.

Every record of the logger ``penstock.rocketmq.client`` has an attribute ``rocketmq``, a dictionary:
``event`` (one of the words of ``EVENTS``), ``group``, ``topic`` and ``address`` where they make
sense, and what else the event has to tell. The wording is the Java client's where people grep for
it.
"""

from __future__ import annotations

import logging
from typing import Any, Final

LOGGER: Final = logging.getLogger("penstock.rocketmq.client")

EVENTS: Final = frozenset(
    (
        "connecting", "connected", "connect-failed", "disconnected", "closing",
        "name-servers", "name-servers-failed", "route", "route-failed", "heartbeat-failed",
        "send-failed", "avoided", "check", "check-failed", "transaction-ended", "reply-unmatched",
        "trace-failed",
        "members-changed", "rebalance-failed", "queue-added", "queue-dropped",
        "lock-failed", "lock-lost", "pull-failed", "offset-illegal", "offset-reset",
        "commit-failed", "handler-failed", "send-back-failed", "consume-timeout",
    )
)  # fmt: skip


def tell(
    level: int, event: str, text: str, *, trace: BaseException | None = None, **fields: Any
) -> None:
    """Log a line, ``[group] (address) text``, without the parts that no field has.

    ``trace`` is an exception whose traceback goes with the line.
    """
    if LOGGER.isEnabledFor(level):
        address, group = fields.get("address"), fields.get("group")
        line = f"({address}) {text}" if address else text
        if group:
            line = f"[{group}] {line}"
        LOGGER.log(
            level, "%s", line, exc_info=trace, extra={"rocketmq": {"event": event, **fields}}
        )
