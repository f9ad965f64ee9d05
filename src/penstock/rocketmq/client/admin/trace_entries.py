r"""Entries of traces as clients send them: a message's sender, and what came of handling it.

The fields are those of Java's ``TraceDataEncoder``, whose newer versions have more of them. Bodies
come from strangers: an entry that makes no sense is left out.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from penstock.rocketmq.client.produce.trace import ENTRY_END, FIELD_END

TRACES: Final = "RMQ_SYS_TRACE_TOPIC"
SENT, BEFORE, AFTER, ENDED = "Pub", "SubBefore", "SubAfter", "EndTransaction"


class Entry(NamedTuple):
    """One entry; what its kind, or an old client, does not tell is empty or zero."""

    kind: str
    message_id: str
    """The ids of a batch, with commas between."""
    group: str = ""
    time_ms: int = 0
    cost_ms: int = 0
    is_ok: bool = True
    store_host: str = ""
    request_id: str = ""
    """The id that joins what was told before a message was handled and after."""
    retries: int = 0
    state: str = ""
    """The end of a transaction, as Java calls it."""

    def is_about(self, message_id: str) -> bool:
        return message_id in self.message_id.split(",")


def entries(body: bytes) -> list[Entry]:
    """The entries in the body of a message of the trace topic."""
    texts = body.decode("utf-8", "replace").split(ENTRY_END)
    return [entry for text in texts if (entry := _entry(text.split(FIELD_END))) is not None]


def _entry(words: list[str]) -> Entry | None:
    read = _READ.get(words[0])
    try:
        return read(words) if read is not None else None
    except (IndexError, ValueError):
        return None


def _sent(words: list[str]) -> Entry:
    is_ok = words[12 if len(words) == 13 else 13] == "true"
    return Entry(SENT, words[5], words[3], int(words[1]), int(words[10]), is_ok, words[8])


def _before(words: list[str]) -> Entry:
    return Entry(
        BEFORE, words[5], words[3], int(words[1]), request_id=words[4], retries=int(words[6])
    )


def _after(words: list[str]) -> Entry:
    # The newer entries end with time and group.
    time_ms, group = (int(words[7]), words[8]) if len(words) > 8 else (0, "")
    return Entry(
        AFTER, words[2], group, time_ms, int(words[3]), words[4] == "true", request_id=words[1]
    )


def _ended(words: list[str]) -> Entry:
    return Entry(ENDED, words[5], words[3], int(words[1]), store_host=words[8], state=words[11])


_READ: Final = {SENT: _sent, BEFORE: _before, AFTER: _after, ENDED: _ended}
