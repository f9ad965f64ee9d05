"""The defaults of nsqd."""

from __future__ import annotations

from penstock.core.units import format_duration
from penstock.nsq.protocol.limits import MAX_LINE, Limits


def test_defaults() -> None:
    limits = Limits()
    assert (limits.max_msg_size, limits.max_body_size) == (1048576, 5242880)
    assert limits.max_rdy_count == 2500
    assert format_duration(limits.max_req_timeout) == "1h0m0s"
    assert format_duration(limits.max_msg_timeout) == "15m0s"
    assert format_duration(limits.max_heartbeat_interval) == "1m0s"
    assert MAX_LINE == 16384
