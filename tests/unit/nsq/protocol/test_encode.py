"""The commands of a client, byte for byte."""

from __future__ import annotations

import pytest

from penstock.nsq.protocol import encode


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        (encode.MAGIC_V2 + encode.NOP, "20205632 4e4f500a"),
        (encode.publish("t", b"hi"), "50554220740a 00000002 6869"),
        (
            encode.multi_publish("t", [b"a", b"bc"]),
            "4d50554220740a 0000000f 00000002 00000001 61 00000002 6263",
        ),
        (encode.deferred_publish("t", 1000, b"x"), "44505542207420313030300a 00000001 78"),
        (encode.auth(b"s"), "415554480a 00000001 73"),
    ],
)
def test_golden_bytes(command: bytes, expected: str) -> None:
    assert command == bytes.fromhex(expected)


def test_lines() -> None:
    identifier = b"0123456789abcdef"
    assert encode.subscribe("t", "c#ephemeral") == b"SUB t c#ephemeral\n"
    assert encode.ready(2500) == b"RDY 2500\n"
    assert encode.finish(identifier) == b"FIN 0123456789abcdef\n"
    assert encode.finish_all([b"1" * 16, b"2" * 16]) == b"FIN %b\nFIN %b\n" % (b"1" * 16, b"2" * 16)
    assert encode.requeue(identifier, 90_000) == b"REQ 0123456789abcdef 90000\n"
    assert encode.touch(identifier) == b"TOUCH 0123456789abcdef\n"
    assert encode.CLS == b"CLS\n"
    assert encode.identify(b"{}") == b"IDENTIFY\n\0\0\0\2{}"
