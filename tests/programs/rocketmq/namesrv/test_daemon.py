"""The name server's port."""

from __future__ import annotations

import ssl
from collections.abc import Iterator
from pathlib import Path

import pytest

from penstock.core.errors import PenstockError
from penstock.net.tls import layered
from penstock.rocketmq.namesrv.daemon import NameServer
from penstock.rocketmq.namesrv.settings import NamesrvSettings
from tests.unit.rocketmq.conftest import LoopThread
from tools.harness.certificates import Certificates
from tools.harness.rocketmq.raw_client import RawClient


def test_a_taken_port_is_one_line(
    name_server: NameServer, settings: NamesrvSettings, loop_thread: LoopThread
) -> None:
    settings.listen_port = name_server.port
    with pytest.raises(PenstockError, match=r"cannot start: .*address already in use"):
        loop_thread.run(NameServer.start(settings))


def test_closing_ends_connections(loop_thread: LoopThread, settings: NamesrvSettings) -> None:
    server = loop_thread.run(NameServer.start(settings))
    client = RawClient(server.port)
    assert client.ask(319).code == 0
    loop_thread.run(server.close())
    assert client.is_closed()
    client.close()


# --- TLS -----------------------------------------------------------------------------------------


@pytest.fixture
def certificates(
    tmp_path: Path, settings: NamesrvSettings, monkeypatch: pytest.MonkeyPatch
) -> Certificates:
    """Known to the settings, too; no handshake is late."""
    monkeypatch.setattr(layered, "HANDSHAKE_S", 60.0)
    certificates = Certificates(tmp_path)
    settings.tls_cert_path = str(certificates.cert)
    settings.tls_key_path = str(certificates.key)
    return certificates


@pytest.fixture
def port(
    certificates: Certificates,
    settings: NamesrvSettings,
    loop_thread: LoopThread,
    request: pytest.FixtureRequest,
) -> Iterator[int]:
    """A name server with these properties."""
    settings.update(getattr(request, "param", {}))
    if settings.tls_auth_client:
        settings.tls_trust_cert_path = str(certificates.ca)
    server = loop_thread.run(NameServer.start(settings))
    yield server.port
    loop_thread.run(server.close())


def answers(port: int, tls: ssl.SSLContext | None = None) -> bool:
    """Whether a client gets answers, rather than the end of its connection."""
    try:
        client = RawClient(port, tls)
        try:
            client.ask(100, namespace="N", key="k", value="v" * 300_000)  # many TLS records
            return len((client.ask(101, namespace="N", key="k").ext or {})["value"]) == 300_000
        finally:
            client.close()
    except (EOFError, ConnectionError, ssl.SSLError):
        return False


def test_tls_and_plain_on_one_port(port: int, certificates: Certificates) -> None:
    assert answers(port, certificates.context())
    assert answers(port, certificates.context(newest="12"))
    assert answers(port)


@pytest.mark.parametrize("port", [{"tls.server.mode": "enforcing"}], indirect=True)
def test_tls_that_must_be(port: int, certificates: Certificates) -> None:
    assert not answers(port)
    assert answers(port, certificates.context())


@pytest.mark.parametrize("port", [{"tls.server.mode": "disabled"}], indirect=True)
def test_tls_that_is_off(port: int, certificates: Certificates) -> None:
    assert not answers(port, certificates.context())
    assert answers(port)


@pytest.mark.parametrize("port", [{"tls.server.need.client.auth": "require"}], indirect=True)
def test_clients_must_show_any_certificate(port: int, certificates: Certificates) -> None:
    assert not answers(port, certificates.context())
    assert answers(port, certificates.context("self"))


@pytest.mark.parametrize(
    "port",
    [{"tls.server.need.client.auth": "require", "tls.server.authClient": "true"}],
    indirect=True,
)
def test_clients_must_show_a_signed_certificate(port: int, certificates: Certificates) -> None:
    assert not answers(port, certificates.context("self"))
    assert answers(port, certificates.context("client"))


def test_a_handshake_that_is_none(port: int) -> None:
    for sent, answered in ((b"\x16 no record", b""), (b"\x16\x03\x01\x00\x04none", b"\x15")):
        client = RawClient(port)
        client.send(sent)
        assert client.rest()[:1] == answered  # nothing, or an alert
        client.close()
    assert answers(port)


def test_tls_without_certificate_is_refused(name_server: NameServer, tmp_path: Path) -> None:
    assert not answers(name_server.port, Certificates(tmp_path).context())
    assert answers(name_server.port)
