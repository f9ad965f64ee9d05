"""ProtocolError."""

from __future__ import annotations

from penstock.nsq.protocol.errors import ProtocolError


def test_the_text_starts_with_the_code() -> None:
    error = ProtocolError("E_BAD_BODY", "MPUB invalid message count 0")
    assert error.code == "E_BAD_BODY"
    assert error.text == str(error) == "E_BAD_BODY MPUB invalid message count 0"
    assert ProtocolError("E_BAD_PROTOCOL", "").text == "E_BAD_PROTOCOL"
