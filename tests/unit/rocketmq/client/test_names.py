"""Names of topics and groups."""

from __future__ import annotations

import pytest

from penstock.rocketmq.client.errors import BadName
from penstock.rocketmq.client.names import (
    checked_destination,
    checked_group,
    checked_topic,
    unwrap,
    wrap,
)


@pytest.mark.parametrize("name", ["", "  ", "a b", "x" * 128, "ümlaut", "a.b"])
def test_bad_names_are_refused(name: str) -> None:
    with pytest.raises(BadName):
        checked_topic(name)


def test_good_names_stay() -> None:
    assert checked_topic("%RETRY%a-b_c") == "%RETRY%a-b_c"
    assert checked_group("g" * 255)
    with pytest.raises(BadName):
        checked_group("g" * 256)
    with pytest.raises(BadName, match="specify another"):
        checked_group("DEFAULT_PRODUCER")
    with pytest.raises(BadName, match="forbidden"):
        checked_destination("RMQ_SYS_TRANS_HALF_TOPIC")
    with pytest.raises(TypeError):
        checked_topic(b"T")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("plain", "wrapped"),
    [("T", "ns%T"), ("%RETRY%G", "%RETRY%ns%G"), ("%DLQ%G", "%DLQ%ns%G"),
     ("RMQ_SYS_TRACE_TOPIC", "RMQ_SYS_TRACE_TOPIC")],
)  # fmt: skip
def test_a_namespace_stands_before_a_name(plain: str, wrapped: str) -> None:
    assert wrap("ns", plain) == wrapped
    assert wrap("ns", wrapped) == wrapped
    assert unwrap("ns", wrapped) == plain
    assert wrap("", plain) == unwrap("", plain) == plain
