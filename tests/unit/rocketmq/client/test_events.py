"""Events in the log."""

from __future__ import annotations

import logging
import re
from pathlib import Path

import pytest

import penstock.rocketmq.client as client
from penstock.rocketmq.client.events import EVENTS, tell

HOME = Path(client.__file__).parent


def test_the_list_of_events_is_what_the_source_says() -> None:
    said = set[str]()
    for path in HOME.rglob("*.py"):
        text = path.read_text(encoding="utf-8")
        said |= set(re.findall(r'tell\(\s*(?:logging\.\w+|level),\s*"([a-z-]+)"', text))
        for pair in re.findall(r'event = "([a-z-]+)" if .* else "([a-z-]+)"', text):
            said.update(pair)
    assert said == EVENTS


def test_a_line_for_people_and_fields_for_programs(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO):
        tell(logging.INFO, "connected", "hello", address="b:1", group="G", topic="T")
    (record,) = caplog.records
    assert record.getMessage() == "[G] (b:1) hello"
    assert record.rocketmq == {"event": "connected", "address": "b:1", "group": "G", "topic": "T"}  # type: ignore[attr-defined]
