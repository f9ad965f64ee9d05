from __future__ import annotations

import ssl
from pathlib import Path

import pytest
import trustme

from penstock.admin.daemon import client_tls
from penstock.admin.options import AdminOptions
from penstock.core.errors import ConfigError


def test_the_four_options(tmp_path: Path) -> None:
    authority = trustme.CA()
    own = authority.issue_cert("localhost")
    ca, cert, key = (tmp_path / name for name in ("ca.pem", "cert.pem", "key.pem"))
    authority.cert_pem.write_to_path(ca)
    own.cert_chain_pems[0].write_to_path(cert)
    own.private_key_pem.write_to_path(key)
    options = AdminOptions(
        http_client_tls_root_ca_file=str(ca),
        http_client_tls_cert=str(cert),
        http_client_tls_key=str(key),
    )
    context = client_tls(options)()
    assert context.verify_mode is ssl.CERT_REQUIRED
    assert len(context.get_ca_certs()) == 1
    lax = client_tls(AdminOptions(http_client_tls_insecure_skip_verify=True))()
    assert lax.verify_mode is ssl.CERT_NONE


def test_files_that_are_none(tmp_path: Path) -> None:
    garbage = tmp_path / "garbage"
    garbage.write_text("x")
    pair = {"http_client_tls_cert": "y", "http_client_tls_key": "x"}
    for options, text in (
        (pair, "failed to LoadX509KeyPair y, x - open y: no such file or directory"),
        ({"http_client_tls_root_ca_file": "nosuch"},
         "failed to read TLS root CA file nosuch - open nosuch: no such file or directory"),
        ({"http_client_tls_root_ca_file": str(garbage)}, str(garbage)),
    ):  # fmt: skip
        with pytest.raises(ConfigError) as raised:
            client_tls(AdminOptions(**options))
        assert text in str(raised.value)
