"""Which properties of TLS make sense; what they do is shown with the name server's port."""

from __future__ import annotations

from pathlib import Path

import pytest

from penstock.core.errors import ConfigError
from penstock.rocketmq.tls_settings import TlsSettings
from tools.harness.certificates import Certificates


def test_without_certificate_there_is_no_tls() -> None:
    assert TlsSettings().server_tls() is None


def test_with_one_there_is_unless_disabled(tmp_path: Path) -> None:
    certificates = Certificates(tmp_path)
    text = f"tls.server.certPath={certificates.cert}\ntls.server.keyPath={certificates.key}\n"
    settings, unknown = TlsSettings.load(text)
    assert unknown == []
    assert settings.server_tls() is not None
    settings.update({"tls.server.mode": "disabled"})
    assert settings.server_tls() is None


@pytest.mark.parametrize(
    ("properties", "says"),
    [
        ({"tls.server.mode": "on"}, "disabled, permissive or enforcing, not 'on'"),
        ({"tls.server.mode": "enforcing"}, r"both tls\.server\.certPath and tls\.server\.keyPath"),
        ({"tls.server.certPath": "x"}, r"both tls\.server\.certPath and tls\.server\.keyPath"),
        ({"tls.server.need.client.auth": "optional"}, "none or require, not 'optional'"),
        ({"tls.server.authClient": "true"}, r"needs tls\.server\.trustCertPath"),
        ({"tls.server.certPath": "none", "tls.server.keyPath": "none"}, "open none: no such file"),
    ],
)
def test_properties_that_cannot_be(properties: dict[str, str], says: str) -> None:
    settings = TlsSettings()
    settings.update(properties)
    with pytest.raises(ConfigError, match=says):
        settings.server_tls()
