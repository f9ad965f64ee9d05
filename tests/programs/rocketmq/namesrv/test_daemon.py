"""The name server's port."""

from __future__ import annotations

import ssl
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from penstock.core.errors import PenstockError
from penstock.net.tls import layered
from penstock.rocketmq.namesrv.daemon import NameServer
from penstock.rocketmq.namesrv.namesrv_settings import NamesrvSettings
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


@contextmanager
def listening(loop_thread: LoopThread, settings: NamesrvSettings) -> Iterator[int]:
    """The port of a name server."""
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


PLAIN, TLS, OLD, OWN, SIGNED = "plain", "TLS", "TLS 1.2", "its own certificate", "a signed one"
MUST = {"tls.server.need.client.auth": "require"}


@pytest.mark.parametrize(
    ("properties", "answered", "refused"),
    [
        ({}, {PLAIN, TLS, OLD}, {}),
        ({"tls.server.mode": "enforcing"}, {TLS}, {PLAIN}),
        ({"tls.server.mode": "disabled"}, {PLAIN}, {TLS}),
        (MUST, {OWN}, {TLS}),
        (MUST | {"tls.server.authClient": "true"}, {SIGNED}, {OWN}),
    ],
    ids=["permissive", "enforcing", "disabled", "any certificate", "signed certificates"],
)
def test_who_is_answered(
    properties: dict[str, str], answered: set[str], refused: set[str],
    certificates: Certificates, settings: NamesrvSettings, loop_thread: LoopThread,
) -> None:  # fmt: skip
    contexts: dict[str, Callable[[], ssl.SSLContext | None]] = {
        PLAIN: lambda: None, TLS: certificates.context,
        OLD: lambda: certificates.context(newest="12"),
        OWN: lambda: certificates.context("self"), SIGNED: lambda: certificates.context("client"),
    }  # fmt: skip
    settings.update(properties)
    if settings.tls_auth_client:
        settings.tls_trust_cert_path = str(certificates.ca)
    with listening(loop_thread, settings) as port:
        found = {each: answers(port, contexts[each]()) for each in (*answered, *refused)}
    assert found == dict.fromkeys(answered, True) | dict.fromkeys(refused, False)


def test_a_handshake_that_is_none(
    certificates: Certificates, settings: NamesrvSettings, loop_thread: LoopThread
) -> None:
    with listening(loop_thread, settings) as port:
        for sent, answered in ((b"\x16 no record", b""), (b"\x16\x03\x01\x00\x04none", b"\x15")):
            client = RawClient(port)
            client.send(sent)
            assert client.rest()[:1] == answered  # nothing, or an alert
            client.close()
        assert answers(port)


def test_tls_without_certificate_is_refused(name_server: NameServer, tmp_path: Path) -> None:
    assert not answers(name_server.port, Certificates(tmp_path).context())
    assert answers(name_server.port)
