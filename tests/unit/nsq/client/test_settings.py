"""What goes into IDENTIFY."""

from __future__ import annotations

import json

from penstock.nsq.client.settings import Settings


def test_only_what_was_set() -> None:
    asked = json.loads(Settings(client_id="me", hostname="h.example").identify_body())
    assert asked["client_id"] == "me"
    assert asked["hostname"] == "h.example"
    assert asked["user_agent"].startswith("penstock/")
    assert asked["feature_negotiation"] is True
    assert set(asked) == {"client_id", "hostname", "user_agent", "feature_negotiation"}


def test_numbers() -> None:
    settings = Settings(heartbeat_interval=-1, msg_timeout=0, sample_rate=5, hostname="a.b")
    asked = json.loads(settings.identify_body())
    assert (asked["heartbeat_interval"], asked["msg_timeout"], asked["sample_rate"]) == (-1, 0, 5)
    assert asked["client_id"] == "a"
