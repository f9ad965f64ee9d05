"""What a node says of itself."""

from __future__ import annotations

import contextlib
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.nsq.client.connect.server_info import ServerInfo, StrangeAnswerError

ANSWER = {
    "max_rdy_count": 50, "version": "1.3.0", "max_msg_timeout": 1000, "msg_timeout": 500,
    "tls_v1": True, "deflate": True, "deflate_level": 3, "max_deflate_level": 4, "snappy": False,
    "sample_rate": 7, "auth_required": True, "output_buffer_size": 1, "output_buffer_timeout": 0,
}  # fmt: skip


def test_all_fields() -> None:
    info = ServerInfo.of(json.dumps(ANSWER | {"topology_zone": "z", "news": [1]}).encode())
    assert {name: getattr(info, name) for name in ServerInfo.__slots__} == ANSWER
    assert info.layers == ["tls", "deflate"]


def test_what_is_missing_has_its_default() -> None:
    assert ServerInfo.of(b'{"version":"1","max_rdy_count":null}') == ServerInfo(version="1")
    assert ServerInfo.of(b"OK") == ServerInfo()
    assert ServerInfo().layers == []


def test_layers_come_in_this_order() -> None:
    info = ServerInfo.of(b'{"snappy":true,"deflate":true,"tls_v1":true}')
    assert info.layers == ["tls", "deflate", "snappy"]


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (b'{"max_rdy_count":true}', "has max_rdy_count true"),
        (b'{"max_rdy_count":2500.5}', "has max_rdy_count 2500.5"),
        (b'{"version":1}', "has version 1"),
        (b'{"tls_v1":"yes"}', 'has tls_v1 "yes"'),
        (b'{"snappy":1}', "has snappy 1"),
        (b"{", "is no JSON"),
        (b'{"\xff":1}', "is no JSON"),
        (b"{}x", "is no JSON"),
        (b'{"a":' + b"[" * 100_000, "is no JSON"),
    ],
)
def test_strange_answers(answer: bytes, reason: str) -> None:
    with pytest.raises(StrangeAnswerError, match=reason) as found:
        ServerInfo.of(answer)
    assert len(str(found.value)) < 200


@given(answer=st.binary(max_size=60).map(lambda rest: b"{" + rest))
def test_garbage_is_never_another_error(answer: bytes) -> None:
    with contextlib.suppress(StrangeAnswerError):
        assert isinstance(ServerInfo.of(answer), ServerInfo)
