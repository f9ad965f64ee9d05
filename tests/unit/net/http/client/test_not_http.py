"""What is said of an answer that is not HTTP."""

from __future__ import annotations

from penstock.net.http.client.not_http import NotHttpError


def test_a_port_of_nsq_is_recognised() -> None:
    said = str(NotHttpError(b"\x00\x00\x00\x14\x00\x00\x00\x01E_BAD_PROTOCOL"))
    assert said.startswith("that is the TCP port of nsqd or nsqlookupd")
    assert str(NotHttpError(b"SSH-2.0-OpenSSH_9.2")) == "what answers there does not speak HTTP"
