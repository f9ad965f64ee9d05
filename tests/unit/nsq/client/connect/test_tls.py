"""What the tls_* options make."""

from __future__ import annotations

import ssl
from pathlib import Path

import pytest

from penstock.core.errors import ConfigError
from penstock.net.tls.tls_layer import ServerTls, TlsError
from penstock.nsq.client.config import Config
from penstock.nsq.client.connect.tls import context_of, layer_of
from penstock.nsq.client.errors import BadTlsOptions
from tests.unit.net.certificates import Certificates
from tests.unit.net.tls.test_tls_layer import server, shake


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    return Certificates(tmp_path_factory.mktemp("certificates"))


def test_a_context_of_ones_own() -> None:
    context = ssl.create_default_context()
    assert context_of(Config(tls_config=context, tls_root_ca_file="/no/such")) is context


@pytest.mark.parametrize(
    ("word", "version"),
    [
        ("ssl3.0", ssl.TLSVersion.MINIMUM_SUPPORTED),
        ("tls1.0", ssl.TLSVersion.MINIMUM_SUPPORTED),
        ("tls1.2", ssl.TLSVersion.TLSv1_2),
        ("tls1.3", ssl.TLSVersion.TLSv1_3),
    ],
)
def test_the_oldest_version(word: str, version: ssl.TLSVersion) -> None:
    assert context_of(Config(tls_min_version=word)).minimum_version == version


def test_the_name_of_a_server_is_the_host_of_its_address(files: Certificates) -> None:
    context = context_of(Config(tls_root_ca_file=files.ca))
    tls = ServerTls(files.cert, files.key)
    for address in ("localhost:4150", "127.0.0.1:4150", ":4150"):
        shake(layer_of(context, address), tls.layer())
    with pytest.raises(TlsError, match=r"Hostname mismatch.*not valid for 'other'"):
        shake(layer_of(context, "other:4150"), tls.layer())
    insecure = Config(tls_insecure_skip_verify=True)
    shake(layer_of(context_of(insecure), "other:4150"), tls.layer())


def test_a_certificate_of_ours(files: Certificates, tmp_path: Path) -> None:
    known = files.names["known"]
    cert, key, both = (str(tmp_path / name) for name in ("c.pem", "k.pem", "both.pem"))
    known.cert_chain_pems[0].write_to_path(cert)
    known.private_key_pem.write_to_path(key)
    known.private_key_and_cert_chain_pem.write_to_path(both)
    for one, other in ((cert, key), (both, "")):
        context = context_of(Config(tls_root_ca_file=files.ca, tls_cert=one, tls_key=other))
        asking = server(files, "require-verify").layer()
        shake(layer_of(context, "localhost:1"), asking)
        assert asking.peer_name == "a client"
    with pytest.raises(BadTlsOptions, match=r"c\.pem and .*c\.pem are no certificate and key"):
        context_of(Config(tls_cert=cert))


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"tls_root_ca_file": "/no/such"}, "open /no/such: no such file or directory"),
        ({"tls_root_ca_file": __file__}, "no certificate in .*test_tls.py"),
        ({"tls_cert": "/no/such", "tls_key": __file__}, "open /no/such: no such file"),
        ({"tls_cert": __file__, "tls_key": "/no/such"}, "open /no/such: no such file"),
        ({"tls_cert": __file__, "tls_key": __file__}, "test_tls.py are no certificate and key"),
        ({"tls_key": __file__}, "tls_key is of no use without tls_cert"),
        ({"tls_min_version": "tls9"}, "tls_min_version 'tls9' is no version"),
    ],
)
def test_what_cannot_be_used_is_named(options: dict[str, str], reason: str) -> None:
    with pytest.raises(BadTlsOptions, match=reason) as found:
        context_of(Config(**options))  # type: ignore[arg-type]
    assert isinstance(found.value, ConfigError)
