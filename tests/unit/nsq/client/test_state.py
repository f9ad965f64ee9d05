"""What can be seen of a connection."""

from __future__ import annotations

from penstock.nsq.client.state import ConnectionState


def test_a_connection_that_has_seen_nothing() -> None:
    state = ConnectionState("h:1")
    assert (state.ready, state.in_flight, state.messages) == (0, 0, 0)
    assert state.last_heartbeat is None
    assert not state.tls
    assert not state.left
