"""The checksum of a table's file."""

from __future__ import annotations

import json

import pytest

from penstock.rocketmq.broker.state.seal import is_broken, sealed


@pytest.mark.parametrize("data", [b"{}", b'{"a":1}', '{"\u00e9":{"b":{0:7}}}'.encode()])
def test_every_flipped_bit_of_the_content_shows(data: bytes) -> None:
    whole = sealed(data)
    assert not is_broken(whole)
    assert not is_broken(whole + b"\n")
    for bit in range(8, 8 * len(data) - 8):  # the braces are not told from others'
        flipped = bytearray(whole)
        flipped[bit // 8] ^= 1 << bit % 8
        assert is_broken(bytes(flipped))


def test_it_is_a_member_like_others() -> None:
    assert json.loads(sealed(b'{"a":1}'))["a"] == 1
    assert list(json.loads(sealed(b"{}"))) == ["checksum"]


@pytest.mark.parametrize("data", [b"", b"{}", b'{"a":1}', b'{\n "checksum" : "0"}'])
def test_content_without_a_checksum_is_not_judged(data: bytes) -> None:
    assert not is_broken(data)
