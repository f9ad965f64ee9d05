"""Names that people mistype, and what they meant."""

from __future__ import annotations

from penstock.core.nearest import did_you_mean


def test_the_nearest_name_is_said() -> None:
    known = ("tcp_address", "http_address", "msg_timeout")
    assert did_you_mean("tcp_adress", known) == "; did you mean tcp_address?"
    assert did_you_mean("msg-timeuot", ("msg-timeout",), "-") == "; did you mean -msg-timeout?"


def test_nothing_is_said_where_no_name_is_near() -> None:
    assert did_you_mean("zzz", ("tcp_address",)) == ""
    assert did_you_mean("zzz", ()) == ""
