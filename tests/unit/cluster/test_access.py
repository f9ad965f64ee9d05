"""The way daemons are asked."""

from __future__ import annotations

import ssl
from pathlib import Path

import pytest

from penstock.cluster.access import Access
from penstock.core.errors import ConfigError


def test_the_secret_is_sent_and_not_shown() -> None:
    assert Access().headers == {}
    access = Access(auth_secret="s3cret")
    assert access.headers == {"Authorization": "Bearer s3cret"}
    assert "s3cret" not in repr(access)


def test_what_concerns_tls() -> None:
    assert not Access(auth_secret="s").concerns_tls
    for given in (Access(tls=True), Access(verify=False), Access(server_name="n"), Access(key="k")):
        assert given.concerns_tls


def test_the_context(tmp_path: Path) -> None:
    assert Access().new_context().verify_mode is ssl.CERT_REQUIRED
    assert Access(verify=False).new_context().verify_mode is ssl.CERT_NONE
    missing = tmp_path / "ca.pem"
    with pytest.raises(ConfigError, match=r"ca\.pem"):
        Access(root_ca_file=str(missing)).new_context()
