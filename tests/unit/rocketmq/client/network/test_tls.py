"""TLS as the options ask for it."""

from __future__ import annotations

import ssl
from pathlib import Path

import pytest
import trustme

from penstock.rocketmq.client.config import Config
from penstock.rocketmq.client.errors import BadTlsOptions
from penstock.rocketmq.client.network.tls import context_of


def test_without_tls_there_is_no_context() -> None:
    assert context_of(Config()) is None


def test_a_context_of_ones_own() -> None:
    own = ssl.create_default_context()
    assert context_of(Config(tls_enable=True, tls_config=own)) is own


def test_servers_must_prove_who_they_are_unless_told_otherwise(tmp_path: Path) -> None:
    trustme.CA().cert_pem.write_to_path(str(tmp_path / "ca.pem"))
    config = Config(tls_enable=True, tls_trust_cert_path=str(tmp_path / "ca.pem"))
    context = context_of(config)
    assert context is not None
    assert context.verify_mode is ssl.CERT_REQUIRED
    context = context_of(Config(tls_enable=True, tls_auth_server=False))
    assert context is not None
    assert context.verify_mode is ssl.CERT_NONE


def test_what_cannot_be_used_is_named() -> None:
    with pytest.raises(BadTlsOptions, match="tls_cert_path"):
        context_of(Config(tls_enable=True, tls_key_path="key.pem"))
    with pytest.raises(BadTlsOptions, match="nowhere"):
        context_of(Config(tls_enable=True, tls_trust_cert_path="/nowhere"))
