from __future__ import annotations

import io
import logging
import re
import sys

import pytest

from penstock.nsq.client.events import tell
from penstock.nsq.tools import lines
from penstock.nsq.tools.lines import ClientFormatter

TIME = r"\d{4}/\d\d/\d\d \d\d:\d\d:\d\d"


def record(text: str, level: int = logging.INFO, **fields: object) -> logging.LogRecord:
    made = logging.LogRecord(lines.CLIENT, level, "", 0, text, None, None)
    if fields:
        made.nsq = fields
    return made


def shown(formatter: ClientFormatter, made: logging.LogRecord) -> str:
    line = formatter.format(made)
    assert re.match(TIME, line)
    return line[20:]


def test_consumers_and_producers_have_numbers() -> None:
    formatter = ClientFormatter()
    formatter.number("h:1")
    one = record("[t/c] (h:2) connecting to nsqd", topic="t", channel="c", address="h:2")
    assert shown(formatter, one) == "INF    2 [t/c] (h:2) connecting to nsqd"
    again = record("[t/c] late", logging.WARNING, topic="t", channel="c")
    assert shown(formatter, again) == "WRN    2 [t/c] late"
    producer = record("(h:1) stopping", address="h:1")
    assert shown(formatter, producer) == "INF    1 (h:1) stopping"


def test_others_records_have_no_number_and_no_traceback() -> None:
    made = record("task failed", logging.ERROR)
    made.exc_info = (ValueError, ValueError("no\nway"), None)
    assert shown(ClientFormatter(), made) == "task failed: ValueError: no way"


def test_what_the_client_tells_goes_to_what_stderr_is_by_then(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    lines.install()
    lines.count_producer("h:8")
    lines.count_consumer("t", "c8")
    stderr = io.StringIO()
    monkeypatch.setattr(sys, "stderr", stderr)
    tell(logging.INFO, "connecting", "connecting to nsqd", address="h:9", topic="t", channel="c8")
    tell(logging.DEBUG, "connected", "connected", address="h:9")
    assert re.fullmatch(
        TIME + r" INF +\d+ \[t/c8\] \(h:9\) connecting to nsqd\n", stderr.getvalue()
    )


def test_what_a_stranger_sent_stays_in_its_line() -> None:
    made = record("said x\r2009/01/23 01:23:23 INF\x1b[2J\u2028y", logging.ERROR)
    said = r"said x\r2009/01/23 01:23:23 INF\x1b[2J\u2028y"
    assert shown(ClientFormatter(), made) == said
