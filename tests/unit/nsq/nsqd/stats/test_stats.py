"""TLS in /stats, in Go's words; real connections are in test_layering."""

from __future__ import annotations

from typing import cast

import pytest

from penstock.net.tls.tls_layer import TlsLayer
from penstock.nsq.nsqd.stats.stats import go_version, tls_fields


class Agreed:
    """What a layer tells after its handshake."""

    version = "TLSv1.2"
    protocol = "h2"

    def __init__(self, name: str, number: int) -> None:
        self.cipher = (name, number)


def test_without_tls() -> None:
    assert list(tls_fields(None).items()) == [
        ("tls", False),
        ("tls_cipher_suite", ""),
        ("tls_version", ""),
        ("tls_negotiated_protocol", ""),
        ("tls_negotiated_protocol_is_mutual", False),
    ]


@pytest.mark.parametrize(
    ("name", "number", "shown"),
    [
        ("ECDHE-RSA-AES128-GCM-SHA256", 0xC02F, "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256"),
        ("AES128-SHA", 0x2F, "TLS_RSA_WITH_AES_128_CBC_SHA"),
        ("ECDHE-RSA-AES256-GCM-SHA384", 0xC030, "Unknown 49200"),
        ("TLS_AES_128_GCM_SHA256", 0x1301, "Unknown 4865"),
    ],
)
def test_suites(name: str, number: int, shown: str) -> None:
    fields = tls_fields(cast(TlsLayer, Agreed(name, number)))
    assert fields == {
        "tls": True,
        "tls_cipher_suite": shown,
        "tls_version": "TLS1.2",
        "tls_negotiated_protocol": "h2",
        "tls_negotiated_protocol_is_mutual": True,
    }


@pytest.mark.parametrize(
    ("openssl", "go"),
    [("TLSv1", "TLS1.0"), ("TLSv1.1", "TLS1.1"), ("TLSv1.2", "TLS1.2"), ("TLSv1.3", "TLS1.3")],
)
def test_versions(openssl: str, go: str) -> None:
    assert go_version(openssl) == go
