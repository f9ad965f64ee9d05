"""What goes into IDENTIFY."""

from __future__ import annotations

import json

from penstock.nsq.client.config import Config


def test_identify() -> None:
    asked = json.loads(Config(client_id="me", hostname="h.example").identify_body())
    assert asked["client_id"] == "me"
    assert asked["hostname"] == "h.example"
    assert asked["user_agent"].startswith("penstock/")
    assert asked["feature_negotiation"] is True
    assert (asked["heartbeat_interval"], asked["output_buffer_timeout"]) == (30_000, 250)


def test_numbers() -> None:
    config = Config(heartbeat_interval=-1, msg_timeout=0, sample_rate=5, hostname="a.b")
    asked = json.loads(config.identify_body())
    assert (asked["heartbeat_interval"], asked["msg_timeout"], asked["sample_rate"]) == (-1, 0, 5)
    assert asked["client_id"] == "a"
