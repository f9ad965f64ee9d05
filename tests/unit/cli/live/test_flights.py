"""The demo's data set, whole."""

from __future__ import annotations

import json

from penstock.cli.live import flights


def test_every_flight_in_time_order() -> None:
    chunks = list(flights.events())
    events = [event for chunk in chunks for event in chunk]
    assert len(events) == flights.FLIGHTS
    sample = [json.loads(event) for event in events[::5000]]
    assert [event["seq"] for event in sample] == list(range(0, flights.FLIGHTS, 5000))
    times = [(event["time_hour"], event["minute"]) for event in sample]
    assert times == sorted(times)
    assert flights.airlines()["UA"] == "United Air Lines Inc."
