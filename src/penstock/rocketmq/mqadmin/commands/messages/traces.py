"""The sub-command that shows the trace of a message: its sender, its consumers, their times."""

from __future__ import annotations

from typing import Final, NamedTuple

from penstock.rocketmq.client.admin.trace_entries import AFTER, ENDED, SENT, TRACES, Entry, entries
from penstock.rocketmq.client.consume.received import Received
from penstock.rocketmq.mqadmin.admin import Admin
from penstock.rocketmq.mqadmin.commands.messages.finding import with_key
from penstock.rocketmq.mqadmin.java_text import to_second
from penstock.rocketmq.mqadmin.output import Output, Shown, Table
from penstock.rocketmq.mqadmin.posix_parser import ParsedOptions

_FORMAT: Final = "%-10s %-20s %-20s %-20s %-10s %-10s"
_FIELDS: Final = "type group clientHost time cost status"
SENDERS: Final = Table(
    "traces",
    _FORMAT,
    _FIELDS,
    ("#Type", "#ProducerGroup", "#ClientHost", "#SendTime", "#CostTimes", "#Status"),
)
CONSUMERS: Final = Table(
    "traces",
    _FORMAT,
    _FIELDS,
    ("#Type", "#ConsumerGroup", "#ClientHost", "#ConsumerTime", "#CostTimes", "#Status"),
)
ENDS: Final = Table(
    "traces",
    _FORMAT,
    _FIELDS,
    ("#Type", "#ProducerGroup", "#ClientHost", "#EndTime", "#CostTimes", "#Status"),
)
_KINDS: Final = {SENT: "Pub", AFTER: "Sub", ENDED: "End"}
_MOST: Final = 64


class Trace(NamedTuple):
    """An entry, and the host of the client that told it."""

    entry: Entry
    host: str

    @property
    def row(self) -> tuple[object, ...]:
        """The values of its row."""
        each = self.entry
        return (
            _KINDS[each.kind],
            _group(each),
            self.host,
            to_second(each.time_ms),
            Shown(f"{each.cost_ms}ms", each.cost_ms),
            each.state or ("success" if each.is_ok else "failed"),
        )


def _group(entry: Entry) -> str:
    return entry.group or "null"  # as Java prints what old clients do not tell


def traces(message: Received, message_id: str) -> list[Trace]:
    """The entries about a message in one of the trace topic. As in Java, a batch is not found."""
    host = message.born_host.rpartition(":")[0]
    return [
        Trace(each, host)
        for each in entries(message.body)
        if each.kind in _KINDS and each.message_id == message_id
    ]


async def query_trace(admin: Admin, given: ParsedOptions, out: Output) -> None:
    """The sender of a message, the end of its transaction, and its consumers."""
    message_id = given.text("msgId")
    found = [
        trace
        for each in await with_key(admin, given.text("traceTopic", TRACES), message_id, _MOST)
        for trace in traces(each, message_id)
    ]
    for kind, table in ((SENT, SENDERS), (ENDED, ENDS)):
        for trace in (each for each in found if each.entry.kind == kind):
            out.head(table)
            out.row(table, *trace.row)
            out.text("\n")
    consumed = [each for each in found if each.entry.kind == AFTER]
    for group in dict.fromkeys(_group(each.entry) for each in consumed):
        out.head(CONSUMERS)
        for trace in consumed:
            if _group(trace.entry) == group:
                out.row(CONSUMERS, *trace.row)
        out.text("\n")
