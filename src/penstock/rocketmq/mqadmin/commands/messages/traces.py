"""The sub-command that shows the trace of a message: its sender, its consumers, their times."""

from __future__ import annotations

from typing import Final, NamedTuple

from penstock.rocketmq.client.consume.received import Received
from penstock.rocketmq.client.produce.trace import ENTRY_END, FIELD_END
from penstock.rocketmq.mqadmin.admin import Admin
from penstock.rocketmq.mqadmin.commands.messages.finding import with_key
from penstock.rocketmq.mqadmin.java_text import to_second
from penstock.rocketmq.mqadmin.options import Given
from penstock.rocketmq.mqadmin.output import Output, Shown, Table

_FORMAT: Final = "%-10s %-20s %-20s %-20s %-10s %-10s"
_FIELDS: Final = "type group clientHost time cost status"
SENT: Final = Table(
    "traces", _FORMAT, _FIELDS,
    ("#Type", "#ProducerGroup", "#ClientHost", "#SendTime", "#CostTimes", "#Status"),
)  # fmt: skip
CONSUMED: Final = Table(
    "traces", _FORMAT, _FIELDS,
    ("#Type", "#ConsumerGroup", "#ClientHost", "#ConsumerTime", "#CostTimes", "#Status"),
)  # fmt: skip
TRACES: Final = "RMQ_SYS_TRACE_TOPIC"
_MOST: Final = 64


class Trace(NamedTuple):
    """One entry of a trace."""

    is_sent: bool
    group: str
    host: str
    time_ms: int
    cost_ms: int
    is_ok: bool

    @property
    def row(self) -> tuple[object, ...]:
        """The values of its row."""
        return (
            "Pub" if self.is_sent else "Sub", self.group, self.host, to_second(self.time_ms),
            Shown(f"{self.cost_ms}ms", self.cost_ms), "success" if self.is_ok else "failed",
        )  # fmt: skip


def entries(message: Received, message_id: str) -> list[Trace]:
    """The entries about a message in a message of the trace topic."""
    host = message.born_host.rpartition(":")[0]
    found = []
    for text in message.body.decode("utf-8", "replace").split(ENTRY_END):
        words = text.split(FIELD_END)
        if words[0] == "Pub" and words[5] == message_id:
            is_ok = words[12 if len(words) == 13 else 13] == "true"
            found.append(Trace(True, words[3], host, int(words[1]), int(words[10]), is_ok))
        elif words[0] == "SubAfter" and words[2] == message_id:
            # The newer entries end with time and group.
            time_ms, group = (int(words[7]), words[8]) if len(words) > 8 else (0, "null")
            found.append(Trace(False, group, host, time_ms, int(words[3]), words[4] == "true"))
    return found


def query_trace(admin: Admin, given: Given, out: Output) -> None:
    """The sender of a message, and its consumers."""
    message_id = given.text("msgId")
    found = [
        trace
        for each in with_key(admin, given.text("traceTopic", TRACES), message_id, _MOST)
        for trace in entries(each, message_id)
    ]
    for trace in (each for each in found if each.is_sent):
        out.head(SENT)
        out.row(SENT, *trace.row)
        out.text("\n")
    consumed = [each for each in found if not each.is_sent]
    for group in dict.fromkeys(each.group for each in consumed):
        out.head(CONSUMED)
        for trace in consumed:
            if trace.group == group:
                out.row(CONSUMED, *trace.row)
        out.text("\n")
