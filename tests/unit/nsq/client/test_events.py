"""What the client says, to people and to programs."""

from __future__ import annotations

import logging

import pytest

from penstock.nsq.client.events import tell


def test_a_line_and_its_fields(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, "penstock.nsq.client"):
        tell(logging.INFO, "connecting", "connecting to nsqd", topic="t", address="h:1")
        tell(logging.DEBUG, "ready", "not wanted")
    (record,) = caplog.records
    assert record.getMessage() == "(h:1) connecting to nsqd"
    assert vars(record)["nsq"] == {"event": "connecting", "topic": "t", "address": "h:1"}
