"""The visible state of a client."""

from __future__ import annotations

from penstock.rocketmq.client.state import ConnectionState


def test_a_connection_begins_with_nothing() -> None:
    state = ConnectionState("b:1")
    assert (state.requests, state.answers, state.unanswered, state.tls) == (0, 0, 0, "")
