"""What the client says, to people and to programs."""

from __future__ import annotations

import ast
import logging
from pathlib import Path

import pytest

from penstock import nsq
from penstock.nsq.client.events import EVENTS, tell


def test_a_line_and_its_fields(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, "penstock.nsq.client"):
        tell(logging.INFO, "connecting", "connecting to nsqd", topic="t", address="h:1")
        tell(logging.DEBUG, "ready", "not wanted")
        tell(logging.INFO, "backoff", "slow", topic="t", channel="c", trace=ValueError("why"))
    record, other = caplog.records
    assert other.getMessage() == "[t/c] slow"
    assert "ValueError: why" in caplog.text
    assert record.getMessage() == "(h:1) connecting to nsqd"
    assert vars(record)["nsq"] == {"event": "connecting", "topic": "t", "address": "h:1"}


def test_these_are_the_events_that_are_told() -> None:
    told = set()
    for module in Path(nsq.__path__[0]).rglob("*.py"):
        for node in ast.walk(ast.parse(module.read_text())):
            if isinstance(node, ast.Call) and ast.unparse(node.func).endswith("tell"):
                told |= {arg.value for arg in node.args[1:2] if isinstance(arg, ast.Constant)}
    assert told == EVENTS
