"""The log lines of the tools: the client's events as go-nsq writes them, on stderr.

    2009/01/23 01:23:23 INF    1 [topic/channel] (127.0.0.1:4150) connecting to nsqd

The number tells the consumers and producers of a process apart, in the order of their making. A
producer has no topic and channel, and one number for each of its addresses.
"""

from __future__ import annotations

import logging
import sys
from datetime import datetime
from typing import Final, TextIO

from penstock.core.logs import one_line

CLIENT: Final = "penstock.nsq.client"

_WORDS = {
    logging.DEBUG: "DBG",
    logging.INFO: "INF",
    logging.WARNING: "WRN",
    logging.ERROR: "ERR",
    logging.CRITICAL: "ERR",
}


class ClientFormatter(logging.Formatter):
    """Time, level, number, consumer, text; records of others than the client: time and text."""

    def __init__(self) -> None:
        super().__init__()
        self._numbers: dict[str, int] = {}

    def number(self, who: str) -> int:
        """The number of a consumer (``topic/channel``) or of a producer (its address)."""
        return self._numbers.setdefault(who, len(self._numbers) + 1)

    def format(self, record: logging.LogRecord) -> str:
        text = record.getMessage()
        if record.exc_info and record.exc_info[1] is not None:
            error = record.exc_info[1]
            text = f"{text}: {type(error).__name__}: {error}"
        text = one_line(text.replace("\n", " "))
        time = f"{datetime.fromtimestamp(record.created):%Y/%m/%d %H:%M:%S}"
        fields = getattr(record, "nsq", None)
        if fields is None:
            return f"{time} {text}"
        topic, channel = fields.get("topic", ""), fields.get("channel", "")
        who = f"{topic}/{channel}" if channel else fields.get("address", "")
        word = _WORDS.get(record.levelno, "INF")
        return f"{time} {word:<4} {self.number(who):>3} {text}"


class _StderrHandler(logging.StreamHandler[TextIO]):
    """A handler for what stderr is by then: a progress bar takes its place for a while."""

    def __init__(self) -> None:
        logging.Handler.__init__(self)

    @property
    def stream(self) -> TextIO:  # type: ignore[override]
        """stderr."""
        return sys.stderr


_formatter = ClientFormatter()


def install(level: int = logging.INFO) -> None:
    """Send to stderr what the client logs from ``level`` on, and others' warnings."""
    handler = _StderrHandler()
    handler.setFormatter(_formatter)
    for name, threshold in (("penstock", logging.WARNING), ("asyncio", logging.WARNING)):
        logger = logging.getLogger(name)
        logger.handlers[:] = [handler]
        logger.propagate = False
        logger.setLevel(threshold)
    logging.getLogger(CLIENT).setLevel(level)


def count_producer(address: str) -> None:
    """Give the producer, just made, the next number."""
    _formatter.number(address)


def count_consumer(topic: str, channel: str) -> None:
    """Give the consumer, just made, the next number."""
    _formatter.number(f"{topic}/{channel}")
