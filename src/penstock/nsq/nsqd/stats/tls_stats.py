"""The fields of /stats about a connection's TLS, in the words of Go's nsqd (NSQ spec 2.5)."""

from __future__ import annotations

from typing import Any

from penstock.net.tls.tls_layer import TlsLayer

# The suites that Go's nsqd has names for, none of TLS 1.3 among them.
_GO_NAMES = {
    "RC4-SHA": "TLS_RSA_WITH_RC4_128_SHA",
    "DES-CBC3-SHA": "TLS_RSA_WITH_3DES_EDE_CBC_SHA",
    "AES128-SHA": "TLS_RSA_WITH_AES_128_CBC_SHA",
    "AES256-SHA": "TLS_RSA_WITH_AES_256_CBC_SHA",
    "ECDHE-ECDSA-RC4-SHA": "TLS_ECDHE_ECDSA_WITH_RC4_128_SHA",
    "ECDHE-ECDSA-AES128-SHA": "TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA",
    "ECDHE-ECDSA-AES256-SHA": "TLS_ECDHE_ECDSA_WITH_AES_256_CBC_SHA",
    "ECDHE-RSA-RC4-SHA": "TLS_ECDHE_RSA_WITH_RC4_128_SHA",
    "ECDHE-RSA-DES-CBC3-SHA": "TLS_ECDHE_RSA_WITH_3DES_EDE_CBC_SHA",
    "ECDHE-RSA-AES128-SHA": "TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA",
    "ECDHE-RSA-AES256-SHA": "TLS_ECDHE_RSA_WITH_AES_256_CBC_SHA",
    "ECDHE-RSA-AES128-GCM-SHA256": "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256",
    "ECDHE-ECDSA-AES128-GCM-SHA256": "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256",
}


def tls_fields(tls: TlsLayer | None) -> dict[str, Any]:
    """The keys of a client that begin with ``tls``, in their order."""
    if tls is None:
        return {
            "tls": False,
            "tls_cipher_suite": "",
            "tls_version": "",
            "tls_negotiated_protocol": "",
            "tls_negotiated_protocol_is_mutual": False,
        }
    name, number = tls.cipher
    return {
        "tls": True,
        "tls_cipher_suite": _GO_NAMES.get(name, f"Unknown {number}"),
        "tls_version": go_version(tls.version),
        "tls_negotiated_protocol": tls.protocol,
        "tls_negotiated_protocol_is_mutual": True,
    }


def go_version(version: str) -> str:
    """``TLS1.0`` for OpenSSL's ``TLSv1``, ``TLS1.3`` for its ``TLSv1.3``."""
    number = version.removeprefix("TLSv")
    return f"TLS{number if '.' in number else number + '.0'}"
